package paid

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/risk"
	"webring/server/pay/mpp"
)

// What this service pays for: see [risk.Gas]. A 402 offers a method only to accounts that it
// would be taken from. As long as it names no account in Wallet-Account, a request counts as
// one of an account that has never paid. Each such account has one open payment at a time.

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
	paid, err := s.hasPaid(x.payment.Payer)
	if err == nil {
		err = s.refuses(n, x.payment.Payer, paid, x.client)
	}
	if err != nil {
		return err
	}
	f := x.flight(gas, paid)
	if !s.gas.LaunchWithin(x.id, f, s.Now()) {
		return errInFlight
	}
	return nil
}

// flight is so much gas in flight for the payment.
func (x *expenses) flight(gas uint64, paid bool) risk.Flight {
	return risk.Flight{Network: x.network.Network(), Payer: x.payment.Payer, Client: x.client, Gas: gas, Apart: x.s.apart(x.network, x.payment.Payer, paid)}
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
	if paid, err := s.hasPaid(w.payment.Payer); err == nil {
		s.gas.Launch(x.id, x.flight(w.payment.Submissions[n-1].Gas, paid))
	}
}

func (s *Service) hasPaid(payer string) (paid bool, err error) {
	s.Ledger.View(func(v *ledger.View) { paid, err = v.HasPaid(payer) })
	return paid, err
}

// account notes what the outcome of a payment says about waste.
func (s *Service) account(n *network, id, client string, p mpp.Payment, o mpp.Outcome) {
	if o.Wasted != nil {
		s.noteWaste(n, id, client, p, o.Wasted)
		s.gas.Land(id)
	}
	if o.State == mpp.Settled {
		s.forgive(n, id, p, o)
	}
}

// noteWaste remembers what a payment has cost, once.
func (s *Service) noteWaste(n *network, id, client string, p mpp.Payment, cost *mpp.Waste) {
	x := ledger.Waste{At: s.Now().UTC(), Network: n.Network(), Transaction: cost.Transaction, Payer: p.Payer,
		Client: client, Gas: cost.Gas, Wei: cost.Wei}
	// If the chain is late for one account a second time, the account is to blame.
	x.Late = cost.Late && !s.gas.LateBefore(x.Network, x.Payer)
	paid, err := s.hasPaid(x.Payer)
	if err != nil {
		s.Log.Error("whether a payer has paid before is not known", logged(id, p), "err", err)
	}
	x.Apart = s.apart(n, x.Payer, paid)
	was := s.sharedUntil(n, anybody)
	old, added := s.gas.Add(x)
	if !added {
		return
	}
	s.Log.Warn("gas wasted on a payment", logged(id, p), "payer", x.Payer, "wasted_by", x.Transaction, "gas", x.Gas, "late", x.Late)
	if was.IsZero() {
		s.tellFull(n)
	}
	err = s.Ledger.Do(context.Background(), func(tx *ledger.Tx) error {
		for _, o := range old {
			tx.ForgetWaste(o)
		}
		return tx.AddWaste(x)
	})
	if err != nil {
		s.Log.Error("wasted gas not stored; a restart forgets it", "transaction", x.Transaction, "err", err)
	}
}

// forgive forgets the waste of a transaction that has settled a payment after all, because
// the block in which it failed was dropped, and of the transactions that it replaced.
func (s *Service) forgive(n *network, id string, p mpp.Payment, o mpp.Outcome) {
	settled := cmp.Or(o.Reference, p.Reference)
	transactions := []string{settled}
	if at := slices.IndexFunc(p.Submissions, func(x mpp.Submission) bool { return x.Transaction == settled }); at >= 0 {
		for _, x := range p.Submissions {
			if x.Nonce == p.Submissions[at].Nonce {
				transactions = append(transactions, x.Transaction)
			}
		}
	}
	gone := s.gas.Forget(n.Network(), transactions)
	if len(gone) == 0 {
		return
	}
	s.Log.Info("a payment has settled whose gas was wasted in a block that was dropped", logged(id, p), "settled_by", settled)
	err := s.Ledger.Do(context.Background(), func(tx *ledger.Tx) error {
		for _, w := range gone {
			tx.ForgetWaste(w)
		}
		return nil
	})
	if err != nil {
		s.Log.Error("forgiven gas still stored; a restart remembers it", "transaction", settled, "err", err)
	}
}

