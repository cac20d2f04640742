package paid

import (
	"context"
	"errors"
	"net/http"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/pay/mpp"
)

// begin claims the payment of a credential, has it taken to its first step, and waits for its answer, until ten
// seconds after it should have been mined.
func (s *Service) begin(c *Call, w *work) (Answer, error) {
	if err := s.claim(w); err != nil {
		return Answer{}, err
	}
	defer s.holding.Done()
	// Without an outcome the answer is errPending. After anything else, a client drops
	// its credential and signs another payment.
	hold := time.NewTimer(min(max(w.payment.ValidBefore.Sub(s.Now()), 0), ChallengeLife) + holdAfter)
	defer hold.Stop()
	begun := make(chan struct{}) // closed after its first step
	// From here on, only its steps read and write w.row.
	go func() {
		defer s.group.Done()
		defer close(begun)
		if err := s.settle(w); err != nil {
			w.err = err
			s.finish(w)
		}
	}()
	select {
	case <-w.done:
	case <-w.stopWaiting:
	case <-hold.C:
		s.stopWaiting(w)
	case <-s.ctx.Done(): // the next process goes on with what is stored
		<-begun
		s.stopWaiting(w)
	case <-s.Ledger.Done():
		<-begun
		s.stopWaiting(w)
	}
	s.mu.Lock()
	held := w.held
	if held && w.err == nil {
		s.give(&w.applied)
	}
	s.mu.Unlock()
	if !held {
		s.tell(w, OutcomePending)
		return Answer{}, errPending
	}
	c.about.decided = w.ended != ""
	s.release(w)
	if w.err != nil {
		return Answer{}, w.err
	}
	return s.stored(&w.applied)
}

// finish gives w its answer. While its request is held the claims stay, so that no copy of the
// credential takes the answer.
func (s *Service) finish(w *work) {
	w.applied, w.over = w.Reservation, w.state() == held
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
	for _, k := range w.keys {
		if other := s.work[k]; other != nil {
			return s.reused(&other.brought)
		}
	}
	for _, k := range w.keys {
		s.work[k] = w
	}
	s.group.Add(1)
	s.holding.Add(1)
	return nil
}

func (s *Service) release(w *work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range w.keys {
		if s.work[k] == w {
			delete(s.work, k)
		}
	}
}

// stopWaiting has the request of w wait no longer. It returns false if no request is held, or w has
// its answer.
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

// settle takes claimed work to its first step: as a payment that may be mined, or as one that is
// refused. It fails with the answer where nothing else is to be asked. Nothing has to be undone before the
// row is stored. A payment that is refused may have been made already, so no answer says that nothing was
// charged before its network was asked.
func (s *Service) settle(w *work) error {
	x := &candidate{payer: w.payment.Payer, key: w.brought.Idempotency, n: w.network, w: w}
	if w.order != nil {
		x.order = w.order
	}
	if err := s.pass(claiming, x, nil); err != nil {
		return err
	}
	err := s.prepare(x)
	if no, ok := errors.AsType[*Problem](err); ok && !w.unused && !undecided(no) && no.Code != api.CredentialReused {
		w.no, w.claim.underWay = no, w.mayBeUnderWay(no)
		w.network.add(w)
		s.askAbout(w)
		return nil
	}
	if err != nil {
		return err
	}
	w.network.add(w)
	s.Failpoint("reserved")
	s.step(w, facts{said: mpp.Outcome{Detail: "not sent yet"}})
	w.network.rest(w, s.Now())
	return nil
}

// mayBeUnderWay says whether its payer may have sent a payment, or an earlier process whose record
// of that was lost. This process has records of what it has sent itself, and payers of x402 send
// nothing. The payment is refused and not mined yet: the refusal is only that its time has passed,
// or that the configuration has changed since its challenge.
func (w *work) mayBeUnderWay(refused *Problem) bool {
	last := w.expires
	if w.payment.Bearer {
		last = last.Add(ChallengeLife) // its payer has chosen the end, by a clock of its own
	}
	return w.refusal == refused && w.order != nil && !w.payment.ValidBefore.After(last) &&
		(refused.Code == api.PaymentExpired || refused == errConfiguration)
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
