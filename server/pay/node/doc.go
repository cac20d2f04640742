// Package node asks a node of an Ethereum-like chain over JSON-RPC, for the payment
// methods that settle there. It believes the node as little as possible: a missing
// answer, or one that cannot be true, is [mpp.ErrUnavailable].
//
//   - node.go: batches of questions, blocks, whether a block can still be undone
//   - token.go: questions to a token, what a challenge asks for in it, and what a node refuses
//   - receipt.go: the receipt of a transaction, and the search for events. It notices a node
//     that has dropped the receipts of the time
//   - transfers.go: the transfers of a token to an account, and what one transaction brought
//   - search.go: all transfers since an instant, with the payments that the token names in them
package node
