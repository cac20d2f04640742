package describe

// Reason is why a payment was refused: a value of the member reason of a problem
// document, and what it means.
type Reason struct{ Name, Meaning string }

// Reasons lists all that the payment methods give, in the order in which a payer
// meets them. The caller owns the list.
func Reasons() []Reason {
	return []Reason{
		{"insufficient_funds", "The account holds less than the payment and, where the payer pays it, the network's fee."},
		{"fee_too_low", "The transaction offers less than the network's base fee at present."},
		{"gas_out_of_range", "The transaction sets a gas limit that no such payment has, or that does not fit a block."},
		{"wrong_chain", "The payment is signed for another chain than the challenge names."},
		{"wrong_token", "It pays in another token, or a swap buys or sells another than it should."},
		{"wrong_recipient", "It pays somebody else."},
		{"wrong_amount", "It pays more or less than was asked. A swap must buy exactly that, may sell twice that at most, and approves no more than it may sell."},
		{"wrong_challenge", "Its memo or nonce is for another challenge or realm."},
		{"wrong_signer", "The signature does not verify, or is not the named source's."},
		{"key_not_allowed", "The access key that signed is not the account's, or may not spend as much; or an access key has signed a proof, which takes the account's own."},
		{"unsupported_form", "The credential's type, the transaction's form, or a proof's signature, is none that is taken here; the challenge says which is. A Tempo transaction makes one call, transferWithMemo, or exactly three: approve and swapExactAmountOut for Tempo's exchange, then transferWithMemo."},
		{"account_has_code", "The account is a contract or has delegated to one, and an authorisation of such an account may hold when it is checked and not when it is submitted. Pay from an account without code, or by another offer."},
		{"expired", "The challenge or the payment's own validity is over, or ends within seconds."},
		{"not_yet_valid", "The payment's validity begins later than now."},
		{"valid_too_long", "The payment would stay valid for longer than it may."},
		{"already_used", "The authorisation was used or cancelled before."},
		{"reverted", "The network executed the payment, or tried to, and refused it."},
		{"not_mined", "The payment was sent and not mined before its validity ended."},
		{"wasted_gas", "A payment that this ring submitted for the same account or client failed at the ring's expense. Such payments are taken from it again in an hour, later when it happens again; other offers stay open."},
	}
}
