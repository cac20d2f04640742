package edge

import (
	"fmt"
	"sync"
	"testing"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/front"
	"webring/edge/voucher"
)

// A new rate limit counts at once for every client: on the fast path and off it, for clients
// of edges, and for edges that follow.
func TestTheRateLimitIsReplaced(t *testing.T) {
	clock := newClock()
	s := serve(t, Config{Core: newRing(t), RateLimit: 50, EdgeSecrets: sharedSecrets, Now: clock.Now, Paid: map[string]Handler{"/api/bid": tellSender},
		Sync: map[string]SyncHandler{"/sync/events": func(ctx *fasthttp.RequestCtx, _ string, _ bool) { ctx.SetBodyString("events") }}})
	forwarded := func() reply {
		v := voucher.New(sharedSecret, clock.Now(), "192.0.2.1", true, voucher.Request{Method: []byte("POST"), Target: []byte("/api/bid"), Body: []byte("{}")})
		return s.Do("POST", "/api/bid", "{}", voucher.Field, v)
	}
	wantFields(t, s.Get("/api/categories"), "RateLimit-Limit", "50", "RateLimit-Remaining", "49")
	wantFields(t, forwarded(), "RateLimit-Limit", "50", "RateLimit-Remaining", "49")
	s.SetRateLimit(2)
	wantFields(t, s.Get("/api/categories"), "RateLimit-Limit", "2", "RateLimit-Remaining", "1") // the fast path
	wantFields(t, s.Do("POST", "/api/bid", "{}"), "RateLimit-Limit", "2", "RateLimit-Remaining", "0")
	wantProblem(t, s.Get("/api/categories"), api.RateLimited)
	wantFields(t, forwarded(), "RateLimit-Limit", "2", "RateLimit-Remaining", "1")
	for range 20 {
		if r := s.Get("/sync/events"); r.Status != 200 {
			t.Fatalf("a follower: %d %s", r.Status, r.Body)
		}
	}
	wantProblem(t, s.Get("/sync/events"), api.RateLimited)
	s.SetRateLimit(0)
	for range 5 {
		if r := s.Get("/api/categories"); r.Status != 200 || r.Header.Get("RateLimit-Limit") != "" {
			t.Fatalf("without a limit: %d %v", r.Status, r.Header)
		}
	}
}

// Limits and proxies are replaced while requests are answered.
func TestLimitsAndProxiesAreReplacedUnderLoad(t *testing.T) {
	trusting, nobody := proxies(t, "X-Forwarded-For", "127.0.0.1"), proxies(t, "X-Forwarded-For")
	s := serve(t, Config{Core: newRing(t), RateLimit: 1000, TrustedProxies: proxies(t, "X-Forwarded-For")})
	var load sync.WaitGroup
	for _, path := range []string{"/api/categories", "/docs"} {
		load.Go(func() {
			for range 200 {
				if r := s.Get(path, "X-Forwarded-For", "192.0.2.7"); r.Status != 200 {
					t.Errorf("%s: %d", path, r.Status)
					return
				}
			}
		})
	}
	for i := range 100 {
		s.SetRateLimit(1000 + i)
		s.proxies.Replace([]front.Proxies{trusting, nobody}[i%2])
	}
	load.Wait()
	s.SetRateLimit(100)
	s.proxies.Replace(trusting)
	s.Client.CloseIdleConnections()
	wantFields(t, s.Get("/api/categories", "X-Forwarded-For", "192.0.2.8"), "RateLimit-Remaining", "99")
	wantFields(t, s.Get("/api/categories", "X-Forwarded-For", "192.0.2.9"), "RateLimit-Remaining", "99")
	s.proxies.Replace(nobody)
	s.Client.CloseIdleConnections()
	s.Get("/api/categories", "X-Forwarded-For", "192.0.2.10")
	wantFields(t, s.Get("/api/categories", "X-Forwarded-For", "192.0.2.11"), "RateLimit-Remaining", "98")
}

// Of the protocols of TLS that a configuration names, only HTTP/1.1 and the one that an
// authority asks by are spoken.
func TestTheProtocolsOfTLS(t *testing.T) {
	for want, named := range map[string][]string{"[http/1.1]": {"h2", "http/1.1"}, "[http/1.1 acme-tls/1]": {"h2", "acme-tls/1"}} {
		if got := fmt.Sprint(spoken(named)); got != want {
			t.Errorf("of %v, %s", named, got)
		}
	}
}
