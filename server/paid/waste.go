package paid

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/mpp"
)

// A payment that this service submits at its own expense can fail once it is mined, and
// its payer can bring that about. The account and the client of such a payment are refused
// for a while. If too much gas was wasted within an hour, the method is not offered.

const (
	// firstRefusal is for how long the account and the client of a payment that wasted
	// gas are refused on its network. Each further time it is twice as long.
	firstRefusal = time.Hour
	// wasteMemory is how long waste is remembered. No refusal is longer.
	wasteMemory = 7 * 24 * time.Hour
	// budgetPeriod is what [Config.GasBudget] is for.
	budgetPeriod = time.Hour
)

// wastes is the waste that is remembered, as the ledger has it. It is safe for
// concurrent use.
type wastes struct {
	mu    sync.Mutex
	all   []ledger.Waste    // the oldest first
	known map[string]bool   // by transaction
	bars  map[[2]string]bar // by network and account, and by network and client
	// flights are what was submitted and may yet be wasted, by reservation.
	flights map[string]flight
	// needs is what the last submission on a network could use.
	needs map[string]uint64
}

// flight is gas that a transaction which is not mined yet can use.
type flight struct {
	network string
	gas     uint64
	paid    bool // its account has paid here before
}

// bar is how often an account or client has wasted gas, and until when it is refused.
type bar struct {
	times int
	until time.Time
}

// set replaces everything. The caller holds mu, or has the only reference.
func (x *wastes) set(all []ledger.Waste) {
	x.all, x.known, x.bars = nil, map[string]bool{}, map[[2]string]bar{}
	for _, w := range all {
		x.put(w)
	}
}

// put adds w. The caller holds mu.
func (x *wastes) put(w ledger.Waste) {
	x.all = append(x.all, w)
	x.known[w.Transaction] = true
	if w.Late {
		return
	}
	for _, name := range []string{w.Payer, w.Client} {
		key := [2]string{w.Network, name}
		b := x.bars[key]
		// A payment that fails during a refusal was open before it.
		if name == "" || w.At.Before(b.until) {
			continue
		}
		b.until = w.At.Add(min(firstRefusal<<min(b.times, 10), wasteMemory))
		b.times++
		x.bars[key] = b
	}
}

// add adds w unless it is known. It returns the entries that are too old to be kept, and
// the gas wasted on that network within the budget's period, before and after.
func (x *wastes) add(w ledger.Waste) (old []ledger.Waste, before, after uint64, added bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.known[w.Transaction] {
		return nil, 0, 0, false
	}
	before = x.sum(w.Network, w.At)
	if n := slices.IndexFunc(x.all, func(o ledger.Waste) bool { return w.At.Sub(o.At) < wasteMemory }); n != 0 {
		if n < 0 {
			n = len(x.all)
		}
		old = x.all[:n]
		x.set(x.all[n:])
	}
	x.put(w)
	return old, before, x.sum(w.Network, w.At), true
}

// spent is how much gas was wasted on a network within the last [budgetPeriod].
func (x *wastes) spent(network string, now time.Time) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sum(network, now)
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

// launchWithin is launch, unless more than the budget might then be wasted: the budget by
// all accounts that have never paid, or twice the budget by all accounts. The first
// submission within an hour is allowed however small the budget is.
func (x *wastes) launchWithin(budget uint64, id string, f flight, now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.needs[f.network] = f.gas
	used := x.sum(f.network, now)
	for other, o := range x.flights {
		if o.network == f.network && other != id && (f.paid || !o.paid) {
			used += o.gas
		}
	}
	if f.paid {
		budget *= 2
	}
	if budget > 0 && used > 0 && used+f.gas > budget {
		return false
	}
	x.flights[id] = f
	return true
}

