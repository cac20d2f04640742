package pages

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/coretest"
	"webring/edge/cache"
	"webring/edge/describe"
	"webring/wasm/host"
)

// A page says of an amount the rank that paying it gives: of members and of one that joins, beyond
// the rows that the page reads, and among equals.
func TestARankIsSaidBeforeItIsPaidFor(t *testing.T) {
	const seed, members = 3, 130
	random := rand.New(rand.NewPCG(seed, 0))
	n := host.NewNative(200)
	stamp := int64(epoch * 1000)
	apply := func(e core.Event, texts *core.Texts) {
		t.Helper()
		s := coretest.NewStep(e, texts)
		if err := n.Apply([]host.Record{{Event: s.EventBytes, Texts: s.TextBytes}}); err != nil {
			t.Fatal(err)
		}
		stamp++
	}
	join := func(i int, bid int64) {
		texts := &core.Texts{Name: core.Text{Value: "A"}, URL: core.Text{Value: fmt.Sprintf("https://a%d.example/", i)}}
		apply(&core.Joined{Stamp: stamp, Slug: fmt.Sprintf("a-%d", i), Kind: core.Agent, Category: "general", Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL), Fee: 100, Bid: bid}, texts)
	}
	apply(&core.Rules{Stamp: stamp, Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Grace: 86400, Decay: 864000,
		Networks: []core.Network{{Name: "tempo:42431", Method: "tempo", Currency: "usd"}}, Scorer: "fixed", RequiredScore: 40}, nil)
	for i := range members {
		join(i, 100*random.Int64N(8)) // many have the same
	}
	c, site := &ringCore{n, cache.New(1 << 20)}, New(describe.Site{}, time.Now)
	fill := func(f func(r *reader, board *boardDocument) int) (rank int) {
		c.Tick(time.UnixMilli(stamp + 999))
		r := newReader(site, c)
		r.complete(func() {
			var board boardDocument
			if r.document(standings, &board) {
				rank = f(r, &board)
			}
		})
		return rank
	}
	rankOf := func(slug string) int {
		return fill(func(r *reader, _ *boardDocument) int {
			var detail struct{ Member describe.Member }
			r.document("/api/ring/"+slug, &detail)
			return detail.Member.BoardRank
		})
	}
	for i := range 60 {
		amount := 100 + 100*random.Int64N(4)
		if i%2 == 0 {
			slug := fmt.Sprintf("a-%d", random.IntN(members))
			said := fill(func(r *reader, board *boardDocument) int {
				var detail struct{ Member describe.Member }
				r.document("/api/ring/"+slug, &detail)
				m := &detail.Member
				return r.rankWith(cents(m.Paid)+amount, m.Position, board)
			})
			apply(&core.Bid{Stamp: stamp, Member: slug, Amount: amount}, nil)
			if got := rankOf(slug); got != said {
				t.Fatalf("seed %d, step %d: a bid of %d on %s gives rank %d, and %d was said", seed, i, amount, slug, got, said)
			}
			continue
		}
		said := fill(func(r *reader, board *boardDocument) int { return r.rankWith(100+amount, afterAll, board) })
		join(members+i, amount)
		if got := rankOf(fmt.Sprintf("a-%d", members+i)); got != said {
			t.Fatalf("seed %d, step %d: joining with %d gives rank %d, and %d was said", seed, i, amount, got, said)
		}
	}
}

// The page of a member and the join page say what the amount in their address does, with dates.
func TestPagesSayWhatAnAmountDoes(t *testing.T) {
	c, s := newCore(t), New(describe.Site{}, time.Now)
	c.Tick(time.Unix(epoch+2, 0))
	for target, want := range map[string]string{
		"/members/alpha":             "<strong>$1</strong> lifts it to <strong>$52 in total</strong> and <strong>rank 1</strong> of 1. It counts in full for less than a minute, until 9 October, then fades to $0 by 9 October.",
		"/members/alpha?amount=7.5":  `data-amount="7.50"`,
		"/members/alpha?amount=0.50": `data-amount="1.00"`,
		"/join":                      "<strong>$1</strong>, the fee alone, puts you at <strong>rank 2</strong> of 2. It fades only after a first bid.",
		"/join?amount=60":            "<strong>$61</strong>, fee included, puts you at <strong>rank 1</strong> of 2. It counts in full for less than a minute, until 9 October. From your first bid on, the total fades unless it is renewed: $61 today, $0 on 9 October.",
	} {
		_, path, query := Target([]byte(target))
		view := drawMember
		if path == JoinPath {
			view = drawJoin
		}
		r := newReader(s, c)
		var body []byte
		r.complete(func() {
			if page := view(r, path, query); page != nil {
				body = page.Body()
			}
		})
		if !strings.Contains(string(body), want) {
			t.Errorf("%s does not say %s: %s", target, want, body)
		}
	}
}
