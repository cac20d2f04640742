package ledger

import (
	"context"
	"errors"
	"fmt"
)

// Follower is a copy of a ledger that is written elsewhere. It takes the writer's batches, checks
// and stores them, and keeps the same state in memory, so that it can take over at once
// ([Follower.Lead]). Its methods may be called concurrently. It reads as a [Ledger] does, even after
// Lead.
type Follower struct {
	*memory
	l *Ledger
	// led says that the writer has been started. The ledger's working guards it.
	led bool
}

// ErrBatch says that a batch is not the next one of this ledger, is not as its writer made it, or
// needs a later version of this program or more capacity. Nothing has changed.
var ErrBatch = errors.New("ledger: the batch cannot be taken")

func refuseBatch(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrBatch, fmt.Errorf(format, args...))
}

// Follow checks and folds everything that is stored, as [Open] does and with the same
// errors, and starts no writer.
func Follow(c Config) (*Follower, error) {
	if c.Store == nil || c.HeadPath == "" || c.Capacity <= 0 {
		return nil, errors.New("ledger: store, head and capacity must be given")
	}
	l := newLedger(c)
	if err := l.read(); err != nil {
		return nil, err
	}
	return &Follower{memory: l.memory, l: l}, nil
}

// Position is after the last transaction that the store and the head have durably.
func (f *Follower) Position() Position { return *f.l.durable.Load() }

// Audit is [Ledger.Audit].
func (f *Follower) Audit(ctx context.Context) (*Audit, error) { return f.l.Audit(ctx) }

// Apply takes the batch of the next transaction, as the writer gave it to its store. It commits the
// batch, writes the head, and publishes the events. The caller must authenticate the batch, and must
// not change it or its values afterwards.
//
// After [ErrBatch] and [ErrNoRoom] nothing has changed, and the right batch may come. [ErrBroken]
// means that the store has failed and its contents are unknown: the follower has ended, and [Follow]
// reads the store anew.
func (f *Follower) Apply(b Batch) error {
	l := f.l
	l.working.Lock()
	defer l.working.Unlock()
	if err := f.ended(); err != nil {
		return err
	}
	if err := l.checkRoom(); err != nil {
		return err
	}
	g, err := l.examine(b)
	if err == nil {
		err = l.replay(g, b)
	}
	if err == nil {
		err = broken(l.persist(&g.group))
	}
	if errors.Is(err, ErrBroken) {
		l.end(err, nil)
	}
	return err
}

// broken wraps an error of the follower's own store or head.
func broken(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// ended says why nothing can be applied. The caller holds working.
func (f *Follower) ended() error {
	if f.led {
		return ErrClosed
	}
	return f.l.Err()
}

// Lead starts the writer. It commits to s: the followed store, or one that replicates over it.
// [Ledger.Close] then ends the ledger, and Close of the follower does nothing. After
// [core.ErrCapacity], as in [Open], the follower goes on.
func (f *Follower) Lead(s Store) (*Ledger, error) {
	l := f.l
	l.working.Lock()
	defer l.working.Unlock()
	if err := f.ended(); err != nil {
		return nil, err
	}
	if err := l.checkCapacity(); err != nil {
		return nil, err
	}
	l.stores.Store(&s)
	f.led = true
	go l.run()
	return l, nil
}

// Resume makes a follower of a ledger that [Ledger.Close] has ended without an error. The follower
// keeps what the ledger has in memory, so nothing is folded again. s is the store that was followed
// before. Functions that have the closed ledger can go on reading.
//
// Resume fails with [ErrBroken] if memory and store may differ: the ledger broke, because the outcome
// of a commit is unknown, or the store or the head now has another last transaction. [Follow] then
// reads the store anew.
func (l *Ledger) Resume(s Store) (*Follower, error) {
	if err := l.Err(); err == nil {
		return nil, broken(errors.New("it has not been closed"))
	} else if !errors.Is(err, ErrClosed) {
		return nil, broken(err)
	}
	l.working.Lock()
	defer l.working.Unlock()
	at := *l.durable.Load()
	if last, err := lastTransaction(s, at.Serial); err != nil {
		return nil, broken(err)
	} else if last != at {
		return nil, broken(fmt.Errorf("transaction %d is not the last that is stored", at.Serial))
	}
	h, err := openHead(l.cfg.HeadPath)
	if err != nil {
		return nil, broken(err)
	}
	if seen, err := h.read(); err != nil || seen != at {
		return nil, broken(errors.Join(fmt.Errorf("the head is at transaction %d, and not %d", seen.Serial, at.Serial), err, h.file.Close()))
	}
	l.head = h
	l.stores.Store(&s)
	return &Follower{memory: l.memory, l: newWriter(l.memory)}, nil
}

// lastTransaction reads the last transaction of a store, which has at least so many.
func lastTransaction(s Store, serial uint64) (last Position, err error) {
	last = beginning()
	err = s.Scan([]byte{prefixTransaction}, numberKey(prefixTransaction, max(serial, 1)), func(key, value []byte) error {
		last, err = parseTransaction(key, value)
		return err
	})
	return last, err
}

// Close ends a follower that does not lead. The store stays open: it is the caller's.
func (f *Follower) Close() error {
	l := f.l
	l.working.Lock()
	defer l.working.Unlock()
	if f.led || errors.Is(l.Err(), ErrClosed) {
		return nil
	}
	if l.Err() == nil {
		l.end(ErrClosed, nil)
	}
	return l.head.file.Close()
}
