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
		_, f := n.serve([]byte("/api/ring"), fieldsOf{"Accept-Encoding": accept}, &r)
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
				n.serve(target(at), fieldsOf{"Accept-Encoding": []string{"zstd", "gzip", ""}[i%3]}, &r)
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
