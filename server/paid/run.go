package paid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/risk"
	"webring/server/pay/mpp"
)

// work is a payment that this process steps: from its claim until it is final.
type work struct {
	row                        // as it was stored last
	brought ledger.Reservation // as its credential brought it; it does not change
	network *network
	order   purchase // nil if its credential came with another request
	client  string   // that brought the credential; "" if not known any more
	began   time.Time

	// What is known of its credential, until it is stored.
	refusal *Problem  // why the payment may not be sent any more, such as an expired challenge
	expires time.Time // of the challenge
	claim   claimed
	no      *Problem     // why it is refused, nil if it is not; its network is asked all the same
	had     bool         // its network had it, though it is refused
	kept    bool         // it has claimed no more than what is kept of it: see [Service.keep]
	names   risk.NamedBy // by the site, if payments for its URL have failed
	unused  bool         // its network has said a moment ago that it was not made

	// Of the request that brought it. held and stopWaiting are guarded by Service.mu.
	held        bool          // it is still waiting
	stopWaiting chan struct{} // closed when it waits no longer; nil for work that no request began
	keys        []string      // that it claims
	done        chan struct{} // closed when there is an answer
	// The answer, to be read after done is closed: err says why there is no effect, and applied is the row that
	// has it.
	err     error
	applied ledger.Reservation
	ended   Outcome // as the log has it; "" while that has no line of its outcome

	// Of its next step, guarded by network.mu: when it is due by the monotonic clock, the newest block at the
	// last one, how many there were, and whether one is under way, which confirms the effect.
	due      time.Time
	seen     time.Time
	attempts int
	busy     bool
	over     bool // it was refused, and has its answer
	confirms bool
	// Read and written in steps alone.
	said    string
	decides time.Time // when the block that decides is expected; zero if that is not known
	overdue bool
	missing time.Time // of the newest block when its network first did not have it, after it had its effect
}

// step steps the payment of w by what is known of it, does what follows, and steps it again until it has
// to wait. Only one step of a payment runs at a time: see [network.next].
func (s *Service) step(w *work, f facts) {
	for {
		f.now = s.Now()
		f.barred = s.gas.Barred(w.network.Network(), w.payment.Payer).After(f.now)
		f.waited = s.waited(w, f)
		was, paid := w.state(), f.said.State == mpp.Settled && !f.silent
		if was == held && paid && !s.noteRefused(w, f) {
			w.err = errPending // another request is at it
			s.finish(w)
			return
		}
		next, do := step(w.row, f)
		switch do {
		case wait:
			s.waits(w, f)
			return
		case send:
			if w.state() == settled {
				s.Log.Warn("an applied payment is not on its network any more", w.log(), "detail", f.said.Detail)
			}
			f = s.send(w)
			continue
		}
		var err error
		if was == sent && paid {
			s.Failpoint("receipt")
		}
		if was != held || paid {
			do, err = s.store(w, &next, &f)
		}
		switch {
		case err != nil && was == held:
			w.err = s.notStored(w, err)
			s.finish(w)
			return
		case err == nil && (do == wait || do == send): // the row of that turn has nothing to store
			s.waits(w, f)
			return
		case err == nil && do == inquire:
			if err = s.bring(w, &f); err == nil {
				continue
			}
		}
		if err != nil {
			// Either the ledger has ended, and the next process goes on; or an
			// invariant is broken, which the operator must learn. A settled payment
			// is never given up.
			s.Log.Error("outcome of a payment not stored", w.log(), "outcome", f.said.State.String(), "err", err)
			return
		}
		w.row = next
		if do == reserve { // and goes on as one that was sent
			s.Failpoint("reserved")
			f.books = books{}
			continue
		}
		s.concluded(w, was, f)
		return
	}
}

// noteRefused notes that the network has a payment that is refused. It returns false if another request is at
// what is kept of it.
func (s *Service) noteRefused(w *work, f facts) bool {
	if !w.had {
		w.had = true
		s.Log.Warn("payment had settled before its credential came", w.log(), "settled_by", w.settledBy(f.said))
	}
	if w.payment.Bearer && w.claim.payee && !w.kept {
		w.kept = s.keep(w)
		return w.kept
	}
	return true
}

