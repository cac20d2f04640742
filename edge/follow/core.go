package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"webring/core/api"
	"webring/core/snap"
)

// Core is a core at one position, as a host runs it. Functions may be called
// concurrently, except that nothing is called after Close.
type Core interface {
	// Apply folds in the records that follow and shows them.
	Apply(records []snap.Record) error
	// ApplyTo folds in the records that follow, where no reader sees it, and shows
	// them if they lead to the digest. If they do not, refusal says why. With a
	// refusal or an error, readers go on seeing what they saw. A core that cannot
	// roll back by itself calls last for what it held: a snapshot, and the records
	// after it.
	ApplyTo(records []snap.Record, digest [16]byte, last func() (snapshot []byte, records []snap.Record, err error)) (refusal, err error)
	// Tick tells the time of day, once a second.
	Tick(now time.Time)
	// Serve answers a GET for target.
	Serve(target []byte, r *api.Response)
	// ServeAll answers several at one head.
	ServeAll(targets [][]byte, all []api.Response)
	// Head gives position and second of what is served.
	Head() (seq uint64, second int64)
	// BaseURL is what links begin with.
	BaseURL() string
	// Digest gives the digest of the rows, and the position that it is of.
	Digest() (seq uint64, digest [16]byte)
	// Snapshot gives what a core can be opened from, nil when there is none just now.
	Snapshot() []byte
	// Close frees what the core holds.
	Close() error
}

var (
	// errNotShown: the signed state cannot be shown now, for a reason that may pass, such as
	// a lack of memory.
	errNotShown = errors.New("follow: what was signed cannot be shown")
	// errNoSnapshot: a core gives no snapshot just now. Without this error, Open would be
	// given nil and make the core of an empty ledger.
	errNoSnapshot = errors.New("follow: the core gives no snapshot of itself")
)

// apply folds records in pieces.
func apply(c Core, records []snap.Record) error {
	for len(records) > 0 {
		n := min(snap.BlockEvents, len(records))
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

// open opens a core from rows, or of an empty ledger without any, and has it fold records,
// which must bring it to a checkpoint.
func (r *Replica) open(ctx context.Context, rows []byte, records []snap.Record, to snap.Checkpoint) (Core, error) {
	c, err := r.cfg.Open(ctx, rows)
	if err != nil {
		return nil, err
	}
	if err = apply(c, records); err == nil {
		err = checkState(c, to)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
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
			r.log.Warn("follow: closing a core", "err", err)
		}
	}
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
	r.log.Error("follow: the core that is shown did not have the signed state and was replaced", "err", why)
	r.show(c)
	return nil
}

// restore shows the last good state from disk, checked like any other. If that is damaged,
// what was signed is still the least that is shown.
func (r *Replica) restore(ctx context.Context) error {
	signed, to, err := r.onDisk()
	if err == nil || errors.Is(err, ErrWitnesses) { // a policy may be new
		r.floor, r.floorText = to, signed
	}
	if err != nil {
		return err
	}
	k, err := r.store.last(to)
	if err != nil {
		return err
	}
	if r.cfg.Replay && !k.replayed {
		return errors.New("follow: it came from a snapshot")
	}
	c, err := r.open(ctx, k.rows, k.records, to)
	if err != nil {
		return err
	}
	r.floor = snap.Checkpoint{}
	r.withdrawn.Store(to.Size)
	r.show(c)
	r.setPosition(signed, to, k.tree, k.tail, true, to.Time)
	r.store.resume(k)
	r.log.Info("follow: serving the last good state from disk", "events", to.Size)
	return nil
}

// reopen opens another core at the position of readers: from the core that is shown or, if
// that does not have the signed state, from the last good one.
func (r *Replica) reopen(ctx context.Context) (Core, error) {
	if checkState(r.shown, r.at) != nil {
		rows, records, err := r.lastGood(ctx)
		if err != nil {
			return nil, err
		}
		return r.open(ctx, rows, records, r.at)
	}
	rows := r.shown.Snapshot()
	if rows == nil {
		return nil, errNoSnapshot
	}
	return r.open(ctx, rows, nil, r.at)
}

// lastGood returns what readers see: a snapshot, and the records after it. They come from
// disk or, if that has failed, from the origin and from memory. The caller holds accepting.
func (r *Replica) lastGood(ctx context.Context) (rows []byte, records []snap.Record, err error) {
	if rows, records, err = r.lastWritten(); err == nil {
		return rows, records, nil
	}
	if r.base == 0 {
		return nil, r.tail, nil
	}
	named := r.at.Snapshot
	if r.cfg.Replay || named.Size < r.base || named.Size > r.at.Size {
		return nil, nil, err
	}
	rows, _, failed := r.snapshot(ctx, named)
	if failed != nil {
		return nil, nil, fmt.Errorf("%w; %w", err, failed)
	}
	return rows, r.tail[named.Size-r.base:], nil
}

// onDisk returns the checkpoint on disk.
func (r *Replica) onDisk() (signed []byte, to snap.Checkpoint, err error) {
	if signed, err = r.store.checkpoint(); err != nil {
		return nil, to, err
	}
	to, err = r.verify(signed)
	return signed, to, err
}

// lastWritten is lastGood from disk. The newest records may not have been written yet:
// those come from memory. No other state is written while the caller holds accepting.
func (r *Replica) lastWritten() (rows []byte, records []snap.Record, err error) {
	if r.store == nil {
		return nil, nil, errors.New("follow: nothing is kept on disk to go back to")
	}
	_, to, err := r.onDisk()
	if err != nil {
		return nil, nil, err
	}
	if to.Size < r.base || to.Size > r.at.Size {
		return nil, nil, fmt.Errorf("follow: the state on disk ends at %d, not between %d and %d", to.Size, r.base, r.at.Size)
	}
	k, err := r.store.last(to)
	if err != nil {
		return nil, nil, err
	}
	return k.rows, append(k.records, r.tail[to.Size-r.base:]...), nil
}
