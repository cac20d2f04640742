package voucher

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// While secrets change, vouchers made with the old one and with the new one count, and
// none that was made with a secret that is gone. One that was used counts no more, which
// secret it was made with.
func TestSecretsAreReplacedWhileVouchersAreOnTheirWay(t *testing.T) {
	old, next := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 40)
	secrets, err := NewSecrets(old)
	if err != nil {
		t.Fatal(err)
	}
	v, err := NewVerifier(secrets, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	about := Request{[]byte("POST"), []byte("/api/bid"), []byte("{}")}
	take := func(voucher string) error {
		_, err := v.Take([][]byte{[]byte(voucher)}, about)
		return err
	}
	made := func(secret []byte) string { return New(secret, time.Now(), "192.0.2.1", true, about) }
	used := made(old)
	for _, c := range []struct {
		rule      string
		secrets   [][]byte
		old, next error
	}{
		{"before", [][]byte{old}, nil, errForged},
		{"the new one is made known", [][]byte{old, next}, nil, nil},
		{"the new one is made with", [][]byte{next, old}, nil, nil},
		{"after", [][]byte{next}, errForged, nil},
	} {
		if err := secrets.Replace(c.secrets...); err != nil {
			t.Fatal(err)
		}
		if err := take(made(old)); err != c.old {
			t.Errorf("%s, made with the old one: %v", c.rule, err)
		}
		if err := take(made(next)); err != c.next {
			t.Errorf("%s, made with the new one: %v", c.rule, err)
		}
		if !bytes.Equal(secrets.Current(), c.secrets[0]) {
			t.Errorf("%s: vouchers are made with another than the first", c.rule)
		}
		first := c.rule == "before"
		want := errReplayed
		switch {
		case first:
			want = nil
		case c.old != nil:
			want = errForged
		}
		if err := take(used); err != want {
			t.Errorf("%s, used: %v, want %v", c.rule, err, want)
		}
	}
	for _, wrong := range [][][]byte{nil, {old[:31]}, {next, nil}} {
		if err := secrets.Replace(wrong...); err == nil {
			t.Errorf("%d secrets are taken", len(wrong))
		}
	}
	if err := take(made(next)); err != nil {
		t.Errorf("after secrets that are none: %v", err)
	}
	if said := fmt.Sprintf("%v %+v %#v %x", secrets, secrets, secrets, secrets); strings.Contains(said, "2") || !strings.Contains(said, "redacted") {
		t.Errorf("printed: %s", said)
	}
}
