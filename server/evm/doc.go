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
//	Outcome    what became of it, and what it has cost for nothing (settle.go, find.go, waste.go)
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
// But it is submitted once, unless that transaction never was mined: a payer can have
// its money away in the one block that counts, and each time we would pay for the gas.
// What it has cost is told with the outcome, for the workflow to draw its conclusions.
// Accounts with code are refused, those that have delegated to code (EIP-7702)
// included: the token asks them for their signature (ERC-1271), and they can tell a
// simulation from the block that counts.
//
// # The gas account
//
// Each transaction is stored with its payment before it is sent ([mpp.Expenses]), so
// the next process asks what became of it, and what it has cost. An authorisation of
// which nothing was mined when a process died is submitted once more, unless the payer
// is known to have wasted gas, which costs gas at the worst. One origin alone may use
// the account.
package evm
