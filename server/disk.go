package server

import (
	"fmt"
	"sync"
	"syscall"
	"time"
)

// The ledger maps its files into memory, so a full disk can end the process instead of
// failing a write. The disk is measured once a second, and the store has allocated room for
// what it writes in that time. The floors are for everything else. Reading needs no room.
const (
	// PayFloor is the free space in bytes below which no payment is taken.
	PayFloor = 256 << 20
	// StartFloor is the free space in bytes that opening a ledger needs, and that making
	// one goes on needing: the store writes into mapped files, where a process that finds
	// no room is ended by the system.
	StartFloor = 128 << 20
	// WriteFloor is the free space in bytes below which nothing is written to the
	// ledger: payments that were taken before stay open until there is room. Half
	// of it may yet be used by tables that the store makes of what it holds.
	WriteFloor = 64 << 20
)

// Volume is the disk of a folder, measured at most once a second. It may be used
// concurrently.
type Volume struct {
	Dir string

	mu       sync.Mutex
	measured time.Time
	free     uint64
	err      error
}

// AtLeast gives a function that says whether floor bytes are free.
func (v *Volume) AtLeast(floor uint64) func() error {
	return func() error {
		free, err := v.Space()
		if err == nil && free < floor {
			err = fmt.Errorf("the disk of %s has %d MiB free, and needs %d MiB: make room", v.Dir, free>>20, floor>>20)
		}
		return err
	}
}

// Space gives the free space in bytes.
func (v *Volume) Space() (uint64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := time.Now(); now.Sub(v.measured) >= time.Second {
		v.measured = now
		v.free, v.err = free(v.Dir)
	}
	return v.free, v.err
}

func free(dir string) (uint64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}
