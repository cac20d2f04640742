package replica

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"webring/core/snap"
)

// boot makes the first state: from the snapshot that the checkpoint names, or
// from nothing, and the events after it. Nothing is shown before the end, so
// the core of this process, if that will be shown, is its own judge. What was
// signed before a restart binds it, also where the state on disk is lost; but where it
// begins from a snapshot of later events, whoever signed that is believed that it goes on.
func (r *Replica) boot(ctx context.Context, to snap.Checkpoint, signed []byte) error {
	if floor := r.floor; floor != nil {
		// Its state may have been reckoned as an earlier version does. Which is right
		// will show.
		bound := *floor
		bound.State = to.State
		if err := follows(to, bound); err != nil {
			return err
		}
	}
	err := r.bootWith(ctx, r.module, to, signed)
	if (errors.Is(err, ErrState) || errors.Is(err, errOpen)) && r.offers(to) {
		// Rows or events of a kind that only the newer core knows.
		m, missing := r.obtain(ctx, to)
		if missing != nil {
			return errors.Join(err, missing)
		}
		if err = r.bootWith(ctx, m, to, signed); err != nil {
			r.refuse(m.Digest, refusedForNow)
		}
	}
	if err == nil {
		r.floor = nil
		r.renew(ctx, to)
	}
	return err
}

// errOpen: a core could not be opened.
var errOpen = errors.New("no core can be opened from it")

func (r *Replica) bootWith(ctx context.Context, m Module, to snap.Checkpoint, signed []byte) error {
	var rows []byte
	var tree snap.Tree
	if to.Snapshot.Size > 0 && !r.cfg.Replay {
		var err error
		if rows, tree, err = r.snapshot(ctx, to.Snapshot); err != nil {
			return err
		}
	}
	// What another module comes to is seen where it can be interrupted.
	own := !r.foreign(m)
	c, err := r.cfg.Open(ctx, m, rows, own)
	if err != nil {
		return fmt.Errorf("%w: %w: %w", ErrSnapshot, errOpen, err)
	}
	base := tree.Size()
	records, err := r.replay(ctx, c, &tree, to)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	if !own {
		judge := c
		if c, err = r.reopen(ctx, m, judge, true); err == nil {
			if err = checkState(c, to); err != nil {
				err = errors.Join(err, c.Close())
			}
		}
		if err != nil {
			return errors.Join(fmt.Errorf("%w: %w", errOpen, err), judge.Close())
		}
		r.judge = judge
	}
	r.begin(c, m, tree.Size()-uint64(len(records)))
	if r.store != nil {
		r.store.replayed = r.cfg.Replay
		if !own {
			r.store.keepModule(m) // before the rows, of which no other core may make sense
		}
	}
	r.record(signed, to, tree, records, true)
	r.log.Info("replica: booted", "events", to.Size, "snapshot", base, "replay", r.cfg.Replay)
	return nil
}

// replay folds the records from the end of the tree to the checkpoint into c,
// and gives the last of them. What c cannot fold is held against it only if it
// turns out to be what was signed.
func (r *Replica) replay(ctx context.Context, c Core, tree *snap.Tree, to snap.Checkpoint) (last []snap.Record, err error) {
	var refusal error
	meet := func() {
		if r.floor != nil && tree.Size() == r.floor.Size && tree.Root() != r.floor.Root {
			refusal = fmt.Errorf("%w of %d events", ErrForked, r.floor.Size)
		}
	}
	for meet(); tree.Size() < to.Size; {
		end := to.Size
		if r.floor != nil && tree.Size() < r.floor.Size {
			end = r.floor.Size // to see what has become of it
		}
		some, err := r.events(ctx, tree, end)
		if err != nil {
			return nil, err
		}
		if meet(); refusal == nil {
			refusal = apply(c, some)
		}
		if last = append(last, some...); len(last) > 2*maxTail {
			last = append([]snap.Record(nil), last[len(last)-maxTail:]...)
		}
	}
	if err := checkRoot(tree, to); err != nil {
		return nil, err
	}
	switch {
	case errors.Is(refusal, ErrForked):
		return nil, refusal
	case refusal != nil:
		return nil, fmt.Errorf("%w: %w", ErrState, refusal)
	}
	return last, checkState(c, to)
}

// begin shows the first core, or, after a leap, a later one. Records are kept from base
// on.
func (r *Replica) begin(c Core, m Module, base uint64) {
	r.mu.Lock()
	r.base, r.tail = base, nil
	r.mu.Unlock()
	r.show(c, m)
}

