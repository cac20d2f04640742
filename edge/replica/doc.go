// Package replica follows an origin: it keeps a core at the position that the
// origin last signed, and shows nothing that it has not checked.
//
// What comes in is a checkpoint, a text signed with a key that the operator
// pinned, by an event stream or, where something in between swallows streams,
// by long polling. Everything else is asked for because a checkpoint names it,
// unless it came along, and from anyone: events, which must lead from the tree at
// hand to the signed root, and whose texts must be what they commit to; a snapshot
// and a module, which must have the named digest. The events are folded by a core
// that no reader sees, the judge. Only if that comes to the signed state are they
// applied to the core that is shown. So whatever is wrong, on the way or at the
// origin, the last good state goes on being served, and a line in the log says
// what was refused.
//
// A module that a checkpoint names is shown when it says all that the core at hand
// does, in time, or was shown before; if it cannot fold what comes later, the core
// of this process takes its place again.
//
// Booting from a snapshot trusts the signer for the events before it; with
// [Config.Replay] nobody is trusted and every event is folded.
//
// The last good state is kept on disk too: a core of it, events since, and the
// checkpoint that vouches for both. A restart checks them against each other
// as if they had come over the network and serves at once, without the origin.
// Where they do not hold, nothing is shown that was signed before that checkpoint.
// A disk that fails is a line in the log.
//
// A tour: replica.go (what it is given and holds), accept.go (the checks), boot.go
// (the first state), shown.go (what readers see), module.go and examine.go (another
// build of the core), follow.go, carried.go, get.go and pace.go (the network, and how
// often), keep.go, store.go and pages_linux.go (the disk), source.go and blocks.go (for
// replicas of this one), redact.go (words that are taken back).
package replica
