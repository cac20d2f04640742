package ledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"webring/core"
)

// Bounds of one group. In a larger group, the first caller would wait too long. With what its
// last turn may add, a group is a batch that a store must take.
const (
	maxGroupItems = 256
	maxGroupRows  = 8 << 10
	maxGroupBytes = 1 << 20
)

// SlowGroup is how long a group may be in work. A commit takes milliseconds.
const SlowGroup = 2 * time.Second

// Config says what a [Ledger] works on.
type Config struct {
	// Store holds everything but the head. The ledger is its only writer
	// until it is closed, and does not close it.
	Store Store
	// HeadPath names the head, a file outside the store and on a disk that
	// keeps what it has synced.
	HeadPath string
	// Capacity bounds how many members can ever join.
	Capacity int

	// Now is the clock; nil stands for [time.Now].
	Now func() time.Time
	// Clock, when given, takes the place of Now, and says when nothing may be stamped.
	Clock *Clock
	// Random gives the salts of texts; nil stands for crypto/rand.
	Random io.Reader
	// Publish, when given, is called by the writer with the events of each
	// group, in order, once they are durable and before anyone is answered.
	// It must not block and not call [Ledger.Do].
	Publish func([]Record)
	// Observe, when given, is called by the writer in each turn before an event is applied,
	// and what it gives once it is, for rows of tables that belong to the event's transaction
	// ([Tx.Put]). It must only fail where the store does: that ends the ledger.
	Observe func(tx *Tx, e core.Event) (applied func(seq uint64) error)
	// Room, when given, says why nothing may be written at the moment, such as
	// a disk that is all but full. It is asked at the beginning of each turn, so
	// it must be quick.
	Room func() error
	// Committed, when given, is told of each group that was written: how long that took,
	// and why it failed. It must be quick.
	Committed func(took time.Duration, err error)
	// Slow, when given, is called once for each group that is still in work after [SlowGroup].
	Slow func()
	// Failpoint, when given, is called with the name of each point at which
	// a crash is worth trying: "commit" before the commit, "head" between
	// commit and head, "publish" between head and publishing.
	Failpoint func(name string)
}

var (
	// ErrBroken is wrapped by every answer of a ledger that has ended because
	// it no longer knows what is stored. The process must exit and open anew.
	ErrBroken = errors.New("ledger: the writer has ended")
	// ErrClosed is the answer of a ledger after [Ledger.Close].
	ErrClosed = errors.New("ledger: closed")
)

// Ledger is the one writer. All methods may be called concurrently.
type Ledger struct {
	*memory

	queue   chan *item
	early   []*item   // received for the next group; the writer's own
	closing sync.Once // closes closed
	closed  chan struct{}
	err     error         // why the ledger has ended; set before done is closed
	done    chan struct{} // closed when the ledger has ended
	stopped chan struct{} // closed when the writer's goroutine has returned
}

// memory is a ledger without its writer: what it has in memory, and where that is stored.
// Ledgers that follow and lead in turn share it, and at most one of them changes it.
type memory struct {
	cfg    Config                // without nil functions
	stores atomic.Pointer[Store] // read by [memory.store]
	head   head

	// mu guards what the writer changes in memory and views read. The writer
	// holds it while it runs functions, never during a commit.
	mu    sync.RWMutex
	state *core.State
	index index
	// announced is replaced with the state.
	announced announced
	staged    Batch // rows of the group in work, which override the store

	durable atomic.Pointer[Position]

	// working is held while a group is in work. Without one, all that is applied is durable.
	working sync.Mutex
	began   atomic.Pointer[time.Time] // of the group in work, nil without one
}

// item is one call of Do.
type item struct {
	fn     func(*Tx) error
	taken  atomic.Bool // by the writer, which then answers, or by a caller that stops waiting
	err    error
	answer chan struct{}
}

