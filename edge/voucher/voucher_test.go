package voucher

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

var (
	sharedSecret     = bytes.Repeat([]byte{7}, 32)
	sharedSecrets, _ = NewSecrets(sharedSecret)
)

// handClock is a clock that stands still until it is moved.
type handClock struct{ now time.Time }

func newClock() *handClock                { return &handClock{time.Unix(1_760_000_000, 0)} }
func (c *handClock) Now() time.Time       { return c.now }
func (c *handClock) Move(d time.Duration) { c.now = c.now.Add(d) }

func verifier(t *testing.T, now func() time.Time) *Verifier {
	t.Helper()
	v, err := NewVerifier(sharedSecrets, now)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A clock that was ahead or behind when the node was started, and was set right since,
// keeps no honest voucher away, and none from before the start comes in by it.
func TestTheStartIsWhereTheClockPutsItNow(t *testing.T) {
	about := Request{[]byte("POST"), []byte("/api/bid"), []byte("{}")}
	for _, wrong := range []time.Duration{time.Hour, 20 * time.Second, time.Second, -time.Second, -20 * time.Second, -time.Hour} {
		clock := newClock()
		right := clock.Now()
		clock.Move(wrong)
		v := verifier(t, clock.Now)
		const up = 10 * time.Second
		v.now = func() time.Time { return right.Add(up) }
		v.uptime = func() time.Duration { return up }
		for _, c := range []struct {
			written time.Duration // from the start
			want    error
		}{{up, nil}, {0, nil}, {-time.Millisecond, errEarlier}, {-up, errEarlier}} {
			if _, err := v.Take([][]byte{[]byte(New(sharedSecret, right.Add(c.written), "192.0.2.1", true, about))}, about); err != c.want {
				t.Errorf("the clock was %s ahead; a voucher of %s after the start: %v, want %v", wrong, c.written, err, c.want)
			}
		}
	}
}

// However long ago it was seen, a voucher does not count twice.
func TestAVoucherCountsOnceInAllItsLife(t *testing.T) {
	clock := newClock()
	v := verifier(t, clock.Now)
	r := Request{[]byte("POST"), []byte("/"), nil}
	clock.Move(time.Minute)
	for step := range 400 {
		early := New(sharedSecret, clock.Now().Add(Life), "192.0.2.1", true, r)
		if _, err := v.Take([][]byte{[]byte(early)}, r); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		began := clock.Now()
		for _, wait := range []time.Duration{0, time.Second, Life - time.Second, Life} {
			clock.Move(wait)
			if _, err := v.Take([][]byte{[]byte(early)}, r); err == nil {
				t.Fatalf("step %d: taken again after %s", step, clock.Now().Sub(began))
			}
		}
		clock.Move(time.Duration(step) * 377 * time.Millisecond)
	}
	if n := len(v.seen) + len(v.before); n > 4 {
		t.Errorf("%d vouchers are remembered", n)
	}
}

func FuzzVoucher(f *testing.F) {
	clock := newClock()
	r := Request{[]byte("POST"), []byte("/api/bid"), []byte("{}")}
	f.Add(New(sharedSecret, clock.Now(), "192.0.2.1", true, r))
	f.Add("t=; n=; c=; s=; m=")
	f.Fuzz(func(t *testing.T, field string) {
		v := verifier(t, clock.Now)
		known := New(sharedSecret, clock.Now(), "192.0.2.1", true, r)
		_, _ = v.Take([][]byte{[]byte(field)}, r)
		// Whatever came before, one that holds is taken.
		if _, err := v.Take([][]byte{[]byte(known)}, r); err != nil {
			t.Error(err)
		}
	})
}

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
