package durable

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// maxSecret bounds what [ReadSecret] reads, in bytes.
const maxSecret = 1 << 20

// ReadSecret reads a file that holds a secret. One that is open to others than its
// owner is refused, with the command that mends it.
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
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && shared(info.Mode(), int(owner.Uid), os.Geteuid()) {
		return nil, fmt.Errorf("%s holds a secret and is open to others than its owner: run chmod 600 '%s'", path, path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err == nil && len(b) > maxSecret {
		err = fmt.Errorf("%s is too long for a secret", path)
	}
	return b, err
}

// shared says whether the mode of a file lets others at it than its owner. A file of
// root's reaches another user's process only through a group that may read it, which
// is how clusters hand out secrets.
func shared(mode fs.FileMode, owner, user int) bool {
	others := fs.FileMode(0o077)
	if owner == 0 && user != 0 {
		others = 0o037
	}
	return mode&others != 0
}
