package replica

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"webring/core/snap"
)

// What follows makes a replica something that others can follow, as they would
// its origin: they check everything themselves.

// passOn bounds how long a follower waits for what has to be asked for first.
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

// Events gives up to n records from event number from on. Those from before
// the ones at hand are asked for upstream. Beyond the newest checkpoint the
// error wraps [snap.ErrNotHeld].
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
	ctx, cancel := context.WithTimeout(context.Background(), passOn)
	defer cancel()
	b, err := r.get(ctx, fmt.Sprintf("/sync/events?from=%d", from), snap.MaxRange)
	if err != nil {
		return nil, errors.Join(snap.ErrNotHeld, err)
	}
	records, err := snap.DecodeRecords(b)
	if err != nil {
		return nil, errors.Join(snap.ErrNotHeld, err)
	}
	return records[:min(uint64(n), uint64(len(records)), size-from)], nil
}

// Snapshot gives the file of the snapshot that the newest checkpoint names, or
// the one that was held before it; the caller closes it. For others the error
// wraps [snap.ErrNotHeld].
func (r *Replica) Snapshot(digest [32]byte) (file io.ReadCloser, length int64, err error) {
	r.mu.RLock()
	named := r.at.Snapshot
	r.mu.RUnlock()
	r.holding.Lock()
	defer r.holding.Unlock()
	if digest != r.held.Digest && digest == named.Digest {
		ctx, cancel := context.WithTimeout(context.Background(), passOn)
		defer cancel()
		if err := r.hold(ctx, named); err != nil {
			return nil, 0, errors.Join(snap.ErrNotHeld, err)
		}
	}
	if digest != r.held.Digest || digest == [32]byte{} {
		return nil, 0, snap.ErrNotHeld
	}
	return r.held.open()
}

// Core gives the module that is shown, the one of this process, or the one that
// the newest checkpoint names. For others the error wraps [snap.ErrNotHeld].
func (r *Replica) Core(digest [32]byte) ([]byte, error) {
	r.mu.RLock()
	here := []Module{r.module, r.cfg.Own}
	named := r.at.Core
	r.mu.RUnlock()
	for _, m := range here {
		if m.Digest == digest && len(m.Code) > 0 {
			return m.Code, nil
		}
	}
	if digest != named || digest == [32]byte{} {
		return nil, snap.ErrNotHeld
	}
	ctx, cancel := context.WithTimeout(context.Background(), passOn)
	defer cancel()
	code, err := r.get(ctx, fmt.Sprintf("/sync/core/%x", digest), maxModule)
	if err == nil && sha256.Sum256(code) != digest {
		err = ErrModule
	}
	if err != nil {
		return nil, errors.Join(snap.ErrNotHeld, err)
	}
	return code, nil
}

// heldFile is a snapshot's file that is kept for followers, on disk or, when
// there is no path, in memory.
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

// hold fetches a snapshot's file and keeps it. The caller holds holding.
func (r *Replica) hold(ctx context.Context, named snap.Snapshot) error {
	if r.store != nil {
		// From before a restart.
		if b, err := r.store.heldSnapshot(named.Digest); err == nil && sha256.Sum256(b) == named.Digest {
			r.keepFile(named, b)
			return nil
		}
	}
	b, err := r.file(ctx, named)
	if err != nil {
		return err
	}
	r.keepFile(named, b)
	return nil
}

// keepFile keeps a snapshot's file in place of the one before, which whoever
// reads it can read to its end. The caller holds holding.
func (r *Replica) keepFile(named snap.Snapshot, file []byte) {
	held := heldFile{Snapshot: named, file: file}
	if r.store != nil {
		if path, err := r.store.keepSnapshot(named.Digest, file); err == nil {
			held.path, held.file = path, nil
		}
	}
	r.held = held
}

// anticipate has each new snapshot at hand before a follower asks for it: it
// may do so when the origin is gone.
func (r *Replica) anticipate(ctx context.Context) {
	for {
		changed := r.Changed()
		r.mu.RLock()
		named := r.at.Snapshot
		r.mu.RUnlock()
		r.holding.Lock()
		if named.Size > 0 && named.Digest != r.held.Digest {
			if err := r.hold(ctx, named); err != nil && ctx.Err() == nil {
				r.log.Info("replica: the newest snapshot could not be had for followers", "err", err)
			}
		}
		r.holding.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
