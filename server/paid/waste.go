package paid

import (
	"cmp"
	"context"
	"errors"
	"math/big"
	"slices"
	"sync"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/edge/fair"
	"webring/server/ledger"
	"webring/server/pay/mpp"
)

// A payment that this service submits at its own expense can fail once it is mined, and
// its payer can bring that about. An account whose payment has failed so is refused for a
// while. What others may cost is divided, so that no crowd closes the offer for all:
//
//   - an account that has paid here, and has wasted nothing for a week, has an allowance of
//     its own: 1/[ownPart] of the budget. It paid for that before, and what it wastes
//     counts for nobody else;
//   - all other accounts share the budget. It is divided between the clients that bring
//     their payments by the rule of package fair: one that has wasted nothing is refused
//     only when all of it is wasted, and one that has wasted some earlier.
//
// A 402 offers the method only to those that it would be taken from. As long as it names no
// account in Wallet-Account, a request counts as one of an account that has never paid.

const (
	// firstRefusal is for how long the account of a payment that wasted gas is refused on
	// its network. Each further time it is twice as long.
	firstRefusal = time.Hour
	// wasteMemory is how long waste is remembered. No refusal is longer.
	wasteMemory = 7 * 24 * time.Hour
	// budgetPeriod is what [Config.GasBudget] is for.
	budgetPeriod = time.Hour
	// ownPart is which part of the budget an account of its own allowance may waste.
	ownPart = 10
	// usualWaste is what one failure costs about, in units of gas: as many times as it goes
	// into the budget, clients share. usualLimit is what one submission can cost at most,
	// as long as none has shown it.
	usualWaste, usualLimit = 50_000, 100_000
)

// wastes is the waste that is remembered, as the ledger has it. It is safe for
// concurrent use.
type wastes struct {
	mu    sync.Mutex
	all   []ledger.Waste    // the oldest first
	known map[string]bool   // by transaction
	bars  map[[2]string]bar // by network and account
	// flights are what was submitted and may yet be wasted, by reservation.
	flights map[string]flight
	// needs is what the last submission on a network could use.
	needs map[string]uint64
	// shared is what [wastes.sharedNow] gives, by network.
	shared map[string]share
}

// flight is gas that a transaction which is not mined yet can use.
type flight struct {
	network, payer, client string
	gas                    uint64
	apart                  bool // of an account with its own allowance
}

// share is what of a budget is taken by those that share it.
type share struct {
	gas     uint64
	clients *fair.Shares
	until   time.Time // it changes by itself; the zero time if it does not
}

// bar is how often an account has wasted gas, and until when it is refused.
type bar struct {
	times int
	until time.Time
}

// set replaces everything. The caller holds mu, or has the only reference.
func (x *wastes) set(all []ledger.Waste) {
	x.all, x.known, x.bars, x.shared = nil, map[string]bool{}, map[[2]string]bar{}, map[string]share{}
	for _, w := range all {
		x.put(w)
	}
}

// put adds w. The caller holds mu.
func (x *wastes) put(w ledger.Waste) {
	x.all = append(x.all, w)
	x.known[w.Transaction] = true
	delete(x.shared, w.Network)
	if w.Late || w.Payer == "" {
		return
	}
	key := [2]string{w.Network, w.Payer}
	b := x.bars[key]
	// A payment that fails during a refusal was open before it.
	if w.At.Before(b.until) {
		return
	}
	b.until = w.At.Add(min(firstRefusal<<min(b.times, 10), wasteMemory))
	b.times++
	x.bars[key] = b
}

// add adds w unless it is known. It returns the entries that are too old to be kept.
func (x *wastes) add(w ledger.Waste) (old []ledger.Waste, added bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.known[w.Transaction] {
		return nil, false
	}
	if n := slices.IndexFunc(x.all, func(o ledger.Waste) bool { return w.At.Sub(o.At) < wasteMemory }); n != 0 {
		if n < 0 {
			n = len(x.all)
		}
		old = x.all[:n]
		x.set(x.all[n:])
	}
	x.put(w)
	return old, true
}

