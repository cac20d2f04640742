package risk

import (
	"math/big"
	"slices"
	"sync"
	"time"

	"webring/server/ledger"
)

// wasteLife is for how long waste counts, in its pool and against its account.
const wasteLife = time.Hour

// Gas bounds what payments cost this service for nothing. A payment that this service submits at its
// own expense can fail once it is mined, and its payer can bring that about. So a submission
// is charged with the most that it can cost before it is sent. The charge is given back when the
// payment has settled or can no longer be mined. If the payment has failed, what it cost counts
// for an hour instead, and its account is refused for that hour.
//
// On each network, accounts that have never paid here share one budget, and those that have paid
// share another of the same size. Anybody can make any number of new accounts, but they close the
// offer only to new accounts. Gas is safe for concurrent use.
type Gas struct {
	budget *big.Int // wei an hour; 0 for any

	mu     sync.Mutex
	wastes []ledger.Waste // of the last hour, the oldest first
	old    []ledger.Waste // older, and still stored
	wasted map[Pool]*big.Int
	barred map[[2]string]time.Time // by network and account
	// charges are for what is in flight, by reservation.
	charges map[string]charge
}

// Pool is what shares one budget: accounts on a network that have paid here, or those that have not.
type Pool struct {
	Network string
	Paid    bool
}

type charge struct {
	pool Pool
	wei  *big.Int
}

// NewGas gives the waste that earlier processes have stored. The budget is in wei an hour; 0 for
// any.
func NewGas(budget *big.Int, stored []ledger.Waste) *Gas {
	x := &Gas{budget: budget, charges: map[string]charge{}}
	x.set(stored)
	return x
}

// set replaces all waste. The caller holds mu, or has the only reference.
func (x *Gas) set(all []ledger.Waste) {
	x.wastes, x.wasted, x.barred = nil, map[Pool]*big.Int{}, map[[2]string]time.Time{}
	for _, w := range all {
		x.put(w)
	}
}

// put adds w. The caller holds mu.
func (x *Gas) put(w ledger.Waste) {
	x.wastes = append(x.wastes, w)
	x.barred[[2]string{w.Network, w.Payer}] = w.At.Add(wasteLife)
	pool := Pool{w.Network, w.Paid}
	if x.wasted[pool] == nil {
		x.wasted[pool] = new(big.Int)
	}
	if wei, ok := new(big.Int).SetString(w.Wei, 10); ok {
		x.wasted[pool].Add(x.wasted[pool], wei)
	}
}

// age takes out what is older than an hour. The caller holds mu.
func (x *Gas) age(now time.Time) {
	n := slices.IndexFunc(x.wastes, func(w ledger.Waste) bool { return now.Sub(w.At) < wasteLife })
	if n < 0 {
		n = len(x.wastes)
	}
	if n > 0 {
		x.old = append(x.old, x.wastes[:n]...)
		x.set(x.wastes[n:])
	}
}

// Charge charges a reservation with wei, in place of what it was charged with before, and says
// whether its budget has room for that in addition to all else.
func (x *Gas) Charge(id string, pool Pool, wei *big.Int, now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.age(now)
	sum := new(big.Int).Set(wei)
	if spent := x.wasted[pool]; spent != nil {
		sum.Add(sum, spent)
	}
	for other, c := range x.charges {
		if other != id && c.pool == pool {
			sum.Add(sum, c.wei)
		}
	}
	if x.budget.Sign() > 0 && sum.Cmp(x.budget) > 0 {
		return false
	}
	x.charges[id] = charge{pool, wei}
	return true
}

// Recharge charges a reservation for what an earlier process has submitted.
func (x *Gas) Recharge(id string, pool Pool, wei *big.Int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.charges[id] = charge{pool, wei}
}

// GiveBack ends the charge of a reservation.
func (x *Gas) GiveBack(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.charges, id)
}

// Add has w count instead of the charge of its reservation, unless w is known. It returns the
// entries that need not be stored any longer.
func (x *Gas) Add(id string, w ledger.Waste) (old []ledger.Waste, added bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.charges, id)
	x.age(w.At)
	known := func(o ledger.Waste) bool { return o.Network == w.Network && o.Transaction == w.Transaction }
	if slices.ContainsFunc(x.wastes, known) || slices.ContainsFunc(x.old, known) {
		return nil, false
	}
	x.put(w)
	old, x.old = x.old, nil
	return old, true
}

// Forget forgets the waste of these transactions, and gives what of it was known.
func (x *Gas) Forget(network string, transactions []string) (gone []ledger.Waste) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var left []ledger.Waste
	for _, w := range x.wastes {
		if w.Network == network && slices.Contains(transactions, w.Transaction) {
			gone = append(gone, w)
		} else {
			left = append(left, w)
		}
	}
	if len(gone) > 0 {
		x.set(left)
	}
	return gone
}

// FullUntil says until when, at least, waste leaves no room for further submissions of a pool;
// the zero time if there is room. The last quarter of a budget is for what is in flight when the
// rest is wasted, and no single submission may cost more.
func (x *Gas) FullUntil(pool Pool, now time.Time) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.age(now)
	spent := x.wasted[pool]
	if x.budget.Sign() == 0 || spent == nil || new(big.Int).Lsh(spent, 2).Cmp(new(big.Int).Mul(x.budget, big.NewInt(3))) < 0 {
		return time.Time{}
	}
	first := slices.IndexFunc(x.wastes, func(w ledger.Waste) bool { return w.Network == pool.Network && w.Paid == pool.Paid })
	return x.wastes[first].At.Add(wasteLife)
}

// Barred is until when an account is refused on a network; an instant in the past if it is
// not.
func (x *Gas) Barred(network, payer string) time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.barred[[2]string{network, payer}]
}

// Wasted is what payments have cost this service for nothing in the last hour.
type Wasted struct {
	Budget *big.Int `json:"budget"` // wei an hour for each pool, 0 for any
	New    *big.Int `json:"new"`    // wei, of accounts that had never paid
	Paid   *big.Int `json:"paid"`   // wei, of those that had
	// Last has the latest waste first, and at most a thousand entries.
	Last []ledger.Waste `json:"last"`
}

// maxListed bounds what is listed.
const maxListed = 1000

// Wasted gives the waste of the last hour.
func (x *Gas) Wasted(now time.Time) Wasted {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.age(now)
	g := Wasted{Budget: x.budget, New: new(big.Int), Paid: new(big.Int)}
	for pool, wei := range x.wasted {
		sum := g.New
		if pool.Paid {
			sum = g.Paid
		}
		sum.Add(sum, wei)
	}
	g.Last = slices.Clone(x.wastes[max(0, len(x.wastes)-maxListed):])
	slices.Reverse(g.Last)
	return g
}
