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

// boot makes the first state, or the first one of this version: from the snapshot that the
// checkpoint names, or from an empty ring if there is none of this version, and the events
// after it. Readers see none of it before the end. The ledger must continue what was signed
// before a restart, even if the state on disk is lost. A snapshot of later events cannot
// show that: then the signer is trusted.
func (r *Replica) boot(ctx context.Context, to snap.Checkpoint, signed []byte) error {
	if r.floor != nil {
		// An earlier version may have computed the state otherwise, so it is not compared.
		bound := *r.floor
		bound.State = to.State
		if err := follows(to, bound); err != nil {
			return err
		}
	}
	var rows []byte
	var tree snap.Tree
	if to.Snapshot.Size > 0 && !r.cfg.Replay {
		var err error
		if rows, tree, err = r.snapshot(ctx, to.Snapshot); errors.Is(err, snap.ErrVersion) {
			// Edges are upgraded before their origin, whose snapshots they may not read yet.
			r.log.Info("replica: the origin's snapshot is of another version; all events are folded", "events", to.Size)
			rows, tree = nil, snap.Tree{}
		} else if err != nil {
			return err
		}
	}
	c, err := r.cfg.Open(ctx, rows)
	if err != nil {
		return fmt.Errorf("%w: %w: %w", ErrSnapshot, errOpen, err)
	}
	base := tree.Size()
	records, err := r.replay(ctx, c, &tree, to)
	anew, earlier := true, r.shown != nil
	if err == nil && earlier {
		records, anew, err = r.sinceShown(ctx, records, to)
	}
	if err != nil {
		return errors.Join(err, c.Close())
	}
	r.floor = nil
	r.withdrawn.Store(to.Size)
	r.show(c)
	if r.store != nil {
		r.store.replayed = r.cfg.Replay
	}
	r.moveTo(signed, to, tree, records, anew)
	if earlier {
		r.dropUnsearched(to)
	}
	r.log.Info("replica: booted", "events", to.Size, "snapshot", base, "replay", r.cfg.Replay)
	return nil
}

// sinceShown gives the records up to a checkpoint that followers of a state of the version
// before need: those after it, unless there are too many. With anew it gives those of a
// boot as they are, which take the place of all that is held. A backup may be completed
// from what is held.
func (r *Replica) sinceShown(ctx context.Context, booted []snap.Record, to snap.Checkpoint) (records []snap.Record, anew bool, err error) {
	from := to.Size - uint64(len(booted))
	switch {
	case from <= r.base, from > r.at.Size && r.isFar(to):
		return booted, true, nil
	case from <= r.at.Size:
		return booted[r.at.Size-from:], false, nil
	}
	tree := r.tree
	records, err = r.collect(ctx, &tree, to)
	return records, false, err
}

// errOpen: a core could not be opened.
var errOpen = errors.New("no core can be opened from it")

