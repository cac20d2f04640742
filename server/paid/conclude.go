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
	"webring/server/paid/risk"
	"webring/server/pay/mpp"
)

// conclude stores what a final outcome means. done is false while the outcome is open, and
// if it could not be stored.
func (s *Service) conclude(w *work, o mpp.Outcome) (applied *ledger.Reservation, done bool, err error) {
	switch o.State {
	case mpp.Pending:
		return nil, false, nil
	case mpp.Settled:
		s.Failpoint("receipt")
		return s.concludeSettled(w, o)
	}
	err = s.update(context.Background(), w.reservation.ID, func(_ *ledger.Tx, r *ledger.Reservation) error {
		r.Outcome, r.Reason = o.State.String(), o.Detail
		return end(r, w.payment)
	})
	if err != nil {
		return nil, false, err
	}
	again := " Pay the new challenge."
	if w.reservation.Operation == OpRegister {
		minutes := (risk.Seconds(s.barredFor(w.reservation)) + 59) / 60
		again = fmt.Sprintf(" Pay the new challenge from another account, or from this one in %d minutes.", minutes)
	}
	switch o.State {
	case mpp.Failed:
		return nil, true, &Problem{Code: api.VerificationFailed, Reason: mpp.ReasonReverted, Detail: "The transaction was mined and reverted, so nothing was paid." + again}
	case mpp.Gone:
		detail := "The transaction expired before it was mined, so nothing was paid."
		if w.payment.Nonce != "" {
			detail = "The transaction was not mined: it expired, or another one used its nonce. Nothing was paid."
		}
		return nil, true, &Problem{Code: api.VerificationFailed, Reason: mpp.ReasonNotMined, Detail: detail + again}
	}
	return nil, true, errMismatched
}

