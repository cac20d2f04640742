// Package publish is what edges follow: it signs what the ledger holds, keeps
// snapshots of it, and hands out both, with the events.
//
// A [Publisher] sits beside the writer. After each group of events it is told
// ([Publisher.Published]) and notes the position: size, root and state digest,
// taken together while the writer stands still. Signing and snapshots happen
// in goroutines of their own, for the newest position noted; groups that came
// in between are covered by it.
//
// [Handlers] serve a [Source] over HTTP. The publisher is one, and so is a
// replica of it: an edge can be the origin of further edges.
//
// A tour: source.go and handlers.go (what is asked and answered), stream.go (the
// push), download.go and places.go (who may be sent how much, and how slowly),
// key.go, publisher.go, until.go (signed times never go back), snapshots.go.
package publish
