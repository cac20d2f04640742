package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"webring/core/snap"
	"webring/edge/follow"
	"webring/server/aside/news"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
	"webring/server/publish"
)

// closeTime bounds how long a stop waits until the ledger's files are closed. The store
// compacts them meanwhile, and retries for ever if it cannot. The next start does not need
// that: everything that was answered is on disk.
const closeTime = 20 * time.Second

// books are what is read of a ledger, whether this process writes it or follows it.
type books interface {
	publish.Books
	View(func(*ledger.View))
}

// currentBooks are those that this process has at the moment. They change with its role.
type currentBooks struct{ now atomic.Pointer[books] }

func (c *currentBooks) set(b books) { c.now.Store(&b) }

// View reads the present state.
func (c *currentBooks) View(fn func(*ledger.View)) { (*c.now.Load()).View(fn) }

// Records gives durable events.
func (c *currentBooks) Records(from uint64, n int) ([]ledger.Record, error) {
	return (*c.now.Load()).Records(from, n)
}

// Do writes to the ledger, if this process writes it.
func (c *currentBooks) Do(ctx context.Context, fn func(*ledger.Tx) error) error {
	if l, ok := (*c.now.Load()).(*ledger.Ledger); ok {
		return l.Do(ctx, fn)
	}
	return errNotLeading
}

func storePath(data string) string { return filepath.Join(data, "ledger") }

// ledgerConfig says how the ledger of an origin is kept. It calls publish with durable
// events, and writes only while room allows it; nil: always.
func (o *options) ledgerConfig(store ledger.Store, publish func([]ledger.Record), room func() error, failpoint func(string), committed func(time.Duration, error)) ledger.Config {
	return ledger.Config{Store: store, HeadPath: filepath.Join(o.data, "head"), Capacity: o.capacity, Now: o.clock, Clock: o.stamps, Publish: publish, Observe: news.Observe, Room: room, Failpoint: failpoint, Committed: committed}
}

// now is the present instant.
func (o *options) now() time.Time {
	if o.clock == nil {
		return time.Now()
	}
	return o.clock()
}

// openLedger opens the ledger of an origin that is the only one. The second result closes
// the ledger, within [closeTime].
func openLedger(o *options, publish func([]ledger.Record), room func() error, log *slog.Logger, failpoint func(string), committed func(time.Duration, error)) (*ledger.Ledger, func() error, error) {
	store, err := badgerstore.Open(storePath(o.data), log)
	if err != nil {
		return nil, nil, err
	}
	books, closeBooks, err := openBooks(store, o.ledgerConfig(store, publish, room, failpoint, committed))
	return books, func() error { return closeSoon(closeBooks) }, err
}

// closeSoon waits for the files of a ledger to be closed, within [closeTime].
func closeSoon(files func() error) error {
	closed := make(chan error, 1)
	go func() { closed <- files() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(closeTime):
		return fmt.Errorf("the files of the ledger could not be closed within %s, which loses nothing: the next start reads them as after a crash", closeTime)
	}
}

// openBooks opens the ledger of a store, and gives the function that closes both. It closes
// the store after an error. The store of a ledger that broke is not closed: what failed
// would fail again, and the next start reads what is stored.
func openBooks(store *badgerstore.Store, c ledger.Config) (*ledger.Ledger, func() error, error) {
	c.Store = store
	books, err := ledger.Open(c)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return books, func() error {
		err := books.Close()
		if errors.Is(books.Err(), ledger.ErrBroken) {
			return err
		}
		return errors.Join(err, store.Close())
	}, nil
}

// openReads opens the core that answers reads, at the ledger's position. It opens it from
// the rows of the ledger's state, which costs much less than folding all events again.
// Nothing is written meanwhile.
func openReads(o *options, books books, log *slog.Logger) (follow.Core, error) {
	var snapshot []byte
	books.View(func(v *ledger.View) {
		if v.State().Seq() > 0 {
			snapshot = snap.Append(nil, v.State())
		}
	})
	answers, err := o.core.open(context.Background(), o.capacity, o.data, snapshot, log)
	if err != nil {
		return nil, err
	}
	answers.Tick(o.now())
	return answers, nil
}
