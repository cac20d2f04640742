package edge

import (
	"regexp"
	"strconv"
	"sync"
	"testing"

	"webring/core"
	"webring/core/api"
	"webring/wasm/host"
)

// restlessCore moves on before every call: somebody joins.
type restlessCore struct {
	*host.Native
	t     *testing.T
	mu    sync.Mutex
	calls int // of ServeAll
	moves int
}

func (c *restlessCore) ServeAll(targets [][]byte, all []api.Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(targets) > 256 {
		c.t.Errorf("%d targets in one call", len(targets))
	}
	if c.calls++; c.moves > 0 {
		c.moves--
		slug := "joins-" + strconv.Itoa(c.moves)
		join(c.t, c.Native, 10_000+int64(c.calls), slug, core.Joined{Slug: slug})
	}
	c.Native.ServeAll(targets, all)
}

// However often the ring moves while a page reads it, all that the page shows is of the
// position of its last call.
func TestAPageIsOfOnePositionWhileTheRingMoves(t *testing.T) {
	ring := &restlessCore{Native: newRing(t), t: t, moves: 60}
	s := serve(t, Config{Core: ring})
	sizes := regexp.MustCompile(`data-live="members">([0-9]+)<|text class="count" x="200" y="206">([0-9]+)<`)
	for range 30 {
		r := s.Get("/")
		found := sizes.FindAllStringSubmatch(r.Body, -1)
		if r.Status != 200 || len(found) != 2 || found[0][2] != found[1][1] {
			t.Fatalf("status %d, one page, two sizes: %q", r.Status, found)
		}
		for _, path := range []string{"/members/alpha", "/ring", "/feeds/joins.atom", "/opml/1.opml", "/llms.txt", "/join", "/badge/alpha.svg"} {
			if r := s.Get(path); r.Status != 200 {
				t.Errorf("%s: status %d", path, r.Status)
			}
		}
	}
	if ring.moves > 0 {
		t.Errorf("%d moves are left", ring.moves)
	}
}

// A page takes few calls, which do not grow with the ring, and none when it is sent from the
// cache.
func TestAPageTakesFewCalls(t *testing.T) {
	ring := &restlessCore{Native: newRing(t), t: t}
	s := serve(t, Config{Core: ring})
	for _, c := range []struct {
		path  string
		calls int
	}{
		{"/", 2}, {"/", 0}, {"/ring", 2}, {"/docs", 1}, {"/embed?from=alpha", 1}, {"/badge/alpha.svg", 2}, {"/problems/empty_ring", 0},
		{"/leaderboard", 1}, {"/leaderboard?page=2", 1}, {"/members/alpha", 3}, {"/members/alpha", 0}, {"/members/nobody", 1},
	} {
		before := ring.calls
		s.Get(c.path)
		if got := ring.calls - before; got != c.calls {
			t.Errorf("%s took %d calls, want %d", c.path, got, c.calls)
		}
	}
}
