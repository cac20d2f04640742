package edge

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/edgetest"
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

func TestTimedDocumentsHaveATagThatChangesWithTheirNumbers(t *testing.T) {
	ring := newRing(t) // alpha: 51.00, whole until epoch+11, then falling for 1000 s
	s := serve(t, Config{Core: ring})
	for _, path := range []string{"/api/leaderboard", "/api/ring/alpha"} {
		ring.Tick(time.Unix(epoch+2, 0))
		whole := s.Get(path)
		ring.Tick(time.Unix(epoch+10, 0))
		still := s.Get(path)
		if whole.Body != still.Body || whole.Header.Get("ETag") != still.Header.Get("ETag") {
			t.Errorf("%s: in the grace period %s became %s", path, whole.Header.Get("ETag"), still.Header.Get("ETag"))
		}
		ring.Tick(time.Unix(epoch+100, 0))
		later := s.Get(path)
		if later.Body == whole.Body || later.Header.Get("ETag") == whole.Header.Get("ETag") {
			t.Errorf("%s: %s after decay", path, later.Header.Get("ETag"))
		}
		if r := s.Get(path, "If-None-Match", later.Header.Get("ETag")); r.Status != 304 {
			t.Errorf("%s: status %d for its own tag", path, r.Status)
		}
		if r := s.Get(path, "If-None-Match", whole.Header.Get("ETag")); r.Status != 200 {
			t.Errorf("%s: status %d for an old tag", path, r.Status)
		}
		ring.Tick(time.Unix(epoch, 0)) // and back, for the next path
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

func TestTagsOfTwoBuildsDiffer(t *testing.T) {
	ring := newRing(t)
	one, two := serve(t, Config{Core: ring, CoreDigest: "sha256:1"}), serve(t, Config{Core: ring, CoreDigest: "sha256:2"})
	if a, b := one.Get("/api/ring").Header.Get("ETag"), two.Get("/api/ring").Header.Get("ETag"); a == b {
		t.Errorf("both %s", a)
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

func TestLongDocumentsArriveWhole(t *testing.T) {
	body := `"` + strings.Repeat("x", 4*maxCopied) + `"`
	s := serve(t, Config{Core: documentCore(api.Position, 0, 0, 0, body)})
	for range 3 {
		if r := s.Get("/api/ring"); r.Body != body {
			t.Fatalf("%d bytes of %d", len(r.Body), len(body))
		}
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

func TestSteadyReadsAllocateNothing(t *testing.T) {
	if edgetest.Race {
		t.Skip("the race detector makes pools forget")
	}
	s, err := New(Config{Core: newRing(t), RateLimit: 1 << 30, Count: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range hotTargets {
		ctx := newCtx(target, "If-None-Match", `"old", W/"older"`, "User-Agent", "test")
		request(s, ctx)
		if n := testing.AllocsPerRun(500, func() { request(s, ctx) }); n > 0 {
			t.Errorf("%s: %v allocations (status %d)", target, n, ctx.Response.StatusCode())
		}
	}
}