// newLedger makes a ledger that has not loaded anything.
func newLedger(c Config) *Ledger {
	if c.Clock != nil {
		c.Now = c.Clock.Now
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	if c.Publish == nil {
		c.Publish = func([]Record) {}
	}
	if c.Observe == nil {
		c.Observe = func(*Tx, core.Event) func(uint64) error { return func(uint64) error { return nil } }
	}
	if c.Committed == nil {
		c.Committed = func(time.Duration, error) {}
	}
	if c.Slow == nil {
		c.Slow = func() {}
	}
	if c.Failpoint == nil {
		c.Failpoint = func(string) {}
	}
	m := &memory{cfg: c, state: core.NewState(c.Capacity, mathrand.Uint64()), index: newIndex(), staged: Batch{}}
	m.stores.Store(&c.Store)
	return newWriter(m)
}

// newWriter makes a ledger of what is in memory. It does not write yet.
func newWriter(m *memory) *Ledger {
	return &Ledger{memory: m, queue: make(chan *item, 16*maxGroupItems), closed: make(chan struct{}), done: make(chan struct{}), stopped: make(chan struct{})}
}

// store is what rows are read from, and what the writer commits to.
func (m *memory) store() Store { return *m.stores.Load() }

// Do runs fn in the writer and returns when what it did is durable and
// published, or when it is certain that it left no trace.
//
// An error from fn is returned as it is; unless fn had appended an event,
// nothing of what it did remains. After an event was appended fn must not
// fail: that ends the ledger. While fn runs, no other function does, even if
// both are in one group. fn must be quick, must not wait for anything, and must
// not use its [Tx] afterwards.
//
// ctx bounds the wait for fn's turn only: its error means that fn has not run. [ErrBroken]
// means that the outcome is unknown.
func (l *Ledger) Do(ctx context.Context, fn func(*Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-l.closed:
		return cmp.Or(l.Err(), ErrClosed)
	default:
	}
	it := &item{fn: fn, answer: make(chan struct{})}
	select {
	case l.queue <- it:
		select {
		case <-it.answer:
		case <-ctx.Done():
		case <-l.done:
		}
	case <-ctx.Done():
	case <-l.done:
	}
	if it.taken.Swap(true) {
		<-it.answer
		return it.err
	}
	return cmp.Or(l.Err(), ctx.Err())
}

// Done is closed when the ledger has ended, by [Ledger.Close] or because it
// broke; Err says which.
func (l *Ledger) Done() <-chan struct{} { return l.done }

// Err says why the ledger has ended: an error that wraps [ErrBroken], or
// [ErrClosed]. It is nil as long as Done is open.
func (l *Ledger) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}

// Close lets the writer finish what is queued and ends the ledger. The store
// stays open: it is the caller's. A [Replicated] store has settled when Close returns.
func (l *Ledger) Close() (err error) {
	l.closing.Do(func() {
		close(l.closed)
		<-l.stopped
		if r, ok := l.store().(Replicated); ok {
			err = r.Settle()
		}
		err = errors.Join(err, l.head.file.Close())
	})
	return err
}

// run is the writer.
func (l *Ledger) run() {
	defer close(l.stopped)
	for l.wait() {
		g, err := l.work()
		if err != nil {
			l.end(fmt.Errorf("%w: %w", ErrBroken, err), g.items)
			return
		}
		for _, it := range g.items {
			close(it.answer)
		}
		l.gatherMore(g)
	}
	l.end(ErrClosed, nil)
}

// wait waits for an item. It reports false once the ledger has been closed and nothing is left to do.
func (l *Ledger) wait() bool {
	if len(l.early) > 0 {
		return true
	}
	select {
	case it := <-l.queue:
		l.early = append(l.early, it)
	case <-l.closed:
		select {
		case it := <-l.queue:
			l.early = append(l.early, it)
		default:
			return false
		}
	}
	return true
}

// next takes the first item whose caller still waits, nil if there is none.
func (l *Ledger) next() (it *item) {
	for {
		if len(l.early) > 0 {
			it, l.early = l.early[0], l.early[1:]
		} else {
			select {
			case it = <-l.queue:
			default:
				return nil
			}
		}
		if !it.taken.Swap(true) {
			return it
		}
	}
}

// gatherMore gives callers that were just answered a moment to call again, if others already wait and
// the store is replicated. Otherwise the callers fall into two halves, and each half waits for the
// group of the other: each call then takes two commits instead of one.
func (l *Ledger) gatherMore(g *group) {
	waiting := len(l.early) + len(l.queue)
	if _, far := l.store().(Replicated); !far || len(g.items) < 2 || waiting == 0 {
		return
	}
	end := time.NewTimer(g.took / 8)
	defer end.Stop()
	for len(l.early) < min(waiting+len(g.items), maxGroupItems) {
		select {
		case it := <-l.queue:
			l.early = append(l.early, it)
		case <-end.C:
			return
		}
	}
}

// work runs what is waiting, and makes it durable.
func (l *Ledger) work() (*group, error) {
	l.working.Lock()
	defer l.working.Unlock()
	began, slow := time.Now(), time.AfterFunc(SlowGroup, l.cfg.Slow)
	l.began.Store(&began)
	defer func() {
		slow.Stop()
		l.began.Store(nil)
	}()
	g := l.gather()
	if g.err != nil {
		return g, g.err
	}
	return g, l.persist(g)
}

