package publish

import (
	"context"
	"crypto/sha256"
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
		r.mu.Lock()
		named, held, changed := r.at.Snapshot, r.snapshot.Snapshot, r.changed
		r.mu.Unlock()
		again := (<-chan time.Time)(nil)
		if base, _ := r.c.Leader(); base != "" && named.Size > 0 && named.Digest != held.Digest {
			if err := r.fetchSnapshot(ctx, base, named); err == nil {
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
func (r *Relay) fetchSnapshot(ctx context.Context, base string, named snap.Snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, relayFile)
	defer cancel()
	res, err := r.ask(ctx, base, fmt.Sprintf("/sync/snapshot/%x", named.Digest))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	err = durable.Create(r.c.Dir, 0o600, func(f io.Writer) (string, error) {
		digest := sha256.New()
		n, err := io.Copy(io.MultiWriter(f, digest), io.LimitReader(res.Body, named.Bytes+1))
		if err == nil && (n != named.Bytes || [32]byte(digest.Sum(nil)) != named.Digest) {
			err = errors.New("publish: a snapshot is not what its checkpoint names")
		}
		return fileName(named), err
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	before := r.snapshot.Snapshot
	r.snapshot = snapshot{Snapshot: named, made: time.Now()}
	r.mu.Unlock()
	if before.Size > 0 {
		// Who reads it can go on. It may hold words that were redacted since.
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
