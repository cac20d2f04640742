package paid

import (
	"encoding/json"
	"errors"
	"slices"

	"webring/server/ledger"
	"webring/server/mpp"
)

// Whoever has never paid here can open any number of accounts, so what is submitted at
// this service's expense for such accounts is bounded before the first of it is seen to
// fail: one open payment each, and no more gas in flight than the budget has left. When
// waste alone leaves no room for another one, their payments are refused before anything
// is reserved, and those of accounts that have paid go on: what all have in flight is
// bounded by twice the budget.

// oneAtFirst refuses a second open payment of an account that has never paid, where this
// service pays for the gas.
func (w *work) oneAtFirst(v *ledger.View) error {
	if !w.network.PaysGas() {
		return nil
	}
	if open, _ := v.OpenOfPayer(w.payment.Payer); open == 0 {
		return nil
	}
	if paid, err := v.HasPaid(w.payment.Payer); err != nil || paid {
		return err
	}
	return errFirstOpen
}

// expenses is what one reserved payment may cost, and has cost so far.
type expenses struct {
	s       *Service
	network *network
	id      string // of the reservation
	client  string // which brought the payment, "" where that is not known any more
	payment *mpp.Payment
}

var _ mpp.Expenses = (*expenses)(nil)

var errInFlight = errors.New("paid: what is in flight might use up the gas budget")

// Allow is described at [mpp.Expenses].
func (x *expenses) Allow(gas uint64) error {
	s, n := x.s, x.network
	if err := s.withinBudget(n, s.Now()); err != nil {
		return err
	}
	paid, err := s.hasPaid(x.payment.Payer)
	switch {
	case err != nil:
		return err
	case s.refuses(n, x.payment.Payer, x.client, paid):
		return errWasted
	case !s.wastes.launchWithin(s.GasBudget, x.id, flight{n.Network(), gas, paid}, s.Now()):
		return errInFlight
	}
	return nil
}

// Store is described at [mpp.Expenses].
func (x *expenses) Store(t mpp.Submission) error {
	p := *x.payment
	p.Submissions = append(slices.Clip(p.Submissions), t)
	record, err := json.Marshal(p)
	if err != nil {
		return err
	}
	err = x.s.Ledger.Do(x.s.ctx, func(tx *ledger.Tx) error {
		r, err := tx.Get(x.id)
		if err != nil {
			return err
		}
		r.Payment = record
		return tx.Update(r)
	})
	if err == nil {
		x.payment.Submissions = p.Submissions
	}
	return err
}

// recallFlight notes what an earlier process has submitted for a payment that is open.
func (s *Service) recallFlight(w *work) {
	n := len(w.payment.Submissions)
	if n == 0 {
		return
	}
	if paid, err := s.hasPaid(w.payment.Payer); err == nil {
		s.wastes.launch(w.reservation.ID, flight{w.network.Network(), w.payment.Submissions[n-1].Gas, paid})
	}
}

func (s *Service) hasPaid(payer string) (paid bool, err error) {
	s.Ledger.View(func(v *ledger.View) { paid, err = v.HasPaid(payer) })
	return paid, err
}
