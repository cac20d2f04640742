// Package tlog reads and writes the texts of transparency logs, as C2SP specifies them:
// checkpoints (tlog-checkpoint), cosignatures of witnesses (tlog-cosignature) and trust
// policies (tlog-policy), the paths of tiles and bundles of entries (tlog-tiles), and proofs
// (tlog-proof). [Records] fetches bundles with the texts of their events, as all do that follow or
// verify a ring. Evidence that a log has signed two histories has a format of its own:
// contradiction.go.
package tlog
