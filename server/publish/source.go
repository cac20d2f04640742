package publish

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/mod/sumdb/tlog"

	"webring/core/snap"
	"webring/edge/follow"
	"webring/server/ledger"
)

// Source is what can be followed. Its methods may be called concurrently. The caller
// must not change the bytes that it gets.
type Source interface {
	// Checkpoint gives the newest signed checkpoint, nil as long as there is
	// none.
	Checkpoint() []byte
	// Keys gives the newest signed keys ([snap.Keys]), nil as long as there are none.
	Keys() []byte
	// LogCheckpoint gives the checkpoint of the log (C2SP tlog-checkpoint), with its cosignatures;
	// nil as long as there is none. Its size never goes back.
	LogCheckpoint() []byte
	// Cosigned gives the newest checkpoint of the log that witnesses have cosigned, behind the newest
	// signed statement about its size, as [follow.JoinCosigned] joins them; nil for none.
	Cosigned() []byte
	// Log gives the newest signed checkpoint of the log, of how many events it is, and the books with
	// these; nil as long as there is none.
	Log() (checkpoint []byte, size uint64, books Books)
	// Changed gives a channel that is closed when there is a newer checkpoint. To
	// miss none, get the channel before the checkpoint.
	Changed() <-chan struct{}
	// Events gives up to n records from event number from, counted from 0, but none
	// beyond the newest checkpoint: none if from is its size, and an error that wraps
	// [snap.ErrNotHeld] if from is larger or before all that is held.
	Events(from uint64, n int) ([]snap.Record, error)
	// Snapshot gives the compressed file with this SHA-256, and its length in bytes.
	// The caller closes the file. The error wraps [snap.ErrNotHeld] if there is no
	// such file.
	Snapshot(digest [32]byte) (file io.ReadCloser, length int64, err error)
}

// Switch has the source of [Handlers], which can be replaced while clients follow it. All sources
// give checkpoints of one ring that never go back.
type Switch struct {
	now      atomic.Pointer[Source]
	replaced follow.Signal
}

// Use makes s the source.
func (w *Switch) Use(s Source) {
	w.now.Store(&s)
	w.replaced.Send()
}

func (w *Switch) source() Source { return *w.now.Load() }

// Books is what a source reads of its ledger.
type Books interface {
	Size() uint64
	Records(from uint64, n int) ([]ledger.Record, error)
	HashReader() tlog.HashReader
}

// given is what LogCheckpoint gives.
type given struct {
	checkpoint []byte
	size       uint64 // its events
	at         int64  // the time of the statement of then, in milliseconds
}

// shown is what a [Publisher] and a [Relay] give to their followers.
type shown struct {
	dir     string // of the snapshots
	changed follow.Signal

	mu        sync.Mutex
	books     Books
	signed    []byte
	log       []byte // signed checkpoint of the first logged events
	logged    uint64
	begun     uint64 // events at the start: an earlier process may have given a checkpoint of them
	given     given
	keys      []byte // signed; nil after a change until the next checkpoint is
	last      snap.Checkpoint
	snapshots []snapshot // on disk, the newest last
}

// Checkpoint implements [Source].
func (s *shown) Checkpoint() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signed
}

// Log implements [Source].
func (s *shown) Log() (checkpoint []byte, size uint64, books Books) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log, s.logged, s.books
}

// Keys implements [Source].
func (s *shown) Keys() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys
}

// Changed implements [Source].
func (s *shown) Changed() <-chan struct{} { return s.changed.Wait() }

// Events implements [Source].
func (s *shown) Events(from uint64, n int) ([]snap.Record, error) {
	s.mu.Lock()
	books, signed := s.books, max(s.last.Size, s.logged)
	s.mu.Unlock()
	if from > signed {
		return nil, fmt.Errorf("publish: event %d of %d: %w", from, signed, snap.ErrNotHeld)
	}
	if from == signed || n <= 0 {
		return nil, nil
	}
	records, err := books.Records(from, int(min(uint64(n), signed-from)))
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	return records, nil
}

// Snapshot implements [Source].
func (s *shown) Snapshot(digest [32]byte) (file io.ReadCloser, length int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, held := range s.snapshots {
		if held.Digest != digest {
			continue
		}
		f, err := os.Open(s.path(held.Snapshot))
		switch {
		case errors.Is(err, fs.ErrNotExist): // another role of this node has removed it
			continue
		case err != nil:
			return nil, 0, fmt.Errorf("publish: %w", err)
		}
		return f, held.Bytes, nil
	}
	return nil, 0, fmt.Errorf("publish: snapshot %x: %w", digest, snap.ErrNotHeld)
}

// newest gives the newest snapshot, the zero one if there is none.
func (s *shown) newest() snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.snapshots) == 0 {
		return snapshot{}
	}
	return s.snapshots[len(s.snapshots)-1]
}

func (s *shown) path(of snap.Snapshot) string { return filepath.Join(s.dir, fileName(of)) }