// full says whether waste leaves no room for another submission of an account that has
// never paid.
func (x *wastes) full(budget uint64, network string, now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	used := x.sum(network, now)
	return budget > 0 && used > 0 && used+x.needs[network] > budget
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

// sum is spent for a caller that holds mu. The budget bounds how many entries it reads.
// Waste by a late chain is left out, because no refusal can prevent it.
func (x *wastes) sum(network string, now time.Time) (gas uint64) {
	for _, w := range slices.Backward(x.all) {
		if now.Sub(w.At) >= budgetPeriod {
			break
		}
		if w.Network == network && !w.Late {
			gas += w.Gas
		}
	}
	return gas
}

// until is when none of these accounts and clients is refused any more; an instant in the
// past if none is.
func (x *wastes) until(network string, names ...string) (until time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, name := range names {
		if b := x.bars[[2]string{network, name}]; b.until.After(until) {
			until = b.until
		}
	}
	return until
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
		if err := s.withinBudget(n, s.Now()); err != nil {
			s.Log.Error("no payments are taken by this method", "method", n.Name(), "err", err)
		}
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
	was := s.wastes.full(s.GasBudget, x.Network, x.At)
	old, before, after, added := s.wastes.add(x)
	if !added {
		return
	}
	s.Log.Warn("gas wasted on a payment", logged(id, p), "payer", x.Payer, "wasted_by", x.Transaction, "gas", x.Gas, "late", x.Late)
	if !was && s.wastes.full(s.GasBudget, x.Network, x.At) {
		s.Log.Error("no payments of accounts that have never paid are taken by this method", "method", n.Name(), "wasted", after, "budget", s.GasBudget)
	}
	if before < s.GasBudget && s.GasBudget <= after {
		s.Log.Error("no payments are taken by this method", "method", n.Name(), "err", s.withinBudget(n, x.At))
	}
	err := s.Ledger.Do(context.Background(), func(tx *ledger.Tx) error {
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

// withinBudget says why payments on network n cost too much now.
func (s *Service) withinBudget(n *network, now time.Time) error {
	if spent := s.wastes.spent(n.Network(), now); s.GasBudget > 0 && spent >= s.GasBudget {
		return fmt.Errorf("paid: %d gas was wasted within an hour, and %d is the most; webring payments gas says by whom", spent, s.GasBudget)
	}
	return nil
}

// refuses says whether an account is refused on a network, itself or, as long as it has
// never paid here, with its client.
func (s *Service) refuses(n *network, payer, client string, paid bool) bool {
	if paid {
		client = ""
	}
	return s.wastes.until(n.Network(), payer, client).After(s.Now())
}

var errOnlyKnown = &Problem{Code: api.PaymentsUnavailable, RetryAfter: int(budgetPeriod / time.Second), Reason: mpp.ReasonWaste,
	Detail: "Too many such payments of other accounts that were new here have failed at this ring's expense, so for up to an hour they are taken only from accounts that have paid here before. Nothing was charged."}

var errWasted = &Problem{Code: api.VerificationFailed, Reason: mpp.ReasonWaste,
	Detail: "A payment of this account or client that this ring had submitted failed at the ring's expense, so no such payment is taken from it for a while. Nothing was charged."}

// allowed returns the networks on which the account and the client of c are not refused.
// The account is known if c has a credential.
func (s *Service) allowed(networks []*network, c Call) (allowed []*network, err error) {
	client := c.Client
	if c.payer != "" {
		paid, err := s.hasPaid(c.payer)
		if err != nil {
			return nil, err
		}
		if paid {
			client = ""
		}
	}
	var until time.Time
	for _, n := range networks {
		if at := s.wastes.until(n.Network(), c.payer, client); at.After(s.Now()) {
			if until.IsZero() || at.Before(until) {
				until = at
			}
		} else {
			allowed = append(allowed, n)
		}
	}
	if len(allowed) == 0 {
		return nil, &Problem{Code: api.PaymentsUnavailable, Reason: mpp.ReasonWaste, RetryAfter: seconds(until.Sub(s.Now())), Detail: errWasted.Detail}
	}
	return allowed, nil
}

// Gas is what payments have cost this service for nothing.
type Gas struct {
	Budget   uint64   `json:"budget"`    // units an hour, 0 for any
	LastHour uint64   `json:"last_hour"` // units, of those that count in the budget
	Wasters  []Waster `json:"wasters"`   // the largest first, at most a thousand
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
		}
		key := [2]string{w.Network, w.Payer}
		if by[key] == nil {
			by[key], wei[key] = &Waster{Network: w.Network, Payer: w.Payer, Until: s.wastes.until(w.Network, w.Payer)}, new(big.Int)
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
