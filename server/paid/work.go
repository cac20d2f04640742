package paid

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/risk"
	"webring/server/pay/mpp"
)

// work is one payment on its way from claim to effect. It belongs to the
// service and not to a connection; the request that began it waits for done.
type work struct {
	network     *network
	order       purchase
	payment     mpp.Payment
	client      string    // that brought the credential; "" if not known any more
	began       time.Time // when its request, or that of an earlier process, came
	reservation *ledger.Reservation
	// refused is why the payment may not be sent any more, such as an expired
	// challenge; nil when it may. Money that came already counts all the same.
	refused *Problem
	expires time.Time // of the challenge
	realm   string    // of the challenge
	named   bool      // the site that is to join names its account
	unused  bool      // its network has said a moment ago that it was not made
	ours    bool      // this process has issued the challenge

	held        bool          // its first request is still waiting; guarded by Service.mu
	stopWaiting chan struct{} // closed when that waits no longer; nil for work that no request began

	// The result, to be read after done is closed: an applied reservation, or
	// the reason why there is none.
	done    chan struct{}
	applied *ledger.Reservation
	err     error
	ended   Outcome // as the log has it; "" while that has no line of its outcome
}

// begin claims the payment, starts its work, and waits for that until the transaction can
// no longer be mined.
func (s *Service) begin(c *Call, w *work) (Answer, error) {
	if err := s.claim(w); err != nil {
		return Answer{}, err
	}
	defer s.holding.Done()
	go func() {
		defer s.group.Done()
		w.applied, w.err = s.settle(w)
		s.finish(w)
	}()
	// Without an outcome the answer is errPending. After anything else, a client drops
	// its credential and signs another payment.
	hold := time.NewTimer(min(max(w.payment.ValidBefore.Sub(s.Now()), 0), ChallengeLife) + holdAfter)
	defer hold.Stop()
	select {
	case <-w.done:
	case <-w.stopWaiting:
	case <-hold.C:
		s.stopWaiting(w)
	}
	s.mu.Lock()
	held := w.held
	s.mu.Unlock()
	if !held {
		s.tell(w, OutcomePending)
		return Answer{}, errPending
	}
	c.about.decided = w.ended != ""
	if w.err == nil {
		s.mu.Lock()
		s.give(w.applied)
		s.mu.Unlock()
	}
	s.release(w)
	if w.err != nil {
		return Answer{}, w.err
	}
	return s.stored(w.applied)
}

// finish ends work. While its request is held the claims stay, so that no copy of the
// credential takes the answer.
func (s *Service) finish(w *work) {
	s.mu.Lock()
	close(w.done)
	held := w.held
	s.mu.Unlock()
	if o := w.outcome(); held || o != OutcomePending {
		s.tell(w, o)
	}
	if !held {
		s.release(w)
	}
}

// claim reserves the challenge and the transaction for this work, in memory only: a claim
// costs an empty wallet one signature, so it must be as cheap here.
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
	if k := nonceKey(w.payment); k != "" && s.work[k] == w {
		delete(s.work, k)
	}
}

// claimNonce keeps the nonce of the payment of w from other payments until w is released. It
// gives the work that has it already, nil for none. Another can have had it and been released
// since the simulation: the network says whether the nonce was used. Only a payment that was
// simulated may claim one: before that, any stranger can name the account.
func (s *Service) claimNonce(w *work) (other *work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := nonceKey(w.payment)
	if k == "" {
		return nil
	}
	if other = s.work[k]; other == nil {
		s.work[k] = w
	}
	return other
}

// counting is a [Method] whose payments can have nonces.
type counting interface {
	// Unused refuses a payment whose nonce has been used, with the error of Simulate.
	Unused(ctx context.Context, p mpp.Payment) error
}

// unused asks once more whether the nonce of w has been used, if it has one.
func (s *Service) unused(w *work) error {
	m, ok := as[counting](w.network.Method)
	if !ok || w.payment.Nonce == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, questionTimeout)
	defer cancel()
	return m.Unused(ctx, w.payment)
}

// nonceKey names the nonce of a payment among the replay keys, "" if it has none.
func nonceKey(p mpp.Payment) string {
	if p.Nonce == "" {
		return ""
	}
	return "nonce:" + p.Nonce
}

// facts are what the ledger says of a payment before it is sent.
type facts struct {
	known    *ledger.Reservation // with one of its replay keys; nil for none
	credited bool                // events account for its transaction
	adjusted bool                // by the operator
	paid     bool                // its payer has paid here before
	failed   int                 // payments for its URL, lately
	refused  error               // why its order may not be carried out
}

