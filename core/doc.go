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
//   - event.go: the events of a ledger, and the limits of each
//   - reason.go, published.go: why a member was removed or hidden; the events about payees, keys and
//     snapshots
//   - encoding.go: their bytes, a format that never changes
//   - text.go: members' words. They travel with the events, which hold only
//     salted hashes of them, so that words can be redacted
//   - limits.go: the bounds of everything
//   - state.go: [State], what the ledger and an instant determine
//   - store.go: how rows, indexes and ranking lie in memory: as columns of one
//     region, made of package flat
//   - apply.go: [State.Apply] folds one event into the state
//   - ring.go, walk.go: ring order, filters, next, previous, random, and who is left out
//   - category.go: the categories in use
//   - rank.go, recent.go: standing, decay, rank, the price of rank 1
//   - forecast.go: what that is in days to come without another bid
//   - url.go: one spelling and one identity for each site
//   - key.go: the identity key of a member, and a fast test for plain URLs
//   - lookup.go: the member that a reference names
//   - prefetch.go: rows fetched from memory together, for pages of many members
//   - account.go, owned.go: accounts, and the events by which a member's owner and site
//     change it; revise.go folds these
//   - image.go: the memory of a state, which another state can start from at once
//   - row.go, digest.go: the rows as bytes, and one number over all of them
//   - restore.go: a state from its rows, which may come in pieces, in steps that a host
//     may run in parallel
//
// README.md in this folder has the rules with their numbers, the formats in short,
// and the reasons for what was chosen.
//
// # Time
//
// The state has a clock of its own, in whole seconds. Stamps of events and
// [State.Advance] raise it. An event with a stamp before the clock is accepted and
// leaves the clock as it is. The same events and the same final clock give the same
// state, in whatever order events and instants came, except that a [SetBack] begins anew
// at its own stamp. Hosts make sure that their clock does not go back, and call [State.Rewind]
// when it was wrong.
//
// # Standing
//
// A member's standing is its full total until the grace period after its last
// bid ends, and then falls in a straight line to nothing over the decay span,
// in whole cents, rounded down. What is shown is what is compared. Cents change
// at seconds that can be computed. A heap holds the next change of each member, and
// a second moves only the members that change at it, each by a few steps in a
// counted tree. A wheel of timers would be cheaper for each change by a constant
// factor, but it knows only its nearest slots exactly, and documents say until when
// they are valid: the next change must be known exactly at any time. When 64 members
// and an eighth of all change at once, or the rules change, the order is sorted
// anew.
//
// # Memory
//
// Everything that grows with the members lies in one region of memory, in columns
// and tables that are offsets into it. So the region can be copied, shared, and
// taken over by another state without reading it ([State.Image]). Columns that bids
// and time change lie behind those that only joining changes, so that a process can
// share the latter. Indexes grow bucket by bucket. When a section is full, the
// region moves to a bigger one with a tenth to spare, which costs one copy. The
// strings of a [Member] lie in the region, too.
//
// # Removal and hiding
//
// Rows are never deleted. A removed member leaves ring, indexes and ranking; its
// slug stays taken and its payments stay in the books. Payments that were on their way still
// count in its total. A departed member is a removed one
// that keeps its URL, because its owner can return. A hidden member leaves them
// until it is shown, except for the index of keys: its URL stays taken ([State.Holder]). A registration whose texts
// were redacted applies without them: the member has only its slug, and is never
// served; the event that removes it follows later in the ledger.
package core
