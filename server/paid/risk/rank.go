package risk

import (
	"fmt"
	"slices"
	"sort"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/form"
)

// A payment with only_if_rank is sent only if it gives that rank, whichever of the payments
// that are open then settle, and in whatever order. So those for other members count as if
// they had settled, and those for the same member as if they had failed. Once it is open
// itself, no other payment with only_if_rank is sent that would take its rank away; it is
// told to come again. A payment without it is never held up for that: one that is brought
// later may pass an open one, as it may pass one that has settled. So may a member that returns.
// Payments for a member that is not in the ring take no rank.

// maxPromised is how many payments with only_if_rank may be open: each is held against every
// open payment.
const maxPromised = 64

// contest is what the ranks come to if all payments that are open now settle.
type contest struct {
	st *core.State
	// rising are the members for which payments are open, and those that would join.
	rising []contender
	// promised are the open payments with only_if_rank.
	promised []promise
}

// contender is a member with what it would have in all.
type contender struct {
	at    core.Ordinal // [core.State.Rows] for one that would join
	total int64        // cents
}

// promise is a payment with what its member would have by it alone.
type promise struct {
	contender
	rank int
}

// contestOf gives the contest of the payments that are open now.
func contestOf(v *ledger.View) *contest {
	c := &contest{st: v.State()}
	sums := map[core.Ordinal]int64{}
	v.EachHolding(func(r *ledger.Reservation) {
		x := contender{core.Ordinal(c.st.Rows()), r.Cents}
		if r.Operation == ledger.OperationBid {
			at, known := c.st.BySlug([]byte(r.Member))
			if !known || c.st.Rank(at) == 0 {
				return
			}
			x = contender{at, c.st.Member(at).Total() + r.Cents}
			sums[at] += r.Cents
		} else {
			c.rising = append(c.rising, x)
		}
		if r.OnlyIfRank > 0 {
			c.promised = append(c.promised, promise{x, r.OnlyIfRank})
		}
	})
	for at, cents := range sums {
		c.rising = append(c.rising, contender{at, c.st.Member(at).Total() + cents})
	}
	return c
}

// toPass is the least total in cents with which x stands above o. Of two that would join,
// either may come first.
func (c *contest) toPass(o contender, x core.Ordinal) int64 {
	if x < o.at {
		return o.total // the earlier join wins ties
	}
	return o.total + 1
}

// passing counts the rising members that would stand above one with this total, and do not
// now.
func (c *contest) passing(x core.Ordinal, total int64) (n int) {
	for _, o := range c.rising {
		if o.at != x || int(x) == c.st.Rows() {
			if total < c.toPass(o, x) && !c.above(o.at, x, total) {
				n++
			}
		}
	}
	return n
}

// above says whether a member stands above one with this total now.
func (c *contest) above(o, x core.Ordinal, total int64) bool {
	return c.st.Rank(o) > 0 && total < c.toPass(contender{o, c.st.Standing(o)}, x)
}

// holds says whether a member with this total has a rank or a better one when all payments
// have settled, and more others have passed it.
func (c *contest) holds(x core.Ordinal, total int64, rank, more int) bool {
	rank -= c.passing(x, total) + more
	return rank > 0 && total >= c.st.TotalForRank(x, rank)
}

// need is the least total in cents with which a member has a rank or a better one.
func (c *contest) need(x core.Ordinal, rank int) int64 {
	some := []int64{c.st.TotalForRank(x, rank)}
	for i, o := range c.rising {
		some = append(some, c.toPass(o, x))
		if i+1 < rank {
			some = append(some, c.st.TotalForRank(x, rank-i-1))
		}
	}
	slices.Sort(some)
	return some[sort.Search(len(some)-1, func(i int) bool { return c.holds(x, some[i], rank, 0) })]
}

// breaks says whether a payment of so many cents for x, which has the rest of its total now,
// could take a rank away that another open payment was promised.
func (c *contest) breaks(x contender, cents int64) bool {
	before := x.total - cents
	if int(x.at) < c.st.Rows() {
		for _, o := range c.rising {
			if o.at == x.at {
				before = o.total
			}
		}
	}
	for _, p := range c.promised {
		if p.at == x.at && int(x.at) < c.st.Rows() {
			continue
		}
		passes := p.total < c.toPass(contender{x.at, before + cents}, p.at)
		passed := before > 0 && p.total < c.toPass(contender{x.at, before}, p.at)
		own := 0
		if int(p.at) == c.st.Rows() {
			own = -1 // it is one of those that would join
		}
		if passes && !passed && c.holds(p.at, p.total, p.rank, own) && !c.holds(p.at, p.total, p.rank, own+1) {
			return true
		}
	}
	return false
}

// Ranks refuses a payment that would not give a member the rank wanted, or would take one
// away that was promised. has is what it has now, and cents what is paid. The member of the
// document with this name says what takes the rank, after spare cents that are not part of
// it.
func Ranks(v *ledger.View, x core.Ordinal, has, cents int64, rank int, spare int64, member, what string) error {
	if rank == 0 {
		return nil
	}
	c := contestOf(v)
	if len(c.promised) >= maxPromised {
		return &form.Problem{Code: api.RankTaken,
			Detail: "Too many payments for a rank are being settled. Send the request again in a few seconds. Nothing was charged."}
	}
	if need := c.need(x, rank); has+cents < need {
		return rankTaken(rank, member, max(need-has-spare, c.st.Rules().MinBid), what)
	}
	if c.breaks(contender{x, has + cents}, cents) {
		return &form.Problem{Code: api.RankTaken,
			Detail: "This payment would take the rank that a payment in progress was promised. Send the request again in a few seconds. Nothing was charged."}
	}
	return nil
}

// rankTaken refuses a payment that would not give the rank wanted. The member of
// the document with this name says how many cents do now, in what is paid.
func rankTaken(rank int, member string, cents int64, what string) *form.Problem {
	usd := form.FormatUSD(cents)
	return &form.Problem{Code: api.RankTaken, More: map[string]any{member: usd},
		Detail: fmt.Sprintf("This payment would not reach rank %d: that takes %s of %s USD now. Nothing was charged.", rank, what, usd)}
}
