package main

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"webring/core/snap"
	"webring/server/pay/x402"
)

// TestAWorkerIsThereForPeopleWithoutItsOrigin has a Worker, the same files under Deno and an
// edge go on with a stale state while their origin is away. Whoever follows a link of the ring
// in a browser gets the same from all, and a page with ways on where only the edge draws pages.
func TestAWorkerIsThereForPeopleWithoutItsOrigin(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	h.join("first", "second", "third")
	h.sign(func(c *snap.Checkpoint) { c.Time -= 61_000 })
	// The Worker's origin stands behind a proxy, which may answer in its place.
	var refused http.HandlerFunc
	var mu sync.Mutex
	answersBy := func(f http.HandlerFunc) {
		mu.Lock()
		defer mu.Unlock()
		refused = f
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		f := refused
		mu.Unlock()
		if f == nil {
			f = h.ServeHTTP
		}
		f(w, r)
	}))
	t.Cleanup(proxy.Close)
	e, w, d := h.edge(h.base, true), startWorker(t, proxy.URL, h.key), h.deno()
	h.reached(e)
	h.reachedBy(w)
	h.reachedBy(d)
	accept := []string{"Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
	for _, status := range []int{502, 503, 504} {
		answersBy(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			io.WriteString(w, "<h1>The proxy's own page</h1>")
		})
		a := ask(t, w.origin, "/members/second", accept...)
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "5" || a.header.Get("X-Request-Id") == "" {
			t.Errorf("%d from a proxy: %d %v", status, a.status, a.header)
		}
		leads(t, "/members/second", a, `href="https://second.test/" rel="noopener"><bdi>second</bdi>`)
		if r := w.get("/llms.txt"); r.code(t) != "internal" {
			t.Errorf("%d from a proxy: %d %s", status, r.Status, r.Body)
		}
		if r := w.post("/api/bid", "{}"); r.code(t) != "payments_unavailable" {
			t.Errorf("%d from a proxy: %d %s", status, r.Status, r.Body)
		}
		// It may have been taken.
		if r := w.post("/api/bid", "{}", "Authorization", "Payment lost"); r.Status != http.StatusServiceUnavailable || r.code(t) != "payment_pending" || r.Header.Get("Retry-After") != "5" {
			t.Errorf("%d from a proxy: %d %s", status, r.Status, r.Body)
		}
		for signature, network := range map[string]string{`{"accepted":{"network":"eip155:1"},"x":"?>"}`: "eip155:1", `{"accepted":{"network":["eip155:1"]}}`: "", `{"accepted":{"network":"eip155:1\n"}}`: "", "{}": "", "x": ""} {
			signature = base64.URLEncoding.EncodeToString([]byte(signature))
			r := w.post("/api/bid", "{}", x402.SignatureField, signature)
			if s := settlement(t, r.Header); r.code(t) != "payment_pending" || s.Success || s.ErrorReason != x402.Pending || s.Network != network {
				t.Errorf("%d from a proxy: %d %s, %+v", status, r.Status, r.Body, s)
			}
		}
	}
	// What the origin says itself goes through.
	const own = `{"type":"https://ring.test/problems/payments_unconfigured","title":"None","status":503,"detail":"None.","code":"payments_unconfigured"}`
	answersBy(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Api-Version", "1")
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, own)
	})
	if r := w.post("/api/bid", "{}"); string(r.Body) != own {
		t.Errorf("from the origin: %d %s", r.Status, r.Body)
	}
	for _, s := range []*httptest.Server{proxy, h.server} {
		s.CloseClientConnections()
		s.Close()
	}
	for _, node := range []*origin{w.origin, d.origin} {
		for _, target := range []string{"/next", "/next?from=first", "/prev?from=second&kind=agent", "/random", "/api", "/api/leaderboard", "/api/widget?from=third", "/next?from=nobody"} {
			sameAnswer(t, e, node, target, accept...)
			if a := ask(t, node, target, accept...); a.header.Get("Webring-Stale") != "true" {
				t.Errorf("GET %s: not stale: %v", target, a.header)
			}
		}
		// What is wrong with an address is the same; the pages look different.
		for _, target := range []string{"/next?category=nowhere", "/random?kind=nothing", "/members/nobody"} {
			x, y := ask(t, e, target, accept...), ask(t, node, target, accept...)
			for _, name := range []string{"Content-Type", "Cache-Control", "Vary", "Webring-Seq", "Webring-Stale", "Access-Control-Allow-Origin"} {
				if x.status != y.status || x.header.Get(name) != y.header.Get(name) {
					t.Errorf("GET %s: %d %v\nand %d %v", target, x.status, x.header, y.status, y.header)
				}
			}
			leads(t, target, y, `href="https://ring.test/random"`)
		}
		sameAnswer(t, e, node, "/random?kind=nothing", "Accept", "application/json")
		// Pages are the origin's.
		for target, link := range map[string]string{"/": "", "/leaderboard": "", "/members/second": `href="https://second.test/" rel="noopener"><bdi>second</bdi>`} {
			a := ask(t, node, target, accept...)
			if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "5" || a.header.Get("Cache-Control") != "no-store" {
				t.Errorf("GET %s: %d %v", target, a.status, a.header)
			}
			leads(t, target, a, `href="https://ring.test/random"`, `<a href=""`, link)
		}
		// Programs are told the same as by the edge.
		for _, target := range []string{"/api/ring?q=second", "/reports/0"} {
			x, y := ask(t, e, target, "Accept", "*/*"), ask(t, node, target, "Accept", "*/*")
			if x.status != y.status || x.body != y.body || x.header.Get("Retry-After") != y.header.Get("Retry-After") {
				t.Errorf("GET %s: %d %v %s\nand %d %v %s", target, x.status, x.header, x.body, y.status, y.header, y.body)
			}
		}
	}
	// One that begins now has nothing, and says so.
	cold := h.worker()
	a := ask(t, cold.origin, "/next?from=first", accept...)
	if a.status != http.StatusInternalServerError || a.header.Get("Retry-After") != "5" {
		t.Errorf("cold: %d %v", a.status, a.header)
	}
	leads(t, "/next?from=first", a, `<a href=""`)
	if r := cold.get("/next"); r.code(t) != "internal" {
		t.Errorf("cold: %d %s", r.Status, r.Body)
	}
}

// leads says whether an answer is a page with links.
func leads(t *testing.T, target string, a answered, links ...string) {
	t.Helper()
	policy := a.header.Get("Content-Security-Policy")
	if a.header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") {
		t.Errorf("GET %s: %v", target, a.header)
	}
	for _, link := range links {
		if !strings.Contains(a.body, link) {
			t.Errorf("GET %s: no %s in %s", target, link, a.body)
		}
	}
}
