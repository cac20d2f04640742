package paid

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/mpp"
)

// A payment can be made without this process knowing: its record was lost with a
// disk, or its payer sent the transaction alone. Its credential then comes late, or
// what it would do is refused. Money that came in time has its effect all the same,
// for as long as its network tells of it; and where that cannot be given any more,
// the payment is kept for the operator. No answer to it is a 402, on which clients
// pay again.

// settleSeen ends work on a payment that is refused, unless its network has the
// payment already.
func (s *Service) settleSeen(w *work, refused *Problem) (*ledger.Reservation, error) {
	o, err := w.network.seen(s.ctx, w.payment, w.expires.Add(-ChallengeLife-maxSkew))
	over := !s.Now().Before(w.payment.ValidBefore)
	switch {
	case err != nil:
		s.Log.Warn("refused payment without an answer from its network", "payment", w.payment, "err", err)
		return nil, errPending
	case o.State == mpp.Settled:
	case o.State == mpp.Mismatched:
		return nil, errMismatched
	case o.State == mpp.Pending && (over || w.mayBeUnderWay(refused)):
		return nil, errPending // its network has not reached its end
	default:
		return nil, refused
	}
	s.Log.Warn("payment had settled before its credential came", "payment", w.payment, "transaction", settledBy(w, o))
	reference := map[string]any{"reference": settledBy(w, o)}
	switch {
	case !slices.Contains(w.network.payees, w.payment.Payee):
		// The key that signed the challenge may serve another ring, too, as after a backup
		// was restored for a trial.
		s.Log.Error("payment settled to a recipient that this ring never had", "payment", w.payment, "payee", w.payment.Payee)
		return nil, &Problem{Code: api.PaymentUnapplied, More: reference,
			Detail: "The transaction of this credential has paid a recipient that this ring knows nothing of, so it has no effect here. Do not pay again before the operator has cleared that up; give the reference."}
	case w.realm != s.Realm:
		return nil, s.keep(w, o, api.InvalidChallenge)
	case refused == errUnreadable:
		return nil, s.keep(w, o, refused.Code)
	case w.order == nil:
		return nil, &Problem{Code: api.PaymentUnapplied, More: reference,
			Detail: "The transaction of this credential has paid this ring, for another request than this one. Send that request, unchanged, with this credential. Do not pay again."}
	}
	var never *Problem
	switch err := s.reserveSettled(w); {
	case err == nil:
		s.Failpoint("reserved")
		return s.drive(w, &o)
	case errors.As(err, &never) && never.final():
		return nil, s.keep(w, o, never.Code)
	default:
		return nil, err
	}
}

// mayBeUnderWay says of a payment that is refused and not mined yet that an earlier
// process may have sent it, whose record of it was lost: what is refused is its time, or
// the configuration that it was asked under, and not the payment.
func (w *work) mayBeUnderWay(refused *Problem) bool {
	return w.refused == refused && w.order != nil && !w.payment.ValidBefore.After(w.expires) &&
		(refused.Code == api.PaymentExpired || refused == errConfiguration)
}

// Bounds on the look-ups of refused payments: how many of a network are under way,
// and for how long each may be.
const (
	seenAtOnce  = 4
	seenTimeout = 8 * time.Second
)

// seen is [Method.Seen] within bounds: a credential that is refused costs whoever
// shows it nothing.
func (n *network) seen(ctx context.Context, p mpp.Payment, since time.Time) (mpp.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, seenTimeout)
	defer cancel()
	select {
	case n.lookups <- struct{}{}:
		defer func() { <-n.lookups }()
		return n.Seen(ctx, p, since)
	case <-ctx.Done():
		return mpp.Outcome{}, fmt.Errorf("%w: too many look-ups are under way", mpp.ErrUnavailable)
	}
}

// reserveSettled stores the reservation of a payment whose money has come. Its
// payer's other payments, and those that failed, are no reason to refuse it.
func (s *Service) reserveSettled(w *work) error {
	err := s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
		if err := w.order.check(tx.View()); err != nil {
			return err
		}
		return tx.ReserveSettled(w.reservation)
	})
	var never *Problem
	switch {
	case err == nil:
		return nil
	case errors.As(err, &never) && never.final():
		return never
	}
	return s.notStored(w, err)
}

// keep stores a settled payment that can have no effect, for the operator.
func (s *Service) keep(w *work, o mpp.Outcome, why api.Code) error {
	if !o.Deep {
		return errPending // its block may yet be dropped
	}
	payment := w.payment
	payment.Reference, payment.Raw = settledBy(w, o), nil
	r := *w.reservation
	r.State, r.Outcome, r.Reason = ledger.Failed, mpp.Settled.String(), string(why)
	var err error
	if r.Payment, err = json.Marshal(payment); err != nil {
		return err
	}
	err = s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
		// Its event may be there already: back from an edge, or written by the operator.
		switch had, err := tx.View().Credited(w.network.Network(), payment.Reference); {
		case err != nil:
			return err
		case had+r.Cents > max(o.Brought, r.Cents):
			return errKnown
		}
		return tx.Keep(&r)
	})
	switch {
	case errors.Is(err, errKnown):
		return s.accounted(w.network, payment.Reference)
	case err != nil:
		return s.notStored(w, err)
	}
	s.Log.Error("payment settled and can have no effect; credit it with: webring payments adjust", "payment", payment, "why", why)
	return unapplied(&r)
}

// notStored answers for a settled payment of which the ledger has taken no record.
func (s *Service) notStored(w *work, err error) error {
	var waits *Problem
	switch {
	case errors.As(err, new(*ledger.ReplayedError)):
		return s.replayed(err)
	case !errors.As(err, &waits) && !errors.Is(err, ledger.ErrURLPending) && !errors.Is(err, context.Canceled):
		s.Log.Error("settled payment not stored", "payment", w.payment, "err", err)
	}
	return errPending
}

// unapplied is the answer to a credential whose payment has come and has no effect
// of its own.
func unapplied(r *ledger.Reservation) *Problem {
	p, _ := StoredPayment(r) // without a reference if it cannot be read
	why := "what it brought was accounted for before"
	if code := api.Code(r.Reason); slices.Contains(api.Codes(), code) {
		why = "what it pays for cannot be done any more (" + r.Reason + ")"
	}
	return &Problem{Code: api.PaymentUnapplied, More: map[string]any{"reference": p.Reference},
		Detail: "The transaction of this credential has paid this ring and has no effect: " + why + ". The payment is kept for the operator, who can clear that up by its reference. Do not pay again."}
}
