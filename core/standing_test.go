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