// concludeSettled stores what a settled payment comes to.
func (s *Service) concludeSettled(w *work, o mpp.Outcome) (applied *ledger.Reservation, done bool, err error) {
	applied, err = s.apply(w, o, 0)
	if errors.Is(err, errBrought) {
		if !o.Deep {
			s.Log.Info("payment waits for its block to be final", w.log(), "settled_by", settledBy(w, o))
			return nil, false, nil
		}
		var cents int64
		if cents, err = s.broughtAll(w, o); err == nil {
			applied, err = s.apply(w, o, cents)
		}
	}
	if waits, ok := errors.AsType[*Problem](err); ok {
		s.Log.Info("payment waits: another one may have the effect that it could have", w.log(), "code", waits.Code)
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if applied.State == ledger.Applied {
		return applied, true, nil
	}
	level := slog.LevelError
	if applied.Reason == ReasonAdjusted {
		level = slog.LevelWarn
	}
	s.record(w, o, level, "payment settled and has no effect", "unapplied", w.reservation.Member, applied.Reason)
	return nil, true, s.reused(applied)
}

// settledBy names the transaction in which the payment of w has settled.
func settledBy(w *work, o mpp.Outcome) string { return cmp.Or(o.Reference, w.payment.Reference) }

// settlement is what a settled payment comes to; see the package documentation.
type settlement struct {
	restored core.Event // the event that it has already
	seq      uint64     // of restored
	usedUp   string     // why its money can have no effect
	// Without either, it gets a new event.
}

// errBrought says that the ledger cannot decide without knowing what the payment's transaction
// brought all payees. The network is asked for that once the payment's block is final.
var errBrought = errors.New("paid: the network must be asked what a payment's transaction brought")

// settlement finds what a payment that was settled by o comes to, in the order of the
// table in the package documentation. brought is what its transaction brought all payees, 0 if
// the network was not asked: then it may fail with errBrought.
func (w *work) settlement(v *ledger.View, o mpp.Outcome, brought int64) (is settlement, err error) {
	is.seq, is.restored, err = v.Restored(w.paid(w.payment))
	if err != nil || is.restored != nil {
		return is, err
	}
	transaction := settledBy(w, o)
	credited, err := v.Credited(w.network.Network(), transaction)
	switch {
	case err != nil || credited+w.reservation.Cents <= max(w.received(o), brought):
		return settlement{}, err
	case brought == 0:
		return settlement{}, errBrought
	}
	adjusted, err := v.Adjusted(w.network.Network(), transaction)
	if adjusted {
		return settlement{usedUp: ReasonAdjusted}, err
	}
	return settlement{usedUp: fmt.Sprintf("events gave %d cents for its transaction, which brought %d", credited, brought)}, err
}

// paid is a payment as the event about it names it.
func (w *work) paid(p mpp.Payment) core.Payment {
	return core.Payment{Method: p.Method, Network: w.network.Network(), Transaction: p.Reference, Payer: p.Payer, Payee: p.Payee, Binding: p.Binding}
}

// received is what the transaction of a settled payment brought its own payee, in cents.
func (w *work) received(o mpp.Outcome) int64 { return max(o.Received, w.reservation.Cents) }

// ReasonAdjusted is the reason of a payment that has settled without effect, or was diverted,
// if the operator has adjusted its transaction. Any other reason needs the operator's attention.
const ReasonAdjusted = "the operator has adjusted its transaction"

// broughtAll asks the network what the payment's transaction brought all payees that the ring
// ever had, in cents. One transaction can pay several payees, and events name none.
func (s *Service) broughtAll(w *work, o mpp.Outcome) (cents int64, err error) {
	t, err := w.network.received(s.ctx, settledBy(w, o), everything)
	if err == nil && t.Cents < w.received(o) {
		err = fmt.Errorf("all payees together got %d cents, and that of the payment %d", t.Cents, w.received(o))
	}
	if err != nil {
		return 0, fmt.Errorf("paid: what %s brought in all is not known: %w", settledBy(w, o), err)
	}
	return t.Cents, nil
}

// apply stores what a settled payment comes to, in one turn of the writer: the event and
// the answer to its request, the event that it has already, or that it has no effect. It
// may fail with errBrought.
func (s *Service) apply(w *work, o mpp.Outcome, brought int64) (applied *ledger.Reservation, err error) {
	err = s.Ledger.Do(context.Background(), func(tx *ledger.Tx) error {
		r, err := tx.Get(w.reservation.ID)
		if err != nil {
			return err
		}
		if applied = r; r.State == ledger.Applied {
			return nil
		}
		is, err := w.settlement(tx.View(), o, brought)
		if err == nil && is == (settlement{}) && !r.Lapsed.IsZero() {
			// Others may have what it held.
			err = w.order.check(tx.View())
			if never, ok := errors.AsType[*Problem](err); ok && noEffect(tx.View(), never) {
				if !o.Deep {
					return errBrought // its block may yet be dropped
				}
				is.usedUp, err = string(never.Code), nil
			}
		}
		if err != nil {
			return err
		}
		paid := w.payment
		paid.Reference, r.Outcome = settledBy(w, o), mpp.Settled.String()
		if is.restored != nil {
			// If the money came in another transaction, [Service.confirm] finds it.
			its, _ := core.PaymentOf(is.restored)
			paid.Reference = its.Transaction
		}
		if err := setPayment(r, paid); err != nil {
			return err
		}
		switch {
		case is.restored != nil:
			r.State, r.Reason = ledger.Applied, "its event was restored"
			r.Seq, r.Member = is.seq, core.MemberOf(is.restored)
			tx.Claim(w.paid(paid), is.seq)
		case is.usedUp != "":
			r.Reason = is.usedUp
			err = end(r, paid)
		default:
			r.Confirmed = o.Deep
			err = w.carryOut(tx, r, paid)
		}
		if err == nil && r.State == ledger.Applied {
			err = explainKept(tx, paid)
		}
		if err != nil {
			return err
		}
		return tx.Update(r)
	})
	if err == nil {
		s.Failpoint("applied")
	}
	return applied, err
}

// noEffect says whether a payment that has settled can have no effect, because why refuses its
// order. A ring that is full, not counting open payments, stays full until its operator makes it
// larger.
func noEffect(v *ledger.View, why *Problem) bool {
	return why.Final() || why.Code == api.RingFull && v.State().Rows() >= v.State().Capacity()
}

// carryOut appends the event that was paid for, and puts its number and the answer into r.
func (w *work) carryOut(tx *ledger.Tx, r *ledger.Reservation, paid mpp.Payment) error {
	e, err := w.order.carryOut(tx, w.paid(paid))
	if err != nil {
		return err
	}
	receipt := mpp.Receipt{Method: paid.Method, Reference: paid.Reference, Timestamp: time.UnixMilli(tx.Stamp()).UTC()}
	r.State, r.Member, r.Seq = ledger.Applied, e.slug, tx.State().Seq()-1
	r.Response = &ledger.Response{Status: e.status, Body: e.body, Header: successHeader(receipt, tx.State(), tx.State().Seq())}
	if paid.Bearer {
		r.Response.Header = append(r.Response.Header, x402Receipt(paid))
	}
	if e.location != "" {
		r.Response.Header = append(r.Response.Header, [2]string{"Location", e.location})
	}
	return nil
}

// successHeader is the header of the answer to a request that was carried out. seq is how many
// events there were then, with its own.
func successHeader(r mpp.Receipt, st *core.State, seq uint64) [][2]string {
	return [][2]string{
		{"Content-Type", "application/json"},
		{"Cache-Control", "private"},
		{"Payment-Receipt", r.Header()},
		{"Webring-Seq", strconv.FormatUint(seq, 10)},
		{"Link", "<" + proofOf(st, seq) + `>; rel="https://c2sp.org/tlog-proof"; type="text/plain"`},
	}
}

// proofOf is the URL of the proof that the event is in the log that was the last one of seq
// events.
func proofOf(st *core.State, seq uint64) string {
	return st.Rules().BaseURL + "/log/proof/" + strconv.FormatUint(seq-1, 10)
}

// end makes r a reservation without effect. It deletes the words of the request, because a
// redaction would not find them here, and the signed transaction, because payments that
// cost their sender nothing must not fill the disk.
func end(r *ledger.Reservation, payment mpp.Payment) error {
	payment.Raw, payment.Submissions = nil, nil
	r.State, r.Body, r.Pinned = ledger.Failed, nil, nil
	return setPayment(r, payment)
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

// setPayment puts the payment into r, as [StoredPayment] reads it.
func setPayment(r *ledger.Reservation, p mpp.Payment) (err error) {
	r.Payment, err = json.Marshal(p)
	return err
}

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
	if no := w.network.ready(); refused == errUnavailable && no != nil && no != ErrSkew {
		return nil, errNotTaken // the network does not answer
	}
	o, err := w.seen(s.ctx)
	over := !s.Now().Before(w.payment.ValidBefore)
	switch {
	case err != nil:
		s.noAnswer("refused payment without an answer from its network", w.log(), "err", err)
		if refused == errUnavailable {
			return nil, errNotTaken
		}
		return nil, errUndecided
	case o.State == mpp.Settled:
	case o.State == mpp.Mismatched:
		return nil, errMismatched
	case o.State == mpp.Pending && refused.Reason == mpp.ReasonUsed:
		return nil, errUndecided // it may have been used by this payment
	case o.State == mpp.Pending && w.payment.Bearer && w.ours:
		return nil, refused // neither this process nor an earlier one has sent it
	case o.State == mpp.Pending && over && w.payment.Endless:
		return nil, lapsed(w.payment)
	case o.State == mpp.Pending && (over || w.mayBeUnderWay(refused)):
		return nil, errUndecided // it can still be mined
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
	// Other payments of its payer, open or failed, do not hinder it.
	var never *Problem
	err = s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
		if err := w.order.check(tx.View()); err != nil {
			if errors.As(err, &never) && !noEffect(tx.View(), never) {
				never = nil
			}
			return err
		}
		return tx.ReserveUnbarred(w.reservation)
	})
	switch {
	case err == nil:
		s.Failpoint("reserved")
		return s.drive(w, &o)
	case never != nil:
		return nil, s.storeUnapplied(w, o, string(never.Code))
	}
	return nil, s.notStored(w, err)
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
	return w.refused == refused && w.order != nil && !w.payment.ValidBefore.After(last) &&
		(refused.Code == api.PaymentExpired || refused == errConfiguration)
}

