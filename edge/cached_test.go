package edge

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"webring/core"
	"webring/core/api"
	"webring/edge/content"
	"webring/wasm/host"
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
		{"a long target", func() { answer.Body = make([]byte, leastList) }, "/api/ring?category=" + strings.Repeat("x", longestTarget), 19},
		{"that again", func() {}, "/api/ring?category=" + strings.Repeat("x", longestTarget), 20},
		{"a long document", func() { answer.Body = make([]byte, longestCached+1) }, "/api/ring?limit=500", 21},
		{"that again", func() {}, "/api/ring?limit=500", 22},
	} {
		step.change()
		before := asked
		got, _ := n.serve([]byte(step.target), noFields{}, &r, nil)
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
		if got == &r {
			r.Body[len(r.Body)-1] = 'x' // the reader's own
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
			kept, _ := n.serve([]byte(target), noFields{}, &own, nil)
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

// decodedAs undoes a coding, "" for none.
func decodedAs(t testing.TB, coding, body string) string {
	t.Helper()
	var r io.Reader = strings.NewReader(body)
	var err error
	switch coding {
	case "br":
		r = brotli.NewReader(r)
	case "gzip":
		r, err = gzip.NewReader(r)
	case "zstd":
		r, err = zstd.NewReader(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("%s: %v", coding, err)
	}
	return string(b)
}

// crowded gives a core of a ring of n members.
func crowded(t testing.TB, n int) *host.Native {
	t.Helper()
	ring := openedRing(t)
	for i := range n {
		join(t, ring, 1000, fmt.Sprintf("Member %d", i), core.Joined{Slug: fmt.Sprintf("m%d", i), Category: fmt.Sprintf("c%d", i), Bid: 100})
	}
	ring.Tick(time.Unix(epoch+2, 0))
	return ring
}

func TestDocumentsAndPagesAreSentInTheCodingThatIsAsked(t *testing.T) {
	s := serve(t, Config{Core: crowded(t, 20)})
	for path, best := range map[string]string{"/api": "zstd", "/api/ring": "zstd", "/api/ring?limit=3&offset=1": "zstd", "/api/leaderboard": "zstd", "/api/categories": "zstd", "/openapi.json": "br", "/": "br"} {
		plain, vary := s.Get(path), "Accept-Encoding"
		if path == "/" {
			vary += " | Accept"
		}
		wantFields(t, plain, "Content-Encoding", "", "Vary", vary)
		tags := map[string]string{"": plain.Header.Get("ETag")}
		for _, c := range []struct{ accept, coding string }{
			{"zstd", "zstd"}, {"br", "br"}, {"gzip", "gzip"}, {"gzip, deflate", "gzip"}, {"GZIP;q=0.1", "gzip"}, {"zstd;q=0, br;q=0.0, gzip", "gzip"},
			{"gzip, deflate, br, zstd", best}, {"br;q=0, gzip;q=0.5", "gzip"},
			{"identity", ""}, {"*", ""}, {"zstdx", ""}, {"zstd;q=0", ""}, {"br;q=0.000", ""}, {",;=,", ""}, {"", ""},
		} {
			// One connection by the fast path, and one that fasthttp serves.
			for _, more := range [][]string{nil, {"Upgrade", "x"}} {
				r := s.Get(path, append(more, "Accept-Encoding", c.accept)...)
				wantFields(t, r, "Content-Encoding", c.coding, "Vary", vary, "Content-Type", plain.Header.Get("Content-Type"), "Content-Length", fmt.Sprint(len(r.Body)))
				if decodedAs(t, c.coding, r.Body) != plain.Body {
					t.Errorf("%s in %q is another document", path, c.accept)
				}
				if c.coding != "" && len(r.Body) >= len(plain.Body) {
					t.Errorf("%s in %s: %d bytes instead of %d", path, c.coding, len(r.Body), len(plain.Body))
				}
				tag := r.Header.Get("ETag")
				if known, there := tags[c.coding]; there && known != tag {
					t.Errorf("%s in %q has the tags %s and %s", path, c.coding, known, tag)
				}
				tags[c.coding] = tag
			}
		}
		for one, a := range tags {
			for other, b := range tags {
				if one != other && a == b {
					t.Errorf("%s has the tag %s in %q and %q", path, a, one, other)
				}
				// A 304 says to caches that they hold what would be sent.
				for _, more := range [][]string{nil, {"Upgrade", "x"}} {
					r, want := s.Get(path, append(more, "Accept-Encoding", one, "If-None-Match", b)...), 200
					if one == other {
						want = 304
					}
					if r.Status != want || r.Status == 304 && (r.Body != "" || r.Header.Get("Content-Encoding") != "") {
						t.Errorf("%s: %s asked for in %q: status %d, want %d", path, b, one, r.Status, want)
					}
					wantFields(t, r, "Vary", vary, "ETag", a)
				}
			}
		}
		if len(tags) != 4 {
			t.Errorf("%s was sent as %v", path, tags)
		}
		head := s.Do("HEAD", path, "", "Accept-Encoding", "zstd")
		wantFields(t, head, "Content-Encoding", "zstd", "ETag", tags["zstd"], "Vary", vary)
	}
}

// Answers that fit into a packet, answers of which each member has one, and answers that are
// not cached are not compressed.
func TestShortDocumentsAreNotCompressed(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": paidOK}})
	for _, path := range []string{"/api/ring?limit=1", "/api/categories", "/api/ring/alpha", "/api/widget?from=alpha", "/api/ring/next?from=alpha", "/next", "/api/ring?limit=x", "/api/ring/nobody"} {
		for _, more := range [][]string{nil, {"Upgrade", "x"}} {
			wantFields(t, s.Get(path, append(more, "Accept-Encoding", "gzip, br, zstd")...), "Content-Encoding", "", "Vary", "")
		}
	}
	wantFields(t, s.Do("POST", "/api/bid", "{}", "Accept-Encoding", "gzip"), "Content-Encoding", "", "Vary", "")
}

func TestAListIsCompressedOnceAsLongAsItHolds(t *testing.T) {
	asked := 0
	c := &fakeCore{second: 150, serve: func(_ []byte, r *api.Response) {
		asked++
		*r = api.Response{Status: 200, Validity: api.Timed, Seq: 7, Since: 100, Until: 200, Body: append(r.Body[:0], strings.Repeat(fmt.Sprint(asked), leastCoded)...)}
	}}
	n := NewSwappable(c, "").enter()
	var r api.Response
	get := func(accept string) []byte {
		_, f := n.serve([]byte("/api/ring"), fieldsOf{"Accept-Encoding": accept}, &r, nil)
		return f.Body
	}
	first := get("zstd")
	if again := get("zstd"); &again[0] != &first[0] || asked != 1 {
		t.Errorf("made anew, and the core was asked %d times", asked)
	}
	if other := get("gzip"); asked != 1 || bytes.Equal(other, first) {
		t.Errorf("another coding: the core was asked %d times", asked)
	}
	c.second = 200
	if next := get("zstd"); asked != 2 || bytes.Equal(next, first) {
		t.Errorf("when it holds no more: the core was asked %d times", asked)
	}
}

// However long documents are and however many are asked for in whichever coding, they
// take a bounded number of bytes.
func TestDocumentsTakeABoundedNumberOfBytes(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	c := &fakeCore{second: 150, serve: func(target []byte, r *api.Response) {
		// Letters of six bits each, so that they compress, and not by much.
		body := r.Body[:0]
		for range longestCached / 8 {
			body = fmt.Appendf(body, "%08x", rand.Uint32())
		}
		*r = api.Response{Status: 200, Validity: api.Position, Seq: 7, Body: body}
	}}
	n := NewSwappable(c, "").enter()
	var wait sync.WaitGroup
	target := func(i int) []byte { return fmt.Appendf(nil, "/api/ring?limit=%d", i) }
	for range 2 {
		targets := random.Perm(120)[:24]
		wait.Go(func() {
			var r api.Response
			for i, at := range targets {
				n.serve(target(at), fieldsOf{"Accept-Encoding": []string{"zstd", "gzip", ""}[i%3]}, &r, nil)
			}
		})
	}
	wait.Wait()
	kept, size := 0, 0
	for i := range 120 {
		e := n.Cache().Get(n.Cache().Key(target(i)))
		if e == nil {
			continue
		}
		kept++
		d := e.Value.(*document)
		size += d.size()
		for _, accept := range []string{"zstd", "br", "gzip"} {
			if f, made := d.forms.Pick(&content.Passing, d.response.Body, fieldsOf{"Accept-Encoding": accept}); made == 0 && f.Coding != nil {
				size += len(f.Body) // it was there before
			}
		}
	}
	if size > cacheBytes || kept < cacheBytes/longestCached/3 {
		t.Errorf("seed %d: %d documents of %d bytes", seed, kept, size)
	}
}
