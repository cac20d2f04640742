package paid

import (
	"cmp"
	"context"
	"errors"
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
func (x *expenses) Allow(gas uint64, code bool) error {
	paid, err := x.s.hasPaid(x.payment.Payer)
	if err != nil {
		return err
	}
	if no := x.s.refuses(x.network, x.payment.Payer, paid, x.client); no != nil {
		return no
	}
	if !x.s.gas.LaunchWithin(x.id, x.flight(gas, code, paid), x.s.Now()) {
		return errInFlight
	}
	return nil
}

// flight is so much gas in flight for the payment.
func (x *expenses) flight(gas uint64, code, paid bool) risk.Flight {
	return risk.Flight{Network: x.network.Network(), Payer: x.payment.Payer, Client: x.client, Gas: gas, Code: code, Apart: x.s.apart(x.network, x.payment.Payer, paid)}
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

// hasPaid says whether an account has paid here before.
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
		Client: client, Gas: cost.Gas, Wei: cost.Wei, Code: cost.Code}
	// If the chain is late for one account a second time, the account is to blame.
	x.Late = cost.Late && !s.gas.LateBefore(x.Network, x.Payer)
	paid, err := s.hasPaid(x.Payer)
	if err != nil {
		s.Log.Error("whether a payer has paid before is not known", logged(id, p), "err", err)
	}
	x.Apart = s.apart(n, x.Payer, paid)
	was := s.gas.FullUntil(n.Network(), x.Code, anybody, s.Now())
	old, added := s.gas.Add(x)
	if !added {
		return
	}
	s.Log.Warn("gas wasted on a payment", logged(id, p), "payer", x.Payer, "wasted_by", x.Transaction, "gas", x.Gas, "late", x.Late)
	if was.IsZero() {
		s.tellFull(n, x.Code)
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
	s.storeWaste(gone)
}

// anybody stands for a client that has wasted nothing.
const anybody = "anybody"

// tellFull logs that waste leaves no room on a network, for accounts with code or for others, if
// it does.
func (s *Service) tellFull(n *network, code bool) {
	if until := s.gas.FullUntil(n.Network(), code, anybody, s.Now()); !until.IsZero() {
		s.Log.Error("no payments of accounts that have never paid are taken by this method; webring payments gas says what was wasted",
			"method", n.Name(), "budget", s.GasBudget, "until", until.UTC().Format(time.RFC3339), "smart_accounts_only", code)
	}
}

// apart says whether an account that has paid here, or has not, has its own allowance on a
// network.
func (s *Service) apart(n *network, payer string, paid bool) bool {
	return paid && s.gas.Apart(n.Network(), payer, s.Now())
}

// refuses says why no payment of an account that a client brings is submitted on a network,
// because of waste; nil if one is. payer is "" if the account is not known, and paid says
// whether it has paid here.
func (s *Service) refuses(n *network, payer string, paid bool, client string) *Problem {
	if !n.PaysGas() {
		return nil
	}
	now := s.Now()
	if payer != "" {
		if until := s.gas.Barred(n.Network(), payer); until.After(now) {
			return &Problem{Code: api.VerificationFailed, RetryAfter: risk.Seconds(until.Sub(now)), Reason: mpp.ReasonWaste,
				Detail: "A payment of this account failed at this ring's expense, so the ring takes none by this method from it for a while. Pay by another method, or later. Nothing was charged."}
		}
		if s.apart(n, payer, paid) {
			return nil
		}
	}
	if until := s.gas.FullUntil(n.Network(), false, client, now); !until.IsZero() {
		return &Problem{Code: api.PaymentsUnavailable, RetryAfter: risk.Seconds(until.Sub(now)), Reason: mpp.ReasonWaste,
			Detail: "Too many payments by this method have failed at this ring's expense. For now it takes them only from accounts that have paid here before. Name such an account in the field Wallet-Account. Nothing was charged."}
	}
	return nil
}

// refusesCode says why no payment of a new account with code is submitted, because of what others
// have wasted; nil if one is, or if the account has no code. Only then is that asked.
func (s *Service) refusesCode(w *work, paid bool) error {
	m, ok := w.network.Method.(coded)
	if !ok || s.apart(w.network, w.payment.Payer, paid) {
		return nil
	}
	now := s.Now()
	until := s.gas.FullUntil(w.network.Network(), true, w.client, now)
	if until.IsZero() {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, questionTimeout)
	defer cancel()
	if code, err := m.HasCode(ctx, w.payment); err != nil {
		return s.notSimulated(w, err)
	} else if !code {
		return nil
	}
	return &Problem{Code: api.PaymentsUnavailable, RetryAfter: risk.Seconds(until.Sub(now)), Reason: mpp.ReasonCode,
		Detail: "Too many payments of smart accounts have failed at this ring's expense. For now it takes them by this method only from smart accounts that have paid here before. Pay from an account without code, by another method, or later. Nothing was charged."}
}

// coded is a [Method] whose payers can be accounts with code.
type coded interface {
	HasCode(ctx context.Context, p mpp.Payment) (bool, error)
}

// GasWasted gives what payments have cost this service for nothing.
func (s *Service) GasWasted() risk.Wasted { return s.gas.Wasted(s.Now()) }
