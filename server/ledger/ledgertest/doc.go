// Package ledgertest is for the tests of ledgers, of their stores, and of what is built on them.
//
//   - [Store] is a store in memory that fails when it is told to (store.go).
//   - [TestStore] tests the contract that every store keeps (contract.go).
//   - [History.Check] compares what a cluster of origins did with what it promised (history.go). A
//     [History] holds what was seen from outside while the cluster ran, and the ledgers that its nodes
//     have in the end. Check gives every [Violation].
//
// The checks of a history share no code with replication. They ask, in this order:
//
//   - Does each node have the same transactions as the most advanced one, up to its own
//     last (history_stores.go)?
//   - Is everything that a client was told so, in every ledger and on the chain
//     (answers.go)?
//   - Do all signed checkpoints and all reads belong to one history, which only grows
//     (checkpoints.go)?
//   - Was each payment reserved before it was sent, and do the books have what the chain
//     has, to the cent (money.go)?
package ledgertest
