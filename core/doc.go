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
//   - state.go: [State], the rows and the indexes
//   - apply.go: [State.Apply], one event into the state
//   - ring.go: ring order, filters, next, previous, random
//   - rank.go: standing, decay, rank, what it costs to take first
//   - url.go: one spelling and one identity for each site
//   - lookup.go: whom a reference means
//   - row.go, digest.go: the rows as bytes, from which a state can be restored,
//     and one number over all of them
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
// at seconds that can be computed, so the order of the ring is derived anew only
// when one of those seconds has come.
//
// # Removal
//
// Rows are never deleted. A removed member leaves ring, indexes and ranking; its
// slug stays taken and its payments stay in the books. A registration whose texts
// were redacted folds without them: the member is known by its slug alone, and
// never served, until the event that removes it.
package core
