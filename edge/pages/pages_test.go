package pages

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
	"webring/edge/cache"
	"webring/edge/describe"
	"webring/wasm/host"
)

// epoch is where test histories begin.
const epoch = 1_760_000_000

// ringCore is a ring of one member, "alpha". Its bid fades between ten and a thousand
// and ten seconds after the epoch.
type ringCore struct {
	*host.Native
	cache *cache.Cache
}

func (c *ringCore) Ask(target []byte, r *api.Response)          { c.Serve(target, r) }
func (c *ringCore) AskAll(targets [][]byte, all []api.Response) { c.ServeAll(targets, all) }
func (c *ringCore) Build() string                               { return "build" }
func (c *ringCore) Cache() *cache.Cache                         { return c.cache }
func (c *ringCore) Cached(bool)                                 {}

func newCore(t *testing.T) *ringCore {
	t.Helper()
	n := host.NewNative(10)
	texts := &core.Texts{Name: core.Text{Value: "Alpha"}, URL: core.Text{Value: "https://alpha.example/"}}
	for _, s := range []coretest.Step{
		coretest.NewStep(&core.Rules{Stamp: epoch * 1000, Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100,
			Grace: 10, Decay: 1000, Networks: []core.Network{{Name: "tempo:42431", Method: "tempo", Currency: "usd"}}, Scorer: "fixed", RequiredScore: 40}, nil),
		coretest.NewStep(&core.Joined{Stamp: (epoch + 1) * 1000, Slug: "alpha", Kind: core.Agent, Category: "general",
			Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL), Fee: 100, Bid: 5000}, texts),
	} {
		if err := n.Apply([]host.Record{{Event: s.EventBytes, Texts: s.TextBytes}}); err != nil {
			t.Fatal(err)
		}
	}
	return &ringCore{n, cache.New(1 << 20)}
}

// noFields is a request without any.
type noFields struct{}

func (noFields) PeekAll(string) [][]byte { return nil }

// While somebody draws a page anew, others get the one before, if only time has
// passed since, and briefly.
func TestNobodyWaitsForADrawingThatTimeAskedFor(t *testing.T) {
	c := newCore(t)
	s := New(describe.Site{}, time.Now)
	front := func() (fields, body string) {
		p, failed := s.Front(c)
		if failed != nil {
			t.Errorf("status %d: %s", failed.Status, failed.Body)
			return "", ""
		}
		lines, _, sent := p.AppendAnswer(nil, noFields{}, c)
		return string(lines), string(sent)
	}
	c.Tick(time.Unix(epoch+500, 0))
	_, before := front()
	key := c.cache.Key([]byte("/"))
	drawing := &s.drawing[key.Stripe(drawingStripes)]
	drawing.Lock()
	until := c.cache.Get(key).Until
	c.Tick(time.Unix(until+1, 0))
	fields, body := front()
	if !strings.Contains(fields, "Cache-Control: public, max-age=0, stale-while-revalidate=30, stale-if-error=86400\r\n") {
		t.Error(fields)
	}
	if body != before {
		t.Error("another page than the one before")
	}
	c.Tick(time.Unix(until+lateBy, 0))
	late := make(chan string)
	go func() {
		_, body := front()
		late <- body
	}()
	select {
	case <-late:
		t.Error("a page that is long out of date was sent")
	case <-time.After(50 * time.Millisecond):
	}
	drawing.Unlock()
	if body := <-late; body == "" || body == before {
		t.Error("the page before, or none")
	}
}

// movingCore is a ring that moves on at each of so many calls.
type movingCore struct {
	*ringCore
	moves, calls int
}

func (c *movingCore) AskAll(targets [][]byte, all []api.Response) {
	c.ringCore.AskAll(targets, all)
	c.calls++
	for i := range all {
		all[i].Seq += uint64(min(c.calls, c.moves))
	}
}

// A page is of one position, although the ring moves on while it is filled. A ring that never
// stands still is an error, and no hang.
func TestAPageIsOfOnePosition(t *testing.T) {
	for moves, want := range map[int]int{0: 0, 1: 0, 2: 0, 3: 0, 1 << 30: 500} {
		c, round := &movingCore{newCore(t), moves, 0}, 0
		r := newReader(New(describe.Site{}, time.Now), c)
		var seen [2]uint64
		r.complete(func() {
			round++
			if r.document("/api/ring?limit="+strconv.Itoa(round), new(listDocument)) && r.document("/api/ring?page="+strconv.Itoa(round), new(listDocument)) {
				seen = [2]uint64{r.read[r.wanted[0]].Seq, r.read[r.wanted[1]].Seq}
			}
		})
		if want == 0 && (r.failed != nil || seen[0] != seen[1] || seen[0] != r.seq) || want != 0 && (r.failed == nil || r.failed.Status != want || round != maxRounds) {
			t.Errorf("%d moves: after %d rounds: %v %v at %d", moves, round, r.failed, seen, r.seq)
		}
	}
}
