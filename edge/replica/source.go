package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"webring/core/snap"
)

// Others can follow a replica as they would its origin; they check everything
// themselves. [pace.spare] bounds what they can cause to be asked upstream, and each
// thing is asked once for all of them.

// fetchAgain is how long to wait after fetching a file failed.
const fetchAgain = time.Minute

// passOn bounds how long a follower waits for what this replica fetches upstream.
const passOn = 20 * time.Second

// Checkpoint gives the newest checkpoint as it was signed, nil before the
// first.
func (r *Replica) Checkpoint() []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.signed
}

// Changed gives a channel that is closed when there is a newer checkpoint.
func (r *Replica) Changed() <-chan struct{} {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.changed
}

// Events gives up to n records from event number from on, none beyond the end of its
// block. Earlier ones than those in memory are fetched upstream and cached for a while.
// The error wraps [snap.ErrBusy] when too many are asked for, and [snap.ErrNotHeld]
// beyond the newest checkpoint.
func (r *Replica) Events(from uint64, n int) ([]snap.Record, error) {
	r.mu.RLock()
	base, tail, size := r.base, r.tail, r.at.Size
	r.mu.RUnlock()
	if from > size {
		return nil, snap.ErrNotHeld
	}
	if from >= base {
		rest := tail[from-base:]
		return rest[:min(n, len(rest))], nil
	}
	start := from - from%snap.BlockEvents
	need := min(snap.BlockEvents, base-start)
	records, err := r.block(start/snap.BlockEvents, need)
	if err != nil {
		return nil, err
	}
	if uint64(len(records)) < need {
		return nil, fmt.Errorf("replica: upstream gave %d of %d events: %w", len(records), need, snap.ErrNotHeld)
	}
	records = records[from-start : min(uint64(len(records)), size-start)]
	return records[:min(n, len(records))], nil
}

// files holds the file of one snapshot, for followers.
type files struct {
	mu    sync.Mutex
	held  heldFile
	least uint64        // snapshots of fewer events have words that were redacted since
	tried [32]byte      // the last that could not be fetched
	ended chan struct{} // closed when an attempt to fetch one ends
}

// heldFile is a snapshot's file on disk or, when there is no path, in memory.
type heldFile struct {
	snap.Snapshot
	path string
	file []byte
}

func (h *heldFile) open() (io.ReadCloser, int64, error) {
	if h.path == "" {
		return io.NopCloser(bytes.NewReader(h.file)), h.Bytes, nil
	}
	f, err := os.Open(h.path)
	if err != nil {
		return nil, 0, errors.Join(snap.ErrNotHeld, err)
	}
	return f, h.Bytes, nil
}

// newest gives the file that is held, the zero value for none.
func (f *files) newest() heldFile {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held
}

// Snapshot gives the file of the snapshot that the newest checkpoint names, or of the
// one before it. The caller closes the file. Snapshot waits for a file that is being
// fetched, but fetches none. For other snapshots, and for one with words that were
// redacted since, the error wraps [snap.ErrNotHeld].
func (r *Replica) Snapshot(digest [32]byte) (file io.ReadCloser, length int64, err error) {
	late := time.NewTimer(passOn)
	defer late.Stop()
	for {
		r.mu.RLock()
		named := r.at.Snapshot
		r.mu.RUnlock()
		r.files.mu.Lock()
		held, least, tried, ended := r.files.held, r.files.least, r.files.tried, r.files.ended
		r.files.mu.Unlock()
		switch digest {
		case [32]byte{}:
			return nil, 0, snap.ErrNotHeld
		case held.Digest:
			return held.open()
		case tried:
			return nil, 0, snap.ErrNotHeld
		}
		if digest != named.Digest || named.Size < least {
			return nil, 0, snap.ErrNotHeld
		}
		select {
		case <-ended:
		case <-late.C:
			return nil, 0, snap.ErrNotHeld
		}
	}
}

// fetchFile fetches a snapshot's file for followers. With again, caches on the way are
// bypassed.
func (r *Replica) fetchFile(ctx context.Context, named snap.Snapshot, again bool) error {
	if r.store != nil {
		// From before a restart.
		if path, err := r.store.savedSnapshot(named); err == nil {
			r.offer(heldFile{Snapshot: named, path: path})
			return nil
		}
	}
	b, err := r.file(ctx, named, again)
	if err != nil {
		return err
	}
	r.saveFile(named, b)
	return nil
}

// saveFile saves a snapshot's file in place of the one before, and offers it to
// followers. A follower that reads the one before can read it to its end.
func (r *Replica) saveFile(named snap.Snapshot, file []byte) {
	held := heldFile{Snapshot: named, file: file}
	if r.store != nil {
		if path, err := r.store.saveSnapshot(named.Digest, file); err == nil {
			held.path, held.file = path, nil
		}
	}
	r.offer(held)
}

// offer makes a file the one for followers, unless words in it were redacted meanwhile.
func (r *Replica) offer(held heldFile) {
	r.files.end(func(f *files) {
		if held.Size >= f.least {
			f.held = held
		} else if held.path != "" {
			os.Remove(held.path)
		}
	})
}

// end notes how an attempt ended.
func (f *files) end(how func(*files)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(f)
	close(f.ended)
	f.ended = make(chan struct{})
}

// lacks says whether a snapshot has yet to be fetched.
func (f *files) lacks(named snap.Snapshot) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return named.Size > 0 && named.Size >= f.least && named.Digest != f.held.Digest
}

// anticipate fetches each new snapshot before a follower asks for it, because the origin
// may be gone by then. After a failure it tries again a minute later.
func (r *Replica) anticipate(ctx context.Context) {
	var failed [32]byte
	var rested time.Time
	for {
		changed := r.Changed()
		r.mu.RLock()
		named := r.at.Snapshot
		r.mu.RUnlock()
		if r.files.lacks(named) && (named.Digest != failed || time.Now().After(rested)) {
			if err := r.fetchFile(ctx, named, named.Digest == failed); err != nil && ctx.Err() == nil {
				r.log.Info("replica: the newest snapshot could not be fetched for followers", "err", err)
				failed, rested = named.Digest, time.Now().Add(fetchAgain)
				r.files.end(func(f *files) { f.tried = failed })
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
