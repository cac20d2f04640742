package main

import (
	"errors"
	"path/filepath"
	"time"

	"webring/server/aside"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
)

func storePath(data string) string { return filepath.Join(data, "ledger") }

// ledgerConfig says how the ledger in the data folder is kept, without its store.
func (o *options) ledgerConfig() ledger.Config {
	return ledger.Config{HeadPath: filepath.Join(o.data, "head"), Capacity: o.capacity, Now: o.now, Clock: o.stamps, Observe: aside.ObserveNews}
}

// now is the present instant.
func (o *options) now() time.Time {
	if o.clock == nil {
		return time.Now()
	}
	return o.clock()
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
