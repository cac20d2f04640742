package edge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/front"
)

func TestPaidHandlersHearWhoAsksAndHow(t *testing.T) {
	p := proxies(t, "", "127.0.0.1")
	for _, c := range []struct {
		trusted front.Proxies
		fields  []string
		want    string
	}{
		{front.Proxies{}, nil, "127.0.0.1 true"},
		{front.Proxies{}, []string{"X-Forwarded-For", "192.0.2.1"}, "127.0.0.1 false"},
		{p, nil, "127.0.0.1 false"},
		{p, []string{"X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "https"}, "192.0.2.1 true"},
		{p, []string{"X-Forwarded-For", "2001:db8::1", "X-Forwarded-Proto", "http"}, "2001:db8::/64 false"},
	} {
		s := serve(t, Config{Core: newRing(t), TrustedProxies: c.trusted, Paid: map[string]Handler{
			"/api/bid": func(ctx *fasthttp.RequestCtx, client string, secure bool) {
				fmt.Fprint(ctx, client, " ", secure)
			}}})
		if r := s.Do("POST", "/api/bid", "{}", c.fields...); r.Body != c.want {
			t.Errorf("%v: %q, want %q", c.fields, r.Body, c.want)
		}
	}
}

func TestLimitsCountTheClientBehindAProxy(t *testing.T) {
	p := proxies(t, "", "127.0.0.1")
	s := serve(t, Config{Core: newRing(t), TrustedProxies: p, RateLimit: 2, Now: newClock().Now})
	for i := range 2 {
		wantFields(t, s.Get("/api", "X-Forwarded-For", fmt.Sprintf("203.0.113.%d, 192.0.2.1", i)), "RateLimit-Remaining", fmt.Sprint(1-i))
	}
	wantProblem(t, s.Get("/api", "X-Forwarded-For", "203.0.113.9, 192.0.2.1"), api.RateLimited)
	wantFields(t, s.Get("/api", "X-Forwarded-For", "192.0.2.2"), "RateLimit-Remaining", "1")
}

// A trusted proxy looks after this node from the address from which it forwards. No
// request of those behind it is counted as its own, on the fast path or by fasthttp: not one
// that names no client, and not one with a header that cannot be read.
func TestWhatStrangersSendTakesNothingFromTheProxysOwnRequests(t *testing.T) {
	for _, header := range []string{
		"X-Forwarded-For: unknown\r\n",
		"X-Forwarded-For: 192.0.2.1, unknown\r\n" + unusual,
		"Forwarded: for=unknown\r\nX-Forwarded-For: ,\r\n",
		"X-Forwarded-For: 192.0.2.1\r\nX: \x01\r\n",
		"X-Forwarded-For: 192.0.2.1\r\nX: " + strings.Repeat("x", MaxHeader) + "\r\n",
	} {
		s := serve(t, Config{Core: newRing(t), TrustedProxies: proxies(t, "", "127.0.0.1"), RateLimit: 3, Now: newClock().Now})
		for i := range 9 {
			r := s.Raw("GET /api HTTP/1.1\r\nHost: x\r\n" + header + "\r\n")
			if refused := r.Status == 429; refused != (i >= 3) {
				t.Errorf("%.40q: request %d has status %d", header, i, r.Status)
			}
		}
		wantFields(t, s.Get("/api", "X-Forwarded-For", "192.0.2.1"), "RateLimit-Remaining", "2")
		for i := range 30 {
			check := []string{"GET /api HTTP/1.1\r\nHost: x\r\n\r\n", "GET /api HTTP/1.0\r\n\r\n"}[i%2]
			wantFields(t, s.Raw(check), "RateLimit-Limit", "30", "RateLimit-Policy", "30;w=60", "RateLimit-Remaining", fmt.Sprint(29-i))
		}
		wantProblem(t, s.Get("/api"), api.RateLimited)
		wantFields(t, s.Get("/api", "X-Forwarded-For", "192.0.2.1"), "RateLimit-Remaining", "1")
	}
}

func TestPaidAnswersKeepTheirOwnFields(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), RateLimit: 9, Paid: map[string]Handler{
		"/api/bid": func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
			ctx.SetStatusCode(402)
			ctx.Response.Header.SetContentType("application/problem+json")
			ctx.Response.Header.Add("WWW-Authenticate", "Payment a")
			ctx.Response.Header.Add("WWW-Authenticate", "Payment b")
			ctx.SetBodyString("{}")
		},
		"/api/register": func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
			ctx.SetStatusCode(201)
			ctx.Response.Header.Set("Cache-Control", "private")
			ctx.Response.Header.Set("Payment-Receipt", "r")
			ctx.Response.Header.Set("Webring-Seq", "9")
			ctx.Write(ctx.PostBody())
		},
	}})
	r := s.Do("POST", "/api/bid", "{}")
	wantFields(t, r, "WWW-Authenticate", "Payment a | Payment b", "Cache-Control", "no-store", "RateLimit-Remaining", "8")
	wantCommon(t, r)
	r = s.Do("POST", "/api/register", `{"name":"ä"}`)
	if r.Status != 201 || r.Body != `{"name":"ä"}` {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	wantFields(t, r, "Cache-Control", "private", "Payment-Receipt", "r", "Webring-Seq", "9", "RateLimit-Remaining", "7")
	wantCommon(t, r)
}

func TestBodiesThatAreNotJSONAreInvalidRequests(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": paidOK}})
	for media, ok := range map[string]bool{
		"": true, "application/json": true, "Application/JSON; charset=utf-8": true, "application/vnd.x+json": true, " application/json ": true,
		"text/plain": false, "application/x-www-form-urlencoded": false, "multipart/form-data; boundary=x": false, "application/jsonx": false,
		"text/json": false, "application/xml+jsonx": false, "json": false, "image/svg+json": false,
	} {
		r := s.Do("POST", "/api/bid", "{}", "Content-Type", media)
		if ok {
			if r.Status != 200 {
				t.Errorf("%q: status %d", media, r.Status)
			}
			continue
		}
		wantProblem(t, r, api.InvalidRequest)
		if !strings.Contains(r.Body, `"errors":[{"pointer":"","detail":"`) {
			t.Errorf("%q: %s", media, r.Body)
		}
	}
	if r := s.Raw("POST /api/bid HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"); r.Status != 200 {
		t.Errorf("no Content-Type at all: status %d", r.Status)
	}
}
