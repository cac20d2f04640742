package edge

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
	"webring/edge/edgetest"
	"webring/edge/fastpath"
	"webring/edge/front"
	"webring/edge/hops"
	"webring/wasm/host"
)

func TestPositionDocumentsHaveAStrongTagOfTheLedgerPosition(t *testing.T) {
	ring := newRing(t)
	s := serve(t, Config{Core: ring})
	for _, path := range []string{"/api", "/api/ring", "/api/ring/next?from=beta", "/api/categories", "/api/widget?from=beta"} {
		r := s.Get(path)
		wantFields(t, r, "Cache-Control", "public, max-age=5, stale-while-revalidate=30, stale-if-error=86400", "Webring-Seq", "4")
		if tag := r.Header.Get("ETag"); tag != `"`+buildTag("")+`-4"` {
			t.Errorf("%s: ETag %s", path, tag)
		}
	}
	// Time does not change them.
	before := s.Get("/api/ring").Header.Get("ETag")
	ring.Tick(time.Unix(epoch+500, 0))
	if after := s.Get("/api/ring").Header.Get("ETag"); after != before {
		t.Errorf("ETag %s became %s", before, after)
	}
}

func TestTimedDocumentsAreNotCachedBeyondTheirNextChange(t *testing.T) {
	for _, c := range []struct {
		until, now int64
		want       string
	}{
		{math.MaxInt64, 1000, "max-age=5,"}, {1100, 1000, "max-age=5,"}, {1006, 1000, "max-age=5,"},
		{1005, 1000, "max-age=4,"}, {1002, 1000, "max-age=1,"}, {1001, 1000, "max-age=0,"}, {1000, 1000, "max-age=0,"}, {900, 1000, "max-age=0,"},
	} {
		s := serve(t, Config{Core: documentCore(api.Timed, 1, c.until, c.now, "{}")})
		if got := s.Get("/api/leaderboard").Header.Get("Cache-Control"); !strings.Contains(got, c.want) {
			t.Errorf("until %d at %d: %q, want %s", c.until, c.now, got, c.want)
		}
	}
}

func TestIfNoneMatchIsAListComparedWeakly(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	tag := s.Get("/api/ring").Header.Get("ETag")
	for value, want := range map[string]int{
		tag: 304, "W/" + tag: 304, "*": 304, " * ": 304, `"a", ` + tag: 304, `"a,b" , W/"c",` + tag + `, "d"`: 304, "," + tag: 304,
		`"a"`: 200, "": 200, strings.Trim(tag, `"`): 200, tag[:len(tag)-1]: 200, `"a", *`: 200, "w/" + tag: 200,
		`garbage, ` + tag: 200, `"unclosed, ` + strings.Trim(tag, `"`): 200, tag[:len(tag)-1] + `0"`: 200,
	} {
		r := s.Get("/api/ring", "If-None-Match", value)
		if r.Status != want {
			t.Errorf("%s: status %d, want %d", value, r.Status, want)
		}
		if r.Status == 304 {
			if r.Body != "" || r.Header.Get("Content-Type") != "" {
				t.Errorf("%s: a 304 with content", value)
			}
			wantFields(t, r, "ETag", tag, "Cache-Control", "public, max-age=5, stale-while-revalidate=30, stale-if-error=86400", "Webring-Seq", "4")
			wantCommon(t, r)
		}
	}
	if r := s.Get("/api/ring", "If-None-Match", `"a"`, "If-None-Match", tag); r.Status != 304 {
		t.Errorf("second line: status %d", r.Status)
	}
	if r := s.Do("HEAD", "/api/ring", "", "If-None-Match", tag); r.Status != 304 {
		t.Errorf("HEAD: status %d", r.Status)
	}
	for _, path := range []string{"/next", "/api/ring/random", "/api/ring/nobody", "/nowhere"} {
		if r := s.Get(path, "If-None-Match", "*"); r.Status == 304 {
			t.Errorf("%s: 304 for what has no validator", path)
		}
	}
}

