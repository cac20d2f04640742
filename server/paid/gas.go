package paid

import (
	"cmp"
	"context"
	"errors"
	"math/big"
	"slices"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/risk"
	"webring/server/pay/mpp"
)

// What this service pays for: see [risk.Gas]. A 402 offers a method only to accounts that it
// would be taken from. As long as it names no account in Wallet-Account, a request counts as
// one of an account that has never paid. Each such account has one open payment at a time.

// expenses is what one reserved payment may cost, and has cost so far.
type expenses struct {
	s       *Service
	network *network
	id      string // of the reservation
	payment *mpp.Payment
}

var _ mpp.Expenses = (*expenses)(nil)

var errInFlight = errors.New("paid: what is in flight might use up the gas budget")

// Allow is described at [mpp.Expenses].
func (x *expenses) Allow(most *big.Int) error {
	now := x.s.Now()
	if x.s.gas.Barred(x.network.Network(), x.payment.Payer).After(now) {
		return errors.New("paid: a payment of its account has wasted gas")
	}
	pool, err := x.s.pool(x.network, x.payment.Payer)
	if err == nil && !x.s.gas.Charge(x.id, pool, most, now) {
		err = errInFlight
	}
	return err
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

// pool is the one that an account is in.
func (s *Service) pool(n *network, payer string) (pool risk.Pool, err error) {
	pool.Network = n.Network()
	s.Ledger.View(func(v *ledger.View) { pool.Paid, err = v.HasPaid(payer) })
	return pool, err
}

// takeUpGas reads the waste that is stored, and charges what an earlier process left in flight.
func (s *Service) takeUpGas() error {
	var wasted []ledger.Waste
	var open []*ledger.Reservation
	var err error
	s.Ledger.View(func(v *ledger.View) {
		wasted, err = v.Wastes()
		open = v.Open()
	})
	if err != nil {
		return err
	}
	s.gas = risk.NewGas(s.GasBudget, wasted)
	for _, r := range open {
		p, err := StoredPayment(r)
		n := s.network(p.Method)
		if err != nil || n == nil || len(p.Submissions) == 0 {
			continue // if it cannot be read, [Service.resume] says so
		}
		pool, err := s.pool(n, p.Payer)
		if err != nil {
			return err
		}
		last := p.Submissions[len(p.Submissions)-1]
		if price, ok := new(big.Int).SetString(last.Price, 10); ok {
			s.gas.Recharge(r.ID, pool, price.Mul(price, new(big.Int).SetUint64(last.Gas)))
		}
	}
	for _, n := range s.networks {
		for _, paid := range []bool{false, true} {
			s.tellFull(n, risk.Pool{Network: n.Network(), Paid: paid})
		}
	}
	return nil
}

// account notes what the outcome of a payment says about its charge.
func (s *Service) account(n *network, id, client string, p mpp.Payment, o mpp.Outcome) {
	switch {
	case o.Wasted != nil:
		s.noteWaste(n, id, client, p, o.Wasted)
	case o.State == mpp.Settled:
		s.forgive(n, id, p)
	}
	if o.State != mpp.Pending {
		s.gas.GiveBack(id)
	}
}

// noteWaste remembers what a payment has cost, once.
func (s *Service) noteWaste(n *network, id, client string, p mpp.Payment, cost *mpp.Waste) {
	pool, err := s.pool(n, p.Payer)
	if err != nil {
		s.Log.Error("whether a payer has paid before is not known", logged(id, p), "err", err)
	}
	x := ledger.Waste{At: s.Now().UTC(), Network: n.Network(), Transaction: cost.Transaction, Payer: p.Payer,
		Client: client, Gas: cost.Gas, Wei: cost.Wei, Paid: pool.Paid}
	was := s.gas.FullUntil(pool, s.Now())
	old, added := s.gas.Add(id, x)
	if !added {
		return
	}
	s.Log.Warn("gas wasted on a payment", logged(id, p), "payer", x.Payer, "wasted_by", x.Transaction, "gas", x.Gas, "wei", x.Wei)
	if was.IsZero() {
		s.tellFull(n, pool)
	}
	s.storeWaste(old, x)
}

// storeWaste stores waste that was added, and deletes what was forgotten.
func (s *Service) storeWaste(gone []ledger.Waste, added ...ledger.Waste) {
	var transactions []string
	for _, w := range slices.Concat(gone, added) {
		transactions = append(transactions, w.Transaction)
	}
	err := s.Ledger.Do(context.Background(), func(tx *ledger.Tx) (err error) {
		for _, w := range gone {
			tx.ForgetWaste(w)
		}
		for _, w := range added {
			err = cmp.Or(err, tx.AddWaste(w))
		}
		return err
	})
	if err != nil {
		s.Log.Error("wasted gas is not stored as it is known; the next start has it as it was before", "transactions", transactions, "err", err)
	}
}

// forgive forgets the waste of a payment that has settled after all: the block in which it failed
// was dropped, or another has submitted it.
func (s *Service) forgive(n *network, id string, p mpp.Payment) {
	var transactions []string
	for _, x := range p.Submissions {
		transactions = append(transactions, x.Transaction)
	}
	if gone := s.gas.Forget(n.Network(), transactions); len(gone) > 0 {
		s.Log.Info("a payment has settled after it had wasted gas", logged(id, p))
		s.storeWaste(gone)
	}
}

// tellFull logs that waste leaves no room in a pool, if it does.
func (s *Service) tellFull(n *network, pool risk.Pool) {
	until := s.gas.FullUntil(pool, s.Now())
	if until.IsZero() {
		return
	}
	of := "accounts that have never paid"
	if pool.Paid {
		of = "accounts that have paid before"
	}
	s.Log.Error("no payments of "+of+" are taken by this method; webring payments gas says what was wasted",
		"method", n.Name(), "budget", s.GasBudget.String(), "until", until.UTC().Format(time.RFC3339))
}

// refuses says why no payment of an account is submitted on a network because of waste; nil if one
// is. payer is "" if the account is not known, and paid says whether it has paid here.
func (s *Service) refuses(n *network, payer string, paid bool) *Problem {
	if !n.PaysGas() {
		return nil
	}
	now := s.Now()
	if until := s.gas.Barred(n.Network(), payer); until.After(now) {
		return &Problem{Code: api.VerificationFailed, RetryAfter: risk.Seconds(until.Sub(now)), Reason: mpp.ReasonWaste,
			Detail: "A payment of this account failed at this ring's expense, so the ring takes none by this method from it for an hour. Pay by another method, or later. Nothing was charged."}
	}
	until := s.gas.FullUntil(risk.Pool{Network: n.Network(), Paid: paid}, now)
	if until.IsZero() {
		return nil
	}
	no := &Problem{Code: api.PaymentsUnavailable, RetryAfter: risk.Seconds(until.Sub(now)), Reason: mpp.ReasonWaste,
		Detail: "Too many payments by this method have failed at this ring's expense. For now it takes them only from accounts that have paid here before. Name such an account in the field Wallet-Account. Nothing was charged."}
	if paid {
		no.Detail = "Too many payments by this method have failed at this ring's expense. Pay by another method, or later. Nothing was charged."
	}
	return no
}

// GasWasted gives what payments have cost this service for nothing.
func (s *Service) GasWasted() risk.Wasted { return s.gas.Wasted(s.Now()) }
