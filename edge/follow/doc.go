// Package follow follows the ledger of an origin: it takes each checkpoint that the origin
// signs, fetches what leads there, and believes nothing that it has not checked.
//
// A [Link] asks the origin. Checkpoints come by an event stream or, where something on the
// way holds streams back, as answers to a question each second. Of several origins one is
// asked, and the next as soon as that one fails, is silent, gives no newer checkpoint for
// half a minute, or is behind. A checkpoint is a text that a trusted key has signed.
// Everything else is fetched because a checkpoint names it, or comes with it, and the sender
// need not be trusted: a snapshot must have the named digest, and events must lead to the
// signed root, with texts that match their commitments. What is accepted does not depend on
// where it came from, so any HTTP cache may stand between.
//
// Three kinds of nodes follow. An edge has a [Replica]. A standby passes on what its leader
// signs (server/publish), and a restored backup is completed (server/backup).
//
// # Replica
//
// A replica keeps a core at the position that the origin last signed. The core that is shown
// folds the events where no reader sees it, and shows them only if they lead to the signed
// state ([Core].ApplyTo). So each event is folded once, and there is one ring in memory,
// except over a long gap. Whatever is wrong, on the way or at the origin, readers go on
// seeing the last good state, and the log says what was refused.
//
// With a policy ([Config].Policy), only what its witnesses have cosigned is followed (cosigned.go).
//
// The core comes with the binary. A checkpoint names the origin's core, but an edge with
// another one just serves as long as both come to the same states. When they do not, answers
// are marked stale, and the log and the folder say that this edge is to be upgraded
// ([Unreachable]).
//
// Booting from a snapshot trusts the signer for the state after the events before it. With
// [Config.Replay] every event is folded instead. Whatever it boots from, a replica that has taken a
// checkpoint before takes only a history that goes through it: the events show that, or tiles of the
// log do where a snapshot skips them.
//
// The last good state is on disk too: a core, the events since, and the checkpoint that
// signs both. A restart checks them against each other as if they had come over the network,
// and serves at once, without the origin. If the check fails, nothing is shown that was
// signed before that checkpoint. If the disk fails, the log says so and serving goes on.
//
// # Files
//
// To follow a checkpoint, read link.go (it comes), event.go and ask.go (HTTP), verify.go (the
// checks), and step.go (it is fetched, compared and shown). Then replica.go (the whole),
// core.go (what readers see), store.go (the disk), origins.go (which origin is asked), keys.go
// (which keys are trusted), unreachable.go (states that the core here does not reach),
// contradiction.go (evidence of two histories), and freshness.go (how old is what is shown).
package follow
