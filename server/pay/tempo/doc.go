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
// # Refusals
//
// What the chain takes is refused only where one of these promises needs it:
//
//   - effect: no money without its effect, and no effect without money
//   - once: no money twice for one effect, so the hash and the sender must be known before
//     the transaction is sent
//   - bounds: nothing costs the ring much, or holds a URL for long
//
// What the chain refuses is refused before anything is reserved. Without a network:
//
//	what is refused                                  reason              promise
//	----------------------------------------------   -----------------   -------
//	a challenge of another chain                     (unapplied)         effect
//	a payload that cannot be read                    (malformed)         once
//	a hash: others may have paid for the same        unsupported_form    effect
//	other chain, token, recipient or amount          wrong_…             effect
//	a memo for another challenge or realm            wrong_challenge     once
//	another type than 0x76: the draft has no other   unsupported_form    once
//	another spelling, trailing bytes                 unsupported_form    once
//	more than 6 KiB                                  unsupported_form    bounds
//	no signature, malformed fields, a value          unsupported_form    chain
//	fees to be paid by the ring                      unsupported_form    bounds
//	authorization lists: their signatures have       unsupported_form    once
//	  several spellings, and so has the hash
//	other calls: they could pay for a second         unsupported_form    effect
//	  challenge under the same hash
//	a swap of another exchange or spender            unsupported_form    chain
//	a swap that does not buy what is paid with       wrong_token,        bounds
//	  what is approved: one balance must do            wrong_amount
//	keys of subblocks; the expiring nonce without    unsupported_form,   chain
//	  an end                                           valid_too_long
//	less than 21 000 gas                             gas_out_of_range    chain
//	more than 10 000 000 gas: simulations let it     gas_out_of_range    bounds
//	  pass, and no block takes it
//	signatures that do not hold, or of form 03       wrong_signer, …     chain
//	signatures of a kind that is not known here      unsupported_form    once
//	a source that is not the signer                  wrong_signer        effect
//	permissions that the chain does not take         key_not_allowed     chain
//	permissions with members not known here          key_not_allowed     once
//	less than 5 s left, or an expired challenge      expired             effect
//	a longer life than maxAhead or the challenge     valid_too_long      bounds
//	a beginning that is still to come                not_yet_valid       bounds
//
// By the node, before the reservation:
//
//	a nonce that was used, or is not the next one    already_used, …     bounds
//	calls that revert, an account without the sum    reverted, …         chain
//	swaps, where the node cannot simulate them       unsupported_form    bounds
//	access keys that the account has not permitted   key_not_allowed     chain
//	more gas than a block has                        gas_out_of_range    chain
//	a fee cap below the base fee                     fee_too_low         bounds
//	less than all open payments of the account take  insufficient_funds  bounds
//
// A proof is refused if only the chain could verify it, because it costs nothing: one by an
// access key (key_not_allowed), by an account with code (unsupported_form), or by another key
// than that of the source (wrong_signer).
//
// The node is asked over JSON-RPC and believed as little as possible
// (package node): whatever it says that cannot be true is [mpp.ErrUnavailable].
package tempo
