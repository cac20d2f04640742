// Package history checks what a cluster of origins did against what it promised: a
// [History] holds what was seen from outside while the cluster ran, and the ledgers that
// its nodes have in the end, and [History.Check] gives every [Violation]. For tests only.
//
// The checks share no code with replication. They ask, in this order:
//
//   - Does each node have the same transactions as the most advanced one, up to its own
//     last (stores.go)?
//   - Is everything that a client was told so, in every ledger and on the chain
//     (answers.go)?
//   - Do all signed checkpoints and all reads belong to one history, which only grows
//     (checkpoints.go)?
//   - Was each payment reserved before it was sent, and do the books have what the chain
//     has, to the cent (money.go)?
package history
