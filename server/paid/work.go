package paid

import (
	"context"
	"errors"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/mpp"
)

// work is one payment on its way from claim to effect. It belongs to the
// service and not to a connection; the request that began it waits for done.
type work struct {
	network     *network
	order       order
	payment     mpp.Payment
	reservation *ledger.Reservation

	held bool // its first request is still waiting; guarded by Service.mu

	// The result, to be read after done is closed: an applied reservation, or
	// the reason why there is none.
	done    chan struct{}
	applied *ledger.Reservation
	err     error
}

// begin claims the payment, starts its work and waits for it, at most until
// the transaction can no longer be mined.
func (s *Service) begin(ctx context.Context, op operation, c Call, w *work) Answer {
	if err := s.claim(w); err != nil {
		return s.problem(err)
	}
	defer s.holding.Done()
	go func() {
		defer s.group.Done()
		w.applied, w.err = s.settle(w)
		s.finish(w)
	}()
	// Work on a credential ends in the truth about it or in errPending: a
	// client that is told less loses its credential and signs another payment.
	hold := time.NewTimer(w.payment.ValidBefore.Add(holdAfter).Sub(s.Now()))
	defer hold.Stop()
	select {
	case <-w.done:
	case <-hold.C:
		if s.letGo(w) {
			return s.problem(errPending)
		}
	}
	if w.err == nil {
		s.mu.Lock()
		s.give(w.applied)
		s.mu.Unlock()
	}
	s.release(w)
	var p *Problem
	switch {
	case w.err == nil:
		return *s.stored(w.applied)
	case errors.As(w.err, &p) && p.Code.Status() == 402:
		return s.offer(ctx, op, c, p)
	}
	return s.problem(w.err)
}

// finish ends work. As long as its request is held, the claims stay: no copy of
// the credential may take the answer before it.
func (s *Service) finish(w *work) {
	s.mu.Lock()
	close(w.done)
	held := w.held
	s.mu.Unlock()
	if !held {
		s.release(w)
	}
}

// letGo stops holding the request of w, unless w has just ended.
func (s *Service) letGo(w *work) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.done:
		return false
	default:
		w.held = false
		return true
	}
}

// claim takes the challenge and the transaction for this work alone, in
// memory: a claim costs an empty wallet a signature, so it must cost us no
// more than that.
func (s *Service) claim(w *work) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errUnavailable
	}
	for _, k := range w.reservation.ReplayKeys {
		if other := s.work[k]; other != nil {
			return s.reused(other.reservation)
		}
	}
	for _, k := range w.reservation.ReplayKeys {
		s.work[k] = w
	}
	s.group.Add(1)
	if w.held {
		s.holding.Add(1)
	}
	return nil
}

func (s *Service) release(w *work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range w.reservation.ReplayKeys {
		delete(s.work, k)
	}
}

// settle takes claimed work to its end: admit, simulate, reserve, then drive.
// Until the reservation is stored nothing has happened that would need undoing.
func (s *Service) settle(w *work) (*ledger.Reservation, error) {
	if err := s.admit(w); err != nil {
		return nil, err
	}
	if err := w.network.Simulate(s.ctx, w.payment); err != nil {
		s.Log.Warn("payment not simulated", "payment", w.payment, "err", err)
		var r *mpp.Rejection
		if errors.As(err, &r) {
			return nil, refusal(api.Code(r.Code), r.Detail)
		}
		return nil, errUnavailable
	}
	s.Failpoint("simulated")
	if !s.Now().Before(w.payment.ValidBefore) {
		return nil, refusal(api.PaymentExpired, "The transaction ran out of time before it was sent. Nothing was charged; pay the new challenge.")
	}
	if err := s.reserve(w); err != nil {
		return nil, err
	}
	s.Failpoint("reserved")
	return s.drive(w, true)
}

// admit says whether there is any use in asking the network about w. Under the
// claim nobody else works on this payment, so what the ledger knows of it is
// the last word: another copy may have come and gone since [Service.consumed].
func (s *Service) admit(w *work) error {
	for _, k := range w.reservation.ReplayKeys {
		r, err := s.reservation(func(v *ledger.View) (*ledger.Reservation, error) { return v.ByReplayKey(k) })
		if err != nil {
			return err
		}
		if r != nil {
			return s.reused(r)
		}
	}
	if known, err := s.credited(w); err != nil {
		return err
	} else if known {
		// An event that came back from an edge, without the memory of its payment.
		return errKnown
	}
	if err := s.check(w.order); err != nil {
		return err
	}
	// The challenge may be five minutes old: what was ready then is asked again.
	return s.inTime(s.ctx, w.network)
}

// errKnown answers for a transaction that has its event already, and of which
// no more is known.
var errKnown = &Problem{Code: api.CredentialReused, More: map[string]any{"outcome": "applied"},
	Detail: "The transaction of this credential was applied before. Do not pay again."}

