package paid

import (
	"errors"
	"slices"

	"webring/server/ledger"
	"webring/server/mpp"
)

// An attacker can make any number of accounts that have never paid here. So their
// submissions at this service's expense are bounded before the first one fails: each such
// account has one open payment at a time, and together they have no more gas in flight
// than the budget has left. If waste leaves no room for another submission, their payments
// are refused before anything is reserved. Accounts that have paid go on: all accounts
// together have at most twice the budget in flight.

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
	client  string // that brought the payment; "" if not known any more
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
	err := x.s.update(x.s.ctx, x.id, func(_ *ledger.Tx, r *ledger.Reservation) error { return setPayment(r, p) })
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
