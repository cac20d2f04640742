package monitor

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"webring/core"
)

// Payers says how much each account has paid, in cents: fees, bids and credits, less what was
// voided. Its key is the account as events name it, in lower case, "" for none.
type Payers map[string]int64

func (p Payers) add(e core.Event) {
	switch e := e.(type) {
	case *core.Joined:
		p.pay(e.Payment, e.Fee+e.Bid)
	case *core.Bid:
		p.pay(e.Payment, e.Amount)
	case *core.Adjusted:
		switch e.Adjustment {
		case core.Credit:
			p.pay(e.Payment, e.Amount)
		case core.Void:
			p.pay(e.Payment, -e.Amount)
		}
	}
}

func (p Payers) pay(by core.Payment, cents int64) { p[strings.ToLower(by.Payer)] += cents }

// Concentration says how much of the money few accounts have paid, in cents.
type Concentration struct {
	Accounts            int
	Total, Largest, Ten int64
	Half                int // the fewest accounts that paid half of it
}

// Concentration is computed over all accounts that events name.
func (p Payers) Concentration() (c Concentration) {
	named := maps.Clone(p)
	delete(named, "")
	amounts := slices.SortedFunc(maps.Values(named), func(a, b int64) int { return cmp.Compare(b, a) })
	c.Accounts = len(amounts)
	for _, cents := range amounts {
		c.Total += cents
	}
	sum := int64(0)
	for i, cents := range amounts {
		if sum += cents; i == 0 {
			c.Largest = sum
		}
		if i < 10 {
			c.Ten = sum
		}
		if c.Half == 0 && 2*sum >= c.Total {
			c.Half = i + 1
		}
	}
	return c
}
