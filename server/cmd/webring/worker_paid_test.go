package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"webring/server/devchain"
	"webring/server/pay/x402"
)

// TestPayersReadTheirOwnWritesAtAWorker has the reference clients of MPP and x402, the one for Axios too, join and
// bid through a Worker. Each reads there at once what it has paid for. Hops are counted at the
// origin, and while that is away reads go on.
func TestPayersReadTheirOwnWritesAtAWorker(t *testing.T) {
	t.Parallel()
	c, client := chain(t)
	secret := secretFile(t)
	s := evmShop(t, "--tempo-rpc", c.RPC, "--core", "native", "--edge-secret-file", secret, "--rate-limit", "5000")
	w := startWorker(t, s.base, s.verifier(), secretOf(t, secret))

	// x402.
	pay := func(by, path, body string, status int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		account := devchain.Account{Key: s.payer().Key}
		p, err := client.Pay(ctx, account.HexKey(), devchain.Request{By: []string{by}, Method: http.MethodPost, URL: w.base + path,
			Header: map[string]string{"Content-Type": "application/json"}, Body: []byte(body)})
		if err != nil || p.Status != status || len(p.Earlier) != 1 {
			t.Fatalf("%s: POST %s: %v, %d %s after %d\n%s\n%s", by, path, err, p.Status, p.Body, len(p.Earlier), w.log, s.log)
		}
		sentField(x402.SignatureField, p.Authorization)
		if r := settlement(t, p.Header); !r.Success {
			t.Errorf("%s: POST %s: %+v", by, path, r)
		}
		if p.Header.Get("Webring-Stale") != "" {
			t.Errorf("%s: POST %s: answered before it is seen here\n%s", by, path, w.log)
		}
	}
	shows := func(slug, total string) {
		t.Helper()
		if r := w.get("/api/ring/" + slug); r.Status != http.StatusOK || at(t, r.document(t), "member", "paid_total_usd") != total || r.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %d %s", slug, r.Status, r.Body)
		}
	}
	pay("x402", "/api/register", `{"name":"Exactly","url":"https://exactly.dev/","kind":"agent","bid":"2.00"}`, 201)
	shows("exactly", "3.00")
	pay("x402", "/api/bid", `{"member":"exactly","amount":"1.50"}`, 200)
	shows("exactly", "4.50")
	pay("axios", "/api/register", `{"name":"Axle","url":"https://axle.dev/","kind":"agent","bid":"2.00"}`, 201)
	shows("axle", "3.00")
	pay("axios", "/api/bid", `{"member":"axle","amount":"1.50"}`, 200)
	shows("axle", "4.50")

	// MPP.
	if p := w.pay(wallet(t), "/api/register", `{"name":"Plainly","url":"https://plainly.dev/","kind":"mcp"}`); p.Status != 201 || p.Header.Get("Webring-Stale") != "" {
		t.Errorf("%d %s\n%s", p.Status, p.Body, w.log)
	}
	shows("plainly", "1.00")
	if p := w.pay(wallet(t), "/api/bid", `{"member":"exactly","amount":"2.00"}`); p.Status != 200 || p.Header.Get("Webring-Stale") != "" {
		t.Errorf("%d %s\n%s", p.Status, p.Body, w.log)
	}
	shows("exactly", "6.50")
	shows(w.counts(wallet(t), "Counting", "https://counting.dev/"), "3.00")

	// Each client is counted for itself, at the Worker and at the origin.
	const challenge = `{"member":"exactly","amount":"1.00"}`
	remaining := func(address string) string {
		r := w.post("/api/bid", challenge, "CF-Connecting-IP", address)
		if r.Status != http.StatusPaymentRequired || r.Header.Get("Webring-Edge") != "" {
			t.Errorf("%d %s", r.Status, r.Body)
		}
		return r.Header.Get("RateLimit-Remaining")
	}
	if got := remaining("2001:db8::1"); got != "" {
		t.Errorf("without a limit of the Worker's own, %s are left", got)
	}
	if log := s.log.String(); strings.Contains(log, "counted as its peer's") {
		t.Errorf("the origin does not take the Worker's vouchers:\n%s", log)
	}

	// The hops of two isolates add up at the origin.
	second := startWorker(t, s.base, s.verifier(), secretOf(t, secret))
	eventually(t, "the first state", longEnough, func() bool { return second.get("/api").Header.Get("Webring-Seq") != "" })
	for i, isolate := range []*worker{w, second, w, w, second} {
		for range 3 { // which is one visitor
			if r := isolate.get("/next?from=exactly", "User-Agent", "Mozilla/5.0", "CF-Connecting-IP", fmt.Sprintf("192.0.2.%d", i)); r.Status != http.StatusFound {
				t.Fatalf("%d %s", r.Status, r.Body)
			}
		}
	}
	w.get("/next?from=exactly", "User-Agent", "Googlebot/2.1")
	w.get("/next?from=exactly", "Sec-Purpose", "prefetch")
	eventually(t, "the hops at the origin", longEnough, func() bool {
		return strings.Contains(string(s.get("/api/hops").Body), `"hops":5`)
	})

	// Without the origin.
	want := w.get("/api/ring")
	s.kill()
	if r := w.get("/api/ring"); r.Status != http.StatusOK || string(r.Body) != string(want.Body) {
		t.Errorf("without the origin: %d %s", r.Status, r.Body)
	}
	if r := w.post("/api/bid", challenge); r.Status != http.StatusServiceUnavailable || r.code(t) != "payments_unavailable" || r.Header.Get("Retry-After") != "5" {
		t.Errorf("without the origin: %d %s", r.Status, r.Body)
	}
	if r := w.post("/api/bid", challenge, "Authorization", "Payment lost"); r.code(t) != "payment_pending" {
		t.Errorf("without the origin: %d %s", r.Status, r.Body)
	}
	if r := w.get("/llms.txt"); r.code(t) != "internal" || r.Header.Get("Retry-After") != "5" {
		t.Errorf("without the origin: %d %s", r.Status, r.Body)
	}
	s.launch()
	pay("x402", "/api/bid", `{"member":"exactly","amount":"1.00"}`, 200)
	shows("exactly", "7.50")
	s.confirmed()
}

