package durable

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASecretIsReadOnlyWhereNobodyElseCanReadIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if _, err := ReadSecret(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := Write(path, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, open := range map[fs.FileMode]bool{0o600: false, 0o400: false, 0o700: false, 0o640: true, 0o604: true, 0o644: true, 0o620: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		b, err := ReadSecret(path)
		if open && (b != nil || err == nil || !strings.HasSuffix(err.Error(), "chmod 600 '"+path+"'")) || !open && (string(b) != "s3cret" || err != nil) {
			t.Errorf("mode %o: %q, %v", mode, b, err)
		}
	}
	if err := Write(path, bytes.Repeat([]byte("x"), maxSecret+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSecret(path); err == nil {
		t.Error("a file without an end in sight is read")
	}
}

func TestRootCanGiveASecretToAGroup(t *testing.T) {
	for _, c := range []struct {
		mode        fs.FileMode
		owner, user int
		shared      bool
	}{
		{0o640, 0, 1000, false}, {0o440, 0, 1000, false}, {0o660, 0, 1000, true}, {0o444, 0, 1000, true},
		{0o640, 1000, 1000, true}, {0o640, 1000, 0, true}, {0o640, 0, 0, true}, {0o640, 1001, 1000, true},
	} {
		if got := shared(c.mode, c.owner, c.user); got != c.shared {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// A service's secret that root itself reads is not to be closed to the service.
func TestASecretOfAGroupIsNotForRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can tell: this process is another user's")
	}
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("s3cret"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSecret(path); err == nil || !strings.Contains(err.Error(), "as the user of the service") {
		t.Errorf("%v", err)
	}
}

// No digit of a key that was made here can be another, be missing or be there twice.
func TestAnAlteredKeyIsRefused(t *testing.T) {
	line := NewKey()
	key, err := ParseKey(line, 32)
	if err != nil || hex.EncodeToString(key) != line || NewKey() == line {
		t.Fatalf("%q: %v", line, err)
	}
	refused := func(altered, how string, at int) {
		t.Helper()
		if _, err := ParseKey(altered, 32); err == nil {
			t.Errorf("digit %d %s: %s for %s", at, how, altered, line)
		} else if strings.Contains(err.Error(), altered[:16]) {
			t.Errorf("the error repeats the key: %v", err)
		}
	}
	for i := range line {
		for _, digit := range "0123456789abcdef" {
			if byte(digit) != line[i] {
				refused(line[:i]+string(digit)+line[i+1:], "is another", i)
			}
		}
		refused(line[:i]+line[i+1:], "is missing", i)
		refused(line[:i]+line[i:i+1]+line[i:], "is there twice", i)
		if i > 0 && line[i] != line[i-1] {
			refused(line[:i-1]+line[i:i+1]+line[i-1:i]+line[i+1:], "has changed places", i)
		}
	}
	for n := 16; n < len(line); n++ {
		refused(line[:n], "is the first that is missing", n)
	}
	refused(line+"00", "is followed by others", len(line))
	if _, err := ParseKey(strings.ToUpper(line), 32); err != nil {
		t.Errorf("in capitals: %v", err)
	}
}

// Lines that an operator has made otherwise count as they did, whatever their length.
func TestKeysWithoutACheckAreTaken(t *testing.T) {
	for n := 32; n < 60; n++ {
		for _, digit := range "0af" {
			line := strings.Repeat(string(digit), 2*n)
			if key, err := ParseKey(line, 32); err != nil || len(key) != n {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
	}
	for _, line := range []string{"", "00", strings.Repeat("a", 62), strings.Repeat("a", 65), strings.Repeat("g", 64)} {
		if _, err := ParseKey(line, 32); err == nil {
			t.Errorf("%q is taken", line)
		}
	}
}
