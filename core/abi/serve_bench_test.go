package abi_test

import (
	"fmt"
	"testing"

	"webring/core"
	"webring/core/abi"
	"webring/core/coretest"
)

// BenchmarkServe has a core answer what rings are asked, as modules do.
func BenchmarkServe(b *testing.B) {
	const members = 5000
	r := coretest.NewRing(b)
	for i := range members {
		r.Join(fmt.Sprintf("member-%d", i), fmt.Sprintf("https://www.m%d.example/site/%d", i, i), func(e *core.Joined, t *core.Texts) {
			e.Kind = core.Agent + core.Kind(i%3)
			e.Category = []string{"general", "tools", "a"}[i%3]
			if i%2 == 0 {
				t.Description.Value = "What this member does, in a sentence or two for those who pass by."
				t.Report.Value = fmt.Sprintf("https://scores.example/reports/%d", i)
				e.Score = core.Score{Given: true, Value: uint8(i % 100), Provider: "is-agentic"}
			}
			if i%4 > 0 {
				e.Bid = int64(i%40) * 50
			}
		})
	}
	c := abi.New(members, 1)
	for _, s := range r.Steps {
		if err := c.Apply(s.EventBytes, s.TextBytes); err != nil {
			b.Fatal(err)
		}
	}
	c.Advance(r.Clock() + 60*86400) // half of the standings have decayed in part
	for _, target := range []string{
		"/next?from=member-%d", "/prev?from=member-%d", "/api/ring/next?from=member-%d", "/api/widget?from=member-%d", "/api/ring/member-%d",
		"/next?kind=agent&from=member-%d", "/next?from=https%%3A%%2F%%2Fm%d.example%%2Fsite", "/api/ring/random?from=m%[1]d.example&category=tools",
		"/api/leaderboard?limit=100&offset=%d", "/api/ring?limit=100&offset=%d", "/api/ring?category=tools&limit=10&offset=%d",
		"/nosuch/%d", "/api/ring/nobody-%d",
	} {
		targets := make([][]byte, 512)
		for i := range targets {
			targets[i] = fmt.Appendf(nil, target, i*7919%members)
		}
		b.Run(target, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c.Answer(uint64(i), targets[i%len(targets)])
			}
		})
	}
}
