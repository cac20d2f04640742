package durable

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// maxSecret bounds what [ReadSecret] reads, in bytes.
const maxSecret = 1 << 20

// ReadSecret reads a file that holds a secret, of at most 1 MiB. It refuses a file that
// others than its owner can access; the error names the command that mends that.
func ReadSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if Shared(info) {
		if os.Geteuid() == 0 && !shared(info.Mode(), owner(info), notRoot) {
			return nil, fmt.Errorf("%s holds a secret that root has given to a group: run this as the user of the service, or, if it is root's alone, run chmod 600 '%s'", path, path)
		}
		return nil, fmt.Errorf("%s holds a secret and is open to others than its owner: run chmod 600 '%s'", path, path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err == nil && len(b) > maxSecret {
		err = fmt.Errorf("%s is too long for a secret", path)
	}
	return b, err
}

// Shared reports whether others than the owner of a file can access it. If root owns it
// and the process runs as another user, the group may read it: clusters and system services
// are handed secrets so.
func Shared(info fs.FileInfo) bool { return shared(info.Mode(), owner(info), os.Geteuid()) }

// notRoot is a user that is not root.
const notRoot = 1

// owner gives the user who owns a file.
func owner(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return notRoot
}

// shared reports whether others than the owner can access a file of this mode. If root
// owns it and the process runs as another user, the group may read it.
func shared(mode fs.FileMode, owner, user int) bool {
	others := fs.FileMode(0o077)
	if owner == 0 && user != 0 {
		others = 0o037
	}
	return mode&others != 0
}

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
