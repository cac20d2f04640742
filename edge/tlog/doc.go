// Package tlog reads and writes the texts of transparency logs, as C2SP specifies them:
// checkpoints (tlog-checkpoint), cosignatures of witnesses (tlog-cosignature) and trust
// policies (tlog-policy).
package tlog
