package paid

import (
	"context"
	"errors"
	"strconv"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/pay/mpp"
)

// settleWait is how long a deed waits for open payments for its member. Most are settled
// within seconds.
const settleWait = 20 * time.Second

// do does a deed, for which the proof holds, in one turn of the writer.
func (s *Service) do(c *Call, d deed, p *proof) (a Answer, err error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return a, errUnavailable
	}
	s.holding.Add(1)
	s.mu.Unlock()
	defer s.holding.Done()
	turn := func(tx *ledger.Tx) error {
		// The stamp never goes back, as a clock may.
		if !time.UnixMilli(tx.Stamp()).Before(p.expires) {
			return errProofExpired
		}
		m, err := s.doable(tx.View(), c, d, p)
		if err != nil {
			return err
		}
		if count, _ := tx.View().OpenOnMember(c.Slug); d.waits() && count > 0 {
			return ledger.ErrOpenReservation
		}
		// What may fail comes before the first event.
		p.Seq = tx.State().Seq() + uint64(d.events())
		if o, changes := d.(*change); changes && o.Category != nil {
			p.Category = *o.Category
		}
		if err := s.spend(tx, c.Slug, p); err != nil {
			return err
		}
		if err := d.carryOut(tx, m); err != nil {
			return err
		}
		a = s.deedAnswer(tx.State(), c, d, p)
		return nil
	}
	s.Failpoint("proved")
	if d.waits() {
		err = s.whenSettled(c, d, p, turn)
	} else {
		err = s.Ledger.Do(s.ctx, turn)
	}
	var known spentError
	switch {
	case err == nil:
		s.Failpoint("applied")
		if _, asks := d.(visit); asks {
			s.Visit(c.Slug)
		}
		s.Log.Info("an owner's request was carried out", Audit, "ownership", "operation", c.Operation, "member", c.Slug, "account", p.Account, "proof", p.id, "request", c.Request)
	case errors.As(err, &known):
		return a, s.proofReused(c.Slug)
	case errors.Is(err, ledger.ErrOpenReservation):
		return a, errSettleFirst
	case errors.Is(err, ledger.ErrBroken):
		return a, errNotKnown // it may be stored all the same
	case errors.Is(err, ledger.ErrNotNow):
		s.Log.Error("proofs refused: this machine is not ready", "err", err)
		return a, errUnavailable
	case errors.Is(err, ledger.ErrClosed), errors.Is(err, context.Canceled):
		return a, errUnavailable
	}
	return a, err
}

// doable gives the member as it is now, if the account of the proof may do the deed.
func (s *Service) doable(v *ledger.View, c *Call, d deed, p *proof) (*member, error) {
	m, err := memberOf(v.State(), c.Slug, c.Operation)
	switch {
	case err != nil:
		return nil, err
	case !d.owner(m).Is(core.AccountOf(p.Account)):
		return nil, notOwner(v.State().Rules().BaseURL, c.Slug)
	}
	return m, d.check(v, m)
}

// whenSettled calls turn in the writer's turn as soon as no payment for the member is open.
// Meanwhile no new one begins.
func (s *Service) whenSettled(c *Call, d deed, p *proof, turn func(*ledger.Tx) error) (err error) {
	s.Ledger.View(func(v *ledger.View) { _, err = s.doable(v, c, d, p) })
	if err != nil {
		return err
	}
	defer s.Ledger.AnnounceRemoval(c.Slug)()
	for over := s.Now().Add(settleWait); ; {
		err := s.Ledger.Do(s.ctx, turn)
		if !errors.Is(err, ledger.ErrOpenReservation) || !s.Now().Before(over) {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-s.ctx.Done():
			return err
		}
	}
}

// deedAnswer is the answer to a deed that was done: by the present state, in which the
// member may be another since.
func (s *Service) deedAnswer(st *core.State, c *Call, d deed, p *proof) Answer {
	m, err := memberOf(st, c.Slug, "")
	if err != nil {
		m = nil
	}
	receipt := mpp.Receipt{Method: s.Prover.Method(), Reference: p.challenge, Timestamp: time.UnixMilli(p.At).UTC()}
	return Answer{Status: 200, Body: d.answer(st, m), Header: [][2]string{
		{"Content-Type", "application/json"},
		{"Cache-Control", "private"},
		{"Payment-Receipt", receipt.Header()},
		{"Webring-Seq", strconv.FormatUint(p.Seq, 10)},
	}}
}

// appendMember appends ,"member": and the member.
func appendMember(body []byte, st *core.State, m *member) []byte {
	if m == nil {
		return body
	}
	return api.AppendMember(append(body, `,"member":`...), st, m.at, true)
}