// store does in a turn of the writer what follows from the facts about w, and gives the row that it
// has stored. It decides anew, by what the ledger says in that turn.
func (s *Service) store(w *work, next *row, f *facts) (do effect, err error) {
	err = s.Ledger.Do(context.Background(), func(tx *ledger.Tx) error {
		now, order := w.row, w.order
		if now.state() != held {
			r, err := tx.Get(w.ID)
			if err == nil {
				now, err = rowOf(r)
			}
			if err == nil {
				order, err = s.load(r)
			}
			if err != nil {
				return err
			}
		}
		var err error
		if now.state() <= sent && f.said.State == mpp.Settled {
			f.books, err = s.booksOf(w, tx.View(), order, now, *f)
		}
		if err != nil {
			return err
		}
		switch *next, do = step(now, *f); do {
		case wait, inquire, send, refuse:
			return nil
		case carryOut:
			if err = w.carryOut(tx, order, next); err == nil {
				break
			}
			why, ok := errors.AsType[*Problem](order.stillHolds(tx.View()))
			if !ok || !noEffect(tx.View(), why) {
				return err
			}
			err, f.books.impossible, f.books.never = nil, why, true
			if *next, do = step(now, *f); do != store {
				return nil
			}
		case adopt:
			tx.Claim(w.paid(next.payment), next.Seq)
		}
		if err == nil && next.State == ledger.Applied && now.state() == sent {
			err = explainKept(tx, next.payment)
		}
		if err == nil && now.state() == settled && f.said.State == mpp.Settled {
			// If its first block was dropped, and the payment was submitted again in another
			// transaction, the event accounts for the money of that one, too.
			err = tx.MovePayment(w.network.Network(), now.settledBy(f.said), next.Seq, next.Cents)
		}
		if err != nil {
			return err
		}
		stored, err := next.stored()
		switch {
		case err != nil:
			return err
		case do == reserve:
			err = tx.Reserve(stored)
		case do == keep:
			err = tx.StoreUnapplied(stored)
		default:
			err = tx.Update(stored)
		}
		next.Reservation = *stored
		return err
	})
	return do, err
}

// concluded tells what was stored of w, in the log and to the request that waits for it.
func (s *Service) concluded(w *work, was state, f facts) {
	o := f.said
	switch is := w.state(); {
	case is == held && o.State == mpp.Settled && !w.claim.payee:
		s.Log.Error("payment settled to a recipient that this ring never had", w.log(), "payee", w.payment.Payee, Audit, "money")
	case is == held:
	case was == held:
		s.record(w, o, slog.LevelError, "payment settled and can have no effect; credit it with: webring payments adjust", "unapplied", w.Member, w.Reason)
	case is == sent: // its payment has lapsed
		s.Failpoint("lapsed")
		s.Log.Warn("payment not mined in time; it holds nothing any more, and counts if it is mined", w.log())
		return
	case was == sent && w.State == ledger.Applied:
		s.Failpoint("applied")
		s.record(w, o, slog.LevelInfo, "payment applied", "applied", w.Member, "")
	case was == sent && w.Outcome == outcomeGivenUp:
		s.record(w, o, slog.LevelWarn, "payment given up: it was not mined, and still can be", string(OutcomeFailed), w.Member, w.Reason)
	case was == sent && o.State == mpp.Settled:
		s.Failpoint("applied")
		level := slog.LevelError
		if w.Reason == ReasonAdjusted {
			level = slog.LevelWarn
		}
		s.record(w, o, level, "payment settled and has no effect", "unapplied", w.Member, w.Reason)
	case was == sent:
		s.record(w, o, slog.LevelWarn, "payment failed", o.State.String(), w.Member, o.Detail)
	case w.vanished():
		s.Log.Error("an applied payment has vanished for good; record it with: webring payments adjust --void", w.log(), "outcome", w.Outcome, "detail", w.Reason, Audit, "money")
	}
	if was <= sent {
		if no := w.answer(waiting, s.base()); no != nil {
			w.err = no
		}
		s.finish(w)
	}
}

// waits notes that w waits, and why.
func (s *Service) waits(w *work, f facts) {
	o := f.said
	switch {
	case w.state() == sent && o.State == mpp.Pending && o.Detail != w.said:
		w.said = o.Detail
		s.Log.Info("payment open", w.log(), "detail", w.said)
	case w.state() == sent && o.State == mpp.Settled:
		s.Log.Info("payment waits for its block to be final, or for another one that may have the effect that it could have", w.log(), "settled_by", w.settledBy(o))
	}
	if w.state() == sent && !w.overdue && w.Lapsed.IsZero() && !w.payment.Outlives() && f.now.After(w.payment.ValidBefore.Add(holdAfter)) {
		w.overdue = true
		s.Log.Error("payment open beyond its time; it stays reserved until its outcome is proven", w.log(), "detail", w.said)
	}
}

// waited says whether the network of w works, and had [givenUpAfter] to mine what it does not have.
func (s *Service) waited(w *work, f facts) bool {
	since := w.Lapsed
	if w.state() == settled {
		switch {
		case f.silent:
		case f.said.State != mpp.Pending:
			w.missing = time.Time{}
		case w.missing.IsZero():
			w.missing = f.block
		}
		since = w.missing
	}
	return !since.IsZero() && w.network.hadTime(since, f.block)
}