// read reads the facts of w. Another copy of its credential may have been through since
// [Service.consumed]; none can be now, under the claim.
func (w *work) read(v *ledger.View) (f facts, err error) {
	keys := w.reservation.ReplayKeys
	if w.payment.Bearer {
		keys = append(slices.Clip(keys), keptKey(w.payment))
	}
	for _, k := range keys {
		if f.known, err = v.ByReplayKey(k); err == nil {
			return f, nil
		} else if !errors.Is(err, ledger.ErrNoReservation) {
			return f, err
		}
	}
	network, reference := w.network.Network(), w.payment.Reference
	cents, err := v.Credited(network, reference)
	if err == nil && cents > 0 {
		// By an event that came back from an edge without its reservation, or by one of
		// the operator's.
		f.credited = true
		f.adjusted, err = v.Adjusted(network, reference)
	}
	if err == nil {
		f.paid, err = v.HasPaid(w.payment.Payer)
	}
	if err != nil || w.refused != nil {
		return f, err
	}
	f.failed, _ = failures(v, w.order)
	if f.refused = w.order.possible(v, w.payment.Payer); f.refused == nil {
		f.refused = w.oneAtFirst(v)
	}
	return f, nil
}

// settle takes claimed work to its end: simulate, reserve, then drive. Nothing has to be
// undone before the reservation is stored. A payment that is refused may have been made
// already, so no answer says that nothing was charged before its network was asked.
func (s *Service) settle(w *work) (*ledger.Reservation, error) {
	var f facts
	var err error
	s.Ledger.View(func(v *ledger.View) { f, err = w.read(v) })
	switch {
	case err != nil:
		return nil, err
	case f.known != nil:
		return nil, s.reused(f.known)
	case f.credited:
		return nil, accounted(f.adjusted, w.payment.Reference)
	}
	if w.refused == nil && !f.paid {
		if poor := w.network.strangers.Until(w.payment.Payer, w.payment.Cents, s.Now()); poor.After(s.Now()) {
			return nil, heldTooLittle(poor, s.Now())
		}
	}
	err = s.prepare(w, f)
	if refused, ok := errors.AsType[*Problem](err); ok && !w.unused && !undecided(refused) && refused.Code != api.CredentialReused {
		return s.settleSeen(w, refused)
	}
	if err != nil {
		return nil, err
	}
	s.Failpoint("reserved")
	return s.drive(w, &mpp.Outcome{Detail: "not sent yet"})
}

// prepare stores the reservation of a payment that is worth being sent.
func (s *Service) prepare(w *work, f facts) error {
	if w.refused != nil {
		return w.refused
	}
	if no := s.refuses(w.network, w.payment.Payer, f.paid); no != nil {
		return no
	}
	if f.refused != nil {
		return f.refused
	}
	// The challenge may be five minutes old: what was ready then is asked again.
	if err := s.checkReady(w.network); err != nil {
		return err
	}
	if err := s.simulateInTurn(w, f.paid); err != nil {
		return s.notSimulated(w, err)
	}
	s.Failpoint("simulated")
	if other := s.claimNonce(w); other != nil {
		return s.behind(other.reservation)
	}
	if err := s.unused(w); err != nil {
		return s.notSimulated(w, err)
	}
	w.named = s.named(s.ctx, w.client, w.order, core.AccountOf(w.payment.Payer), f.failed)
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
			return s.behind(first)
		}
	}
	return rejection(no)
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

// behind is the answer to a payment that can only be taken when an open one of its account has
// ended. A 402 would be paid with the same nonce again, or twice for the same thing.
func (s *Service) behind(first *ledger.Reservation) error {
	stored, err := s.reservation(func(v *ledger.View) (*ledger.Reservation, error) { return v.Get(first.ID) })
	if err != nil {
		return err
	}
	return comesFirst(cmp.Or(stored, first))
}

// comesFirst is that answer, by what the ledger has of the open payment.
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

