package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"webring/core/snap"
)

// batch is how many records are applied at a time to a core that is not shown.
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

// errNotShown says that the signed state cannot be shown now, for a reason that may pass,
// such as a lack of memory. Readers see what they saw.
var errNotShown = errors.New("replica: what was signed cannot be shown")

// advance has the core that is shown fold the records, which must bring it to the signed
// state. After an error, readers see what they saw.
func (r *Replica) advance(ctx context.Context, records []snap.Record, to snap.Checkpoint) error {
	if err := r.repair(ctx); err != nil {
		return fmt.Errorf("%w: %w", errNotShown, err)
	}
	if len(records) == 0 {
		return nil
	}
	r.withdraw(records, to.Size)
	refusal, err := r.shown.ApplyTo(records, to.State, r.lastGood)
	if refusal == nil && err == nil {
		if seq, state := r.shown.Digest(); seq == to.Size && state == to.State {
			return nil
		}
		err = errors.New("the core that is shown has another state than it says")
	}
	if failed := r.repair(ctx); failed != nil {
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

// repair replaces the core that is shown if it does not have the signed state any more:
// memory has gone bad, or no instance is left.
func (r *Replica) repair(ctx context.Context) error {
	why := checkState(r.shown, r.at)
	if why == nil {
		return nil
	}
	c, err := r.reopen(ctx)
	if err != nil {
		return fmt.Errorf("the core that is shown cannot be replaced: %w", err)
	}
	r.log.Error("replica: the core that is shown did not have the signed state and was replaced", "err", why)
	r.show(c)
	return nil
}

// show makes c what readers see. c is at their position or beyond, and its second is no
// earlier than that of the core before.
func (r *Replica) show(c Core) {
	c.Tick(time.Now())
	r.ticking.Lock()
	before := r.shown
	if before != nil {
		// The core before may have had a later tick, or the clock may have stepped back
		// a little. If it stepped back far, the next tick rewinds.
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

// moveTo notes the position that is shown now, and has it written to disk. With anew, a
// whole new state is written, and the records need not follow those before.
func (r *Replica) moveTo(signed []byte, at snap.Checkpoint, tree snap.Tree, records []snap.Record, anew bool) {
	r.reached(at)
	r.setPosition(signed, at, tree, records, anew, time.Now().UnixMilli())
	if r.forget(records) {
		r.blocks.forget()
		anew = true // the state on disk has the redacted words
	}
	r.persist(update{signed, records, anew})
}

// setPosition notes the position that is shown, and when its checkpoint came. With anew,
// the records are all that is held for followers.
func (r *Replica) setPosition(signed []byte, at snap.Checkpoint, tree snap.Tree, records []snap.Record, anew bool, heard int64) {
	r.tree = tree
	r.mu.Lock()
	defer r.mu.Unlock()
	if anew {
		r.base, r.tail = at.Size-uint64(len(records)), nil
	}
	r.signed, r.at = signed, at
	r.tail = append(r.tail, records...)
	r.trim()
	r.heard.Store(heard)
	r.stamped.Store(at.Time)
	close(r.changed)
	r.changed = make(chan struct{})
	r.readied.Do(func() { close(r.ready) })
}

// maxTail is how many records are held in memory for followers. Earlier ones are fetched
// upstream.
const maxTail = 64 * snap.BlockEvents

func (r *Replica) trim() {
	if excess := len(r.tail) - maxTail; excess > 0 {
		// Copied, so that the memory of the dropped records is freed.
		r.tail = append([]snap.Record(nil), r.tail[excess:]...)
		r.base += uint64(excess)
	}
}

// errNoSnapshot says that a core gives no snapshot just now. Without this error, Open
// would be given nil and make the core of an empty ledger.
var errNoSnapshot = errors.New("replica: the core gives no snapshot of itself")

// reopen opens another core at the position of readers: from the core that is shown, or
// from disk if that does not have the signed state.
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

// present gives what a core can be opened from at the position of readers.
func (r *Replica) present() (rows []byte, records []snap.Record, err error) {
	if checkState(r.shown, r.at) != nil {
		return r.lastGood()
	}
	if rows = r.shown.Snapshot(); rows == nil {
		return nil, nil, errNoSnapshot
	}
	return rows, nil, nil
}

// lastGood gives what readers see: a snapshot, and the records after it. They come from
// disk or, when the disk has failed, from what is held for followers. The caller holds
// accepting.
func (r *Replica) lastGood() (rows []byte, records []snap.Record, err error) {
	if rows, records, err = r.lastWritten(); err == nil {
		return rows, records, nil
	}
	rows, records, failed := r.lastHeld()
	if failed != nil {
		return nil, nil, fmt.Errorf("%w; %w", err, failed)
	}
	return rows, records, nil
}

// lastWritten is lastGood from disk. The newest records may not have been written yet:
// those come from memory. No other state is written while the caller holds accepting.
func (r *Replica) lastWritten() (rows []byte, records []snap.Record, err error) {
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
		if s, err = r.read(at, to); err == nil && s.earlier {
			err = snap.ErrVersion
		}
		if err == nil {
			return s.rows, append(s.records, r.tail[to.Size-r.base:]...), nil
		}
	}
	return nil, nil, err
}

// lastHeld is lastGood from a snapshot's file and the last records. A replica that folds
// every event takes no snapshot for that.
func (r *Replica) lastHeld() (rows []byte, records []snap.Record, err error) {
	if r.base == 0 {
		return nil, r.tail, nil
	}
	held := r.files.newest()
	if r.cfg.Replay || held.Size < r.base || held.Size > r.at.Size {
		return nil, nil, errors.New("replica: no snapshot is held to go back to")
	}
	file, _, err := held.open()
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(file)
	if err == nil {
		rows, _, err = r.unpack(b)
	}
	return rows, r.tail[held.Size-r.base:], err
}
