package edge

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/api"
)

// noFields is a request without any, fieldsOf one with these, by name.
type (
	noFields struct{}
	fieldsOf map[string]string
)

func (noFields) PeekAll(string) [][]byte { return nil }

func (f fieldsOf) PeekAll(name string) [][]byte {
	if value, there := f[name]; there {
		return [][]byte{[]byte(value)}
	}
	return nil
}

func TestAnswersAreMadeOnceAsLongAsTheyHold(t *testing.T) {
	answer := api.Response{Status: 200, Validity: api.Timed, Seq: 7, Since: 100, Until: 200, Body: make([]byte, leastList)}
	asked := 0
	c := &fakeCore{second: 150, serve: func(_ []byte, r *api.Response) {
		asked++
		body := append(r.Body[:0], answer.Body...)
		*r = answer
		r.Body = append(body[:len(body)-1], byte(asked))
	}}
	n := NewSwappable(c, "").enter()
	var r api.Response
	wrote := map[string]byte{}
	for i, step := range []struct {
		what   string
		change func()
		target string
		want   int // how often the core has been asked
	}{
		{"first", func() {}, "/api/leaderboard?limit=50", 1},
		{"again", func() {}, "/api/leaderboard?limit=50", 1},
		{"another target", func() {}, "/api/leaderboard?limit=51", 2},
		{"its last second", func() { c.second = 199 }, "/api/leaderboard?limit=50", 2},
		{"one second later", func() { c.second = 200 }, "/api/leaderboard?limit=50", 3},
		{"before it held", func() { c.second = 99 }, "/api/leaderboard?limit=50", 4},
		{"at another position", func() { c.second = 150; answer.Seq = 6 }, "/api/ring", 5},
		{"still", func() {}, "/api/ring", 6},
		{"by position alone", func() { c.second = 10_000; answer.Seq, answer.Validity = 7, api.Position }, "/api/ring", 7},
		{"again by that", func() { c.second = 20_000 }, "/api/ring", 7},
		{"short", func() { answer.Body = make([]byte, 10) }, "/api/ring/a", 8},
		{"short, again", func() {}, "/api/ring/a", 9},
		{"short, a third time", func() {}, "/api/ring/a", 9},
		{"a redirect", func() { answer.Validity, answer.Status = api.Never, 302 }, "/next?from=a", 10},
		{"that again", func() {}, "/next?from=a", 11},
		{"that a third time", func() { c.second = 30_000 }, "/next?from=a", 11},
		{"drawn", func() { answer.Drawn = true }, "/random", 12},
		{"drawn, again", func() {}, "/random", 13},
		{"drawn, a third time", func() {}, "/random", 14},
		{"a fault", func() { answer.Drawn, answer.Status = false, 500 }, "/api/categories", 15},
		{"a fault, again", func() {}, "/api/categories", 16},
		{"a fault, a third time", func() {}, "/api/categories", 17},
		{"no fault any more", func() { answer.Validity, answer.Status = api.Position, 200 }, "/api/categories", 18},
		{"that again", func() {}, "/api/categories", 18},
		{"a long target", func() { answer.Body = make([]byte, leastList) }, "/api/ring?" + strings.Repeat("x", longestTarget), 19},
		{"that again", func() {}, "/api/ring?" + strings.Repeat("x", longestTarget), 20},
		{"a long document", func() { answer.Body = make([]byte, longestCached+1) }, "/api/ring?limit=500", 21},
		{"that again", func() {}, "/api/ring?limit=500", 22},
	} {
		step.change()
		before := asked
		got, _ := n.serve([]byte(step.target), noFields{}, &r)
		if asked > before {
			wrote[step.target] = byte(asked)
		}
		if got.Body[len(got.Body)-1] != wrote[step.target] {
			t.Errorf("step %d, %s: another answer", i, step.what)
		}
		if asked != step.want {
			t.Errorf("step %d, %s: the core was asked %d times, want %d", i, step.what, asked, step.want)
			asked = step.want
		}
		r.Body[len(r.Body)-1] = 'x' // the reader's own
	}
}

// A shell that keeps nothing asks the core for every answer, and compresses lists all
// the same.
func TestAShellWithoutACacheAsksForEachAnswer(t *testing.T) {
	asked := 0
	c := &fakeCore{serve: func(_ []byte, r *api.Response) {
		asked++
		*r = api.Response{Status: 200, Validity: api.Position, Seq: 7, Body: append(r.Body[:0], strings.Repeat("{}", leastList)...)}
	}}
	s, err := New(Config{Core: c, NoCache: true})
	if err != nil {
		t.Fatal(err)
	}
	n := s.core.enter()
	defer n.leave()
	var r api.Response
	for i, accept := range []string{"", "zstd", "zstd", ""} {
		_, f := n.serve([]byte("/api/ring"), fieldsOf{"Accept-Encoding": accept}, &r)
		if asked != i+1 || (f.Coding != nil) != (accept != "") || !f.Varies {
			t.Errorf("answer %d in %q: the core was asked %d times, coding %v", i, accept, asked, f.Coding)
		}
	}
}

// Whatever happens to a ring, what is answered is what its core would answer now.
func TestCachedAnswersAreNeverOld(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	ring := openedRing(t)
	n := NewSwappable(ring, "").enter()
	members := 0
	now, last := int64(epoch), int64(epoch) // the clock, and the last event
	var own, fresh api.Response
	for i := range 400 {
		switch random.IntN(4) {
		case 0:
			if members++; members < 90 {
				last = max(last, now)
				join(t, ring, (last-epoch)*1000, strings.Repeat("n", 60), core.Joined{Slug: fmt.Sprintf("m%d", i), Bid: int64(random.IntN(5000) + 100)})
			}
		case 1:
			now += int64(random.IntN(20))
			ring.Tick(time.Unix(now, 0))
		case 2:
			if random.IntN(10) == 0 {
				now = max(now-int64(random.IntN(30)), epoch)
				ring.Tick(time.Unix(now, 0))
			}
		}
		for _, target := range []string{"/api/leaderboard", "/api/ring?limit=90", "/api/leaderboard?limit=30&offset=5", "/next?from=m3", "/api/widget?from=m3", "/api/ring/m3",
			"/api/ring/m4", "/api/widget?from=nobody", "/api/ring/nobody", "/next", "/api/ring?limit=x"} {
			kept, _ := n.serve([]byte(target), noFields{}, &own)
			ring.Serve([]byte(target), &fresh)
			if kept.Status != fresh.Status || kept.Seq != fresh.Seq || kept.Validity != fresh.Validity || kept.Since != fresh.Since || kept.Until != fresh.Until || string(kept.Body) != string(fresh.Body) ||
				string(kept.Next) != string(fresh.Next) || string(kept.Prev) != string(fresh.Prev) || string(kept.Location) != string(fresh.Location) || kept.Unknown != fresh.Unknown {
				t.Fatalf("seed %d, step %d, %s:\n%.200s\nand now\n%.200s", seed, i, target, kept.Body, fresh.Body)
			}
		}
	}
	ring.Serve([]byte("/api/leaderboard"), &fresh)
	if len(fresh.Body) < leastList {
		t.Errorf("seed %d: lists have %d bytes: none was kept", seed, len(fresh.Body))
	}
}
