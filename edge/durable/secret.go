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