// TestAWorkerLimitsClients: requests are counted by client, an IPv4 address or an IPv6 /64.
func TestAWorkerLimitsClients(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	h.sign()
	w := h.worker("RATE_LIMIT=3")
	h.reachedBy(&worker{origin: &origin{t: t, base: w.base}})
	left := func(address string) string {
		r := w.get("/api", "CF-Connecting-IP", address)
		if r.Header.Get("RateLimit-Limit") != "3" || r.Header.Get("RateLimit-Policy") != "3;w=60" || r.Header.Get("RateLimit-Reset") == "" {
			t.Errorf("%v", r.Header)
		}
		return fmt.Sprint(r.Status, " ", r.Header.Get("RateLimit-Remaining"))
	}
	for i, want := range []string{"200 2", "200 1", "200 0", "429 0"} {
		if got := left("192.0.2.1"); got != want {
			t.Errorf("request %d: %s", i, got)
		}
	}
	if got := left("192.0.2.2"); got != "200 2" {
		t.Errorf("another client: %s", got)
	}
	left("2001:db8:0:1::7")
	if got := left("2001:DB8::1:ffff:1:2:3"); got != "200 1" {
		t.Errorf("another address of the same /64: %s", got)
	}
	r := w.get("/api", "CF-Connecting-IP", "192.0.2.1")
	if r.code(t) != "rate_limited" || r.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v %s", r.Status, r.Header, r.Body)
	}
	// Icons, of which a page shows many, are counted apart.
	if r := w.get("/members/alpha/icon.png", "CF-Connecting-IP", "192.0.2.1"); r.Status == http.StatusTooManyRequests || r.Header.Get("RateLimit-Limit") != "30" {
		t.Errorf("%d %v", r.Status, r.Header)
	}
	// So are the log, and what is signed about it, as at an edge.
	for _, path := range []string{"/log/checkpoint", "/sync/keys"} {
		if r := w.get(path, "CF-Connecting-IP", "192.0.2.1"); r.Status == http.StatusTooManyRequests || r.Header.Get("RateLimit-Limit") != "120" {
			t.Errorf("%s: %d %v", path, r.Status, r.Header)
		}
	}
	// What an edge keeps to itself is not handed on, however it is spelled.
	for i, path := range []string{"/sync/hops", "/%73ync/checkpoint", "//sync/keys", "/x/../sync/hops", "/%2e%2e/sync/hops", "/x/%2E./%73ync/hops"} {
		for _, r := range []reply{
			w.get(path, "CF-Connecting-IP", fmt.Sprint("192.0.3.", i), "Accept", "application/json"),
			w.send(http.MethodPost, path, []byte("{}"), "CF-Connecting-IP", fmt.Sprint("192.0.3.", i), "Content-Type", "application/json"),
		} {
			if r.Status != http.StatusNotFound || r.code(t) != "not_found" {
				t.Errorf("%s: %d %s", path, r.Status, r.Body)
			}
		}
	}
}
