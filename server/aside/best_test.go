package aside

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"webring/core"
	"webring/core/coretest"
	"webring/server/ledger"
)

// The best bid is that of a look at every member: in a ring of one part, and in one of several.
func TestTheBestBidPassesMost(t *testing.T) {
	const seed = 7
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, members := range []int{0, 1, 2, 40, atOnce + 300} {
		b := newBooks(t, 2000)
		now := time.Unix(1_800_000_000, 0)
		b.rules()
		var steps []coretest.Step
		for i := range members {
			texts := &core.Texts{Name: core.Text{Value: "m"}, URL: core.Text{Value: fmt.Sprintf("https://m%d.example/", i)}}
			steps = append(steps, coretest.NewStep(&core.Joined{Stamp: 1000, Slug: fmt.Sprintf("m%d", i), Kind: core.Website, Category: "general",
				Fee: 100, Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL)}, texts))
		}
		for i := range members {
			if ago := rnd.Int64N(260); ago > 60 { // full, fading, and faded
				steps = append(steps, coretest.NewStep(&core.Bid{Stamp: 1000 * (now.Unix() - ago), Member: fmt.Sprintf("m%d", i), Amount: 100 + rnd.Int64N(900)}, nil))
			}
		}
		if members > 2 {
			steps = append(steps, coretest.NewStep(&core.Asleep{Stamp: 1000 * now.Unix(), Member: "m1"}, nil))
		}
		b.add(steps...)
		best := NewBest(b, func() time.Time { return now })
		if best.look(); members <= atOnce {
			best = NewBest(b, func() time.Time { return now })
			best.Look()
		}
		b.View(func(v *ledger.View) {
			st, most := v.State(), 0
			for o := range core.Ordinal(members) {
				if asleep, _ := st.Asleep(o); asleep {
					continue
				}
				total, _ := st.Paid(o)
				takes := 1
				for other := range core.Ordinal(members) {
					if s := st.Standing(other); other != o && (s > total+100 || s == total+100 && other < o) {
						takes++
					}
				}
				most = max(most, st.Rank(o)-takes)
			}
			d, _ := News(v, eventsPath, "", best)
			var doc struct {
				Best *bestBid `json:"best_bid"`
			}
			if err := json.Unmarshal(d.Body, &doc); err != nil {
				t.Fatal(err)
			}
			said := best.tell(st)
			if (said != nil) != (most >= leastPassed) || most < leastPassed && members >= 40 || (doc.Best != nil) != (said != nil) || said != nil && (said.Rank-said.Takes != most || *doc.Best != *said || said.Amount != "1.00") {
				t.Errorf("seed %d, %d members: %+v, the most is %d", seed, members, said, most)
			}
		})
	}
}
