package main

import (
	"fmt"
	"sync"
	"syscall"
	"time"
)

// The ledger maps its files into memory, so a disk that fills up under it ends
// the process instead of failing a write. Both floors are meant to be met long
// before that.
const (
	// payFloor is the free space in bytes below which no payment is taken.
	payFloor = 256 << 20
	// startFloor is the free space in bytes that opening the ledger needs.
	startFloor = 128 << 20
)

// lately asks at most once a second, and says the same in between.
func lately(ask func() error) func() error {
	var mu sync.Mutex
	var asked time.Time
	var err error
	return func() error {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(asked) >= time.Second {
			asked, err = now, ask()
		}
		return err
	}
}

// room says whether the disk of a folder has at least floor bytes free.
func room(dir string, floor uint64) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("free space of %s: %w", dir, err)
	}
	if free := fs.Bavail * uint64(fs.Bsize); free < floor {
		return fmt.Errorf("the disk of %s has %d MiB free, and needs %d MiB: make room", dir, free>>20, floor>>20)
	}
	return nil
}
