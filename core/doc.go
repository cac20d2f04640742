// Package core is the ring: what a ledger of events means at an instant.
//
// It is pure. Time and random bits are arguments; there is no input or output,
// no goroutine, no float, and no order that comes from a map. The same events
// and the same instant give the same answers on every machine and in every
// build, so an origin that takes payments and an edge that answers readers can
// each fold the ledger for themselves and agree.
//
// A tour:
//
//   - event.go: the five events of a ledger, and what each must meet by itself
//   - encoding.go: their bytes, a format for ever
//   - text.go: members' words, which travel beside the events that commit to
//     them, so that they can be redacted
//   - limits.go: the bounds of everything
//   - state.go: [State], what the ledger and an instant determine
//   - store.go: where its rows, indexes and ranking lie: columns in one region
//     of memory, made of package flat
//   - apply.go: [State.Apply], one event into the state
//   - ring.go: ring order, filters, next, previous, random
//   - category.go: the categories in use
//   - rank.go, recent.go: standing, decay, rank, what it costs to take first
//   - url.go: one spelling and one identity for each site
//   - key.go: the identity key of a member, and a quick look at its URL
//   - lookup.go: whom a reference means
//   - prefetch.go: rows fetched from memory together, for pages of many members
//   - payer.go: which account paid for a member
//   - image.go: a state as it lies in memory, from which others begin at once
//   - row.go, digest.go: the rows as bytes, and one number over all of them
//   - restore.go: a state from its rows, in steps that a host may run at a time
//
// # Time
//
// The state has a clock of its own, in whole seconds. Stamps of events raise it
// and [State.Advance] does; a stamp earlier than the clock is taken as it is.
// Whatever the order in which events and instants reach a state, the same
// events and the same final clock give the same state. Hosts see to it that
// their clock does not go back, and call [State.Rewind] when theirs was wrong.
//
// # Standing
//
// A member's standing is its full total until the grace period after its last
// bid ends, and then falls in a straight line to nothing over the decay span,
// in whole cents, rounded down. What is shown is what is compared. Cents change
// at seconds that can be computed: a heap knows whose do next, and a second moves
// those members alone, each by a few steps in a counted tree. A heap and not a
// wheel of timers, which would be a constant factor cheaper for each change:
// documents say until when they hold, so the next change must be known exactly
// at any time, and a wheel knows it of its nearest slots alone. When an eighth of
// all change at once, or the rules do, the order is sorted anew.
//
// # Memory
//
// Everything that grows with the members lies in one piece of memory, in
// columns and tables that are offsets into it, so that it can be copied, shared
// and taken over by another state without a look at what is in it ([State.Image]).
// What bids and time change lies apart from what only joining changes; of one member it
// stands together, but for its flags and its place in the heap. Indexes grow bucket by
// bucket. The piece moves to a bigger one when a part of it is full,
// with a tenth to spare, which costs a copy and nothing else. [Member] is a view:
// its strings lie there, too.
//
// # Removal
//
// Rows are never deleted. A removed member leaves ring, indexes and ranking; its
// slug stays taken and its payments stay in the books. A registration whose texts
// were redacted folds without them: the member is known by its slug alone, and
// never served, until the event that removes it.
package core
