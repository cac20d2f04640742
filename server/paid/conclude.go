package paid

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
		gone, known, err := s.gone(w, o)
		if err != nil || !known {
			return nil, false, err
		}
		applied, err = s.apply(w, o, gone, 0)
		if errors.Is(err, errUsedUp) {
			var all int64
			if all, known, err = s.brought(w, o); err != nil || !known {
				return nil, false, err
			}
			applied, err = s.apply(w, o, gone, all)
		}
		switch {
		case err != nil:
			return nil, false, err
		case applied.State == ledger.Failed:
			level := slog.LevelError
			if applied.Reason == ReasonAdjusted {
				level = slog.LevelWarn
			}
			s.Log.Log(s.ctx, level, "payment settled and has no effect", "payment", w.payment, "transaction", settledBy(w, o), "reason", applied.Reason)
			return nil, true, s.reused(applied)
		}
		return applied, true, nil
	case mpp.Failed:
		why = &Problem{Code: api.VerificationFailed, Reason: mpp.ReasonReverted, Detail: "The transaction was mined and reverted, so nothing was paid. " + again}
	case mpp.Gone:
		why = &Problem{Code: api.VerificationFailed, Reason: mpp.ReasonNotMined, Detail: "The transaction was not mined before its time ran out, so nothing was paid. " + again}
	case mpp.Mismatched:
		why = errMismatched
	default:
		return nil, false, nil
	}
	if err := s.fail(w, o); err != nil {
		return nil, false, err
	}
	return nil, true, why
}

// gone gives the transactions that events of the payer name which came back, and
// which are not on the network any more: it may have dropped the block in which a
// payment was that had its effect, and settled it in another. That is known when
// the one that settled it now is there to stay.
func (s *Service) gone(w *work, o mpp.Outcome) (gone map[string]bool, known bool, err error) {
	var events []ledger.Returned
	s.Ledger.View(func(v *ledger.View) { events, err = returned(v, w) })
	if err != nil {
		return nil, false, err
	}
	if o.Reference == "" || slices.ContainsFunc(events, func(e ledger.Returned) bool { return e.Payment.Transaction == o.Reference }) {
		return nil, true, nil // it cannot move, or has not
	}
	gone = map[string]bool{}
	for _, e := range events {
		if !o.Deep {
			s.Log.Info("payment waits for its block to be final: an event that came back may be for it", "payment", w.payment, "event", e.Seq)
			return nil, false, nil
		}
		_, err := w.network.received(s.ctx, e.Payment.Transaction, 1)
		if err != nil && !errors.Is(err, mpp.ErrNoTransfer) {
			return nil, false, err
		}
		gone[e.Payment.Transaction] = err != nil
	}
	return gone, true, nil
}

// errUsedUp says that events have given so much for the transaction of a payment
// that what its recipient got there does not cover the payment, too.
var errUsedUp = errors.New("paid: what the transaction brought the recipient is used up")

// brought is what the transaction that settled a payment brought all payees that
// the ring ever had: whoever submits payments can put some to today's recipient and
// some to an earlier one into the same, and events do not say whom they were paid to.
// It is known when the transaction is there to stay.
func (s *Service) brought(w *work, o mpp.Outcome) (cents int64, known bool, err error) {
	if !o.Deep {
		s.Log.Info("payment waits for its block to be final: others are in its transaction", "payment", w.payment, "transaction", settledBy(w, o))
		return 0, false, nil
	}
	own := max(o.Brought, w.reservation.Cents)
	t, err := w.network.received(s.ctx, settledBy(w, o), everything)
	if err == nil && t.Cents < own {
		err = fmt.Errorf("all payees together got %d cents, and that of the payment %d", t.Cents, own)
	}
	if err != nil {
		return 0, false, fmt.Errorf("paid: what %s brought in all is not known: %w", settledBy(w, o), err)
	}
	return t.Cents, true, nil
}

// settledBy names the transaction in which the payment of w has settled.
func settledBy(w *work, o mpp.Outcome) string { return cmp.Or(o.Reference, w.payment.Reference) }