// send sends the payment of w (again). The same bytes have the same hash, so sending twice cannot pay
// twice.
func (s *Service) send(w *work) facts {
	o, err := w.network.Broadcast(s.ctx, w.payment, &expenses{s, w.network, w.ID, &w.payment})
	s.Failpoint("broadcast")
	return s.heard(w, facts{tried: true}, o, err)
}

// askAbout asks the network of w what became of the payment, and steps it.
func (s *Service) askAbout(w *work) {
	f, since := facts{block: w.network.now().block}, time.Time{}
	if w.state() == held {
		since = w.expires.Add(-ChallengeLife - MaxSkew)
	}
	var o mpp.Outcome
	var err error
	if down := w.network.ready(); w.no == errUnavailable && down != nil && down != ErrSkew {
		err = down // it does not answer
	} else {
		o, err = w.network.Outcome(s.ctx, w.payment, since)
	}
	s.step(w, s.heard(w, f, o, err))
	w.network.rest(w, s.Now())
}

// heard adds to f what a network said of the payment of w.
func (s *Service) heard(w *work, f facts, o mpp.Outcome, err error) facts {
	if err != nil {
		s.noAnswer("payment without an answer", w.log(), "err", err)
	}
	s.account(w.network, w.ID, w.client, w.payment, o)
	f.said, f.silent, w.decides = o, err != nil, o.Due
	f.refused, f.claim, f.had = w.no, w.claim, w.had
	return f
}

// bring asks what the transaction of a payment brought all payees that the ring ever had. One
// transaction can pay several payees, and events name none.
func (s *Service) bring(w *work, f *facts) error {
	least := max(f.said.Received, w.Cents)
	t, err := w.network.received(s.ctx, w.settledBy(f.said), everything)
	if err == nil && t.Cents < least {
		err = fmt.Errorf("all payees together got %d cents, and that of the payment %d", t.Cents, least)
	}
	if err != nil {
		return fmt.Errorf("paid: what %s brought in all is not known: %w", w.settledBy(f.said), err)
	}
	f.books.brought = t.Cents
	return nil
}

// booksOf gives what the ledger says of the money of a payment that has settled.
func (s *Service) booksOf(w *work, v *ledger.View, order purchase, r row, f facts) (b books, err error) {
	b.brought = f.books.brought
	transaction, network := r.settledBy(f.said), w.network.Network()
	if b.seq, b.event, err = v.Restored(w.paid(r.payment)); b.event != nil {
		if _, cents := core.PaymentOf(b.event); cents != r.Cents {
			b.event = nil // it is of another payment
		}
	}
	if err == nil {
		b.given, err = v.Credited(network, transaction)
	}
	if err == nil && b.given > 0 {
		b.adjusted, err = v.Adjusted(network, transaction)
	}
	if err == nil && order != nil && (r.state() == held || !r.Lapsed.IsZero()) {
		err = s.pass(settling, &candidate{order: order, w: w}, v)
		if why, ok := errors.AsType[*Problem](err); ok {
			b.impossible, b.never, err = why, noEffect(v, why), nil
		}
	}
	return b, err
}

// noEffect says whether a payment that has settled can have no effect, because why refuses its
// order. A ring that is full, not counting open payments, stays full until its operator makes it
// larger.
func noEffect(v *ledger.View, why *Problem) bool {
	return why.Final() || why.Code == api.RingFull && v.State().Rows() >= v.State().Capacity()
}

// paid is a payment as the event about it names it.
func (w *work) paid(p mpp.Payment) core.Payment {
	return core.Payment{Method: p.Method, Network: w.network.Network(), Transaction: p.Reference, Payer: p.Payer, Payee: p.Payee, Binding: p.Binding}
}

// carryOut appends the event that was paid for, and puts its number and the answer into r.
func (w *work) carryOut(tx *ledger.Tx, order purchase, r *row) error {
	paid := r.payment
	e, err := order.carryOut(tx, w.paid(paid))
	if err != nil {
		return err
	}
	receipt := mpp.Receipt{Method: paid.Method, Reference: paid.Reference, Timestamp: time.UnixMilli(tx.Stamp()).UTC()}
	r.Member, r.Seq = e.slug, tx.State().Seq()-1
	r.Response = &ledger.Response{Status: e.status, Body: e.body, Header: successHeader(receipt, tx.State(), tx.State().Seq())}
	if paid.Bearer {
		r.Response.Header = append(r.Response.Header, x402Receipt(paid))
	}
	if e.location != "" {
		r.Response.Header = append(r.Response.Header, [2]string{"Location", e.location})
	}
	return nil
}
