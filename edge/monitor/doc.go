// Package monitor verifies a ring from outside, as a monitor of a transparency log does: with the
// log that the ring publishes, and without trust in the ring.
//
//   - monitor.go: a whole verification: the signed checkpoint, the events to its root, their fold
//     in the core to the signed state, and the leaderboard that the ring shows, byte for byte
//   - answers.go: where they come from: the ring's site, or a folder that was saved
//   - memory.go: the checkpoint that was verified last, which the next one must continue
//   - payers.go: how much of the money came from few accounts
//   - receipt.go: the proof that an event is in the log, without a network; cosignatures
package monitor
