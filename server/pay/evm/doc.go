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
// # Refusals
//
// What the token takes is refused only where one of these promises needs it:
//
//   - effect: no money without its effect, and no effect without money
//   - once: no money twice for one effect
//   - bounds: nothing wastes much gas, or holds a URL for long
//
// What the token refuses is refused before anything is reserved. Without a network:
//
//	what is refused                                  reason                promise
//	----------------------------------------------   -------------------   -------
//	a challenge of another chain or token: its       (unapplied)           effect
//	  EIP-712 domain is not known
//	a payload that cannot be read                    (malformed)           once
//	other types of credentials                       unsupported_form      effect
//	a wrapper (ERC-6492) that cannot be read         unsupported_form      token
//	a signature of more than 2 048 bytes             unsupported_form      bounds
//	another recipient or amount, and payments by     wrong_recipient, …    effect
//	  the recipient itself
//	a nonce of another challenge, but for x402       wrong_challenge       once
//	a source that is not the account                 wrong_signer          effect
//	an end beyond the year 9999                      valid_too_long        bounds
//	less than 20 s left: it could revert             expired               bounds
//	a longer life than the challenge or the offer    valid_too_long        bounds
//	a beginning that is still to come                not_yet_valid         bounds
//
// By the node, before the reservation and again before the submission:
//
//	another signature, of an account without code    account_not_deployed  token
//	  or of a key                                      or wrong_signer
//	authorisations that revert: used, without the    already_used, …       token
//	  sum, or not accepted by the account's code
//	code that takes too much gas                     gas_out_of_range      bounds
//	less than all open payments of the account take  insufficient_funds    bounds
//
// # The gas account
//
// Each transaction is stored with its payment before it is sent ([mpp.Expenses]), so the
// next process knows what to ask for, and what it has cost. If nothing of an authorisation
// was mined when a process died, the next one submits it again, unless its payer has wasted
// gas. Only one origin may use the account.
package evm
