package publish

import (
	"io"

	"webring/core/snap"
)

// Source is what can be followed. Its functions may be called concurrently.
// What it hands out must not be changed by anybody. One that has to fetch what is
// asked for may give an error that wraps [snap.ErrBusy] instead.
type Source interface {
	// Checkpoint gives the newest signed checkpoint, nil as long as there is
	// none.
	Checkpoint() []byte
	// Changed gives a channel that is closed when a newer checkpoint than the
	// present one is there. To miss none, ask for the channel first and for
	// the checkpoint after it.
	Changed() <-chan struct{}
	// Events gives up to n records from event number from, counted from 0, but
	// none beyond the newest checkpoint. At its size there are none; beyond
	// it, the error wraps [snap.ErrNotHeld].
	Events(from uint64, n int) ([]snap.Record, error)
	// Snapshot gives the compressed file with this SHA-256, and its length.
	// The caller closes it. The error wraps [snap.ErrNotHeld] when there is
	// no such file.
	Snapshot(digest [32]byte) (file io.ReadCloser, length int64, err error)
}