// reserve stores the reservation of w if the order can still be carried out, there is no
// other payment for it, and not too many payments are open. open is what the payer had
// open, in cents, when [Service.covered] asked for its balance.
func (s *Service) reserve(w *work, open int64) error {
	var earlier *ledger.Reservation
	err := s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
		v, r := tx.View(), w.reservation
		err := w.order.possible(v, r.Payer)
		if err == nil {
			earlier, err = s.earlier(v, r.Idempotency, r.Payer, "")
		}
		if err != nil || earlier != nil {
			return err
		}
		if err := cmp.Or(w.mayOpen(v, open), s.mayHold(v, w)); err != nil {
			return err
		}
		if w.named {
			return tx.ReserveUnbarred(r)
		}
		return tx.Reserve(r)
	})
	switch {
	case err == nil && earlier != nil:
		return s.keyUsed(earlier)
	case errors.As(err, new(*ledger.ReplayedError)):
		return s.replayed(err)
	case errors.Is(err, ledger.ErrBarred):
		// It is told when it may pay for this URL again.
		return &Problem{Code: api.PaymentPending, RetryAfter: risk.Seconds(s.barredFor(w.reservation)),
			Detail: "A payment of this account for this URL failed a short time ago. Try again later, or pay from another account. Nothing was charged."}
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

// poll is the least time before the payment is asked for again. It grows while nothing is
// known, but little while the request is held. due is when the block that decides is
// expected: then it is asked for, and after that at intervals no longer than it is late.
func (s *Service) poll(w *work, attempt int, due time.Time) time.Duration {
	const least, most = 2 * time.Second, 30 * time.Second
	now, released := s.Now(), w.payment.ValidBefore.Add(holdAfter)
	longest := least
	switch wait := due.Sub(now); {
	case now.Before(released):
		if attempt > 4 {
			longest = 2 * least // it has been open for six seconds
		}
	case wait > 0:
		longest = min(most, wait)
	default:
		late := now.Sub(released)
		if !due.IsZero() {
			late = min(late, -wait)
		}
		longest = min(most, max(least, late))
	}
	return min(250*time.Millisecond<<min(attempt, 7), longest)
}

// drive brings a stored reservation to its end, however long that takes. It is the only
// way from a reservation to an effect, both for a request that was just reserved and for
// a reservation that a new process finds open.
//
// Each round asks what became of the transaction, and sends it (again) while it can still
// be mined. The same bytes have the same hash, so sending twice cannot pay twice. In the
// first round, known replaces the question; nil: nothing is known. After a transaction has
// wasted gas, its payment is not sent again, and no other payment of its account is
// submitted for the first time. One that was submitted before is sent until it is mined,
// because transactions with later nonces wait for it. Nothing becomes known between two
// blocks, so rounds wait for blocks.
func (s *Service) drive(w *work, known *mpp.Outcome) (*ledger.Reservation, error) {
	defer s.gas.GiveBack(w.reservation.ID)
	said, overdue, lapsed := "", false, w.reservation.Lapsed
	seen := w.network.now().block // the newest before the payment was last asked for
	for attempt := 0; ; attempt++ {
		var o mpp.Outcome
		var err error
		if known != nil {
			o = *known
		} else {
			o, err = w.network.Outcome(s.ctx, w.payment)
		}
		submitted := len(w.payment.Submissions) > 0
		if o.State == mpp.Pending && o.Wasted == nil && s.Now().Before(w.payment.ValidBefore) && (submitted || !s.gas.Barred(w.network.Network(), w.payment.Payer).After(s.Now())) {
			o, err = w.network.Broadcast(s.ctx, w.payment, &expenses{s, w.network, w.reservation.ID, &w.payment})
			s.Failpoint("broadcast")
		}
		known = nil
		s.account(w.network, w.reservation.ID, w.client, w.payment, o)
		if err != nil {
			s.noAnswer("payment without an answer", w.log(), "err", err)
		}
		if o.State == mpp.Pending && o.Detail != said {
			said = o.Detail
			s.Log.Info("payment open", w.log(), "detail", said)
		}
		late := s.Now().After(w.payment.ValidBefore.Add(holdAfter))
		if late && w.payment.Outlives() && o.State == mpp.Pending && err == nil && seen.After(w.payment.ValidBefore) {
			// Its network works, and it is not mined.
			if gaveUp, err := s.lapse(w, &lapsed, seen); err != nil {
				s.Log.Error("that a payment was not mined in time is not stored", w.log(), "err", err)
			} else if gaveUp != nil {
				return nil, gaveUp
			}
		} else if late && !overdue && lapsed.IsZero() {
			overdue = true
			s.Log.Error("payment open beyond its time; it stays reserved until its outcome is proven", w.log(), "detail", said)
		}
		applied, done, err := s.conclude(w, o)
		switch {
		case done:
			switch {
			case w.ended != "": // it has no effect, and the line says why
			case applied != nil:
				s.record(w, o, slog.LevelInfo, "payment applied", "applied", applied.Member, "")
			default:
				s.record(w, o, slog.LevelWarn, "payment failed", o.State.String(), w.reservation.Member, o.Detail)
			}
			return applied, err
		case err != nil:
			// Either the ledger has ended, and the next process goes on; or an
			// invariant is broken, which the operator must learn. A settled payment
			// is never given up.
			s.Log.Error("outcome of a payment not stored", w.log(), "outcome", o.State.String(), "err", err)
		}
		if !s.nextBlock(w.network, &seen, s.poll(w, attempt, o.Due)) {
			return nil, errPending
		}
	}
}

// lapse has the open payment of w, which was not mined in time and can still be, give up what
// it holds; since is when it did that. When it has still not been mined at a block for which
// [network.hadTime], it gives up the payment, too, and gives the answer to its credential.
func (s *Service) lapse(w *work, since *time.Time, block time.Time) (gaveUp, err error) {
	if now := s.Now(); since.IsZero() {
		err = s.update(s.ctx, w.reservation.ID, func(_ *ledger.Tx, r *ledger.Reservation) error {
			r.Lapsed = now.UTC()
			return nil
		})
		if err == nil {
			*since = now
			s.Failpoint("lapsed")
			s.Log.Warn("payment not mined in time; it holds nothing any more, and counts if it is mined", w.log())
		}
		return nil, err
	} else if !w.network.hadTime(*since, block) {
		return nil, nil
	}
	var ended *ledger.Reservation
	err = s.update(s.ctx, w.reservation.ID, func(_ *ledger.Tx, r *ledger.Reservation) error {
		r.Outcome, r.Reason, ended = outcomeGivenUp, "not mined in "+givenUpAfter.String()+"; if it is mined, the daily look finds its money", r
		return end(r, w.payment)
	})
	if err != nil {
		return nil, err
	}
	s.record(w, mpp.Outcome{}, slog.LevelWarn, "payment given up: it was not mined, and still can be", string(OutcomeFailed), w.reservation.Member, ended.Reason)
	return s.reused(ended), nil
}

// givenUpAfter is how long a payment that has lapsed is waited for: nodes of the network do not
// hold on to a transaction for as long, and some forget after that what they would need to
// show what became of it. outcomeGivenUp is the outcome in its reservation then. If it is mined
// all the same, the operator is told of money without an event.
const (
	givenUpAfter   = time.Hour
	outcomeGivenUp = "given up"
)

// resume takes up every reservation that an earlier process left open.
func (s *Service) resume() {
	var open []*ledger.Reservation
	s.Ledger.View(func(v *ledger.View) { open = v.Open() })
	for _, r := range open {
		w := &work{reservation: r, client: r.Client, began: r.Created, done: make(chan struct{})}
		var err error
		if w.payment, err = StoredPayment(r); err == nil {
			w.order, err = s.load(r)
		}
		if w.network = s.network(w.payment.Method); err == nil && w.network == nil {
			err = fmt.Errorf("paid: payment method %q is not configured", w.payment.Method)
		}
		if err == nil {
			err = s.claim(w)
		}
		if err == nil {
			s.claimNonce(w)
		}
		if err != nil {
			s.Log.Error("open payment cannot be taken up; it stays reserved", "payment", r.ID, "err", err)
			continue
		}
		s.Log.Info("open payment taken up", w.log())
		go func() {
			defer s.group.Done()
			w.applied, w.err = s.drive(w, nil)
			s.finish(w)
		}()
	}
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
func (w *work) mayLapse(v *ledger.View) error {
	r := w.reservation
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
func (w *work) mayOpen(v *ledger.View, asked int64) error {
	own, cents := v.OpenOfPayer(w.payment.Payer)
	switch all := v.OpenPayments(); {
	case own >= maxOpenPerPayer:
		return errManyOpen
	case all >= maxOpen || own > 0 && all >= maxOpen-reservedOpen:
		return errAllOpen
	}
	if err := cmp.Or(w.oneAtFirst(v), w.mayLapse(v)); err != nil {
		return err
	}
	if cents > asked {
		return errOpened
	}
	return nil
}

// StopWaiting ends the wait of the request that brought this credential: its answer is that the
// payment is pending. The next request with the credential gets the outcome. Edges call
// this when they hold too many requests. c must be the same request again, so no client
// can end the wait of another.
func (s *Service) StopWaiting(c Call) Answer {
	cred, found, err := c.credential()
	if err == nil && found && s.keys.Load().Signed(cred.Challenge) && cred.Challenge.Digest == c.bodyDigest() {
		s.mu.Lock()
		w := s.work[challengeKey(cred.Challenge.ID)]
		s.mu.Unlock()
		if w != nil && s.stopWaiting(w) {
			return Answer{Status: http.StatusNoContent}
		}
	}
	return s.problem(&Problem{Code: api.NotFound, Detail: "No request with this credential is held here."})
}

// stopWaiting has the request of w wait no longer. It returns false if no request is held, or w has
// ended.
func (s *Service) stopWaiting(w *work) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.done:
		return false
	default:
	}
	if !w.held {
		return false
	}
	w.held = false
	close(w.stopWaiting)
	return true
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
	s.Ended(Ended{Operation: w.reservation.Operation, Method: w.network.Name(), Outcome: o, Took: s.Now().Sub(w.reservation.Created)})
}
