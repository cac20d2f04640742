package ledger

import "errors"

// Store keeps rows of bytes, ordered by key. A ledger is its only writer.
//
// Get and Scan may run concurrently with each other and with Commit; of a
// batch in work they see all or nothing. [ledgertest.TestStore] tests every
// implementation.
type Store interface {
	// Get returns the value of key, which the caller may keep and change.
	// It fails with ErrNotFound when there is no such row.
	Get(key []byte) ([]byte, error)

	// Scan calls fn for each row with a key that begins with prefix and is not before from, in
	// ascending order of the keys. Both slices are valid only during the call. An error from fn ends
	// the scan and is returned; ErrStop ends it without an error. fn may call Get and Scan, not
	// Commit.
	Scan(prefix, from []byte, fn func(key, value []byte) error) error

	// Accept says that the ledger has found everything stored whole. The ledger calls it once after
	// opening, before the first Commit, while the store is not in use. A store that is closed without
	// it stays as it was found. After an error the store can only be closed.
	Accept() error

	// Commit applies the whole batch or nothing; when it returns nil, the batch is
	// durable. After any error the outcome is unknown. A batch may have up to MaxBatch
	// bytes and MaxBatchRows rows. Commit neither changes nor retains it.
	Commit(b Batch) error

	// Verify reads everything stored and checks its checksums, if there are any. It may run at any
	// time.
	Verify() error

	// Close releases the store, which must not be in use.
	Close() error
}

// Replicated is a Store that makes a batch durable elsewhere before it is durable here.
type Replicated interface {
	Store

	// CommitAhead is Commit, but returns as soon as the batch is durable elsewhere; reads see it from
	// then on. The store calls stored once this batch and all earlier ones are durable here as well:
	// from another goroutine, in the order of the batches. It may leave out the call if it makes that
	// of a later batch. After an error of stored, or of making batches durable here, every later
	// commit fails.
	CommitAhead(b Batch, stored func() error) error

	// Settle waits until all batches are durable here. Its error says why they are not.
	Settle() error
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
