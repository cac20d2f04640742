package publish

import (
	"io"

	"webring/core/snap"
)

// Source is what can be followed. Its methods may be called concurrently. The caller
// must not change the bytes that it gets.
type Source interface {
	// Checkpoint gives the newest signed checkpoint, nil as long as there is
	// none.
	Checkpoint() []byte
	// Keys gives the newest signed keys ([snap.Keys]), nil as long as there are none.
	Keys() []byte
	// Changed gives a channel that is closed when there is a newer checkpoint. To
	// miss none, get the channel before the checkpoint.
	Changed() <-chan struct{}
	// Events gives up to n records from event number from, counted from 0, but none
	// beyond the newest checkpoint: none if from is its size, and an error that wraps
	// [snap.ErrNotHeld] if from is larger.
	Events(from uint64, n int) ([]snap.Record, error)
	// Snapshot gives the compressed file with this SHA-256, and its length in bytes.
	// The caller closes the file. The error wraps [snap.ErrNotHeld] if there is no
	// such file.
	Snapshot(digest [32]byte) (file io.ReadCloser, length int64, err error)
}
