package paid

import (
	"context"
	"errors"
	"slices"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/pay/mpp"
)

// prepare stores a payment that all gates let through.
func (s *Service) prepare(x *candidate) error {
	if err := s.pass(sending, x, nil); err != nil {
		return err
	}
	if err := s.pass(asking, x, nil); err != nil {
		return err
	}
	for {
		err := s.pass(covering, x, nil)
		if err == nil {
			err = s.reserve(x)
		}
		if !errors.Is(err, errChanged) {
			return err
		}
	}
}

// reserve stores the row of a payment if all gates let it through in that turn.
func (s *Service) reserve(x *candidate) error {
	var next row
	err := s.Ledger.Do(s.ctx, func(tx *ledger.Tx) (err error) {
		next, _ = step(x.w.row, facts{}) // no gate has refused it
		if x.r, err = next.stored(); err == nil {
			err = s.pass(reserving, x, tx.View())
		}
		if err == nil {
			err = tx.Reserve(x.r)
		}
		return err
	})
	switch {
	case err == nil:
		x.w.row, x.w.row.Reservation = next, *x.r
		return nil
	case errors.As(err, new(*ledger.ReplayedError)):
		return s.replayed(err)
	}
	return s.notWritten(err, errPending)
}

// openOf gives how many payments a payer has open that have not lapsed, their sum in cents, and all that are open.
func (s *Service) openOf(payer string) (count int, cents int64, all []*ledger.Reservation) {
	s.Ledger.View(func(v *ledger.View) {
		all = slices.Clone(v.OpenOf(payer))
		count, cents = holding(all)
	})
	return count, cents, all
}

// holding gives how many of some open payments have not lapsed, and their sum in cents.
func holding(some []*ledger.Reservation) (count int, cents int64) {
	for _, r := range some {
		if r.Lapsed.IsZero() {
			count, cents = count+1, cents+r.Cents
		}
	}
	return count, cents
}

// simulate asks the network whether the payment of w would go through. If its nonce follows on
// that of a payment which its account has open here, it waits a moment for that one.
func (s *Service) simulate(w *work) error {
	for try := 1; ; try++ {
		open, _, _ := s.openOf(w.payment.Payer)
		ctx, cancel := context.WithTimeout(s.ctx, questionTimeout)
		err := w.network.Simulate(ctx, w.payment)
		cancel()
		no, refused := errors.AsType[*mpp.Rejection](err)
		if !refused || no.Reason != mpp.ReasonNonce || open == 0 || try == coverTries || !s.sleep(time.Second) {
			return err
		}
	}
}

// notSimulated is the answer to a payment that its network refuses, or says nothing of.
func (s *Service) notSimulated(w *work, err error) error {
	no, refused := errors.AsType[*mpp.Rejection](err)
	if refused && no.Reason == mpp.ReasonSigner { // strangers can send any number
		s.Log.Info("payment not simulated", w.log(), "err", err)
	} else {
		s.noAnswer("payment not simulated", w.log(), "err", err)
	}
	switch {
	case !refused:
		return errUnavailable
	case no.Reason == mpp.ReasonNonce:
		// The nonces before its own can be those of payments that are open here.
		_, _, all := s.openOf(w.payment.Payer)
		for _, r := range all {
			if p, err := StoredPayment(r); err == nil && p.Nonce != "" && p.Lane() == w.payment.Lane() {
				return comesFirst(r)
			}
		}
	}
	return rejection(no)
}

// comesFirst is the answer to a payment that can only be taken when an open one of its account has
// ended. A 402 would be paid with the same nonce again, or twice for the same thing.
func comesFirst(first *ledger.Reservation) *Problem {
	p, _ := StoredPayment(first) // without a reference if it cannot be read
	wait, end := pendingRetry, ""
	if !first.Lapsed.IsZero() {
		wait, end = lapsedRetry, " To end that one, use its nonce for another transaction."
		if !p.Until.IsZero() {
			end = " It can be mined until " + p.Until.Format(time.RFC3339) + "."
		}
	}
	return &Problem{Code: api.PaymentPending, RetryAfter: wait, More: map[string]any{"reference": p.Reference},
		Detail: "Another payment of this account, the transaction " + p.Reference + ", waits to be mined, and it comes first. Do not pay again for its request: send that request with its own credential to learn what becomes of it." +
			end + " Nothing was charged by this payment. Repeat this request later."}
}

// update changes a stored reservation in a turn of the writer.
func (s *Service) update(ctx context.Context, id string, change func(*ledger.Tx, *ledger.Reservation) error) error {
	return s.Ledger.Do(ctx, func(tx *ledger.Tx) error {
		r, err := tx.Get(id)
		if err == nil {
			err = change(tx, r)
		}
		if err != nil {
			return err
		}
		return tx.Update(r)
	})
}

// notWritten is the answer to a request of which a turn of the writer has stored nothing, or
// of which unknown says that it may be stored all the same: then the next process goes on.
func (s *Service) notWritten(err error, unknown *Problem) error {
	switch {
	case errors.Is(err, ledger.ErrBroken):
		return unknown
	case errors.Is(err, ledger.ErrNotNow):
		s.Log.Error("payments and proofs refused: this machine is not ready", "err", err)
		return errUnavailable
	case errors.Is(err, ledger.ErrClosed), errors.Is(err, context.Canceled):
		return errUnavailable
	}
	return err
}

// replayed is the answer to a payment that the ledger knows already. err holds a
// [*ledger.ReplayedError].
func (s *Service) replayed(err error) error {
	var known *ledger.ReplayedError
	errors.As(err, &known)
	r, err := s.reservation(func(v *ledger.View) (*ledger.Reservation, error) { return v.Get(known.Reservation) })
	if err != nil {
		return err
	}
	return s.reused(r)
}

// Ended is a credential with what came of it, for [Config.Ended].
type Ended struct {
	Operation string // OpRegister or OpBid
	Method    string // the name of a method, or [OtherMethod]
	Outcome   Outcome
	Took      time.Duration // since the credential came
}

// OtherMethod stands for methods that are not configured.
const OtherMethod = "other"

// Outcome is what came of a credential.
type Outcome string

// The outcomes. A payment that is answered before its outcome is known counts as pending then,
// and once more with its outcome.
const (
	OutcomeApplied    Outcome = "applied"    // it has its effect
	OutcomeFailed     Outcome = "failed"     // it was mined and reverted, or never mined
	OutcomeMismatched Outcome = "mismatched" // its transaction paid somebody else
	OutcomeUnapplied  Outcome = "unapplied"  // it settled and has no effect
	OutcomeRefused    Outcome = "refused"    // it was not sent
	OutcomePending    Outcome = "pending"    // its request was answered before the outcome was known
)

// Outcomes are all of them.
func Outcomes() []Outcome {
	return []Outcome{OutcomeApplied, OutcomeFailed, OutcomeMismatched, OutcomeUnapplied, OutcomeRefused, OutcomePending}
}

// outcome is what came of work that has ended.
func (w *work) outcome() Outcome {
	var p *Problem
	switch {
	case w.ended != "":
		return w.ended
	case errors.As(w.err, &p) && p.Code == api.PaymentPending:
		return OutcomePending
	}
	return OutcomeRefused
}

// tell tells what came of a payment.
func (s *Service) tell(w *work, o Outcome) {
	s.Ended(Ended{Operation: w.brought.Operation, Method: w.network.Name(), Outcome: o, Took: s.Now().Sub(w.brought.Created)})
}
