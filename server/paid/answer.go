package paid

import (
	"slices"
	"strconv"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/pay/mpp"
)

// asker is what asks what became of a payment.
type asker uint8

const (
	// waiting is the request that brought its credential, and has waited.
	waiting asker = iota
	// again is the same request, when no other waits and the 2xx was not given out, or with its Idempotency-Key.
	again
	// other is any other: it learns what became of the payment, and gets no 2xx and no 402.
	other
)

// answer is what a payer is told of a payment: however it got there, it is a function of its row alone.
// It is nil where that is the stored answer.
func (r *row) answer(to asker, base string) *Problem {
	switch {
	case r.refused != nil:
		return r.refused
	case to == other:
		return r.reused(base)
	case r.state() == held, r.state() == sent && r.Lapsed.IsZero():
		return errPending
	case r.state() == sent:
		return lapsed(r.payment)
	case r.State == ledger.Applied:
		return nil
	case to == again:
		return r.reused(base)
	}
	switch r.Outcome {
	case mpp.Failed.String():
		return &Problem{Code: api.VerificationFailed, Reason: mpp.ReasonReverted, Detail: "The transaction was mined and reverted, so nothing was paid. Pay the new challenge."}
	case mpp.Gone.String():
		detail := "The transaction expired before it was mined, so nothing was paid."
		if r.payment.Nonce != "" {
			detail = "The transaction was not mined: it expired, or another one used its nonce. Nothing was paid."
		}
		return &Problem{Code: api.VerificationFailed, Reason: mpp.ReasonNotMined, Detail: detail + " Pay the new challenge."}
	case mpp.Mismatched.String():
		return errMismatched
	}
	return r.reused(base)
}

// reused is the answer to a credential that was used before. It says what became of the
// payment, so that the client does not pay again.
func (r *row) reused(base string) *Problem {
	outcome, detail := "pending", "Its payment is being settled. Do not pay again."
	switch r.State {
	case ledger.Applied:
		outcome, detail = "applied", "Its request was carried out; links.self shows the member."
		if r.Cents > 0 {
			detail += " Do not pay again."
		}
	case ledger.Failed:
		if r.Outcome == mpp.Settled.String() {
			return r.unapplied()
		}
		outcome, detail = "failed", "Its payment failed, so nothing was paid. Send the request without a credential to get a new challenge."
		switch r.Outcome {
		case outcomeGivenUp:
			outcome, detail = "pending", "Its transaction was not mined for so long that this ring no longer waits for it. It can be mined as long as its nonce is unused: use the nonce for another transaction before you pay again. If it was mined, give the operator the transaction."
		case mpp.Mismatched.String():
			detail = "Its transaction was mined and did not pay this ring, so it has no effect. Find out why before you pay again."
		}
	}
	more := map[string]any{"outcome": outcome}
	if r.Member != "" {
		more["links"] = map[string]string{"self": base + "/api/ring/" + r.Member}
	}
	return &Problem{Code: api.CredentialReused, Detail: "This credential was used before. " + detail, More: more}
}

// unapplied is the answer to a credential if its payment has settled without an effect.
func (r *row) unapplied() *Problem {
	why := "what it brought was accounted for before"
	if code := api.Code(r.Reason); slices.Contains(api.Codes(), code) {
		why = "what it pays for cannot be done any more (" + r.Reason + ")"
	}
	if r.Reason == ReasonForeign || r.Reason == ReasonElsewhere {
		why = r.Reason
	}
	return &Problem{Code: api.PaymentUnapplied, More: map[string]any{"reference": r.payment.Reference},
		Detail: "The transaction of this credential has paid this ring and has no effect: " + why + ". Do not pay again. The operator keeps a record of the payment and can put it right: give the reference."}
}

// reused is [row.reused] of a reservation.
func (s *Service) reused(r *ledger.Reservation) *Problem {
	at, _ := rowOf(r) // without a reference if it cannot be read
	return at.reused(s.base())
}

// lapsed is the answer to a credential whose payment has lapsed.
func lapsed(p mpp.Payment) *Problem {
	how := "It has no validBefore, so it can be mined as long as its nonce is unused, and then has its effect if that is still possible. " +
		"To end it, use the nonce for another transaction, and repeat this request until it is refused. Do not pay again before."
	if !p.Until.IsZero() {
		how = "It can be mined until " + p.Until.Format(time.RFC3339) + ", and then has its effect if that is still possible. Repeat this request after that. Do not pay again before."
	}
	return &Problem{Code: api.PaymentPending, RetryAfter: lapsedRetry,
		Detail: "The transaction of this credential has not been mined, and holds nothing any more. " + how}
}

// accounted is the answer to a payment if events account for its transaction already.
func accounted(adjusted bool, reference string) *Problem {
	if adjusted {
		return &Problem{Code: api.PaymentUnapplied, More: map[string]any{"reference": reference},
			Detail: "The operator has already accounted for the transaction of this credential, so this request has no effect. Do not pay again. The reference names the transaction."}
	}
	return errKnown
}

// errKnown is the answer to a transaction that has its event already, if no more is known
// of it.
var errKnown = &Problem{Code: api.CredentialReused, More: map[string]any{"outcome": "applied"},
	Detail: "The transaction of this credential was applied before. Do not pay again."}

// successHeader is the header of the answer to a request that was carried out. seq is how many
// events there were then, with its own.
func successHeader(r mpp.Receipt, st *core.State, seq uint64) [][2]string {
	return [][2]string{
		{"Content-Type", "application/json"},
		{"Cache-Control", "private"},
		{"Payment-Receipt", r.Header()},
		{"Webring-Seq", strconv.FormatUint(seq, 10)},
		{"Link", "<" + proofOf(st, seq) + `>; rel="https://c2sp.org/tlog-proof"; type="text/plain"`},
	}
}

// proofOf is the URL of the proof that the event is in the log that was the last one of seq
// events.
func proofOf(st *core.State, seq uint64) string {
	return st.Rules().BaseURL + "/log/proof/" + strconv.FormatUint(seq-1, 10)
}
