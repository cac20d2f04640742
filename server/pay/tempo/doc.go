// Package tempo takes payments by the "charge" intent of the Tempo method
// (draft-tempo-charge-00), in pull mode only: the payer signs a transaction
// that transfers the exact amount, and this service broadcasts it. In push
// mode, where the payer broadcasts, the loser of a race has already paid.
//
// A credential passes through it in this order, and each step needs only what
// the one before it stored in the [mpp.Payment], so that a restarted process
// goes on where the last one died:
//
//	Decode     no network: the one transaction we accept, canonical, signed,
//	           ours in chain, token, recipient, amount and memo (method.go,
//	           transaction.go, lane.go, swap.go, signature.go, keyauth.go)
//	Simulate   would it go through now? nothing is sent (simulate.go,
//	           swap.go)
//	Broadcast  send it; harmless to repeat (settle.go)
//	Outcome    what became of it: the logs decide, not the status (settle.go)
//
// A payer who holds another token than the one asked for may buy what is paid in the same
// transaction. It then makes three calls in place of one, in one fixed form (swap.go).
// Everything after the simulation is the same for both: the transfer is what counts.
//
// A transaction may be in any lane of nonces, with a validBefore or, but for the expiring
// nonce, without one (lane.go). One without can be mined until its nonce is used.
//
// A charge of nothing asks for a proof of the account instead, which no node is asked about
// (proof.go).
//
// The node is asked over JSON-RPC and believed as little as possible
// (package node): whatever it says that cannot be true is [mpp.ErrUnavailable].
package tempo
