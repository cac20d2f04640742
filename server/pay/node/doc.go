// Package node asks a node of an Ethereum-like chain over JSON-RPC, for the payment
// methods that settle there. It believes the node as little as possible: a missing
// answer, or one that cannot be true, is [mpp.ErrUnavailable].
//
//   - charge.go: what a challenge asks for, in a token
//   - node.go: batches of questions, blocks, the newest block
//   - refusal.go: a refused simulation, apart from a node that does not answer
//   - receipt.go: the receipt of a transaction, and what it must hold
//   - depth.go: whether a block can still be undone
//   - token.go: a token, and the chain that it is on
//   - logs.go: search for events; a node that has dropped the receipts of the time is
//     found out
//   - transfers.go: the transfers of a token to an account
package node
