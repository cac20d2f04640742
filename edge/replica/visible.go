package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"webring/core/snap"
)

// batch is how many records are applied at a time where no reader sees it.
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

// errNotShown says that no core here takes what was signed, though the core's code is
// not known to be wrong. Readers keep what they have.
var errNotShown = errors.New("replica: what was signed cannot be shown")

// advance has the core that is shown fold the records, which must bring it to the
// signed state. On an error readers keep what they have.
func (r *Replica) advance(ctx context.Context, records []snap.Record, to snap.Checkpoint) error {
	if err := r.mend(ctx); err != nil {
		return fmt.Errorf("%w: %w", errNotShown, err)
	}
	if len(records) == 0 {
		return nil
	}
	refusal, err := r.shown.ApplyTo(records, to.State, r.lastGood)
	if refusal == nil && err == nil {
		if seq, state := r.shown.Digest(); seq == to.Size && state == to.State {
			return nil
		}
		err = errors.New("the core that is shown went astray")
	}
	if failed := r.mend(ctx); failed != nil {
		err = failed
	}
	switch {
	case refusal == nil:
		return fmt.Errorf("%w: %w", errNotShown, err)
	case err != nil:
		return fmt.Errorf("%w of %d events: %w; %w", ErrState, to.Size, refusal, err)
	}
	return fmt.Errorf("%w of %d events: %w", ErrState, to.Size, refusal)
}

// mend shows another core if the one that is shown does not stand where readers should
// be any more: memory has gone bad, or no instance is left.
func (r *Replica) mend(ctx context.Context) error {
	why := checkState(r.shown, r.at)
	if why == nil {
		return nil
	}
	c, err := r.reopen(ctx)
	if err != nil {
		return fmt.Errorf("no other core takes the place of the one that is shown: %w", err)
	}
	r.log.Error("replica: the core that is shown went astray and was replaced", "err", why)
	r.show(c)
	return nil
}

// show makes c, which stands where readers are or further on, what they see. Its
// second is no earlier than that of the core before.
func (r *Replica) show(c Core) {
	c.Tick(time.Now())
	r.ticking.Lock()
	before := r.shown
	if before != nil {
		// The core before may have had a tick since, or the clock may have stepped
		// back a little. If it stepped back far, the next tick says so.
		_, was := before.Head()
		if _, second := c.Head(); second < was {
			c.Tick(time.Unix(was, 0))
		}
	}
	r.mu.Lock()
	r.shown = c
	r.mu.Unlock()
	r.ticking.Unlock()
	r.cfg.Show(c)
	if before != nil {
		if err := before.Close(); err != nil {
			r.log.Warn("replica: closing a core", "err", err)
		}
	}
}

// record notes where the replica is, after that is shown, and then on disk. With anew
// the folder begins with a whole new state.
func (r *Replica) record(signed []byte, at snap.Checkpoint, tree snap.Tree, records []snap.Record, anew bool) {
	r.reached(at)
	r.settle(signed, at, tree, records, time.Now().UnixMilli())
	if r.forget(records) {
		r.blocks.forget()
		anew = true // without the words
	}
	r.keep(news{signed, records, anew})
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

// reopen opens another core at the position that readers are at: from the core that is
// shown, or from disk if that went astray.
func (r *Replica) reopen(ctx context.Context) (Core, error) {
	rows, records, err := r.present()
	if err != nil {
		return nil, err
	}
	c, err := r.cfg.Open(ctx, rows)
	if err != nil {
		return nil, err
	}
	if err = apply(c, records); err == nil {
		err = checkState(c, r.at)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// present gives what a core can be opened from at the position that readers are at.
func (r *Replica) present() (rows []byte, records []snap.Record, err error) {
	if checkState(r.shown, r.at) != nil {
		return r.lastGood()
	}
	if rows = r.shown.Snapshot(); rows == nil {
		return nil, nil, errNoSnapshot
	}
	return rows, nil, nil
}

// lastGood gives what readers see, from disk: a snapshot, and the records after it. The
// newest may not have been written yet; those are in memory. The caller holds accepting,
// so that no other state takes the place of the one that is read.
func (r *Replica) lastGood() (rows []byte, records []snap.Record, err error) {
	if r.store == nil {
		return nil, nil, errors.New("replica: nothing is kept on disk to go back to")
	}
	_, to, err := r.onDisk()
	if err != nil {
		return nil, nil, err
	}
	if to.Size < r.base || to.Size > r.at.Size {
		return nil, nil, fmt.Errorf("replica: the state on disk ends at %d, not between %d and %d", to.Size, r.base, r.at.Size)
	}
	err = errNoState
	for _, at := range r.store.bases() {
		if at > to.Size {
			continue
		}
		var s *stored
		if s, err = r.read(at, to); err == nil {
			return s.rows, append(s.records, r.tail[to.Size-r.base:]...), nil
		}
	}
	return nil, nil, err
}