// replay folds the records from the end of the tree to the checkpoint into c, and gives
// the last of them. If c does not fold a record, that is an [ErrState] once the root has
// shown that the record is signed.
func (r *Replica) replay(ctx context.Context, c Core, tree *snap.Tree, to snap.Checkpoint) (last []snap.Record, err error) {
	var refusal error
	checkFloor := func() {
		if r.floor != nil && tree.Size() == r.floor.Size && tree.Root() != r.floor.Root {
			refusal = fmt.Errorf("%w of %d events", ErrForked, r.floor.Size)
		}
	}
	for checkFloor(); tree.Size() < to.Size; {
		end := to.Size
		if r.floor != nil && tree.Size() < r.floor.Size {
			end = r.floor.Size // so that the root there can be compared
		}
		some, err := r.events(ctx, tree, end)
		if err != nil && !errors.Is(err, errUnknown) {
			return nil, err
		}
		if checkFloor(); refusal == nil {
			refusal = err
		}
		if refusal == nil {
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

// snapshot gives the snapshot that a checkpoint names. It fetches the file unless a boot
// before, which failed later, has saved it.
func (r *Replica) snapshot(ctx context.Context, named snap.Snapshot) (rows []byte, tree snap.Tree, err error) {
	file, err := r.savedFile(named)
	fetched := err != nil
	if fetched {
		file, err = r.file(ctx, named, r.doubt.Load())
	}
	if err != nil {
		return nil, snap.Tree{}, err
	}
	if rows, tree, err = r.unpack(file); err != nil {
		return nil, snap.Tree{}, err
	}
	if fetched {
		r.saveFile(named, file)
	}
	if tree.Size() != named.Size {
		return nil, snap.Tree{}, fmt.Errorf("%w: of %d events, not %d", ErrSnapshot, tree.Size(), named.Size)
	}
	return rows, tree, nil
}

// unpack decompresses the file of a snapshot and splits it.
func (r *Replica) unpack(file []byte) (rows []byte, tree snap.Tree, err error) {
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
	return rows, tree, nil
}

// savedFile reads the file of a snapshot from disk.
func (r *Replica) savedFile(named snap.Snapshot) ([]byte, error) {
	if r.store == nil {
		return nil, snap.ErrNotHeld
	}
	path, err := r.store.savedSnapshot(named)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// file fetches the file of a snapshot and compares its digest.
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
	signed, to, err := r.onDisk()
	if err != nil {
		return err
	}
	err = errNoState
	for _, at := range r.store.bases() {
		if at > to.Size {
			continue
		}
		if err = r.restoreFrom(ctx, at, to, signed); err == nil {
			r.log.Info("replica: serving the last good state from disk", "events", to.Size, "earlier_version", r.floor != nil)
			return nil
		}
		r.log.Warn("replica: a state on disk is not used", "events", at, "err", err)
	}
	r.floor = &to
	return err
}

var errNoState = errors.New("replica: no state on disk")

// onDisk gives the checkpoint on disk.
func (r *Replica) onDisk() (signed []byte, to snap.Checkpoint, err error) {
	if signed, err = r.store.checkpoint(); err != nil {
		return nil, to, err
	}
	to, err = r.open(signed)
	return signed, to, err
}

func (r *Replica) restoreFrom(ctx context.Context, at uint64, to snap.Checkpoint, signed []byte) error {
	s, err := r.read(at, to)
	if err != nil {
		return err
	}
	c, err := r.cfg.Open(ctx, s.rows)
	if err != nil {
		return err
	}
	if err = apply(c, s.records); err == nil {
		err = checkState(c, to)
	}
	if err != nil {
		return errors.Join(err, c.Close())
	}
	r.withdrawn.Store(to.Size)
	r.show(c)
	r.setPosition(signed, to, s.tree, s.tail, true, to.Time)
	r.forget(s.tail) // a snapshot's file on disk may still have the redacted words
	if s.earlier {
		r.floor = &to
		return nil
	}
	r.store.resume(at, s.saved, s.length)
	return nil
}

// stored is a state on disk that leads to the root of a checkpoint.
type stored struct {
	saved   *state
	rows    []byte
	tree    snap.Tree
	tail    []snap.Record // from saved.from on, for followers
	length  int64         // of tail on disk
	records []snap.Record // those of tail that follow the rows
	earlier bool          // the rows lack what the version before did not have: they are to be shown, and no more
}

// read reads the state of at events, with the records from there to a checkpoint.
func (r *Replica) read(at uint64, to snap.Checkpoint) (*stored, error) {
	saved, err := r.store.load(at)
	if err != nil {
		return nil, err
	}
	if r.cfg.Replay && !saved.replayed {
		return nil, errors.New("replica: it came from a snapshot")
	}
	s := &stored{saved: saved}
	if s.rows, s.tree, err = snap.CutFile(saved.contents); errors.Is(err, snap.ErrVersion) {
		s.earlier = true
		s.rows, s.tree, err = snap.CutEarlier(saved.contents)
	}
	if err != nil {
		return nil, err
	}
	if s.tree.Size() != at {
		return nil, fmt.Errorf("replica: it is of %d events", s.tree.Size())
	}
	if s.tail, s.length, err = saved.records(to.Size - saved.from); err != nil {
		return nil, err
	}
	s.records = s.tail[at-saved.from:]
	if err := add(&s.tree, s.records); err != nil {
		return nil, err
	}
	return s, checkRoot(&s.tree, to)
}
