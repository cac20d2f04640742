package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"webring/core/snap"
)

// batch is how many records are shown at a time: readers may wait for one.
const batch = snap.BlockEvents

func apply(c Core, records []snap.Record) error {
	for len(records) > 0 {
		n := min(batch, len(records))
		if err := c.Apply(records[:n]); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

func checkState(c Core, to snap.Checkpoint) error {
	if seq, state := c.Digest(); seq != to.Size || state != to.State {
		return fmt.Errorf("%w of %d events", ErrState, to.Size)
	}
	return nil
}

// advance shows records that the judge has found good.
func (r *Replica) advance(ctx context.Context, records []snap.Record, to snap.Checkpoint) {
	err := apply(r.shown, records)
	if err == nil {
		err = checkState(r.shown, to)
	}
	if err == nil {
		return
	}
	// Two cores of one build came to different states: memory has gone bad.
	r.log.Error("replica: the core that is shown went astray and is replaced", "err", err)
	again, err := r.reopen(ctx, r.module, r.judge, true)
	if err != nil {
		r.log.Error("replica: and could not be", "err", err)
		return
	}
	r.show(again, r.module)
}

// show makes c, which stands where readers are or further on, what they see. Nor do
// they go back in time with it.
func (r *Replica) show(c Core, m Module) {
	c.Tick(time.Now())
	r.ticking.Lock()
	before := r.shown
	if before != nil {
		// The core before may have had a tick since, or hold a second to which the
		// clock has yet to come back. Whether it came too far back for that is for
		// the next tick to say, as it is without another core.
		_, was := before.Head()
		if _, second := c.Head(); second < was {
			c.Tick(time.Unix(was, 0))
		}
	}
	r.mu.Lock()
	r.shown, r.module = c, m
	r.mu.Unlock()
	r.ticking.Unlock()
	r.proven[m.Digest] = true
	r.cfg.Show(c, m)
	if before != nil {
		if err := before.Close(); err != nil {
			r.log.Warn("replica: closing a core", "err", err)
		}
	}
}

// record notes where the replica is, after it is shown, on disk last. If that begins
// anew, nothing of what is there before is kept.
func (r *Replica) record(signed []byte, at snap.Checkpoint, tree snap.Tree, records []snap.Record, anew bool) {
	r.settle(signed, at, tree, records, time.Now().UnixMilli())
	if r.forget(records) {
		r.blocks.forget()
		anew = true // without the words
	}
	r.keep(news{signed, at, records, anew})
}

// settle notes where the replica is, and since when it knows.
func (r *Replica) settle(signed []byte, at snap.Checkpoint, tree snap.Tree, records []snap.Record, heard int64) {
	r.tree = tree
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signed, r.at = signed, at
	r.tail = append(r.tail, records...)
	r.trim()
	r.heard.Store(heard)
	r.stamped.Store(at.Time)
	close(r.changed)
	r.changed = make(chan struct{})
	r.settled.Do(func() { close(r.ready) })
}

// maxTail is how many records are kept for those who follow this replica; for
// earlier ones it asks its own origin.
const maxTail = 64 * snap.BlockEvents

func (r *Replica) trim() {
	if excess := len(r.tail) - maxTail; excess > 0 {
		// Copied, so that what is left out is given back.
		r.tail = append([]snap.Record(nil), r.tail[excess:]...)
		r.base += uint64(excess)
	}
}

// errNoSnapshot says that a core gives none: nothing in it can be asked just now.
// Without one, Open would make the core of an empty ledger.
var errNoSnapshot = errors.New("replica: the core gives no snapshot of itself")

// reopen opens a core where another one stands.
func (r *Replica) reopen(ctx context.Context, m Module, at Core, readers bool) (Core, error) {
	snapshot := at.Snapshot()
	if snapshot == nil {
		return nil, errNoSnapshot
	}
	return r.cfg.Open(ctx, m, snapshot, readers)
}

// follower opens a core for readers where the judge stands, which is at a checkpoint.
func (r *Replica) follower(ctx context.Context, m Module, at snap.Checkpoint) (Core, error) {
	c, err := r.reopen(ctx, m, r.judge, true)
	if err != nil {
		return nil, err
	}
	if err := checkState(c, at); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
