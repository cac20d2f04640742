//go:build linux && (amd64 || arm64) && race

package fastpath

import (
	"errors"
	"syscall"
)

// The race detector takes what is written to a socket to come before what is read
// from any. It only knows of Go's own calls, so tests that rely on it have these.

// readSocket is that of the other file.
func readSocket(fd int, b []byte) (int, syscall.Errno) {
	n, err := syscall.Read(fd, b)
	return max(n, 0), errnoOf(err)
}

// writeSocket is that of the other file, for head alone while there is some.
func writeSocket(fd int, head, _ []byte) (int, syscall.Errno) {
	n, err := syscall.Write(fd, head)
	return max(n, 0), errnoOf(err)
}

func errnoOf(err error) (e syscall.Errno) {
	errors.As(err, &e)
	return e
}
