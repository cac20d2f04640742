package ledger

import "errors"

// Store keeps rows of bytes, ordered by key. A ledger is its only writer.
//
// Get and Scan may run concurrently with each other and with Commit; of a
// batch in work they see all or nothing. The package storetest holds the
// conformance test that every implementation runs.
type Store interface {
	// Get returns the value of key, which the caller may keep and change.
	// It fails with ErrNotFound when there is no such row.
	Get(key []byte) ([]byte, error)

	// Scan calls fn for the rows whose keys begin with prefix and are not
	// before from, in ascending order of key. Both slices are only valid
	// during the call. An error from fn ends the scan and is returned, but
	// ErrStop ends it without one. fn may call Get and Scan, not Commit.
	Scan(prefix, from []byte, fn func(key, value []byte) error) error

	// Accept says that what is stored was found whole. It is called once after
	// opening, before the first Commit, while nobody else uses the store. A
	// store that is closed without it is left as it was found. After an error
	// the store can only be closed.
	Accept() error

	// Commit applies the batch as one: all of it or nothing, and durably when
	// it returns nil. After any error the outcome is unknown. Batches of up
	// to MaxBatch bytes and MaxBatchRows rows are taken. The batch is not
	// kept, and not changed.
	Commit(b Batch) error

	// Verify reads everything stored and checks whatever the store has to
	// check it by. It may run at any time.
	Verify() error

	// Close releases the store, which must not be in use.
	Close() error
}

// Batch is a set of changes by key: the row's new value, or nil to delete it.
// A value may be empty.
type Batch map[string][]byte

// What a [Store] must take in one batch.
const (
	MaxBatch     = 4 << 20
	MaxBatchRows = 16 << 10
)

var (
	// ErrNotFound is what [Store.Get] returns when there is no such row.
	ErrNotFound = errors.New("ledger: no such row")
	// ErrStop ends a [Store.Scan] from inside.
	ErrStop = errors.New("ledger: stop the scan")
)
