package paid

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/mpp"
)

// conclude stores what a final outcome means. It is not done while the outcome
// is open, or could not be stored.
func (s *Service) conclude(w *work, o mpp.Outcome) (applied *ledger.Reservation, done bool, err error) {
	again := "Pay the new challenge."
	if w.reservation.Operation == OpRegister {
		again = "Pay the new challenge from another account, or from this one in ten minutes."
	}
	var why *Problem
	switch o.State {
	case mpp.Settled:
		s.Failpoint("receipt")
		applied, err = s.apply(w, o)
		return applied, err == nil, err
	case mpp.Failed:
		why = refusal(api.VerificationFailed, "The transaction was mined and reverted, so nothing was paid. "+again)
	case mpp.Gone:
		why = refusal(api.VerificationFailed, "The transaction was not mined before its time ran out, so nothing was paid. "+again)
	case mpp.Mismatched:
		why = &Problem{Code: api.PaymentMismatch,
			Detail: "The transaction went through but did not pay this ring, so nothing was granted. Do not pay again before you know why."}
	default:
		return nil, false, nil
	}
	if err := s.fail(w, o); err != nil {
		return nil, false, err
	}
	return nil, true, why
}

// apply stores the effect of a settled payment and the answer to its request
// in one transaction, once.
func (s *Service) apply(w *work, o mpp.Outcome) (applied *ledger.Reservation, err error) {
	paid := w.payment
	if o.Reference != "" {
		paid.Reference = o.Reference
	}
	record, err := json.Marshal(paid)
	if err != nil {
		return nil, err
	}
	err = s.Ledger.Do(context.Background(), func(tx *ledger.Tx) error {
		r, err := tx.Get(w.reservation.ID)
		if err != nil {
			return err
		}
		applied = r
		if r.State == ledger.Applied {
			return nil
		}
		// What is restored from a backup may still have as open what an edge has
		// the event of: one transaction is never credited with more than it brought.
		credited, err := tx.View().Credited(w.network.Network(), paid.Reference)
		if err != nil {
			return err
		}
		if credited+r.Cents > max(o.Brought, r.Cents) {
			return s.settledBefore(tx, r, paid, record)
		}
		e, err := w.order.carryOut(tx, core.Payment{
			Method: paid.Method, Network: w.network.Network(), Transaction: paid.Reference, Payer: paid.Payer})
		if err != nil {
			return err
		}
		receipt := mpp.Receipt{Method: paid.Method, Reference: paid.Reference,
			Timestamp: time.UnixMilli(tx.Stamp()).UTC()}
		r.State, r.Outcome, r.Member = ledger.Applied, mpp.Settled.String(), e.slug
		r.Seq, r.Payment, r.Confirmed = tx.State().Seq()-1, record, o.Deep
		r.Response = &ledger.Response{Status: e.status, Body: e.body, Header: [][2]string{
			{"Content-Type", "application/json"},
			{"Cache-Control", "private"},
			{"Payment-Receipt", receipt.Header()},
			{"Webring-Seq", strconv.FormatUint(tx.State().Seq(), 10)},
		}}
		if e.location != "" {
			r.Response.Header = append(r.Response.Header, [2]string{"Location", e.location})
		}
		return tx.Update(r)
	})
	if err == nil {
		s.Failpoint("applied")
	}
	return applied, err
}

// settledBefore ends the reservation of a payment whose event is there already.
// The answer that went with it is not known any more.
func (s *Service) settledBefore(tx *ledger.Tx, r *ledger.Reservation, p mpp.Payment, record json.RawMessage) error {
	seq, member, err := tx.View().CreditedTo(s.network(p.Method).Network(), p.Reference)
	if err != nil {
		return err
	}
	r.State, r.Outcome, r.Reason = ledger.Applied, mpp.Settled.String(), "its event was restored"
	r.Seq, r.Member, r.Payment = seq, member, record
	return tx.Update(r)
}

// fail stores that a payment had no effect. The request's words go: nobody
// needs them any more, and no redaction would find them here. The transaction
// goes too, being final: what costs its sender nothing must not fill the disk.
func (s *Service) fail(w *work, o mpp.Outcome) error {
	s.Log.Warn("payment failed", "payment", w.payment, "outcome", o.State.String(), "detail", o.Detail)
	rest := w.payment
	rest.Raw = nil
	payment, err := json.Marshal(rest)
	if err != nil {
		return err
	}
	return s.Ledger.Do(context.Background(), func(tx *ledger.Tx) error {
		r, err := tx.Get(w.reservation.ID)
		if err != nil {
			return err
		}
		r.State, r.Outcome, r.Reason = ledger.Failed, o.State.String(), o.Detail
		r.Body, r.Pinned, r.Payment = nil, nil, payment
		return tx.Update(r)
	})
}
