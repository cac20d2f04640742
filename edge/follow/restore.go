package follow

import (
	"context"
	"errors"
	"fmt"

	"webring/core/snap"
)

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
			r.log.Info("follow: serving the last good state from disk", "events", to.Size)
			return nil
		}
		r.log.Warn("follow: a state on disk is not used", "events", at, "err", err)
	}
	r.floor = to
	return err
}

var errNoState = errors.New("follow: no state on disk")

// onDisk returns the checkpoint on disk.
func (r *Replica) onDisk() (signed []byte, to snap.Checkpoint, err error) {
	if signed, err = r.store.checkpoint(); err != nil {
		return nil, to, err
	}
	to, err = r.keys.verify(signed)
	return signed, to, err
}

func (r *Replica) restoreFrom(ctx context.Context, at uint64, to snap.Checkpoint, signed []byte) error {
	s, err := r.read(at, to)
	if err != nil {
		return err
	}
	c, err := r.open(ctx, s.rows, s.records, to)
	if err != nil {
		return err
	}
	r.withdrawn.Store(to.Size)
	r.show(c)
	r.setPosition(signed, to, s.tree, s.tail, true, to.Time)
	r.store.resume(at, s.saved, s.length)
	return nil
}

// stored is a state on disk that leads to the root of a checkpoint.
type stored struct {
	saved   *state
	rows    []byte
	tree    snap.Tree
	tail    []snap.Record // from saved.from on
	length  int64         // of tail on disk
	records []snap.Record // those of tail that follow the rows
}

// readLast reads the last state on disk that leads to a checkpoint.
func (r *Replica) readLast(to snap.Checkpoint) (s *stored, err error) {
	err = errNoState
	for _, at := range r.store.bases() {
		if at > to.Size {
			continue
		}
		if s, err = r.read(at, to); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// read reads the state of at events, with the records from there to a checkpoint.
func (r *Replica) read(at uint64, to snap.Checkpoint) (*stored, error) {
	saved, err := r.store.load(at)
	if err != nil {
		return nil, err
	}
	if r.cfg.Replay && !saved.replayed {
		return nil, errors.New("follow: it came from a snapshot")
	}
	s := &stored{saved: saved}
	if s.rows, s.tree, err = snap.CutFile(saved.contents); err != nil {
		return nil, err
	}
	if s.tree.Size() != at {
		return nil, fmt.Errorf("follow: it is of %d events", s.tree.Size())
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