// credited says whether an event names the transaction of w.
func (s *Service) credited(w *work) (known bool, err error) {
	s.Ledger.View(func(v *ledger.View) {
		var cents int64
		cents, err = v.Credited(w.network.Network(), w.payment.Reference)
		known = cents > 0
	})
	return known, err
}

// reserve stores the reservation of w, if the order can still be carried out,
// nobody has paid for the same, and its payer has not too many open.
func (s *Service) reserve(w *work) error {
	err := s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
		if err := w.order.check(tx.View()); err != nil {
			return err
		}
		// A second credential under one Idempotency-Key is one too many.
		if key := w.reservation.Idempotency; key != "" {
			r, err := tx.ByIdempotency(key)
			switch {
			case err == nil && s.keepsKey(r):
				return &ledger.ReplayedError{Reservation: r.ID}
			case err != nil && !errors.Is(err, ledger.ErrNoReservation):
				return err
			}
		}
		if tx.View().OpenOfPayer(w.reservation.Payer) >= maxOpenPerPayer {
			return errManyOpen
		}
		return tx.Reserve(w.reservation)
	})
	var replayed *ledger.ReplayedError
	switch {
	case errors.As(err, &replayed):
		r, err := s.reservation(func(v *ledger.View) (*ledger.Reservation, error) { return v.Get(replayed.Reservation) })
		if err != nil {
			return err
		}
		return s.reused(r)
	case errors.Is(err, ledger.ErrURLPending):
		return errPending
	case errors.Is(err, ledger.ErrBarred):
		return s.barred(w.reservation)
	case errors.Is(err, ledger.ErrBroken):
		// It may be stored all the same; then the next process sends it.
		return errPending
	case errors.Is(err, ledger.ErrNoRoom):
		s.Log.Error("payments refused: this machine is not ready", "err", err)
		return errUnavailable
	case errors.Is(err, ledger.ErrClosed), errors.Is(err, context.Canceled):
		return errUnavailable
	}
	return err
}

// barred tells a payer when it may pay for this URL again.
func (s *Service) barred(r *ledger.Reservation) *Problem {
	var rest time.Duration
	s.Ledger.View(func(v *ledger.View) {
		if until, barred := v.Barred(r.Payer, r.URLKey); barred {
			rest = until.Sub(s.Now())
		}
	})
	return &Problem{Code: api.PaymentPending, RetryAfter: max(1, int((rest+time.Second-1)/time.Second)),
		Detail: "A payment of this account for this URL failed a moment ago. Nothing was charged; try again later."}
}

// poll is how long to wait before the payment is asked for again, growing
// while nothing is known, but not by much while its request is held.
func (s *Service) poll(w *work, attempt int) time.Duration {
	longest := 30 * time.Second
	if s.Now().Before(w.payment.ValidBefore.Add(holdAfter)) {
		longest = 2 * time.Second
	}
	return min(250*time.Millisecond<<min(attempt, 7), longest)
}

// drive brings a stored reservation to its end, however long that takes. It is
// the only way from a reservation to an effect: a request just reserved comes
// here with fresh set, one found open by a new process without.
//
// Each round asks what became of the transaction, unless it was never sent,
// and sends it (again) while it can still be mined. The same bytes have the
// same hash, so sending twice cannot pay twice.
func (s *Service) drive(w *work, fresh bool) (*ledger.Reservation, error) {
	said, overdue := "", false
	for attempt := 0; ; attempt++ {
		var o mpp.Outcome
		var err error
		if !fresh {
			o, err = w.network.Outcome(s.ctx, w.payment)
		}
		if o.State == mpp.Pending && s.Now().Before(w.payment.ValidBefore) {
			o, err = w.network.Broadcast(s.ctx, w.payment)
			s.Failpoint("broadcast")
		}
		fresh = false
		if err != nil {
			s.Log.Warn("payment without an answer", "payment", w.payment, "err", err)
		}
		if o.State == mpp.Pending && o.Detail != said {
			said = o.Detail
			s.Log.Info("payment open", "payment", w.payment, "detail", said)
		}
		if !overdue && s.Now().After(w.payment.ValidBefore.Add(holdAfter)) {
			overdue = true
			s.Log.Error("payment open beyond its time; it stays reserved until its outcome is proven", "payment", w.payment, "detail", said)
		}
		applied, done, err := s.conclude(w, o)
		switch {
		case done:
			return applied, err
		case err != nil:
			// Either the ledger has ended, and the next process goes on; or an
			// invariant is broken, and the operator must hear of it. What has
			// settled is never given up.
			s.Log.Error("outcome of a payment not stored", "payment", w.payment, "outcome", o.State.String(), "err", err)
		}
		if !s.sleep(s.poll(w, attempt)) {
			return nil, errPending
		}
	}
}