// forget forgets the waste of these transactions, and gives what of it was known.
func (x *wastes) forget(network string, transactions []string) (gone []ledger.Waste) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !slices.ContainsFunc(transactions, func(t string) bool { return x.known[t] }) {
		return nil
	}
	var left []ledger.Waste
	for _, w := range x.all {
		if w.Network == network && slices.Contains(transactions, w.Transaction) {
			gone = append(gone, w)
		} else {
			left = append(left, w)
		}
	}
	x.set(left)
	return gone
}

// launch notes what is in flight for a reservation.
func (x *wastes) launch(id string, f flight) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.flights[id] = f
}

// launchWithin is launch, unless more than f's part of the budget might then be wasted. The
// first submission within an hour is allowed however small that is.
func (x *wastes) launchWithin(budget uint64, id string, f flight, now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.needs[f.network] = f.gas
	if budget > 0 && !x.room(budget, id, f, now) {
		return false
	}
	x.flights[id] = f
	return true
}

// room says whether f's part of the budget has room for it beside all other flights. The
// caller holds mu.
func (x *wastes) room(budget uint64, id string, f flight, now time.Time) bool {
	var own uint64
	shared := x.count(budget, f.network, now)
	for _, w := range x.recent(f.network, now) {
		if w.Apart && w.Payer == f.payer {
			own += w.Gas
		}
	}
	for other, o := range x.flights {
		switch {
		case other == id || o.network != f.network:
		case !o.apart:
			shared.take(o.client, o.gas)
		case o.payer == f.payer:
			own += o.gas
		}
	}
	if f.apart {
		return own == 0 || own+f.gas <= budget/ownPart
	}
	return shared.room(budget, f.client, f.gas)
}

// count is what of a budget is wasted by those that share it. The caller holds mu.
func (x *wastes) count(budget uint64, network string, now time.Time) share {
	s := share{clients: fair.NewShares(fair.Rule{Most: int(max(1, budget/usualWaste))})}
	for _, w := range x.recent(network, now) {
		if !w.Apart {
			s.take(w.Client, w.Gas)
			if end := w.At.Add(budgetPeriod); s.until.IsZero() || end.Before(s.until) {
				s.until = end
			}
		}
	}
	return s
}

func (s *share) take(client string, gas uint64) {
	s.gas += gas
	s.clients.Take(fair.AskerOf(client))
}

// room says whether a client may bring so much more.
func (s *share) room(budget uint64, client string, gas uint64) bool {
	return s.gas == 0 || s.gas+gas <= budget && s.clients.Room(fair.AskerOf(client))
}

// recent gives what was wasted on a network within the last [budgetPeriod], the oldest first,
// without what a late chain has wasted, because no refusal can prevent that. The caller holds
// mu.
func (x *wastes) recent(network string, now time.Time) (some []ledger.Waste) {
	first := len(x.all)
	for first > 0 && now.Sub(x.all[first-1].At) < budgetPeriod {
		first--
	}
	for _, w := range x.all[first:] {
		if w.Network == network && !w.Late {
			some = append(some, w)
		}
	}
	return some
}

// fullUntil says until when waste leaves no room for another submission that a client brings
// for an account without its own allowance, at least; the zero time if there is room.
func (x *wastes) fullUntil(budget uint64, network, client string, now time.Time) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	if budget == 0 {
		return time.Time{}
	}
	s, known := x.shared[network]
	if !known || !s.until.IsZero() && !now.Before(s.until) {
		s = x.count(budget, network, now)
		x.shared[network] = s
	}
	need := cmp.Or(x.needs[network], usualLimit)
	if s.room(budget, client, need) {
		return time.Time{}
	}
	left := s.gas
	for _, w := range x.recent(network, now) {
		if w.Apart {
			continue
		}
		if left -= w.Gas; left == 0 || left+need <= budget {
			return w.At.Add(budgetPeriod)
		}
	}
	return s.until
}

