// Package ledger is the one writer of the ring.
//
// A [Ledger] owns the list of events, the state that the core folds from it, the hash tree
// over it, and the reservations of payments until they have their events. Every change is
// a function given to [Ledger.Do]. The writer takes the functions that wait, runs them in
// order on the state in memory, and makes the whole group durable in one transaction of
// the [Store]. Then it writes the head, publishes the events, and answers. It performs no
// network I/O.
//
// # Failed commits and lost transactions
//
// A commit that failed may still have been stored. So the ledger ends ([ErrBroken],
// [Ledger.Done]), the process exits, and the next [Open] reads what is stored. Every
// transaction writes a row under its serial number, so Open finds out if a store has lost
// one; the head, a small file outside the store, says how many there must be at least.
// Events are leaves of an RFC 6962 tree, whose root is in each of those rows. Open refuses
// what does not fit, and says what it found and what to do.
//
// # Copies
//
// A [Follower] takes the batches that a ledger elsewhere gave to its store. It checks them,
// stores them, and keeps the same state and index in memory. When it is to lead, it starts
// the writer, and folds nothing again. A ledger that was closed without an error can follow
// again in the same way ([Ledger.Resume]); one with a commit in doubt cannot. A commit of a
// [Replicated] store may return before the rows are on this machine's disk. The head is written
// when they are. So the head is never ahead of the store, nor the store of the copies elsewhere.
//
// # The files, in the order to read them
//
// store.go (what a store must do), keys.go (its rows, and the position of a transaction), reservation.go,
// index.go (the reservations in memory), payments.go (found by transaction and account), announced.go (payees, keys and snapshots of which events tell), writer.go (the
// group commit), clock.go (what may be stamped), tx.go and tx_reservation.go (a turn of the writer),
// view.go, records.go (durable events and rows), blocklist.go, table.go (rows of other packages), head.go,
// open.go (the checks), follower.go and replay.go (batches of another writer), audit.go (reads and checks
// everything again).
package ledger
