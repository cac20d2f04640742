package core_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"webring/core"
	"webring/core/coretest"
	"webring/core/flat"
)

// BenchmarkWorst holds cases that somebody could make on purpose against the
// ordinary one, in a ring of 100 000 members that all decay: medians of an event,
// or for steps of a member that steps, as ratios. The goal is 3.
func BenchmarkWorst(b *testing.B) {
	const (
		members = 100_000
		many    = 4000
		start   = 1_760_000_000
		decay   = 90 * 86400
	)
	for b.Loop() {
		random := rand.New(rand.NewPCG(5, 5))
		st := core.NewState(1<<20, random.Uint64())
		now := int64(start)
		event := func(e core.Event, texts *core.Texts) time.Duration {
			step := coretest.NewStep(e, texts)
			began := time.Now()
			if err := st.Apply(step.EventBytes, step.TextBytes); err != nil {
				b.Fatal(err)
			}
			st.Advance(now)
			return time.Since(began)
		}
		join := func(slug, url string, bid int64) time.Duration {
			texts := &core.Texts{Name: core.Text{Value: "The " + slug}, URL: core.Text{Value: url}}
			return event(&core.Joined{Stamp: now * 1000, Slug: slug, Kind: core.Agent, Category: "general", Name: coretest.Commit(texts.Name),
				URL: coretest.Commit(texts.URL), Fee: 100, Bid: bid}, texts)
		}
		bid := func(slug string) time.Duration {
			return event(&core.Bid{Stamp: now * 1000, Member: slug, Amount: 100}, nil)
		}
		median := func(n int, f func(i int) time.Duration) float64 {
			all := make([]time.Duration, n)
			for i := range all {
				all[i] = f(i)
			}
			slices.Sort(all)
			return float64(all[n/2].Nanoseconds())
		}
		event(&core.Rules{Stamp: now * 1000, Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Decay: decay, Scorer: "fixed", RequiredScore: 40}, nil)
		for i := range members {
			now = start + int64(i)*30*86400/members
			join(fmt.Sprintf("member-%d", i), fmt.Sprintf("https://member-%d.example/", i), 100+random.Int64N(400))
		}
		anybody := func() string { return fmt.Sprintf("member-%d", random.IntN(members)) }

		ordinary := median(many, func(int) time.Duration { now++; st.Advance(now); return bid(anybody()) })
		now++
		st.Advance(now)
		b.ReportMetric(ordinary, "bid-ns")
		b.ReportMetric(median(many, func(int) time.Duration { return bid(anybody()) })/ordinary, "in-one-second")
		whale := anybody()
		for range 500 {
			event(&core.Bid{Stamp: now * 1000, Member: whale, Amount: core.MaxAmount}, nil)
		}
		b.ReportMetric(median(many, func(int) time.Duration { now++; st.Advance(now); return bid(whale) })/ordinary, "whale")

		ordinary = median(many, func(i int) time.Duration {
			return join(fmt.Sprintf("new-%d", i), fmt.Sprintf("https://new-%d.example/", i), 100)
		})
		b.ReportMetric(ordinary, "join-ns")
		for i := range 10_000 - many {
			join(fmt.Sprintf("tenant-%d", i), fmt.Sprintf("https://crowded.example/%d", i), 100)
		}
		b.ReportMetric(median(many, func(i int) time.Duration {
			return join(fmt.Sprintf("late-tenant-%d", i), fmt.Sprintf("https://crowded.example/late/%d", i), 100)
		})/ordinary, "one-host")

		// Slugs that fall into one bucket of a table that anybody can compute.
		known := flat.NewSeed(0)
		var colliding []string
		for i := 0; len(colliding) < many; i++ {
			if slug := fmt.Sprintf("c%d", i); known.Hash(slug)&1023 == 0 {
				colliding = append(colliding, slug)
			}
		}
		b.ReportMetric(median(many, func(i int) time.Duration {
			return join(colliding[i], "https://"+colliding[i]+".example/", 100)
		})/ordinary, "colliding")

		// A second in which many that are alike step together, for each of them,
		// against the seconds of an ordinary ring.
		steps := func(st *core.State, from int64, seconds int) float64 {
			var took time.Duration
			moved := 0
			for second := from + 1; second <= from+int64(seconds); second++ {
				due := st.Due(second, many+1)
				began := time.Now()
				st.Advance(second)
				if due > 0 {
					took += time.Since(began)
					moved += due
				}
			}
			return float64(took.Nanoseconds()) / float64(max(moved, 1))
		}
		now++
		st.Advance(now)
		each := steps(st, now, 1000)
		now += 1000
		for i := range many {
			join(fmt.Sprintf("alike-%d", i), fmt.Sprintf("https://alike-%d.example/", i), 77_660) // a step each 100 seconds
		}
		b.ReportMetric(each, "step-ns")
		b.ReportMetric(steps(st, now, 1000)/each, "alike")
	}
}
