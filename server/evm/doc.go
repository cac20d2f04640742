// Package evm takes payments by the "charge" intent of the evm method
// (draft-evm-charge-00) with one type of credential, "authorization": the payer
// signs an EIP-3009 authorisation of a token such as USDC, and this service
// submits it with a gas account of its own. The payer sends nothing and needs no
// gas.
//
// A credential passes through it in this order, as the workflow asks, and each
// step needs only what the one before it stored in the [mpp.Payment]:
//
//	Decode     no network: ours in chain, token, recipient, amount and challenge,
//	           signed by who is to pay (method.go, authorization.go)
//	Simulate   would it go through now, and can we pay for it? (simulate.go)
//	Broadcast  submit it with the next nonce of the gas account (settle.go, gas.go)
//	Outcome    what became of it (settle.go, find.go)
//
// # What settles an authorisation
//
// An authorisation is not a transaction: once it is known, anyone can submit it,
// and the payer can cancel it. So nothing depends on which transaction did it.
// The token notes authorisations as used; the event AuthorizationUsed, together
// with the Transfer that the token logs right after it, is the payment, whoever
// sent it and whatever became of ours. Nor can it count twice: the nonce is the
// challenge's, the token takes it once, and one reservation holds the challenge.
//
// For the same reason a transaction of ours that reverts ends nothing. The
// authorisation is given up only when a block that stays is later than its
// validBefore and the token still does not know it, or when its cancellation
// stays.
//
// # The gas account
//
// No nonce of it is stored. What was in flight when a process died is asked of
// the token, by Outcome, as before; what it does not know is submitted once more,
// which costs gas at the worst. One origin alone may use the account.
package evm