// apart says whether an account that has paid has its own allowance on a network: it has
// wasted nothing that is remembered, or is refused for the first time, for what it had open
// then.
func (x *wastes) apart(network, payer string, now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	b, some := x.bars[[2]string{network, payer}]
	return !some || !slices.ContainsFunc(x.all, func(w ledger.Waste) bool {
		return w.Network == network && w.Payer == payer && !w.Late && now.Sub(w.At) < wasteMemory && !(w.Apart && now.Before(b.until))
	})
}

// lateBefore says whether waste of an account was put down to a late chain before.
func (x *wastes) lateBefore(network, payer string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.ContainsFunc(x.all, func(w ledger.Waste) bool { return w.Late && w.Network == network && w.Payer == payer })
}

// land ends what is in flight for a reservation.
func (x *wastes) land(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.flights, id)
}

// barred is until when an account is refused on a network; an instant in the past if it is
// not.
func (x *wastes) barred(network, payer string) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.bars[[2]string{network, payer}].until
}

// recallWaste reads what earlier processes have noted.
func (s *Service) recallWaste() error {
	var all []ledger.Waste
	var err error
	s.Ledger.View(func(v *ledger.View) { all, err = v.Wastes() })
	if err != nil {
		return err
	}
	s.wastes.set(all)
	s.wastes.flights, s.wastes.needs = map[string]flight{}, map[string]uint64{}
	for _, n := range s.networks {
		s.tellFull(n)
	}
	return nil
}

