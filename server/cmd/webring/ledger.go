package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"webring/core/snap"
	"webring/edge/replica"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
)

// closeTime bounds how long a stop waits until the ledger's files are closed. The store
// compacts them meanwhile, and retries for ever if it cannot. The next start does not need
// that: everything that was answered is on disk.
const closeTime = 20 * time.Second

// openLedger opens the ledger. It calls publish with durable events, and writes only while
// room allows it; nil: always. The second result closes the ledger, within [closeTime].
func openLedger(o *options, publish func([]ledger.Record), room func() error, log *slog.Logger, failpoint func(string), committed func(time.Duration, error)) (*ledger.Ledger, func() error, error) {
	store, err := badgerstore.Open(filepath.Join(o.data, "ledger"), log)
	if err != nil {
		return nil, nil, err
	}
	books, closeBooks, err := openBooks(store, ledger.Config{
		HeadPath: filepath.Join(o.data, "head"), Capacity: o.capacity, Publish: publish, Room: room, Failpoint: failpoint, Committed: committed,
	})
	return books, func() error {
		closed := make(chan error, 1)
		go func() { closed <- closeBooks() }()
		select {
		case err := <-closed:
			return err
		case <-time.After(closeTime):
			return fmt.Errorf("the files of the ledger could not be closed within %s, which loses nothing: the next start reads them as after a crash", closeTime)
		}
	}, err
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
func openReads(ctx context.Context, o *options, books *ledger.Ledger, log *slog.Logger) (replica.Core, error) {
	var snapshot []byte
	err := books.Do(ctx, func(tx *ledger.Tx) error {
		if tx.State().Seq() > 0 {
			snapshot = snap.Append(nil, tx.State())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	answers, err := o.core.open(context.Background(), o.capacity, o.data, snapshot, log)
	if err != nil {
		return nil, err
	}
	answers.Tick(time.Now())
	return answers, nil
}
