// Package publish is what edges follow: it signs checkpoints of the ledger, makes
// snapshots of the state, and serves both over HTTP, with the events.
//
// The ledger's writer calls [Publisher.Published] after each group of events. The
// publisher notes the position: size, root and state digest, taken together while the
// writer stands still. Two goroutines sign and make snapshots, always of the newest
// position, which covers all groups before it.
//
// [Handlers] serve a [Source], which a [Switch] can replace. The publisher is one. A [Relay] is the
// source of a node that has the ledger and does not sign: it follows the node that does, by
// edge/follow, and passes on what that one signs. An edge serves what it holds of the ledger.
//
// The files: source.go and handlers.go (what is asked and answered), stream.go (the event
// stream), limits.go (limits on long answers), key.go (the signing key, and how another one takes
// its place), publisher.go (checkpoints), until.go (signed times never go back), snapshots.go,
// relay.go (another node's checkpoints), witnesses.go (cosignatures), log.go (tiles and proofs).
package publish
