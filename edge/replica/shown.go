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

// due is a checkpoint that the judge has come to and readers have not.
type due struct {
	signed  []byte
	at      snap.Checkpoint
	tree    snap.Tree
	records []snap.Record // from the checkpoint before it

	pause time.Duration // after the last attempt to replace the core that is shown
	again time.Time     // no other attempt before this
	why   error         // why the last attempt failed
}

const (
	// leastRest and mostRest bound the wait before another core is opened in place of
	// one that went astray. What that fails for is most often memory, of which an
	// attempt takes as much as the ring does.
	leastRest, mostRest = time.Second, time.Minute
)

// errNotShown says that readers cannot be brought to what was signed. They keep what
// they have.
var errNotShown = errors.New("replica: what was signed cannot be shown")

// conclude shows what is due and then records it, or leaves it due: nothing else is
// accepted before. For until then the judge is the only core that stands at a
// checkpoint for certain, and what comes next would be put onto a gap.
func (r *Replica) conclude(ctx context.Context) error {
	d := r.due
	if d == nil {
		return nil
	}
	if err := r.advance(ctx, d); err != nil {
		return fmt.Errorf("%w: %w", errNotShown, err)
	}
	if d.why != nil {
		r.log.Info("replica: what was signed is shown again", "events", d.at.Size)
	}
	r.due = nil
	r.record(d.signed, d.at, d.tree, d.records, false)
	r.renew(ctx, d.at)
	return nil
}

// advance brings readers to what is due. If the core that is shown does not get there,
// another one takes its place.
func (r *Replica) advance(ctx context.Context, d *due) error {
	err := r.bring(d)
	if err == nil {
		return nil
	}
	if time.Now().Before(d.again) {
		return d.why
	}
	if d.why == nil {
		// Two cores of one build came to different states, so memory has gone bad; or no
		// instance was free to take the records.
		r.log.Error("replica: the core that is shown went astray and is replaced", "err", err)
	}
	again, err := r.follower(ctx, r.module, d.at)
	if err != nil {
		d.pause = min(max(2*d.pause, leastRest), mostRest)
		d.again, d.why = time.Now().Add(d.pause), err
		return err
	}
	r.show(again, r.module)
	return nil
}

// bring has the core that is shown take those of the records that it lacks: an attempt
// before may have ended among them.
func (r *Replica) bring(d *due) error {
	seq, _ := r.shown.Head()
	if seq < r.at.Size || seq > d.at.Size {
		return fmt.Errorf("replica: it stands at %d, not between %d and %d", seq, r.at.Size, d.at.Size)
	}
	if err := apply(r.shown, d.records[seq-r.at.Size:]); err != nil {
		return err
	}
	return checkState(r.shown, d.at)
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
