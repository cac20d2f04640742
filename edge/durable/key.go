package durable

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// A line with a key is hexadecimal. One that NewKey makes holds, in bytes,
//
//	mark(4) check(4) random(32)
//
// where check is the beginning of the SHA-256 of random. All of it is the key, so versions
// that know of no check take it, too.
const (
	keyMark  = "\x91wr\x91"
	keyHead  = len(keyMark) + keyCheck
	keyCheck = 4
	keyBytes = keyHead + 32
)

// NewKey gives the line of a new key. [ParseKey] notices when a digit of it is another.
func NewKey() string {
	b := make([]byte, keyBytes)
	copy(b, keyMark)
	rand.Read(b[keyHead:]) // never fails
	copy(b[len(keyMark):], checkOf(b[keyHead:]))
	return hex.EncodeToString(b)
}

func checkOf(random []byte) []byte {
	sum := sha256.Sum256(random)
	return sum[:keyCheck]
}

// ParseKey reads the line of a key of at least so many bytes. One of [NewKey] is refused when
// it is no longer as it was made; lines that an operator has made otherwise hold no check. Errors
// do not repeat what the line holds.
func ParseKey(line string, least int) ([]byte, error) {
	b, err := hex.DecodeString(line)
	if err != nil || len(b) < least {
		return nil, fmt.Errorf("is not at least %d hex digits", hex.EncodedLen(least))
	}
	marked := 0 // bytes of the mark, which may be what was altered
	for i := range len(keyMark) {
		if b[i] == keyMark[i] {
			marked++
		}
	}
	checked := len(b) == keyBytes && bytes.Equal(b[len(keyMark):keyHead], checkOf(b[keyHead:]))
	if whole := marked == len(keyMark) && checked; !whole && (checked || marked >= len(keyMark)-1) {
		return nil, errors.New("has been altered: a digit is not the one with which the key was made; take the line from a backup or from where else it is used")
	}
	return b, nil
}
