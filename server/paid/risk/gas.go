package risk

import (
	"cmp"
	"math/big"
	"slices"
	"sync"
	"time"

	"webring/edge/share"
	"webring/server/ledger"
)

const (
	// firstRefusal is for how long the account of a payment that wasted gas is refused on
	// its network. Each further time it is twice as long.
	firstRefusal = time.Hour
	// wasteMemory is how long waste is remembered. No refusal is longer.
	wasteMemory = 7 * 24 * time.Hour
	// budgetPeriod is what the budget is for.
	budgetPeriod = time.Hour
	// ownPart is which part of the budget an account of its own allowance may waste, and
	// codePart is which part all accounts with code may waste in addition to it.
	ownPart, codePart = 10, 2
	// usualWaste is what one failure costs about, in units of gas, and usualCode is what one
	// of an account with code does: as many times as it goes into the budget, clients share.
	// usualLimit is what one submission can cost at most, as long as none has shown it.
	usualWaste, usualCode, usualLimit = 50_000, 100_000, 100_000
)

// Gas remembers what payments have cost this service for nothing. A payment that this
// service submits at its own expense can fail once it is mined, and its payer can bring
// that about. The account of such a payment is refused for a while. The budget is divided, so
// that no crowd closes the offer for all:
//
//   - an account that has paid here, and has wasted nothing for a week, has an allowance of
//     its own: 1/[ownPart] of the budget. It paid for that before, and what it wastes
//     counts for no other account;
//   - all other accounts share the budget. It is divided between the clients that bring
//     their payments by the rule of edge/share: one that has wasted nothing is refused
//     only when all of it is wasted, and one that has wasted some earlier.
//
// The code of an account decides whether a payment fails, and can waste more than others. So new
// accounts with code have a budget of their own, half as large, and close the offer for no others.
//
// An attacker can make any number of accounts, so what is in flight counts as wasted. Gas is
// safe for concurrent use.
type Gas struct {
	budget uint64 // units an hour; 0 for any

	mu    sync.Mutex
	all   []ledger.Waste    // the oldest first
	known map[string]bool   // by transaction
	bars  map[[2]string]bar // by network and account
	// flights are what was submitted and may yet be wasted, by reservation.
	flights map[string]Flight
	// needs is what the last submission of a pool could use.
	needs map[pool]uint64
	// shared is what [Gas.count] gave last.
	shared map[pool]common
}

// pool is what shares one budget: the new accounts on a network, those with code apart.
type pool struct {
	network string
	code    bool
}

// limits gives what a pool may waste in an hour, in units of gas, and what one failure costs
// about.
func (x *Gas) limits(p pool) (budget, usual uint64) {
	if p.code {
		return x.budget / codePart, usualCode
	}
	return x.budget, usualWaste
}

// Flight is gas that a transaction which is not mined yet can use.
type Flight struct {
	Network, Payer, Client string
	Gas                    uint64
	Code                   bool // of an account with code
	Apart                  bool // of an account with its own allowance
}

// common is what of the budget is taken by those that share it.
type common struct {
	gas     uint64
	clients *share.Shares
	until   time.Time // it changes by itself; the zero time if it does not
}

// bar is how often an account has wasted gas, and until when it is refused.
type bar struct {
	times int
	until time.Time
}

// NewGas gives the waste that earlier processes have stored. The budget is what may be wasted
// in an hour, in units of gas; 0 for any.
func NewGas(budget uint64, stored []ledger.Waste) *Gas {
	x := &Gas{budget: budget, flights: map[string]Flight{}, needs: map[pool]uint64{}}
	x.set(stored)
	return x
}

// set replaces everything. The caller holds mu, or has the only reference.
func (x *Gas) set(all []ledger.Waste) {
	x.all, x.known, x.bars, x.shared = nil, map[string]bool{}, map[[2]string]bar{}, map[pool]common{}
	for _, w := range all {
		x.put(w)
	}
}

