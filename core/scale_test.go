package core_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"webring/core"
	"webring/core/coretest"
)

// BenchmarkScale measures, in a ring of a million members that all decay, with
// totals of 4 USD on average, what a second costs, what a bid does, and what
// deriving the whole order does. SCALE sets another number of members.
func BenchmarkScale(b *testing.B) {
	n := 1_000_000
	if s := os.Getenv("SCALE"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	const seed = 31
	b.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	st := core.NewState(n, 1)
	apply := func(e core.Event, texts *core.Texts) {
		step := coretest.NewStep(e, texts)
		if err := st.Apply(step.EventBytes, step.TextBytes); err != nil {
			b.Fatal(err)
		}
	}
	const start = 1_760_000_000
	apply(&core.Rules{Stamp: start * 1000, Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100,
		Grace: 0, Decay: 90 * 86400, Scorer: "fixed", RequiredScore: 40}, nil)
	for i := range int64(n) {
		slug := fmt.Sprintf("member-%d", i)
		texts := &core.Texts{Name: core.Text{Value: "The member " + slug}, URL: core.Text{Value: "https://" + slug + ".example/docs"}}
		apply(&core.Joined{Stamp: start*1000 + i*86400_000*30/int64(n), Slug: slug, Kind: core.Agent, Category: "general", Name: coretest.Commit(texts.Name),
			URL: coretest.Commit(texts.URL), Fee: 100, Bid: 100 + random.Int64N(500)}, texts)
	}
	now := int64(start + 30*86400)
	st.Advance(now)
	for b.Loop() {
		var seconds, bids []time.Duration
		for range 600 {
			now++
			began := time.Now()
			st.Advance(now)
			seconds = append(seconds, time.Since(began))
		}
		for range 2000 {
			step := coretest.NewStep(&core.Bid{Stamp: now * 1000, Member: fmt.Sprintf("member-%d", random.IntN(n)), Amount: 100}, nil)
			began := time.Now()
			if err := st.Apply(step.EventBytes, nil); err != nil {
				b.Fatal(err)
			}
			st.Advance(now)
			bids = append(bids, time.Since(began))
		}
		began := time.Now()
		st.Rewind(now)
		all := time.Since(began)
		for name, of := range map[string][]time.Duration{"second": seconds, "bid": bids} {
			slices.Sort(of)
			b.ReportMetric(float64(of[len(of)/2].Nanoseconds())/1000, name+"-p50-µs")
			b.ReportMetric(float64(of[len(of)*99/100].Nanoseconds())/1000, name+"-p99-µs")
		}
		b.ReportMetric(float64(all.Microseconds()), "whole-µs")
	}
}