func TestRedirectsAndRandomAnswersAreNotStored(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for _, path := range []string{"/next", "/prev?from=beta", "/random", "/api/ring/next?format=redirect", "/api/ring/random"} {
		wantFields(t, s.Get(path), "Cache-Control", "no-store", "ETag", "", "Webring-Seq", "4")
	}
	r := s.Get("/next?from=alpha")
	if r.Status != 302 || !strings.Contains(r.Body, `href="https://beta.example/"`) {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	wantFields(t, r, "Location", "https://beta.example/", "Content-Type", "text/html; charset=utf-8",
		"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
}

func TestUnknownFromIsSaidInAField(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for path, status := range map[string]int{"/next?from=nobody": 302, "/prev?from=nobody": 302, "/random?from=nobody": 302,
		"/api/ring/random?from=nobody": 200, "/api/widget?from=nobody": 200} {
		r := s.Get(path)
		if r.Status != status {
			t.Errorf("%s: status %d", path, r.Status)
		}
		wantFields(t, r, "Webring-From", "unknown")
	}
	wantFields(t, s.Get("/next?from=beta"), "Webring-From", "")
	wantProblem(t, s.Get("/api/ring/next?from=nobody"), api.UnknownMember)
}

func TestListsLinkTheirNeighbouringPages(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	wantFields(t, s.Get("/api/ring?limit=1"), "Link", `<`+base+`/api/ring?limit=1&offset=1>; rel="next"`)
	wantFields(t, s.Get("/api/leaderboard?limit=1&page=2"), "Link",
		`<`+base+`/api/leaderboard?limit=1&offset=2>; rel="next", <`+base+`/api/leaderboard?limit=1&offset=0>; rel="prev"`)
	wantFields(t, s.Get("/api/ring"), "Link", "")
}

func TestReadsNeedNoOriginForCORS(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for _, fields := range [][]string{nil, {"Origin", "https://a.example"}, {"Origin", "null"}} {
		r := s.Get("/api/widget", fields...)
		wantFields(t, r, "Access-Control-Allow-Origin", "*", "Vary", "", "Access-Control-Allow-Credentials", "")
	}
}

// request runs one request through the whole handler.
func request(s *Shell, ctx *fasthttp.RequestCtx) {
	ctx.Response.Reset()
	s.handle(ctx)
}

func newCtx(target string, fields ...string) *fasthttp.RequestCtx {
	var req fasthttp.Request
	req.SetRequestURI(target)
	req.Header.SetHost("ring.example")
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	ctx := new(fasthttp.RequestCtx)
	ctx.Init(&req, nil, nil)
	return ctx
}

var hotTargets = []string{"/next?from=alpha", "/next?from=https://beta.example/a/page", "/random", "/api/ring/next?from=beta",
	"/api/ring/gamma", "/api/ring", "/api/leaderboard?limit=10", "/api/widget?from=beta", "/"}

// Reads allocate nothing, on the fast path and off it, with everything counted and written
// that can be: metrics, hops, requests of a client and the access log.
func TestAnswersAllocateNothing(t *testing.T) {
	if edgetest.Race {
		t.Skip("the race detector allocates")
	}
	log, err := front.OpenAccessLog(front.AccessConfig{Path: filepath.Join(t.TempDir(), "access.log"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	newShell := func(c Core) *Shell {
		s, err := New(Config{Core: c, RateLimit: 1 << 30, Stale: func() bool { return false }, Count: true, Hops: hops.NewCounter(), Access: log})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := newShell(newRing(t))
	p := &plainAnswerer{s: s}
	const missing = "/next?from=alpha&category=none"
	for _, target := range append(hotTargets, missing) {
		status := fasthttp.StatusOK
		switch {
		case target == missing:
			status = fasthttp.StatusNotFound
		case target == "/random" || strings.HasPrefix(target, "/next"):
			status = fasthttp.StatusFound
		}
		r := &fastpath.Request{Target: []byte(target), IfNoneMatch: [][]byte{[]byte(`"old", W/"older"`)}, ID: []byte("my-request"), UserAgent: []byte("curl/8")}
		answer := func() {
			if a, ok := p.Answer(r, time.Now()); !ok || a.Status != status {
				t.Fatalf("%s: %t, status %d, want %d", target, ok, a.Status, status)
			}
		}
		answer()
		if n := testing.AllocsPerRun(1000, answer); n > 0 {
			t.Errorf("%s on the fast path: %v allocations", target, n)
		}
	}
	crowd := newShell(crowded(t, 20))
	for target, s := range map[string]*Shell{"/next?from=alpha": s, "/next?from=https://beta.example/a/page": s, "/random": s, "/api/ring/next?from=beta": s, "/api/ring/gamma": s,
		"/api/widget?from=beta": s, "/": s, "/api": crowd, "/api/ring": crowd, "/api/leaderboard?limit=10": crowd} {
		ctx := newCtx(target, "Accept-Encoding", "gzip, deflate, br, zstd", "If-None-Match", `"old", W/"older"`, "User-Agent", "test")
		request(s, ctx)
		if n := testing.AllocsPerRun(500, func() { request(s, ctx) }); n > 0 || s == crowd && string(ctx.Response.Header.ContentEncoding()) != "zstd" {
			t.Errorf("%s: %v allocations (status %d, %s)", target, n, ctx.Response.StatusCode(), ctx.Response.Header.ContentEncoding())
		}
	}
}

// foreignHosts are spellings of the address of one member, as they stand in a query,
// with and without scheme, and of a page below it.
var foreignHosts = []string{
	"müller.example", "m%C3%BCller.example", "m%c3%bcller.example.", "MÜLLER.Example", "www.müller.example", "mu\u0308ller.example", "mu%CC%88ller.example",
	"müller。example", "ｍüller．example", "m%25C3%25BCller.example", "xn--mller-kva.example", "%78n--mller-kva.example",
	"https://müller.example", "https%3A%2F%2Fm%C3%BCller.example%2F", "http://www.m%C3%BCller.example/index.html", "https%3a%2f%2fm%25c3%25bcller.example%3a443%2f",
	"HTTPS://MÜLLER.EXAMPLE/", "https%3A%2F%2Fwww%EF%BC%8Emu%CC%88ller%E3%80%82example%2Fk%C3%A4se%3Fq%3D%C3%BC", "https://m%C3%BCller.example/caf%E9",
	"müller.example/", "www.m%C3%BCller.example%2Fk%C3%A4se%3Fq%3D%C3%BC", "m%25C3%25BCller.example/x", "MÜLLER.example:443/x", "müller.example:80",
}

// foreignRing gives a core in which müller.example stands between two others.
func foreignRing(t testing.TB) *host.Native {
	t.Helper()
	n := newRing(t)
	texts := &core.Texts{Name: core.Text{Value: "Müller"}, URL: core.Text{Value: "https://xn--mller-kva.example/"}}
	edgetest.Apply(t, n, &core.Joined{Stamp: (epoch + 3) * 1000, Slug: "muller", Kind: core.Website, Category: "general",
		Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL), Fee: 100}, texts)
	return n
}

// TestHostsBeyondASCIIResolve holds it for every way in which a request brings one to
// the core: on the fast path and by fasthttp, on pages, and as a tool's argument.
func TestHostsBeyondASCIIResolve(t *testing.T) {
	s := serve(t, Config{Core: foreignRing(t)})
	for _, from := range foreignHosts {
		for target, want := range map[string]string{
			"/api/ring/next?from=" + from:         `"slug":"alpha"`,
			"/api/ring/prev?x&from=" + from:       `"slug":"gamma"`,
			"/api/widget?from=" + from + "&y=%C3": `"member":{"slug":"muller"`,
			"/next?fr%6Fm=" + from:                "https://alpha.example/",
			"/prev?kind=website&from=" + from:     "https://gamma.example/",
			"/embed?from=" + from:                 "webring-online from=&#34;muller&#34;",
		} {
			c := s.Dial()
			r := bufio.NewReader(c)
			for _, fields := range []string{"", unusual} {
				if got := ask(t, s, c, r, "GET "+target+" HTTP/1.1\r\nHost: x\r\n"+fields+"\r\n"); !strings.Contains(got.Body, want) || got.Header.Get("Webring-From") != "" {
					t.Errorf("%s: %d %q %.200s", target, got.Status, got.Header.Get("Webring-From"), got.Body)
				}
			}
			c.Close()
		}
	}
	for _, from := range []string{"müller.example", "https://MU\u0308LLER.example/x", "www.m%C3%BCller.example"} {
		call, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
			"params": map[string]any{"name": "ring_widget", "arguments": map[string]any{"from": from}}})
		if err != nil {
			t.Fatal(err)
		}
		if r := s.Do("POST", "/mcp", string(call)); !strings.Contains(r.Body, `"member":{"slug":"muller"`) {
			t.Errorf("a tool asked from %s: %d %s", from, r.Status, r.Body)
		}
	}
}

// A reference that only looks like a host name, or has one elsewhere, names the same member
// as before.
func TestOtherReferencesStayAsTheyAre(t *testing.T) {
	s := serve(t, Config{Core: foreignRing(t)})
	for from, member := range map[string]string{
		"ａｌｐｈａ": "null", "alpha%E3%80%82": "null", "müller": "null", "müller/x.example": "null", "müller.example:8443/x": "null", "x@müller.example/": "null", "//müller.example/": "null", "mü_ller.example": "null",
		"https://ü@müller.example/": "null", "müller.example%00": "null", "%ff.example": "null", "https://müller／.example": "null",
		"https://alpha.example/%C3%BC%25C3%25BC?q=m%C3%BCller.example": `{"slug":"alpha"`, "https%3A%2F%2Fbeta.example%2Fcaf%25E9": `{"slug":"beta"`,
	} {
		if r := s.Get("/api/widget?from=" + from); !strings.Contains(r.Body, `"member":`+member) {
			t.Errorf("%s: %d %s", from, r.Status, r.Body)
		}
	}
	if r := s.Get("/api/widget?from=alpha&from=m%C3%BCller.example"); !strings.Contains(r.Body, `"member":{"slug":"alpha"`) {
		t.Errorf("the first from counts: %s", r.Body)
	}
}

// What is kept of the answer to one spelling is never the answer to another host's.
func TestSpellingsOfAHostShareNoAnswerWithOtherHosts(t *testing.T) {
	s := serve(t, Config{Core: foreignRing(t)})
	for range 3 {
		for from, known := range map[string]bool{"m%C3%BCller.example": true, "mu%CC%88ller.example": true, "m%C3%B6ller.example": false, "muller.example": false, "m%FCller.example": false} {
			if r := s.Get("/api/widget?from=" + from); strings.Contains(r.Body, `"member":{"slug":"muller"`) != known {
				t.Errorf("%s: %s", from, r.Body)
			}
			if r := s.Get("/next?from=" + from); (r.Header.Get("Webring-From") == "") != known {
				t.Errorf("%s leads to %s", from, r.Header.Get("Location"))
			}
			if r := s.Get("/embed?from=" + from); strings.Contains(r.Body, "from=&#34;muller&#34;") != known {
				t.Errorf("the page for %s: %s", from, r.Body)
			}
		}
	}
}
