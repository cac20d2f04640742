package describe

// Reason is why a payment was refused: a value of the member reason of a problem
// document, and what it means.
type Reason struct{ Name, Meaning string }

// Reasons lists all that the payment methods give, in the order in which a payer
// meets them. The caller owns the list.
func Reasons() []Reason {
	return []Reason{
		{"insufficient_funds", "The account has too little money for the payment and, if the payer pays it, the network fee."},
		{"fee_too_low", "The transaction offers less than the current base fee of the network."},
		{"gas_out_of_range", "The gas limit is wrong for such a payment, or larger than a block."},
		{"wrong_chain", "The payment is signed for a different chain than the challenge names."},
		{"wrong_token", "It pays in the wrong token, or a swap buys or sells the wrong one."},
		{"wrong_recipient", "It pays someone else."},
		{"wrong_amount", "It pays more or less than the challenge asks. A swap must buy exactly that amount, sell at most twice that, and approve no more than it can sell."},
		{"wrong_challenge", "Its memo or nonce belongs to another challenge or realm."},
		{"wrong_signer", "The signature is invalid, or not from the account in source."},
		{"key_not_allowed", "The access key does not belong to the account or cannot spend that much. Proofs need the account's own key."},
		{"unsupported_form", "The type of credential, transaction or signature is not accepted here; the challenge says which is. A Tempo transaction makes one call, transferWithMemo, or exactly three: approve and swapExactAmountOut for Tempo's exchange, then transferWithMemo."},
		{"account_has_code", "The account is a contract or delegates to one. Its authorisation may pass the check and fail later. Pay from an account without code, or with another offer."},
		{"expired", "The challenge or the payment has expired, or expires within seconds."},
		{"not_yet_valid", "The payment is not valid yet."},
		{"valid_too_long", "The payment would be valid for too long."},
		{"already_used", "The authorisation was used or cancelled before."},
		{"reverted", "The network rejected the payment."},
		{"not_mined", "The payment was sent but not mined before it expired."},
		{"wasted_gas", "An earlier payment from the same account or client failed at the ring's expense. Try again in an hour (longer after repeated failures), or use another offer."},
	}
}