// snapshot fetches the snapshot that a checkpoint names, unless a boot before this
// one, which came no further, has kept its file.
func (r *Replica) snapshot(ctx context.Context, named snap.Snapshot) (rows []byte, tree snap.Tree, err error) {
	file, err := r.kept(named)
	fetched := err != nil
	if fetched {
		file, err = r.file(ctx, named, r.doubt.Load())
	}
	if err != nil {
		return nil, snap.Tree{}, err
	}
	refuse := func(why error) ([]byte, snap.Tree, error) {
		return nil, snap.Tree{}, fmt.Errorf("%w: %w", ErrSnapshot, why)
	}
	z, err := zstd.NewReader(bytes.NewReader(file), zstd.WithDecoderMaxMemory(uint64(r.cfg.MaxSnapshot)), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return refuse(err)
	}
	defer z.Close()
	plain, err := io.ReadAll(io.LimitReader(z, r.cfg.MaxSnapshot+1))
	if err != nil {
		return refuse(err)
	}
	if int64(len(plain)) > r.cfg.MaxSnapshot {
		return refuse(fmt.Errorf("more than the %d bytes that a core has", r.cfg.MaxSnapshot))
	}
	if rows, tree, err = snap.CutFile(plain); err != nil {
		return refuse(err)
	}
	if fetched {
		r.keepFile(named, file)
	}
	if tree.Size() != named.Size {
		return refuse(fmt.Errorf("of %d events, not %d", tree.Size(), named.Size))
	}
	return rows, tree, nil
}

// kept reads the file of a snapshot from disk.
func (r *Replica) kept(named snap.Snapshot) ([]byte, error) {
	if r.store == nil {
		return nil, snap.ErrNotHeld
	}
	path, err := r.store.heldSnapshot(named)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// file fetches the file of a snapshot and holds it against its name.
func (r *Replica) file(ctx context.Context, named snap.Snapshot, again bool) ([]byte, error) {
	if named.Bytes > r.cfg.MaxSnapshot {
		return nil, fmt.Errorf("%w: %d bytes, more than the %d that a core has", ErrSnapshot, named.Bytes, r.cfg.MaxSnapshot)
	}
	b, err := r.get(ctx, fmt.Sprintf("/sync/snapshot/%x", named.Digest), named.Bytes, again)
	switch {
	case errors.Is(err, errTooLong):
		return nil, fmt.Errorf("%w: %w: longer than its %d bytes", ErrSnapshot, errAltered, named.Bytes)
	case err != nil:
		return nil, err
	case int64(len(b)) != named.Bytes || sha256.Sum256(b) != named.Digest:
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, errAltered)
	}
	return b, nil
}

// restore shows the last good state from disk, checked like any other.
func (r *Replica) restore(ctx context.Context) error {
	signed, err := r.store.checkpoint()
	if err != nil {
		return err
	}
	to, err := r.open(signed)
	if err != nil {
		return err
	}
	for _, m := range r.stored(to) {
		for _, at := range r.store.bases() {
			if at > to.Size {
				continue
			}
			if err = r.restoreFrom(ctx, at, m, to, signed); err == nil {
				r.log.Info("replica: serving the last good state from disk", "events", to.Size)
				return nil
			}
			r.log.Warn("replica: a state on disk is not used", "events", at, "core", fmt.Sprintf("%x", m.Digest), "err", err)
		}
	}
	if err == nil {
		err = errors.New("replica: no state on disk")
	}
	r.floor = &to
	return err
}

func (r *Replica) restoreFrom(ctx context.Context, at uint64, m Module, to snap.Checkpoint, signed []byte) error {
	kept, err := r.store.load(at)
	if err != nil {
		return err
	}
	if r.cfg.Replay && !kept.replayed {
		return errors.New("replica: it came from a snapshot")
	}
	rows, tree, err := snap.CutFile(kept.contents)
	if err != nil {
		return err
	}
	if tree.Size() != at {
		return fmt.Errorf("replica: it is of %d events", tree.Size())
	}
	tail, length, err := kept.records(to.Size - kept.from)
	if err != nil {
		return err
	}
	records := tail[at-kept.from:]
	if err := add(&tree, records); err != nil {
		return err
	}
	if err := checkRoot(&tree, to); err != nil {
		return err
	}
	r.read = &diskState{rows, records}
	c, err := r.read.open(ctx, &r.cfg, m, to, true)
	if err != nil {
		r.read = nil
		return err
	}
	r.begin(c, m, kept.from)
	r.settle(signed, to, tree, tail, to.Time)
	r.forget(tail) // on disk they are without the words, but a snapshot may not be
	r.store.resume(at, kept, length)
	return nil
}

// diskState is what was read from disk to be shown: a snapshot and the records
// after it.
type diskState struct {
	rows    []byte
	records []snap.Record
}

// open opens a core that holds it, at the checkpoint.
func (s *diskState) open(ctx context.Context, cfg *Config, m Module, to snap.Checkpoint, readers bool) (Core, error) {
	c, err := cfg.Open(ctx, m, s.rows, readers)
	if err != nil {
		return nil, err
	}
	if err = apply(c, s.records); err == nil {
		err = checkState(c, to)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
