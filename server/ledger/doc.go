// Package ledger is the one writer of the ring.
//
// A [Ledger] owns the list of events, the state that the core folds from it,
// the hash tree over it, and the reservations that stand between a payment
// and its event. Everything that changes any of them is a function given to
// [Ledger.Do]. The writer takes what is waiting, runs each function in order
// on the state in memory, and makes the whole group durable in one
// transaction of the [Store]; then it writes the head, publishes the events,
// and only then answers. It performs no network I/O.
//
// # What is trusted when
//
// A commit that failed may still have been stored. Nobody guesses: the ledger
// ends ([ErrBroken], [Ledger.Done]), the process exits, and the next [Open]
// reads what is there. Every transaction leaves a row under its serial number,
// so a transaction that a store lost, first, last or in between, is missed at
// opening; the head, a small file outside the store, says how many there must
// at least be. Events are leaves of an RFC 6962 tree whose root stands in
// each of those rows. What does not fit is refused, with words that say what
// was found and what to do.
//
// # Reading in this order
//
// store.go (what is asked of a store), keys.go (what lies in it),
// reservation.go, index.go (what of them is kept in memory), payments.go,
// payers.go, writer.go (the group commit), tx.go, view.go, records.go (what is durable), removal.go,
// head.go, open.go (the checks), audit.go (a second reading of everything), restore.go.
package ledger
