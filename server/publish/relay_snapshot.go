package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"webring/core/snap"
	"webring/edge/durable"
)

// findSnapshot takes the newest file in the folder for the snapshot that is held. A name
// holds the digest, and followers compare it with what they get.
func (r *Relay) findSnapshot() error {
	if err := os.MkdirAll(r.c.Dir, 0o700); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	entries, err := os.ReadDir(r.c.Dir) // in the order of names, which begin with the size
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	for _, e := range entries {
		s, ok := parseFileName(e.Name())
		if about, err := e.Info(); ok && err == nil {
			s.Bytes = about.Size()
			r.snapshot = snapshot{Snapshot: s, made: about.ModTime()}
		}
	}
	return nil
}

// keepSnapshot fetches each snapshot that a checkpoint names, so that this node can publish
// from it at once, and edges that follow this node can begin with it.
func (r *Relay) keepSnapshot(ctx context.Context) {
	for {
		changed := r.changed.Wait()
		r.mu.Lock()
		named, held := r.at.Snapshot, r.snapshot.Snapshot
		r.mu.Unlock()
		again := (<-chan time.Time)(nil)
		if named.Size > 0 && named.Digest != held.Digest {
			if err := r.fetchSnapshot(ctx, named); err == nil {
				continue
			} else if ctx.Err() == nil {
				r.c.Log.Warn("the leader's newest snapshot could not be fetched; it is tried again", "err", err)
			}
			again = time.After(sendTime)
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// fetchSnapshot fetches a snapshot's file in place of the one before.
func (r *Relay) fetchSnapshot(ctx context.Context, named snap.Snapshot) error {
	err := durable.Create(r.c.Dir, 0o600, func(f io.Writer) (string, error) {
		return fileName(named), r.leader.CopySnapshot(ctx, named, f)
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	before := r.snapshot.Snapshot
	r.snapshot = snapshot{Snapshot: named, made: time.Now()}
	r.mu.Unlock()
	if before.Size > 0 {
		// A reader of it can go on. It may hold words that were redacted since.
		if err := os.Remove(filepath.Join(r.c.Dir, fileName(before))); err != nil && !errors.Is(err, os.ErrNotExist) {
			r.c.Log.Error("an old snapshot could not be removed", "err", err)
		}
	}
	return nil
}

// Snapshot implements [Source].
func (r *Relay) Snapshot(digest [32]byte) (file io.ReadCloser, length int64, err error) {
	r.mu.Lock()
	held := r.snapshot.Snapshot
	r.mu.Unlock()
	if held.Size == 0 || held.Digest != digest {
		return nil, 0, fmt.Errorf("publish: snapshot %x: %w", digest, snap.ErrNotHeld)
	}
	f, err := os.Open(filepath.Join(r.c.Dir, fileName(held)))
	if err != nil {
		return nil, 0, fmt.Errorf("publish: %w: %w", snap.ErrNotHeld, err)
	}
	return f, held.Bytes, nil
}
