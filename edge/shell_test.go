package edge

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/front"
	"webring/edge/voucher"
)

func TestEveryKindOfAnswerCarriesTheCommonFields(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), RateLimit: 120, Paid: map[string]Handler{
		"/api/bid": func(ctx *fasthttp.RequestCtx, _ string, _ bool) { ctx.Error("x", 402) }}})
	for _, c := range []struct {
		method, target string
		status         int
	}{
		{"GET", "/", 200}, {"GET", "/api", 200}, {"GET", "/api/ring", 200}, {"HEAD", "/api/ring", 200},
		{"GET", "/next", 302}, {"GET", "/api/ring/beta", 200}, {"GET", "/api/ring/nobody", 404},
		{"GET", "/api/ring?limit=0", 400}, {"GET", "/nowhere", 404}, {"DELETE", "/api", 405},
		{"OPTIONS", "/api/bid", 204}, {"POST", "/api/bid", 402}, {"GET", "/problems/empty_ring", 200},
	} {
		r := s.Do(c.method, c.target, "")
		if r.Status != c.status {
			t.Errorf("%s %s: status %d, want %d", c.method, c.target, r.Status, c.status)
		}
		wantCommon(t, r)
		wantFields(t, r, "RateLimit-Limit", "120", "RateLimit-Policy", "120;w=60")
		if r.Header.Get("RateLimit-Remaining") == "" || r.Header.Get("RateLimit-Reset") == "" {
			t.Errorf("%s %s: no state of the limit", c.method, c.target)
		}
	}
}

func TestRequest121OfAMinuteIsRefused(t *testing.T) {
	clock := newClock()
	s := serve(t, Config{Core: newRing(t), RateLimit: 120, Now: clock.Now})
	for i := range 120 {
		r := s.Get([]string{"/next", "/api/ring", "/nowhere", "/"}[i%4])
		if r.Status == 429 {
			t.Fatalf("request %d: 429", i+1)
		}
		if i == 0 {
			wantFields(t, r, "RateLimit-Limit", "120", "RateLimit-Remaining", "119", "RateLimit-Reset", "60", "Retry-After", "")
			clock.Move(20500 * time.Millisecond)
		}
	}
	r := s.Get("/next")
	wantProblem(t, r, api.RateLimited)
	wantFields(t, r, "RateLimit-Remaining", "0", "RateLimit-Reset", "40", "Retry-After", "40")

	clock.Move(39400 * time.Millisecond) // 59.9 s after the first request
	wantProblem(t, s.Get("/next"), api.RateLimited)
	clock.Move(100 * time.Millisecond)
	r = s.Get("/next")
	if r.Status != 302 {
		t.Errorf("after the window: status %d", r.Status)
	}
	wantFields(t, r, "RateLimit-Remaining", "119", "RateLimit-Reset", "60")
}

func TestRequestsThatCannotBeReadCountToo(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), RateLimit: 2, Now: newClock().Now})
	wantProblem(t, s.Raw("garbage\r\n\r\n"), api.Malformed)
	wantProblem(t, s.Raw("POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n"), api.BodyTooLarge)
	r := s.Raw("garbage\r\n\r\n")
	wantProblem(t, r, api.RateLimited)
	wantFields(t, r, "Retry-After", "60")
}

func TestOnlyApiVersion1IsServed(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for _, v := range []string{"2", "0", "1.0", "01", "v1", ""} {
		r := s.Get("/api", "Api-Version", v)
		wantProblem(t, r, api.UnsupportedAPIVersion)
	}
	wantProblem(t, s.Get("/api", "Api-Version", "1", "Api-Version", "2"), api.UnsupportedAPIVersion)
	if r := s.Get("/api", "api-version", " 1 "); r.Status != 200 {
		t.Errorf("version 1: status %d", r.Status)
	}
}

func TestPanicIsContained(t *testing.T) {
	calls := 0
	core := &fakeCore{serve: func(_ []byte, r *api.Response) {
		if calls++; calls == 1 {
			panic("broken invariant")
		}
		*r = api.Response{Status: 200, Body: []byte("{}")}
	}}
	s := serve(t, Config{Core: core, RateLimit: 9, Paid: map[string]Handler{
		"/api/bid": func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
			ctx.Response.Header.Set("Payment-Receipt", "x")
			panic(struct{ s string }{string(ctx.Request.Header.Peek("Authorization"))})
		}}})
	r := s.Get("/api?from=confidential")
	wantProblem(t, r, api.Internal)
	wantFields(t, r, "RateLimit-Remaining", "8")
	if r := s.Get("/api"); r.Status != 200 {
		t.Errorf("afterwards: status %d", r.Status)
	}
	r = s.Do("POST", "/api/bid", `{"secret":"in the body"}`, "Authorization", "Payment c2VjcmV0")
	wantProblem(t, r, api.Internal)
	wantFields(t, r, "Payment-Receipt", "")
	log := s.log.String()
	if !strings.Contains(log, "broken invariant") || !strings.Contains(log, "path=/api/bid") || strings.Count(log, "level=ERROR") != 2 {
		t.Errorf("log: %s", log)
	}
	for _, secret := range []string{"confidential", "c2VjcmV0", "in the body"} {
		if strings.Contains(log, secret) {
			t.Errorf("%q is in the log", secret)
		}
	}
}

func TestUnreadableRequestsAreNotLogged(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	s.Raw("GET /api HTTP/1.1\r\nHost: x\r\nAuthorization: Payment c2VjcmV0\x01\r\n\r\n")
	s.Raw("GET /api?c2VjcmV0\r\n\r\n")
	if log := s.log.String(); strings.Contains(log, "c2VjcmV0") {
		t.Errorf("log: %s", log)
	}
}

func TestNewRefusesContradictions(t *testing.T) {
	h := func(*fasthttp.RequestCtx, string, bool) {}
	for name, cfg := range map[string]Config{
		"no core":           {},
		"nil paid handler":  {Core: newRing(t), Paid: map[string]Handler{"/api/bid": nil}},
		"path with a query": {Core: newRing(t), Paid: map[string]Handler{"/api/bid?x": h}},
		"a method of reads": {Core: newRing(t), Paid: map[string]Handler{"GET /api/bid": h}},
		"relative path":     {Core: newRing(t), Paid: map[string]Handler{"api/bid": h}},
		"no secret":         {Core: newRing(t), EdgeSecrets: new(voucher.Secrets)},
		"not below /sync":   {Core: newRing(t), Sync: map[string]SyncHandler{"/elsewhere": h}},
		"a query in /sync":  {Core: newRing(t), Sync: map[string]SyncHandler{"/sync/a?b": h}},
		"a wildcard there":  {Core: newRing(t), Sync: map[string]SyncHandler{"/sync/{x:*}": h}},
	} {
		if s, err := New(cfg); err == nil || s != nil {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}

// A new rate limit counts at once for every client: on the fast path and off it, for clients
// of edges, and for edges that follow.
func TestTheRateLimitIsReplaced(t *testing.T) {
	clock := newClock()
	s := serve(t, Config{Core: newRing(t), RateLimit: 50, EdgeSecrets: sharedSecrets, Now: clock.Now, Paid: map[string]Handler{"/api/bid": tellSender},
		Sync: map[string]SyncHandler{"/sync/keys": func(ctx *fasthttp.RequestCtx, _ string, _ bool) { ctx.SetBodyString("events") }}})
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
	for range 80 {
		if r := s.Get("/sync/keys"); r.Status != 200 {
			t.Fatalf("a follower: %d %s", r.Status, r.Body)
		}
	}
	wantProblem(t, s.Get("/sync/keys"), api.RateLimited)
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
