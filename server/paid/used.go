package paid

import (
	"slices"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/pay/mpp"
)

// reused is the answer to a credential that was used before. It says what became of the
// payment, so that the client does not pay again.
func (s *Service) reused(r *ledger.Reservation) *Problem {
	outcome, detail := "pending", "Its payment is being settled. Do not pay again."
	switch r.State {
	case ledger.Applied:
		outcome, detail = "applied", "Its payment was applied; links.self shows the member. Do not pay again."
	case ledger.Failed:
		if r.Outcome == mpp.Settled.String() {
			return unapplied(r)
		}
		outcome, detail = "failed", "Its payment did not go through and will not. Send the request without a credential to get a new challenge."
		if r.Outcome == mpp.Mismatched.String() {
			detail = "Its transaction went through but did not pay this ring, so nothing was granted. Do not pay again before you know why."
		}
	}
	more := map[string]any{"outcome": outcome}
	if r.Member != "" {
		more["links"] = map[string]string{"self": s.base() + "/api/ring/" + r.Member}
	}
	return &Problem{Code: api.CredentialReused, Detail: "This credential was used before. " + detail, More: more}
}

// unapplied is the answer to a credential whose payment has settled without an effect.
func unapplied(r *ledger.Reservation) *Problem {
	p, _ := StoredPayment(r) // without a reference if it cannot be read
	why := "what it brought was accounted for before"
	if code := api.Code(r.Reason); slices.Contains(api.Codes(), code) {
		why = "what it pays for cannot be done any more (" + r.Reason + ")"
	}
	if r.Reason == ReasonForeign || r.Reason == ReasonElsewhere {
		why = r.Reason
	}
	return &Problem{Code: api.PaymentUnapplied, More: map[string]any{"reference": p.Reference},
		Detail: "The transaction of this credential has paid this ring and has no effect: " + why + ". The payment is kept for the operator, who can clear that up by its reference. Do not pay again."}
}
