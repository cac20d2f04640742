package core_test

import (
	"fmt"
	"testing"

	"webring/core"
	"webring/core/coretest"
)

const day = 86400

// ranked checks the order of the whole ring.
func ranked(t *testing.T, r *coretest.Ring, want string) {
	t.Helper()
	got := ""
	for i, o := range r.AppendRanked(nil, 0, r.Len()) {
		if r.Rank(o) != i+1 {
			t.Errorf("%s at place %d has the rank %d", r.Member(o).Slug, i+1, r.Rank(o))
		}
		got += fmt.Sprintf("%s %d, ", r.Member(o).Slug, r.Standing(o))
	}
	if got != want {
		t.Errorf("ranked %s, want %s", got, want)
	}
}

func TestStandingDecaysAfterGraceAndABidRestoresTheFullTotal(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("fee", "https://fee.example/")
	r.Join("bidder", "https://bidder.example/")
	r.Bid("bidder", 800)
	bidAt := r.Stamp/1000 - 1
	at := func(after int64, want string) {
		t.Helper()
		r.Stamp = (bidAt + after) * 1000
		r.Advance(bidAt + after)
		ranked(t, r, want)
	}
	at(1, "bidder 900, fee 100, ")
	at(30*day, "bidder 900, fee 100, ")
	at(30*day+1, "bidder 899, fee 100, ")
	at(30*day+45*day, "bidder 450, fee 100, ")
	at(30*day+80*day, "fee 100, bidder 100, ") // a tie: the earlier join
	at(30*day+90*day-1, "fee 100, bidder 0, ")
	at(30*day+90*day, "fee 100, bidder 0, ") // fully decayed: below a fee
	at(1000*day, "fee 100, bidder 0, ")
	r.Bid("bidder", 100)
	ranked(t, r, "bidder 1000, fee 100, ")
	r.Rules(func(e *core.Rules) { e.Grace, e.Decay = 0, 10 })
	r.Wait(4)
	ranked(t, r, "bidder 400, fee 100, ") // six seconds after the bid
}

func TestTiesGoToTheEarlierJoinWhateverTheOrderOfPayments(t *testing.T) {
	r := coretest.NewRing(t)
	for _, slug := range []string{"a", "b", "c"} {
		r.Join(slug, "https://"+slug+".example/")
	}
	r.Bid("c", 300)
	r.Bid("a", 300)
	r.Bid("b", 300)
	ranked(t, r, "a 400, b 400, c 400, ")
	if cents, ok := r.ToTakeFirst(1); !ok || cents != 100 {
		t.Errorf("b takes first with %d, want the minimum", cents)
	}
	if _, ok := r.ToTakeFirst(0); ok {
		t.Error("the leader is asked for a payment")
	}
}

func TestToTakeFirstMeetsOrPassesTheLeaderByOrderOfJoining(t *testing.T) {
	r := coretest.NewRing(t, func(e *core.Rules) { e.MinBid = 1 })
	for _, slug := range []string{"early", "leader", "late"} {
		r.Join(slug, "https://"+slug+".example/")
	}
	r.Bid("leader", 900)
	for o, want := range map[core.Ordinal]int64{0: 900, 2: 901} {
		if got, ok := r.ToTakeFirst(o); !ok || got != want {
			t.Errorf("%s takes first with %d, want %d", r.Member(o).Slug, got, want)
		}
	}
	if got := r.JoinAtFirst(); got != 901 {
		t.Errorf("a new member joins first with %d", got)
	}
	// The full total counts, not what is left of it.
	r.Bid("late", 500)
	r.Wait(200 * day)
	r.Bid("leader", 1)
	if got, _ := r.ToTakeFirst(2); got != 402 || r.Standing(2) != 0 {
		t.Errorf("late, standing at %d of 600, takes first over 1001 with %d", r.Standing(2), got)
	}
}
