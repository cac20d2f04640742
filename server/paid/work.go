package paid

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/risk"
	"webring/server/pay/mpp"
)

// unused asks once more whether the nonce of w has been used, if it has one.
func (s *Service) unused(w *work) error {
	if w.payment.Nonce == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, questionTimeout)
	defer cancel()
	return w.network.Unused(ctx, w.payment)
}

// knownAs says what is known of the payment of w already: it may be reserved under one of its replay keys,
// by another copy of its credential that has been through since [Service.consumed]; none can be now, under
// the claim. Or events account for its transaction, such as one that came back from an edge without its
// row, or the operator's.
func (w *work) knownAs(v *ledger.View) error {
	keys := w.ReplayKeys
	if w.payment.Bearer {
		keys = append(slices.Clip(keys), keptKey(w.payment))
	}
	if err := fresh(v, keys); err != nil {
		return err
	}
	network, reference := w.network.Network(), w.payment.Reference
	cents, err := v.Credited(network, reference)
	if err != nil || cents == 0 {
		return err
	}
	adjusted, err := v.Adjusted(network, reference)
	return cmp.Or(err, error(accounted(adjusted, reference)))
}

// fresh refuses a payment or a proof if one of its replay keys is known.
func fresh(v *ledger.View, keys []string) error {
	for _, k := range keys {
		if r, err := v.ByReplayKey(k); err == nil {
			at, _ := rowOf(r) // without a reference if it cannot be read
			return at.reused(v.State().Rules().BaseURL)
		} else if !errors.Is(err, ledger.ErrNoReservation) {
			return err
		}
	}
	return nil
}

// prepare stores the reservation of a payment that is worth being sent.
func (s *Service) prepare(w *work, paid bool) error {
	if w.refusal != nil {
		return w.refusal
	}
	if no := s.refuses(w.network, w.payment.Payer, paid); no != nil {
		return no
	}
	var err error
	var failed bool
	s.Ledger.View(func(v *ledger.View) {
		failed = len(failures(v, w.order)) > 0
		err = cmp.Or(w.order.possible(v, w.payment.Payer), w.oneAtFirst(v))
	})
	if err != nil {
		return err
	}
	// The challenge may be five minutes old: what was ready then is asked again.
	if err := s.checkReady(w.network); err != nil {
		return err
	}
	if err := s.simulateInTurn(w, paid); err != nil {
		return s.notSimulated(w, err)
	}
	s.Failpoint("simulated")
	if err := s.unused(w); err != nil {
		return s.notSimulated(w, err)
	}
	if failed {
		known := false
		w.names, known = s.accountsAt(s.ctx, w.client, w.order.(*registration).URL)
		if !known && !w.names.Includes(core.AccountOf(w.payment.Payer)) {
			return errUnavailable
		}
	}
	for {
		open, err := s.covered(w)
		if err != nil {
			return s.notSimulated(w, err)
		}
		if !s.Now().Before(w.payment.ValidBefore) {
			return &Problem{Code: api.PaymentExpired, Reason: mpp.ReasonExpired,
				Detail: "The transaction expired before it was sent. Pay the new challenge. Nothing was charged."}
		}
		if err := s.reserve(w, open); !errors.Is(err, errOpened) {
			return err
		}
	}
}

// simulateInTurn is simulate. Accounts that have never paid take turns, and have to hold what they pay: that is
// asked first.
func (s *Service) simulateInTurn(w *work, paid bool) error {
	if paid {
		return s.simulate(w)
	}
	n, payer, cents := w.network, w.payment.Payer, w.payment.Cents
	ctx, cancel := context.WithTimeout(s.ctx, questionTimeout)
	defer cancel()
	leave, err := n.strangers.Enter(ctx, w.client)
	if err != nil {
		return fmt.Errorf("%w: %w", mpp.ErrUnavailable, err)
	}
	defer leave()
	err = n.holds(ctx, w.payment, cents)
	if no, ok := errors.AsType[*mpp.Rejection](err); ok && no.Reason == mpp.ReasonFunds {
		n.strangers.Put(payer, cents, s.Now())
		w.unused = true // its network has said that, too
	}
	if err != nil {
		return err
	}
	return s.simulate(w)
}

// heldTooLittle is the answer to a payment of an account that its network is not asked about again.
func heldTooLittle(until, now time.Time) *Problem {
	return &Problem{Code: api.PaymentsUnavailable, RetryAfter: risk.Seconds(until.Sub(now)), Reason: mpp.ReasonFunds,
		Detail: "This account held too little to pay when its network was asked a moment ago, and it is not asked again before " + until.UTC().Format(time.RFC3339) +
			". This ring has not sent the payment. Send the same request with the same credential then."}
}

