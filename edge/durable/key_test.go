package durable

import (
	"encoding/hex"
	"strings"
	"testing"
)

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
