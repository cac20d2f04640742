package paid

import (
	"errors"
	"slices"

	"webring/server/ledger"
	"webring/server/pay/mpp"
)

// An attacker can make any number of accounts that have never paid here. So their
// submissions at this service's expense are bounded before the first one fails: each such
// account has one open payment at a time, and what is in flight counts as if it were
// wasted. See waste.go.

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
	if err := s.refuses(n, x.payment.Payer, x.client); err != nil {
		return err
	}
	f, err := x.flight(gas)
	if err == nil && !s.wastes.launchWithin(s.GasBudget, x.id, f, s.Now()) {
		err = errInFlight
	}
	return err
}

// flight is so much gas in flight for the payment.
func (x *expenses) flight(gas uint64) (flight, error) {
	apart, err := x.s.apart(x.network, x.payment.Payer)
	return flight{x.network.Network(), x.payment.Payer, x.client, gas, apart}, err
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
	x := expenses{s, w.network, w.reservation.ID, w.client, &w.payment}
	if f, err := x.flight(w.payment.Submissions[n-1].Gas); err == nil {
		s.wastes.launch(x.id, f)
	}
}

func (s *Service) hasPaid(payer string) (paid bool, err error) {
	s.Ledger.View(func(v *ledger.View) { paid, err = v.HasPaid(payer) })
	return paid, err
}
