package paid

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/pay/mpp"
)

// begin claims the payment of a credential, has it taken to its first step, and waits for its answer until
// it can no longer be mined.
func (s *Service) begin(c *Call, w *work) (Answer, error) {
	if err := s.claim(w); err != nil {
		return Answer{}, err
	}
	defer s.holding.Done()
	// Without an outcome the answer is errPending. After anything else, a client drops
	// its credential and signs another payment.
	hold := time.NewTimer(min(max(w.payment.ValidBefore.Sub(s.Now()), 0), ChallengeLife) + holdAfter)
	defer hold.Stop()
	begun := make(chan struct{}) // closed when it is stored, or refused
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
	w.applied = w.Reservation
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

// settle takes claimed work to its first step as a payment that may be mined, or gives the answer to one
// that is refused. Nothing has to be undone before the row is stored. A payment that is refused may have
// been made already, so no answer says that nothing was charged before its network was asked.
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
		return s.refused(w, no)
	}
	if err != nil {
		return err
	}
	s.begun(w, facts{said: mpp.Outcome{Detail: "not sent yet"}})
	return nil
}

// begun takes the first step of a payment that was stored.
func (s *Service) begun(w *work, f facts) {
	w.seen = f.block
	w.network.add(w)
	s.Failpoint("reserved")
	s.step(w, f)
	w.network.rest(w, s.Now())
}

// refused steps a payment that is refused, by what its network says of it, until there is an answer.
func (s *Service) refused(w *work, no *Problem) error {
	f, kept, had := facts{refused: no, claim: w.claim}, false, false
	f.claim.underWay = w.mayBeUnderWay(no)
	for {
		if down := w.network.ready(); no == errUnavailable && down != nil && down != ErrSkew {
			f.silent = true // its network does not answer
		} else {
			o, err := w.network.Outcome(s.ctx, w.payment, w.expires.Add(-ChallengeLife-MaxSkew))
			if err != nil {
				s.noAnswer("refused payment without an answer from its network", w.log(), "err", err)
			}
			f.said, f.silent = o, err != nil
		}
		if had && !f.silent && f.said.State != mpp.Settled {
			return errPending // its block was dropped
		}
		f.now = s.Now()
		next, do := step(w.row, f)
		if had && f.silent {
			do = wait
		}
		if f.said.State == mpp.Settled && !f.silent {
			if !had {
				had = true
				s.Log.Warn("payment had settled before its credential came", w.log(), "settled_by", w.settledBy(f.said))
			}
			if w.payment.Bearer && w.claim.payee && !kept {
				if kept = s.keep(w); !kept {
					return errPending // another request is at it
				}
			}
			var err error
			if next, do, err = s.admitted(w, &f); err != nil {
				return s.notStored(w, err)
			}
		}
		switch do {
		case refuse:
			if !w.claim.payee && had {
				s.Log.Error("payment settled to a recipient that this ring never had", w.log(), "payee", w.payment.Payee, Audit, "money")
			}
			return next.refused
		case reserve:
			w.row = next
			s.begun(w, f)
			return nil
		case keep:
			w.row = next
			s.record(w, f.said, slog.LevelError, "payment settled and can have no effect; credit it with: webring payments adjust", "unapplied", w.Member, w.Reason)
			return next.unapplied()
		}
		if !s.sleep(clockEvery) {
			return errPending
		}
	}
}

// admitted steps a payment that its network has and that is refused, by what the ledger says in a turn of
// the writer, and stores it there if it is to be stored. Other payments of its payer do not hinder it.
func (s *Service) admitted(w *work, f *facts) (next row, do effect, err error) {
	err = s.Ledger.Do(s.ctx, func(tx *ledger.Tx) (err error) {
		if f.books, err = s.booksOf(w, tx.View(), w.order, w.row, *f); err != nil {
			return err
		}
		next, do = step(w.row, *f)
		stored, err := next.stored()
		switch {
		case err != nil:
		case do == reserve:
			err = tx.Reserve(stored)
		case do == keep:
			err = tx.StoreUnapplied(stored)
		}
		next.Reservation = *stored
		return err
	})
	return next, do, err
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