// apply stores the effect of a settled payment and the answer to its request
// in one transaction, once. all is what the transaction brought all payees, 0 while
// that is not asked for; without it, apply may fail with errUsedUp.
func (s *Service) apply(w *work, o mpp.Outcome, gone map[string]bool, all int64) (applied *ledger.Reservation, err error) {
	paid := w.payment
	paid.Reference = settledBy(w, o)
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
		r.Payment = record
		if before, err := settledBefore(tx, w, r, paid, max(o.Brought, r.Cents), all, gone); err != nil || before {
			return err
		}
		e, err := w.order.carryOut(tx, core.Payment{
			Method: paid.Method, Network: w.network.Network(), Transaction: paid.Reference, Payer: paid.Payer})
		if err != nil {
			return err
		}
		receipt := mpp.Receipt{Method: paid.Method, Reference: paid.Reference,
			Timestamp: time.UnixMilli(tx.Stamp()).UTC()}
		r.State, r.Outcome, r.Member = ledger.Applied, mpp.Settled.String(), e.slug
		r.Seq, r.Confirmed = tx.State().Seq()-1, o.Deep
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

// ReasonAdjusted is why a payment that has settled ended without effect: the operator
// has given what its transaction brought. Any other reason needs a look.
const ReasonAdjusted = "the operator has adjusted its transaction"

// settledBefore ends a reservation whose event is there already, and says whether
// it did: a backup may have as open what an edge has the event of. The answer that
// went with it is not known any more.
//
// Who submits a payment can put others into the same transaction, so the event has
// to be this one's own, in this transaction or in one that is gone. Where that did
// not come back, the payment is still to be given its effect, unless events, the
// operator's for the most part, have given what the transaction brought: it is never
// credited with more. own is what its recipient got there, which is enough to know
// as long as it covers all that was given, and all is what every payee got.
func settledBefore(tx *ledger.Tx, w *work, r *ledger.Reservation, paid mpp.Payment, own, all int64, gone map[string]bool) (bool, error) {
	events, err := returned(tx.View(), w)
	if err != nil {
		return false, err
	}
	r.Outcome = mpp.Settled.String()
	at := slices.IndexFunc(events, func(e ledger.Returned) bool { return e.Payment.Transaction == paid.Reference })
	if at < 0 {
		at = slices.IndexFunc(events, func(e ledger.Returned) bool { return gone[e.Payment.Transaction] })
	}
	if at >= 0 {
		// As one whose block is dropped later: see [Service.confirm].
		paid.Reference = events[at].Payment.Transaction
		if r.Payment, err = json.Marshal(paid); err != nil {
			return false, err
		}
		r.State, r.Reason = ledger.Applied, "its event was restored"
		r.Seq, r.Member = events[at].Seq, w.order.carriedOut(tx.State(), events[at].Event)
		return true, tx.Update(r)
	}
	credited, err := tx.View().Credited(w.network.Network(), paid.Reference)
	switch {
	case err != nil || credited+r.Cents <= max(own, all):
		return false, err
	case all == 0:
		return false, errUsedUp
	}
	adjusted, err := tx.View().Adjusted(w.network.Network(), paid.Reference)
	if err != nil {
		return false, err
	}
	if r.Reason = ReasonAdjusted; !adjusted {
		r.Reason = fmt.Sprintf("events gave %d cents for its transaction, which brought %d", credited, all)
	}
	return true, end(tx, r, paid)
}

// returned gives the events that came back which may be for the reservation of w:
// of equal payments, one that none of them has taken. What was there before the
// challenge cannot be.
func returned(v *ledger.View, w *work) ([]ledger.Returned, error) {
	asked := w.payment.ValidBefore.Add(-ChallengeLife) // or later
	events, err := v.Returned(w.reservation.Payer, asked)
	return slices.DeleteFunc(events, func(e ledger.Returned) bool {
		return e.Payment.Network != w.network.Network() || e.Cents != w.reservation.Cents || w.order.carriedOut(v.State(), e.Event) == ""
	}), err
}

// fail stores that a payment had no effect.
func (s *Service) fail(w *work, o mpp.Outcome) error {
	s.Log.Warn("payment failed", "payment", w.payment, "outcome", o.State.String(), "detail", o.Detail)
	return s.Ledger.Do(context.Background(), func(tx *ledger.Tx) error {
		r, err := tx.Get(w.reservation.ID)
		if err != nil {
			return err
		}
		r.Outcome, r.Reason = o.State.String(), o.Detail
		return end(tx, r, w.payment)
	})
}

// end stores that a reservation has no effect. The request's words go: nobody
// needs them any more, and no redaction would find them here. The transaction
// goes too, being final: what costs its sender nothing must not fill the disk.
func end(tx *ledger.Tx, r *ledger.Reservation, payment mpp.Payment) (err error) {
	payment.Raw, payment.Submissions = nil, nil
	r.State, r.Body, r.Pinned = ledger.Failed, nil, nil
	if r.Payment, err = json.Marshal(payment); err != nil {
		return err
	}
	return tx.Update(r)
}