// account notes what the outcome of a payment says about waste.
func (s *Service) account(n *network, id, client string, p mpp.Payment, o mpp.Outcome) {
	if o.Wasted != nil {
		s.noteWaste(n, id, client, p, o.Wasted)
		s.wastes.land(id)
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
	x.Late = cost.Late && !s.wastes.lateBefore(x.Network, x.Payer)
	paid, err := s.hasPaid(x.Payer)
	if err != nil {
		s.Log.Error("whether a payer has paid before is not known", logged(id, p), "err", err)
	}
	x.Apart = paid && s.wastes.apart(x.Network, x.Payer, x.At)
	was := s.sharedUntil(n, anybody)
	old, added := s.wastes.add(x)
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
	gone := s.wastes.forget(n.Network(), transactions)
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
	return s.wastes.fullUntil(s.GasBudget, n.Network(), client, s.Now())
}

// tellFull logs that waste leaves no room on a network, if it does.
func (s *Service) tellFull(n *network) {
	if until := s.sharedUntil(n, anybody); !until.IsZero() {
		s.Log.Error("no payments of accounts that have never paid are taken by this method; webring payments gas says what was wasted",
			"method", n.Name(), "budget", s.GasBudget, "until", until.UTC().Format(time.RFC3339))
	}
}

// apart says whether an account has its own allowance on a network.
func (s *Service) apart(n *network, payer string) (bool, error) {
	paid, err := s.hasPaid(payer)
	return paid && s.wastes.apart(n.Network(), payer, s.Now()), err
}

// refuses says why no payment of an account that a client brings is submitted on a network,
// because of waste: with a [*Problem]. payer is "" if the account is not known.
func (s *Service) refuses(n *network, payer, client string) error {
	if !n.PaysGas() {
		return nil
	}
	if payer != "" {
		if until := s.wastes.barred(n.Network(), payer); until.After(s.Now()) {
			return wasted(until.Sub(s.Now()))
		}
		if apart, err := s.apart(n, payer); apart || err != nil {
			return err
		}
	}
	if until := s.sharedUntil(n, client); !until.IsZero() {
		return onlyKnown(until.Sub(s.Now()))
	}
	return nil
}

// onlyKnown is the answer to an account that has never paid, if waste leaves no room.
func onlyKnown(wait time.Duration) *Problem {
	return &Problem{Code: api.PaymentsUnavailable, RetryAfter: seconds(wait), Reason: mpp.ReasonWaste,
		Detail: "Too many such payments have failed at this ring's expense, so for now they are taken only from accounts that have paid here before and wasted nothing. Such an account names itself in the field Wallet-Account. Nothing was charged."}
}

// wasted is the answer to an account that is refused for its waste.
func wasted(wait time.Duration) *Problem {
	return &Problem{Code: api.VerificationFailed, RetryAfter: seconds(wait), Reason: mpp.ReasonWaste,
		Detail: "A payment of this account that this ring had submitted failed at the ring's expense, so no such payment is taken from it for a while. Nothing was charged."}
}

// addressed is a [Method] whose payers are addresses of a chain.
type addressed interface {
	// Payer names an account as payments of it do.
	Payer(account [20]byte) string
}

// allowed returns the networks on which what c would pay is not refused because of waste. The
// account is that of its credential, or that which it names for its wallet.
func (s *Service) allowed(networks []*network, c Call) (allowed []*network, err error) {
	var soonest *Problem
	for _, n := range networks {
		var p *Problem
		payer := c.payer
		if m, ok := n.Method.(addressed); ok && payer == "" && c.WalletAccount != "" {
			payer = m.Payer(core.AccountOf(c.WalletAccount))
		}
		switch err := s.refuses(n, payer, c.Client); {
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

// Gas is what payments have cost this service for nothing.
type Gas struct {
	Budget   uint64 `json:"budget"`    // units an hour, 0 for any
	LastHour uint64 `json:"last_hour"` // units, without what a late chain has wasted
	// Apart is what of that accounts have wasted within allowances of their own, and not
	// out of the budget.
	Apart   uint64   `json:"apart"`
	Wasters []Waster `json:"wasters"` // the largest first, at most a thousand
}

// Waster is one account with what its payments have cost.
type Waster struct {
	Network     string    `json:"network"`
	Payer       string    `json:"payer"`
	Client      string    `json:"client,omitempty"` // of the last payment
	Times       int       `json:"times"`
	Gas         uint64    `json:"gas"` // units
	Wei         string    `json:"wei"`
	Last        time.Time `json:"last"`
	Transaction string    `json:"transaction"` // the last
	// Until is when its payments are taken again; the zero time if it is not to blame.
	Until time.Time `json:"until,omitzero"`
}

// maxWasters bounds what is listed.
const maxWasters = 1000

// GasWasted gives the waste that is remembered, by account.
func (s *Service) GasWasted() Gas {
	s.wastes.mu.Lock()
	all := slices.Clone(s.wastes.all)
	s.wastes.mu.Unlock()
	by, wei := map[[2]string]*Waster{}, map[[2]string]*big.Int{}
	g := Gas{Budget: s.GasBudget, Wasters: []Waster{}}
	now := s.Now()
	for _, w := range all {
		if now.Sub(w.At) >= wasteMemory {
			continue
		}
		if now.Sub(w.At) < budgetPeriod && !w.Late {
			g.LastHour += w.Gas
			if w.Apart {
				g.Apart += w.Gas
			}
		}
		key := [2]string{w.Network, w.Payer}
		if by[key] == nil {
			by[key], wei[key] = &Waster{Network: w.Network, Payer: w.Payer, Until: s.wastes.barred(w.Network, w.Payer)}, new(big.Int)
		}
		x := by[key]
		x.Client, x.Last, x.Transaction = w.Client, w.At, w.Transaction
		x.Times++
		x.Gas += w.Gas
		if cost, ok := new(big.Int).SetString(w.Wei, 10); ok {
			wei[key].Add(wei[key], cost)
		}
	}
	for key, x := range by {
		x.Wei = wei[key].String()
		g.Wasters = append(g.Wasters, *x)
	}
	slices.SortFunc(g.Wasters, func(a, b Waster) int {
		return cmp.Or(cmp.Compare(b.Gas, a.Gas), cmp.Compare(a.Network, b.Network), cmp.Compare(a.Payer, b.Payer))
	})
	g.Wasters = g.Wasters[:min(len(g.Wasters), maxWasters)]
	return g
}
