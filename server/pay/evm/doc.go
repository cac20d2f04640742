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
//	           signed by the payer (method.go, authorization.go)
//	Simulate   would it go through now, and can we pay for it? (simulate.go)
//	Broadcast  submit it with the next nonce of the gas account (settle.go, gas.go)
//	Outcome    what became of it, and what gas it has wasted (settle.go, gas.go)
//
// # What settles an authorisation
//
// An authorisation is not a transaction: once it is public, any account can submit it, and
// the payer can cancel it. So it does not matter which transaction used it. The token marks
// authorisations as used. The payment is the token's event AuthorizationUsed together with
// the Transfer that it logs right after it, in whatever transaction. It cannot count twice:
// its nonce is derived from the challenge, the token accepts it once, and one reservation
// holds the challenge.
//
// For the same reason, the payment does not end when our transaction reverts. It ends
// without money when a final block is later than validBefore and the token does not know
// the nonce, or when a cancellation is final.
//
// An authorisation is submitted once; a second time only if the first transaction was
// never mined. A payer can move its money away just before the block with the submission,
// and each attempt would cost us gas. The outcome says what gas was wasted, and package
// paid refuses such payers.
//
// # Smart accounts
//
// The token asks an account with code, also by delegation (EIP-7702), whether a signature is
// its own (ERC-1271), and so nothing is known of such a signature before the simulation
// (account.go). An account that is not deployed is told to do that first. Code can answer
// differently once it costs us gas: what it can waste is bounded, as each submission has little
// more gas than its simulation took, and is charged with it ([mpp.Expenses]).
//
// # x402
//
// x402 clients sign the same authorisations, with a nonce of their own (method.go). Such a
// payment is not bound to its challenge: any bearer of the signature can present it, so it
// counts only from its reservation on. Account and nonce name it in either envelope, so it
// is reserved once.
//
// # The gas account
//
// Each transaction is stored with its payment before it is sent ([mpp.Expenses]), so the
// next process knows what to ask for, and what it has cost. If nothing of an authorisation
// was mined when a process died, the next one submits it again, unless its payer has wasted
// gas. Only one origin may use the account.
package evm
