// Package replica follows an origin: it keeps a core at the position that the
// origin last signed, and shows nothing that it has not checked.
//
// Checkpoints come by an event stream or, where something on the way holds streams back,
// by long polling. A checkpoint is a text that is signed with a key which the operator
// pinned, or which such a key has announced. Everything else is fetched because a
// checkpoint names it, or comes with it, and the sender need not be trusted: a
// snapshot must have the named digest, and events must lead from the tree at hand to the
// signed root, with texts that match their commitments.
//
// The core that is shown folds the events where no reader sees it, and shows them only
// if they lead to the signed state ([Core].ApplyTo). So each event is folded once, and
// there is one ring in memory, except while the replica catches up over a long gap
// (accept.go). Whatever is wrong, on the way or at the origin, readers go on seeing the
// last good state, and the log says what was refused.
//
// The core comes with the binary. A checkpoint names the origin's core, but an edge with
// another one just serves as long as both come to the same states. When they do not,
// answers are marked stale, and the log and the folder say that this edge is to be
// upgraded ([Unreachable]).
//
// Booting from a snapshot trusts the signer for the events before it. With
// [Config.Replay] every event is folded instead.
//
// The last good state is on disk too: a core, the events since, and the checkpoint that
// signs both. A restart checks them against each other as if they had come over the
// network, and serves at once, without the origin. If the check fails, nothing is shown
// that was signed before that checkpoint. If the disk fails, the log says so and serving
// goes on. A state that the version before wrote is served, too, until the origin is
// reached: it lacks what that version did not know, so the replica then boots anew.
//
// Of several origins one is followed, and the next as soon as that one fails, is silent,
// gives no newer checkpoint for half a minute, or is behind what was shown (upstream.go).
// What is accepted does not depend on where it came from.
//
// A tour: replica.go (the configuration and what a replica holds), keys.go (which keys are
// trusted), accept.go (the checks), boot.go (the first state), visible.go (what readers
// see), unreachable.go (states that the core here does not come to), follow.go, carried.go,
// get.go and pace.go (the network, and how often it is asked), persist.go, store.go and
// pages_linux.go (the disk), source.go and blocks.go (followers of this replica),
// redact.go (redacted words).
package replica
