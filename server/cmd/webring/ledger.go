package main

import (
	"path/filepath"
	"time"

	"webring/server/ledger"
)

func storePath(data string) string { return filepath.Join(data, "ledger") }

// ledgerConfig says how the ledger in the data folder is kept, without its store.
func (o *options) ledgerConfig() ledger.Config {
	return ledger.Config{HeadPath: filepath.Join(o.data, "head"), Capacity: o.capacity, Now: o.now, Clock: o.stamps}
}

// now is the present instant.
func (o *options) now() time.Time {
	if o.clock == nil {
		return time.Now()
	}
	return o.clock()
}