// simulate asks the network whether the payment of w would go through. If its nonce follows on
// that of a payment which its account has open here, it waits a moment for that one.
func (s *Service) simulate(w *work) error {
	for try := 1; ; try++ {
		var open int
		s.Ledger.View(func(v *ledger.View) { open, _ = v.OpenOfPayer(w.payment.Payer) })
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
		var first *ledger.Reservation
		s.Ledger.View(func(v *ledger.View) { first = w.openInLane(v) })
		if first != nil {
			return comesFirst(first)
		}
	}
	return rejection(no)
}

// firstOfNonce refuses a payment whose nonce an open one of its account has.
func (w *work) firstOfNonce(v *ledger.View) (err error) {
	if w.payment.Nonce == "" {
		return nil
	}
	v.EachOpen(func(r *ledger.Reservation) {
		if r.Payer != w.payment.Payer {
			return
		}
		if p, unreadable := StoredPayment(r); unreadable == nil && p.Nonce == w.payment.Nonce {
			err = comesFirst(r)
		}
	})
	return err
}

// openInLane gives the oldest open payment in the lane of the nonce of w, nil for none.
func (w *work) openInLane(v *ledger.View) (first *ledger.Reservation) {
	v.EachOpen(func(r *ledger.Reservation) {
		if r.Payer != w.payment.Payer || first != nil && !r.Created.Before(first.Created) {
			return
		}
		if p, err := StoredPayment(r); err == nil && p.Nonce != "" && p.Lane() == w.payment.Lane() {
			first = r
		}
	})
	return first
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

// reserve stores the reservation of w if the order can still be carried out, there is no
// other payment for it, and not too many payments are open. open is what the payer had
// open, in cents, when [Service.covered] asked for its balance.
func (s *Service) reserve(w *work, open int64) error {
	var earlier *ledger.Reservation
	var next row
	err := s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
		next, _ = step(w.row, facts{}) // no gate has refused it
		v, r := tx.View(), &next.Reservation
		err := setPayment(r, w.payment)
		if err == nil {
			err = w.order.possible(v, r.Payer)
		}
		if err == nil {
			earlier, err = s.earlier(v, r.Idempotency, r.Payer)
		}
		if err != nil || earlier != nil {
			return err
		}
		if err := cmp.Or(w.mayOpen(v, r, open), w.firstOfNonce(v), s.mayHold(v, w)); err != nil {
			return err
		}
		return tx.Reserve(r)
	})
	switch {
	case err == nil && earlier != nil:
		return s.keyUsed(earlier)
	case err == nil:
		w.row = next
		return nil
	case errors.As(err, new(*ledger.ReplayedError)):
		return s.replayed(err)
	}
	return s.notWritten(err, errPending)
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

// Bounds of the payments that are open at a time.
const (
	// maxOpenPerPayer is how many payments of one account may be open. If the account
	// moves its money away they are never mined, and occupy memory here and requests at
	// edges for minutes.
	maxOpenPerPayer = 8
	// maxEndlessPerPayer is how many of them may have no end, or one far ahead. Those in one lane come one after
	// the other, so honest accounts hardly have more.
	maxEndlessPerPayer = 2
	// maxOpen is how many may be open in all. The last reservedOpen are for accounts
	// without an open payment, so that a few accounts cannot take all.
	maxOpen, reservedOpen = 1024, 256
)

// mayLapse refuses a payment that can lapse while one of its account has lapsed, or too many are
// open, of its account or in all. While a payment has lapsed, its account pays for the same thing
// no other way either.
func (w *work) mayLapse(v *ledger.View, r *ledger.Reservation) error {
	var lapsed *ledger.Reservation
	v.EachLapsed(func(o *ledger.Reservation) {
		same := o.Operation == r.Operation && o.Member == r.Member && o.URLKey == r.URLKey && (o.URLKey != "" || o.Cents == r.Cents)
		if o.Payer == r.Payer && (r.Endless || same) {
			lapsed = o
		}
	})
	switch {
	case lapsed != nil:
		return comesFirst(lapsed)
	case !r.Endless:
		return nil
	}
	own := 0
	v.EachOpen(func(o *ledger.Reservation) {
		if o.Payer == r.Payer && o.Endless {
			own++
		}
	})
	if own >= maxEndlessPerPayer {
		return errManyEndless
	}
	paid, err := v.PaidSince(r.Payer)
	r.Stranger = !paid
	if err == nil && !risk.EndlessRoom(v, w.client, paid) {
		err = errAllEndless
	}
	return err
}

// mayOpen refuses another open payment of an account when too many are open, or when it has
// opened others since [Service.covered] asked for its balance: asked is what it had open then.
func (w *work) mayOpen(v *ledger.View, r *ledger.Reservation, asked int64) error {
	own, cents := v.OpenOfPayer(w.payment.Payer)
	switch all := v.OpenPayments(); {
	case own >= maxOpenPerPayer:
		return errManyOpen
	case all >= maxOpen || own > 0 && all >= maxOpen-reservedOpen:
		return errAllOpen
	}
	if err := cmp.Or(w.oneAtFirst(v), w.mayLapse(v, r)); err != nil {
		return err
	}
	if cents > asked {
		return errOpened
	}
	return nil
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