// Bounds on the look-ups of refused payments: how many run at a time on a network, and the
// time for each.
const (
	seenAtOnce  = 4
	seenTimeout = 8 * time.Second
)

// seen asks what became of the payment of w, which this process has not sent.
func (w *work) seen(ctx context.Context) (mpp.Outcome, error) {
	return w.network.seen(ctx, w.payment, w.expires.Add(-ChallengeLife-MaxSkew))
}

// seen is [Method.Seen] within bounds: refused credentials cost their senders nothing.
func (n *network) seen(ctx context.Context, p mpp.Payment, since time.Time) (mpp.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, seenTimeout)
	defer cancel()
	select {
	case n.lookups <- struct{}{}:
		defer func() { <-n.lookups }()
		o, err := n.Seen(ctx, p, since)
		return n.believed(p, o), err
	case <-ctx.Done():
		return mpp.Outcome{}, fmt.Errorf("%w: too many look-ups are under way", mpp.ErrUnavailable)
	}
}

// storeUnapplied stores a settled payment that can have no effect, for the operator.
func (s *Service) storeUnapplied(w *work, o mpp.Outcome, why string) error {
	if why == ReasonForeign && !s.keep(w) {
		return errPending // another request is at it
	}
	block := w.network.now().block
	for !o.Deep { // its block may yet be dropped
		if !s.nextBlock(w.network, &block, clockEvery) {
			return errPending
		}
		switch now, err := w.seen(s.ctx); {
		case err != nil:
			s.noAnswer("settled payment without an answer from its network", w.log(), "err", err)
		case now.State != mpp.Settled:
			return errPending
		default:
			o = now
		}
	}
	payment := w.payment
	payment.Reference, payment.Raw = settledBy(w, o), nil
	r := *w.reservation
	r.State, r.Outcome, r.Reason = ledger.Failed, mpp.Settled.String(), why
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
	s.record(w, o, slog.LevelError, "payment settled and can have no effect; credit it with: webring payments adjust", "unapplied", w.reservation.Member, why)
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