// put adds w. The caller holds mu.
func (x *Gas) put(w ledger.Waste) {
	x.all = append(x.all, w)
	x.known[w.Transaction] = true
	delete(x.shared, pool{w.Network, w.Code})
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

// Add adds w unless it is known. It returns the entries that are too old to be kept.
func (x *Gas) Add(w ledger.Waste) (old []ledger.Waste, added bool) {
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

// Forget forgets the waste of these transactions, and gives what of it was known.
func (x *Gas) Forget(network string, transactions []string) (gone []ledger.Waste) {
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

// Launch notes what is in flight for a reservation.
func (x *Gas) Launch(id string, f Flight) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.flights[id] = f
}

// LaunchWithin is Launch, unless more than f's part of the budget might then be wasted. The
// first submission within an hour is allowed however small that is.
func (x *Gas) LaunchWithin(id string, f Flight, now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.needs[pool{f.Network, f.Code}] = f.Gas
	if x.budget > 0 && !x.room(id, f, now) {
		return false
	}
	x.flights[id] = f
	return true
}

// room says whether f's part of the budget has room for it in addition to all other flights. The
// caller holds mu.
func (x *Gas) room(id string, f Flight, now time.Time) bool {
	var own uint64
	of := pool{f.Network, f.Code}
	shared := x.count(of, now)
	for _, w := range x.recent(f.Network, now) {
		if w.Apart && w.Payer == f.Payer {
			own += w.Gas
		}
	}
	for other, o := range x.flights {
		switch {
		case other == id || o.Network != f.Network:
		case !o.Apart:
			if o.Code == f.Code {
				shared.take(o.Client, o.Gas)
			}
		case o.Payer == f.Payer:
			own += o.Gas
		}
	}
	if f.Apart {
		return own == 0 || own+f.Gas <= x.budget/ownPart
	}
	budget, _ := x.limits(of)
	return shared.room(budget, f.Client, f.Gas)
}

// count is what of its budget a pool has wasted. The caller holds mu.
func (x *Gas) count(of pool, now time.Time) common {
	budget, usual := x.limits(of)
	s := common{clients: share.NewShares(share.Rule{Most: int(max(1, budget/usual))})}
	for _, w := range x.recent(of.network, now) {
		if !w.Apart && w.Code == of.code {
			s.take(w.Client, w.Gas)
			if end := w.At.Add(budgetPeriod); s.until.IsZero() || end.Before(s.until) {
				s.until = end
			}
		}
	}
	return s
}

func (s *common) take(client string, gas uint64) {
	s.gas += gas
	s.clients.Take(share.AskerOf(client))
}

// room says whether a client may bring so much more.
func (s *common) room(budget uint64, client string, gas uint64) bool {
	return s.gas == 0 || s.gas+gas <= budget && s.clients.Room(share.AskerOf(client))
}

// recent gives what was wasted on a network within the last [budgetPeriod], the oldest first,
// without what a late chain has wasted, because no refusal can prevent that. The caller holds
// mu.
func (x *Gas) recent(network string, now time.Time) (some []ledger.Waste) {
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

// FullUntil says until when waste leaves no room for another submission that a client brings
// for an account without its own allowance, with or without code, at least; the zero time if
// there is room.
func (x *Gas) FullUntil(network string, code bool, client string, now time.Time) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.budget == 0 {
		return time.Time{}
	}
	of := pool{network, code}
	s, known := x.shared[of]
	if !known || !s.until.IsZero() && !now.Before(s.until) {
		s = x.count(of, now)
		x.shared[of] = s
	}
	need := cmp.Or(x.needs[of], usualLimit)
	budget, _ := x.limits(of)
	if s.room(budget, client, need) {
		return time.Time{}
	}
	left := s.gas
	for _, w := range x.recent(network, now) {
		if w.Apart || w.Code != code {
			continue
		}
		if left -= w.Gas; left == 0 || left+need <= budget {
			return w.At.Add(budgetPeriod)
		}
	}
	return s.until
}

// Apart says whether an account that has paid has its own allowance on a network: it has
// wasted nothing that is remembered, or is refused for the first time, for what it had open
// then.
func (x *Gas) Apart(network, payer string, now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	b, some := x.bars[[2]string{network, payer}]
	return !some || !slices.ContainsFunc(x.all, func(w ledger.Waste) bool {
		return w.Network == network && w.Payer == payer && !w.Late && now.Sub(w.At) < wasteMemory && !(w.Apart && now.Before(b.until))
	})
}

// LateBefore says whether waste of an account was put down to a late chain before.
func (x *Gas) LateBefore(network, payer string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.ContainsFunc(x.all, func(w ledger.Waste) bool { return w.Late && w.Network == network && w.Payer == payer })
}

// Land ends what is in flight for a reservation.
func (x *Gas) Land(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.flights, id)
}

// Barred is until when an account is refused on a network; an instant in the past if it is
// not.
func (x *Gas) Barred(network, payer string) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.bars[[2]string{network, payer}].until
}

// Wasted is what payments have cost this service for nothing.
type Wasted struct {
	Budget   uint64 `json:"budget"`    // units an hour, 0 for any
	LastHour uint64 `json:"last_hour"` // units, without what a late chain has wasted
	// Apart is what of that accounts have wasted within allowances of their own, and Code what
	// new accounts with code have wasted: neither is out of the budget.
	Apart   uint64   `json:"apart"`
	Code    uint64   `json:"code"`
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

// Wasted gives the waste that is remembered, by account.
func (x *Gas) Wasted(now time.Time) Wasted {
	x.mu.Lock()
	defer x.mu.Unlock()
	by, wei := map[[2]string]*Waster{}, map[[2]string]*big.Int{}
	g := Wasted{Budget: x.budget, Wasters: []Waster{}}
	for _, w := range x.all {
		if now.Sub(w.At) >= wasteMemory {
			continue
		}
		if now.Sub(w.At) < budgetPeriod && !w.Late {
			g.LastHour += w.Gas
			switch {
			case w.Apart:
				g.Apart += w.Gas
			case w.Code:
				g.Code += w.Gas
			}
		}
		key := [2]string{w.Network, w.Payer}
		if by[key] == nil {
			by[key], wei[key] = &Waster{Network: w.Network, Payer: w.Payer, Until: x.bars[key].until}, new(big.Int)
		}
		b := by[key]
		b.Client, b.Last, b.Transaction = w.Client, w.At, w.Transaction
		b.Times++
		b.Gas += w.Gas
		if cost, ok := new(big.Int).SetString(w.Wei, 10); ok {
			wei[key].Add(wei[key], cost)
		}
	}
	for key, b := range by {
		b.Wei = wei[key].String()
		g.Wasters = append(g.Wasters, *b)
	}
	slices.SortFunc(g.Wasters, func(a, b Waster) int {
		return cmp.Or(cmp.Compare(b.Gas, a.Gas), cmp.Compare(a.Network, b.Network), cmp.Compare(a.Payer, b.Payer))
	})
	g.Wasters = g.Wasters[:min(len(g.Wasters), maxWasters)]
	return g
}
