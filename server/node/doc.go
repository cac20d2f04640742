// Package node asks an Ethereum-like node over JSON-RPC, for the payment methods
// that settle on such chains, and believes it as little as possible: whatever it
// says that cannot be true, and all silence, is [mpp.ErrUnavailable].
//
// node.go asks, token.go about a token and the chain it is on, judge.go tells no
// from silence, receipt.go asks for a receipt and says what it must hold to be looked
// at, depth.go what can change no more, logs.go searches events, and transfers.go
// finds the transfers of a token to an account, which is how money without an event is
// found.
package node
