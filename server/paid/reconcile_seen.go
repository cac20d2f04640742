package paid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/pay/mpp"
)

// A payment can be made without this process knowing: its record was lost with a disk, or
// its payer sent the transaction. Its credential can come too late, or for an order that
// is refused by now. Money that came in time still has its effect, as long as its network
// knows the transaction. If the effect is not possible any more, the payment is stored for
// the operator. No answer to it is a 402, because clients pay again on one. A payment that
// any bearer of its signature can present has no effect like this, see [ReasonForeign].

// settleSeen ends work on a payment that is refused. If its network has the payment
// already, the payment takes effect or is stored for the operator; otherwise the refusal
// is the answer.
func (s *Service) settleSeen(w *work, refused *Problem) (*ledger.Reservation, error) {
	o, err := w.network.seen(s.ctx, w.payment, w.expires.Add(-ChallengeLife-MaxSkew))
	over := !s.Now().Before(w.payment.ValidBefore)
	switch {
	case err != nil:
		s.Log.Warn("refused payment without an answer from its network", w.log(), "err", err)
		return nil, errPending
	case o.State == mpp.Settled:
	case o.State == mpp.Mismatched:
		return nil, errMismatched
	case o.State == mpp.Pending && (over || w.mayBeUnderWay(refused)):
		return nil, errPending // it can still be mined
	default:
		return nil, refused
	}
	s.Log.Warn("payment had settled before its credential came", w.log(), "settled_by", settledBy(w, o))
	reference := map[string]any{"reference": settledBy(w, o)}
	switch {
	case !slices.Contains(w.network.payees, w.payment.Payee):
		// Another ring can have the key that signed the challenge, such as one that was
		// restored from a backup as a trial.
		s.Log.Error("payment settled to a recipient that this ring never had", w.log(), "payee", w.payment.Payee, Audit, "money")
		return nil, &Problem{Code: api.PaymentUnapplied, More: reference,
			Detail: "The transaction of this credential paid a recipient that this ring does not know, so it has no effect here. Do not pay again. Give the reference to the operator."}
	case w.payment.Bearer:
		return nil, s.storeUnapplied(w, o, ReasonForeign)
	case w.realm != s.Realm:
		return nil, s.storeUnapplied(w, o, string(api.InvalidChallenge))
	case refused == errUnreadable:
		return nil, s.storeUnapplied(w, o, string(refused.Code))
	case w.order == nil:
		return nil, &Problem{Code: api.PaymentUnapplied, More: reference,
			Detail: "The transaction of this credential has paid for another request. Send that request, unchanged, with this credential. Do not pay again."}
	}
	var never *Problem
	switch err := s.reserveSettled(w); {
	case err == nil:
		s.Failpoint("reserved")
		return s.drive(w, &o)
	case errors.As(err, &never) && never.Final():
		return nil, s.storeUnapplied(w, o, string(never.Code))
	default:
		return nil, err
	}
}

// mayBeUnderWay says whether an earlier process may have sent a payment and its record was
// lost. The payment is refused and not mined yet: the refusal is only that its time has passed,
// or that the configuration has changed since its challenge.
func (w *work) mayBeUnderWay(refused *Problem) bool {
	last := w.expires
	if w.payment.Bearer {
		last = last.Add(ChallengeLife) // its payer has chosen the end, by a clock of its own
	}
	return w.refused == refused && w.order != nil && !w.payment.ValidBefore.After(last) &&
		(refused.Code == api.PaymentExpired || refused == errConfiguration)
}

// Bounds on the look-ups of refused payments: how many run at a time on a network, and the
// time for each.
const (
	seenAtOnce  = 4
	seenTimeout = 8 * time.Second
)

// seen is [Method.Seen] within bounds: refused credentials cost their senders nothing.
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

// reserveSettled stores the reservation of a payment after its money has come. Other payments
// of its payer, open or failed, do not make it refuse.
func (s *Service) reserveSettled(w *work) error {
	err := s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
		if err := w.order.check(tx.View()); err != nil {
			return err
		}
		return tx.ReserveUnbarred(w.reservation)
	})
	var never *Problem
	if err == nil || errors.As(err, &never) && never.Final() {
		return err
	}
	return s.notStored(w, err)
}

// storeUnapplied stores a settled payment that can have no effect, for the operator.
func (s *Service) storeUnapplied(w *work, o mpp.Outcome, why string) error {
	if !o.Deep {
		return errPending // its block may yet be dropped
	}
	payment := w.payment
	payment.Reference, payment.Raw = settledBy(w, o), nil
	r := *w.reservation
	r.State, r.Outcome, r.Reason = ledger.Failed, mpp.Settled.String(), why
	if why == ReasonForeign {
		r.ReplayKeys = []string{challengeKey(r.ID), keptKey(payment)}
	}
	if err := setPayment(&r, payment); err != nil {
		return err
	}
	var adjusted bool
	err := s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
		// It can have an event already: one that came back from an edge, or the operator's.
		switch had, err := tx.View().Credited(w.network.Network(), payment.Reference); {
		case err != nil:
			return err
		case had+r.Cents > max(o.Received, r.Cents):
			if adjusted, err = tx.View().Adjusted(w.network.Network(), payment.Reference); err != nil {
				return err
			}
			return errKnown
		}
		return tx.StoreUnapplied(&r)
	})
	switch {
	case errors.Is(err, errKnown):
		return accounted(adjusted, payment.Reference)
	case err != nil:
		return s.notStored(w, err)
	}
	s.recordUnapplied(w, o, slog.LevelError, "payment settled and can have no effect; credit it with: webring payments adjust", why)
	return unapplied(&r)
}

// notStored is the answer to a settled payment that could not be stored.
func (s *Service) notStored(w *work, err error) error {
	var waits *Problem
	switch {
	case errors.As(err, new(*ledger.ReplayedError)):
		return s.replayed(err)
	case !errors.As(err, &waits) && !errors.Is(err, ledger.ErrURLPending) && !errors.Is(err, context.Canceled):
		s.Log.Error("settled payment not stored", w.log(), "err", err)
	}
	return errPending
}
