package edge

import (
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/edgetest"
	"webring/edge/fastpath"
	"webring/edge/front"
	"webring/edge/hops"
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
	for _, target := range append(hotTargets, "/next?from=alpha&category=none") {
		r := &fastpath.Request{Target: []byte(target), IfNoneMatch: [][]byte{[]byte(`"old", W/"older"`)}, ID: []byte("my-request"), UserAgent: []byte("curl/8")}
		answer := func() {
			if a, ok := p.Answer(r, time.Now()); !ok || a.Status >= 500 {
				t.Fatalf("%s: %t, status %d", target, ok, a.Status)
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