// anybody stands for a client that has wasted nothing.
const anybody = "anybody"

// sharedUntil says until when waste leaves no room on a network for what a client brings for
// an account without its own allowance; the zero time if there is room.
func (s *Service) sharedUntil(n *network, client string) time.Time {
	return s.gas.FullUntil(n.Network(), client, s.Now())
}

// tellFull logs that waste leaves no room on a network, if it does.
func (s *Service) tellFull(n *network) {
	if until := s.sharedUntil(n, anybody); !until.IsZero() {
		s.Log.Error("no payments of accounts that have never paid are taken by this method; webring payments gas says what was wasted",
			"method", n.Name(), "budget", s.GasBudget, "until", until.UTC().Format(time.RFC3339))
	}
}

// apart says whether an account that has paid here, or has not, has its own allowance on a
// network.
func (s *Service) apart(n *network, payer string, paid bool) bool {
	return paid && s.gas.Apart(n.Network(), payer, s.Now())
}

// refuses says why no payment of an account that a client brings is submitted on a network,
// because of waste: with a [*Problem]. payer is "" if the account is not known, and paid says
// whether it has paid here.
func (s *Service) refuses(n *network, payer string, paid bool, client string) error {
	if !n.PaysGas() {
		return nil
	}
	if payer != "" {
		if until := s.gas.Barred(n.Network(), payer); until.After(s.Now()) {
			return wasted(until.Sub(s.Now()))
		}
		if s.apart(n, payer, paid) {
			return nil
		}
	}
	if until := s.sharedUntil(n, client); !until.IsZero() {
		return onlyKnown(until.Sub(s.Now()))
	}
	return nil
}

// onlyKnown is the answer to an account that has never paid, if waste leaves no room.
func onlyKnown(wait time.Duration) *Problem {
	return &Problem{Code: api.PaymentsUnavailable, RetryAfter: risk.Seconds(wait), Reason: mpp.ReasonWaste,
		Detail: "Too many payments by this method have failed at this ring's expense. For now it takes them only from accounts that have paid here before. Name such an account in the field Wallet-Account. Nothing was charged."}
}

// wasted is the answer to an account that is refused for its waste.
func wasted(wait time.Duration) *Problem {
	return &Problem{Code: api.VerificationFailed, RetryAfter: risk.Seconds(wait), Reason: mpp.ReasonWaste,
		Detail: "A payment of this account failed at this ring's expense, so the ring takes none by this method from it for a while. Pay by another method, or later. Nothing was charged."}
}

// addressed is a [Method] that identifies payers by addresses of a chain.
type addressed interface {
	// Payer names an account as payments of it do.
	Payer(account [20]byte) string
}

// allowed returns the networks on which what c would pay is not refused because of waste. The
// account is that of its credential, or that which it names for its wallet.
func (s *Service) allowed(networks []*network, c *Call) (allowed []*network, err error) {
	var soonest *Problem
	for _, n := range networks {
		var p *Problem
		payer := c.payer
		if m, ok := as[addressed](n.Method); ok && payer == "" && c.WalletAccount != "" {
			payer = m.Payer(core.AccountOf(c.WalletAccount))
		}
		paid := false
		if payer != "" && n.PaysGas() {
			if paid, err = s.hasPaid(payer); err != nil {
				return nil, err
			}
		}
		switch err := s.refuses(n, payer, paid, c.Client); {
		case err == nil:
			allowed = append(allowed, n)
		case !errors.As(err, &p):
			return nil, err
		case soonest == nil || p.RetryAfter < soonest.RetryAfter:
			soonest = p
		}
	}
	if len(allowed) == 0 {
		return nil, &Problem{Code: api.PaymentsUnavailable, Reason: soonest.Reason, RetryAfter: soonest.RetryAfter, Detail: soonest.Detail}
	}
	return allowed, nil
}

// GasWasted gives what payments have cost this service for nothing.
func (s *Service) GasWasted() risk.Wasted { return s.gas.Wasted(s.Now()) }
