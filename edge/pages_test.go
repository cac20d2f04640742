package edge

import (
	"strings"
	"testing"
	"time"

	"webring/core/api"
	"webring/static"
	"webring/wasm/host"
)

func TestTheFrontPageShowsTheLeaderAndTheLeaderboard(t *testing.T) {
	ring := newRing(t)
	s := serve(t, Config{Core: ring})
	r := s.get("/")
	if r.status != 200 {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	for _, want := range []string{
		"<h1>Test &lt;Ring&gt;</h1>", "A ring of 3 agents", "paid placement",
		`<a rel="sponsored noopener" href="https://alpha.example/">Alpha &amp; Co</a>`, `href="https://gamma.example/">Gamma</a>`,
		"51.00", "50.01", "holds it", "Joining costs 1.00 USD", `href="` + static.Style.Path[1:] + `"`,
	} {
		if !strings.Contains(r.body, want) {
			t.Errorf("no %s in %s", want, r.body)
		}
	}
	if strings.Contains(r.body, "<script") || strings.Contains(r.body, "style=") {
		t.Error("a page that its own policy breaks")
	}
	wantFields(t, r, "Content-Type", "text/html; charset=utf-8", "Webring-Seq", "4",
		"Cache-Control", "public, max-age=5, stale-while-revalidate=30, stale-if-error=86400",
		"Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"Referrer-Policy", "strict-origin-when-cross-origin")
	if r := s.get("/", "If-None-Match", r.header.Get("ETag")); r.status != 304 || r.body != "" {
		t.Errorf("its own tag: status %d", r.status)
	}
	ring.Tick(time.Unix(epoch+500, 0))
	if later := s.get("/", "If-None-Match", r.header.Get("ETag")); later.status != 200 || later.body == r.body {
		t.Errorf("after decay: status %d", later.status)
	}
}

func TestTheFrontPageOfAnEmptyRing(t *testing.T) {
	s := serve(t, Config{Core: openedRing(t)})
	r := s.get("/")
	if r.status != 200 || !strings.Contains(r.body, "Nobody has joined yet") || !strings.Contains(r.body, "The fee alone takes rank 1") ||
		strings.Contains(r.body, "<table") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestTheFrontPageOfARingThatIsNotOpenIsAProblem(t *testing.T) {
	s := serve(t, Config{Core: host.NewNative(1)})
	if r := s.get("/"); r.status != 500 || !strings.Contains(r.body, `"code":"internal"`) {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestEveryProblemTypeLeadsToItsPage(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	seen := map[string]api.Code{}
	for _, code := range api.Codes() {
		e, ok := explanations[code]
		if !ok || !strings.HasSuffix(e.meaning, ".") || !strings.HasSuffix(e.remedy, ".") {
			t.Errorf("%s: no explanation: %+v", code, e)
		}
		if other, ok := seen[e.meaning]; ok {
			t.Errorf("%s and %s mean the same", code, other)
		}
		seen[e.meaning] = code
		r := s.get("/problems/" + string(code))
		if r.status != 200 || !strings.Contains(r.body, "<code>"+string(code)+"</code>") || !strings.Contains(r.body, `href="../static/`) {
			t.Errorf("%s: %d %s", code, r.status, r.body)
		}
		wantFields(t, r, "Content-Type", "text/html; charset=utf-8", "Content-Security-Policy", pagePolicy, "Cache-Control", "public, max-age=3600")
	}
	if len(explanations) != len(api.Codes()) {
		t.Errorf("%d explanations of %d codes", len(explanations), len(api.Codes()))
	}
}

func TestAssetsAreNamedByTheirContent(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for _, a := range static.Assets() {
		r := s.get(a.Path)
		if r.status != 200 || r.body != string(a.Body) {
			t.Errorf("%s: %d, %d bytes", a.Path, r.status, len(r.body))
		}
		wantFields(t, r, "Content-Type", a.Type, "Cache-Control", "public, max-age=31536000, immutable", "ETag", a.ETag)
		if r := s.get(a.Path, "If-None-Match", a.ETag); r.status != 304 {
			t.Errorf("%s: status %d for its own tag", a.Path, r.status)
		}
	}
}