// Stuck says that the writer has been at one group for longer than [SlowGroup], because the disk, or etcd, does not
// confirm a commit. Until then reads of rows may wait, too.
func (l *Ledger) Stuck() error {
	if began := l.began.Load(); began != nil && time.Since(*began) > SlowGroup {
		return fmt.Errorf("ledger: a commit has not come to its end for %s: look at the disk, and at etcd if there is one", time.Since(*began).Round(time.Second))
	}
	return nil
}

// settled waits until no group is in work, or gives the error of a ledger that has ended.
func (l *Ledger) settled() error {
	l.working.Lock()
	defer l.working.Unlock()
	return l.Err()
}

// end ends the ledger with err, also for the calls that are running. Those that wait see it by done.
func (l *Ledger) end(err error, running []*item) {
	l.err = err
	close(l.done)
	for _, it := range running {
		it.err = err
		close(it.answer)
	}
}

// group is what one transaction holds.
type group struct {
	items   []*item
	records []Record
	bytes   int
	next    Position
	took    time.Duration // to become durable
	err     error         // a broken invariant: nothing may be committed
}

// gather runs what is waiting. The changes are staged, not stored.
func (l *Ledger) gather() *group {
	g := &group{next: *l.durable.Load()}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(g.items) < maxGroupItems && len(l.staged) < maxGroupRows && g.bytes < maxGroupBytes && g.err == nil {
		it := l.next()
		if it == nil {
			break
		}
		g.items = append(g.items, it)
		l.execute(it, g)
	}
	if len(l.staged) == 0 || g.err != nil {
		return g
	}
	g.next.Serial++
	if g.next.Size = l.state.Seq(); len(g.records) > 0 {
		g.next.Root, g.err = tlog.TreeHash(int64(g.next.Size), treeReader(l.get))
	}
	l.staged[string(numberKey(prefixTransaction, g.next.Serial))] = g.next.appendRow(nil)
	return g
}

// execute runs one item, and stages or undoes its changes.
func (l *Ledger) execute(it *item, g *group) {
	tx := l.begin()
	it.err = it.fn(tx)
	switch {
	case it.err == nil:
		for key, value := range tx.rows {
			l.staged[key] = value
			g.bytes += len(key) + len(value)
		}
		g.records = append(g.records, tx.records...)
	case len(tx.records) > 0:
		g.err = fmt.Errorf("a function failed after it had appended an event: %w", it.err)
	default:
		for _, undo := range slices.Backward(tx.undos) {
			undo()
		}
	}
	tx.l = nil
}

// persist makes the group durable and publishes it. After an error it is not known what is
// stored.
func (l *Ledger) persist(g *group) error {
	if len(l.staged) == 0 {
		return nil
	}
	began := time.Now()
	err := l.write(g)
	g.took = time.Since(began)
	l.cfg.Committed(g.took, err)
	if err != nil {
		return err
	}
	l.durable.Store(&g.next)
	l.cfg.Failpoint("publish")
	if len(g.records) > 0 {
		l.cfg.Publish(g.records)
	}
	l.mu.Lock()
	l.staged = Batch{}
	l.mu.Unlock()
	return nil
}

// write stores the group, and then the head. A replicated store may store it later, in
// its order: the head is never ahead of what is stored here.
func (l *Ledger) write(g *group) (err error) {
	l.cfg.Failpoint("commit")
	stored := func() error {
		l.cfg.Failpoint("head")
		return Disk(l.head.write(g.next))
	}
	if r, ok := l.store().(Replicated); ok {
		err = r.CommitAhead(l.staged, stored)
	} else if err = l.store().Commit(l.staged); err == nil {
		return stored()
	}
	if err != nil {
		return fmt.Errorf("commit transaction %d: %w", g.next.Serial, err)
	}
	return nil
}

// get reads a row as it is after the staged changes. The caller holds mu.
func (m *memory) get(key []byte) ([]byte, error) { return m.staged.over(m.store().Get, key) }

// over reads a row from the batch, or by get if the batch does not have it.
func (b Batch) over(get func(key []byte) ([]byte, error), key []byte) ([]byte, error) {
	if value, ok := b[string(key)]; !ok {
		return get(key)
	} else if value == nil {
		return nil, ErrNotFound
	} else {
		return value, nil
	}
}
