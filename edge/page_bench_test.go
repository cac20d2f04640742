package edge

import (
	"fmt"
	"testing"
	"time"

	"webring/core"
	"webring/core/coretest"
	"webring/wasm/host"
	"webring/wasm/module"
)

type benchCore interface {
	Core
	Apply([]host.Record) error
	Tick(time.Time)
}

// benchRing gives a ring of so many members, natively or as WebAssembly.
func benchRing(b *testing.B, members int, wasm bool) (c benchCore, r *coretest.Ring) {
	b.Helper()
	if !wasm {
		c = host.NewNative(members + 1)
	} else {
		code, err := module.Core()
		if err != nil {
			b.Fatal(err)
		}
		p, err := host.NewPool(b.Context(), host.PoolConfig{Module: code, CacheDir: b.TempDir(), Capacity: members + 1})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { p.Close() })
		c = p
	}
	r = coretest.NewRing(b)
	for i := range members {
		r.Join(fmt.Sprintf("member-%d", i), fmt.Sprintf("https://m%d.example/", i), func(e *core.Joined, t *core.Texts) {
			e.Bid = int64(i%40) * 50
			t.Description.Value = "What this member does, in a sentence or two for those who pass by."
		})
	}
	for _, s := range r.Steps {
		if err := c.Apply([]host.Record{{Event: s.EventBytes, Texts: s.TextBytes}}); err != nil {
			b.Fatal(err)
		}
	}
	c.Tick(time.Unix(r.Clock()+60*86400, 0))
	return c, r
}

// BenchmarkHop is what a read costs from its parsed request to its answer: of a hundred
// targets that are asked again, and of as many as there are members, asked in turn.
func BenchmarkHop(b *testing.B) {
	const members = 20_000
	for _, wasm := range []bool{false, true} {
		c, _ := benchRing(b, members, wasm)
		s, err := New(Config{Core: c, RateLimit: 1 << 30})
		if err != nil {
			b.Fatal(err)
		}
		for _, target := range []string{"/next?from=member-%d", "/api/widget?from=member-%d", "/api/leaderboard?limit=100&offset=%d"} {
			for _, differ := range []int{100, members} {
				targets := make([]string, differ)
				for i := range targets {
					targets[i] = fmt.Sprintf(target, i*7919%members)
				}
				b.Run(fmt.Sprintf("wasm=%t/%s/%d", wasm, target, differ), func(b *testing.B) {
					b.ReportAllocs()
					ctx := newCtx("/")
					for i := 0; b.Loop(); i++ {
						ctx.Request.Header.SetRequestURI(targets[i%len(targets)])
						ctx.Response.Reset()
						request(s, ctx)
					}
				})
			}
		}
	}
}

// BenchmarkPage is what a page costs that is kept, and one that is drawn because the
// ring has moved. The front page is to take 5 ms at most.
func BenchmarkPage(b *testing.B) {
	const members = 100_000
	for _, wasm := range []bool{false, true} {
		c, r := benchRing(b, members, wasm)
		s, err := New(Config{Core: c, RateLimit: 1 << 30})
		if err != nil {
			b.Fatal(err)
		}
		for _, target := range []string{"/", "/ring?page=7", "/members/member-4711", "/feeds/joins.atom", "/sitemaps/members-2.xml"} {
			b.Run(fmt.Sprintf("wasm=%t%s/again", wasm, target), func(b *testing.B) {
				b.ReportAllocs()
				ctx := newCtx(target)
				for b.Loop() {
					request(s, ctx)
				}
				if ctx.Response.StatusCode() != 200 {
					b.Error(ctx.Response.StatusCode())
				}
			})
			b.Run(fmt.Sprintf("wasm=%t%s/anew", wasm, target), func(b *testing.B) {
				b.ReportAllocs()
				ctx := newCtx(target)
				for b.Loop() {
					b.StopTimer()
					r.Bid("member-1", 100)
					step := r.Steps[len(r.Steps)-1]
					if err := c.Apply([]host.Record{{Event: step.EventBytes, Texts: step.TextBytes}}); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
					request(s, ctx)
				}
			})
		}
	}
}

// BenchmarkCards is what the card of a member costs at each position of the ring, without
// the pause after it.
func BenchmarkCards(b *testing.B) {
	c, r := benchRing(b, 100_000, false)
	s, err := New(Config{Core: c, RateLimit: 1 << 30})
	if err != nil {
		b.Fatal(err)
	}
	ctx := newCtx("/cards/member-4711.png")
	for b.Loop() {
		b.StopTimer()
		r.Bid("member-1", 100)
		step := r.Steps[len(r.Steps)-1]
		if err := c.Apply([]host.Record{{Event: step.EventBytes, Texts: step.TextBytes}}); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		request(s, ctx)
	}
	if ctx.Response.StatusCode() != 200 {
		b.Error(ctx.Response.StatusCode())
	}
}
