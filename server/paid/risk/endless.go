package risk

import (
	"slices"

	"webring/edge/share"
	"webring/server/ledger"
)

// A payment without an end is waited for long after it holds anything. So the number of those
// that are open is bounded, and those that have lapsed count. Accounts that have paid here have
// a part of their own, which no others can take. An account whose payment lapses or fails leaves it until it
// pays again, and each account has two open payments at most. So to keep that part full for an
// hour takes half as many accounts as it has room for payments, and each of them must pay.
// Each part is divided between the clients that bring the payments, by the rule of edge/share.
const (
	maxEndless = 256 // in each part
	// halfEndless is with how many a client is refused when half of a part is taken: as many
	// as four accounts may have.
	halfEndless = 8
)

// EndlessRoom reports whether another payment without an end may be opened, which a client
// brings. paid is what [ledger.View.PaidSince] says of its account.
func EndlessRoom(v *ledger.View, client string, paid bool) bool {
	var open []*ledger.Reservation
	v.EachOpen(func(r *ledger.Reservation) {
		if r.Endless && r.Stranger == !paid {
			open = append(open, r)
		}
	})
	// In the order in which they were opened, the rule refuses none of them.
	slices.SortFunc(open, func(a, b *ledger.Reservation) int { return a.Created.Compare(b.Created) })
	shares := share.NewShares(share.Rule{Most: maxEndless, Half: halfEndless})
	for _, r := range open {
		shares.Take(share.AskerOf(r.Client))
	}
	return len(open) < maxEndless && shares.Room(share.AskerOf(client))
}
