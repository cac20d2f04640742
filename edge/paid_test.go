package edge

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/front"
	"webring/edge/voucher"
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

// tellSender answers with the sender that the request is attributed to.
func tellSender(ctx *fasthttp.RequestCtx, client string, secure bool) {
	fmt.Fprint(ctx, client, " ", secure)
	if v := ctx.Request.Header.Peek(voucher.Field); v != nil {
		fmt.Fprintf(ctx, " and the voucher %s", v)
	}
}

func TestAVoucherSaysWhoSentTheRequest(t *testing.T) {
	clock := newClock()
	s := serve(t, Config{Core: newRing(t), EdgeSecrets: sharedSecrets, Now: clock.Now, Paid: map[string]Handler{"/api/bid": tellSender}})
	for _, c := range []struct {
		client string
		secure bool
	}{{"192.0.2.1", true}, {"192.0.2.1", false}, {"2001:db8:1:2::/64", true}, {"local", true}, {"behind 192.0.2.1", true}, {"behind 2001:db8:1:2::/64", false}, {"behind local", true}} {
		v := voucher.New(sharedSecret, clock.Now(), c.client, c.secure, voucher.Request{Method: []byte("POST"), Target: []byte("/api/bid?x=%41"), Body: []byte("{}")})
		want := fmt.Sprint(c.client, " ", c.secure)
		if r := s.Do("POST", "/api/bid?x=%41", "{}", voucher.Field, v, "X-Forwarded-For", "198.51.100.9"); r.Body != want {
			t.Errorf("%q, want %q", r.Body, want)
		}
	}
	if log := s.log.String(); strings.Contains(log, "WARN") {
		t.Error(log)
	}
}

// A request with a voucher that does not hold is its peer's, and the field goes
// no further.
func TestVouchersThatDoNotHold(t *testing.T) {
	now := newClock().Now().Add(2 * voucher.Life)
	post, bid, body := []byte("POST"), []byte("/api/bid"), []byte("{}")
	good := func(at time.Time) string {
		return voucher.New(sharedSecret, at, "192.0.2.1", true, voucher.Request{Method: post, Target: bid, Body: body})
	}
	used := good(now)
	resign := func(client, scheme string) string {
		n := strings.Repeat("A", 22)
		ms := fmt.Sprint(now.UnixMilli())
		digest, mac := sha256.Sum256(body), hmac.New(sha256.New, sharedSecret)
		fmt.Fprintf(mac, "webring-edge 1\n%s\n%s\n%s\n%s\n%s\n%s\n%s\n", ms, n, client, scheme, post, bid, b64(digest[:]))
		return strings.Join([]string{"t=" + ms, "n=" + n, "c=" + client, "s=" + scheme, "m=" + b64(mac.Sum(nil))}, "; ")
	}
	for _, c := range []struct {
		rule    string
		voucher string
		reason  string // "" if it holds
	}{
		{"fresh", used, ""},
		{"replayed", used, "seen before"},
		{"as old as may be", good(now.Add(-voucher.Life)), ""},
		{"as far ahead as may be", good(now.Add(voucher.Life)), ""},
		{"stale", good(now.Add(-voucher.Life - time.Millisecond)), "another time"},
		{"from the future", good(now.Add(voucher.Life + time.Millisecond)), "another time"},
		{"another secret", voucher.New(bytes.Repeat([]byte{8}, 32), now, "192.0.2.1", true, voucher.Request{Method: post, Target: bid, Body: body}), "wrong MAC"},
		{"another method", voucher.New(sharedSecret, now, "192.0.2.1", true, voucher.Request{Method: []byte("GET"), Target: bid, Body: body}), "wrong MAC"},
		{"another target", voucher.New(sharedSecret, now, "192.0.2.1", true, voucher.Request{Method: post, Target: []byte("/api/register"), Body: body}), "wrong MAC"},
		{"another body", voucher.New(sharedSecret, now, "192.0.2.1", true, voucher.Request{Method: post, Target: bid, Body: []byte("{ }")}), "wrong MAC"},
		{"another client", strings.Replace(good(now), "192.0.2.1", "192.0.2.2", 1), "wrong MAC"},
		{"another scheme", strings.Replace(voucher.New(sharedSecret, now, "192.0.2.1", false, voucher.Request{Method: post, Target: bid, Body: body}), "s=http;", "s=https;", 1), "wrong MAC"},
		{"another time", strings.Replace(good(now), "t=1", "t=2", 1), "wrong MAC"},
		{"empty", "", "malformed"},
		{"short", "t=1; n=2; c=3; s=4", "malformed"},
		{"no base64", strings.Replace(good(now), "m=", "m=!", 1), "malformed"},
		{"fields in another order", swapFirstTwo(good(now)), "malformed"},
		{"a client that is none", resign("example.com", "https"), "malformed"},
		{"nobody in particular, behind nobody", resign("behind ", "https"), "malformed"},
		{"behind what is no client", resign("behind behind 192.0.2.1", "https"), "malformed"},
		{"a whole IPv6 address", resign("2001:db8::1", "https"), "malformed"},
		{"a scheme that is none", resign("192.0.2.1", "ftp"), "malformed"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			clock := newClock()
			s := heldServer(t, clock)
			clock.Move(2 * voucher.Life)
			want := "192.0.2.1 true"
			if c.reason != "" {
				want = "127.0.0.1 true"
			}
			if c.rule == "replayed" {
				s.Do("POST", "/api/bid", "{}", voucher.Field, used)
			}
			r := s.Do("POST", "/api/bid", "{}", voucher.Field, c.voucher)
			if r.Body != want {
				t.Errorf("%q, want %q", r.Body, want)
			}
			if log := s.log.String(); c.reason != "" && (!strings.Contains(log, c.reason) || strings.Count(log, "level=WARN") != 1) {
				t.Errorf("the log says %q, not %q", log, c.reason)
			}
		})
	}
}

// A node does not know which vouchers it took before it was started, so it takes
// none from then.
func TestVouchersFromBeforeTheStartDoNotHold(t *testing.T) {
	clock := newClock()
	r := voucher.Request{Method: []byte("POST"), Target: []byte("/api/bid"), Body: []byte("{}")}
	before := voucher.New(sharedSecret, clock.Now(), "192.0.2.1", true, r)
	clock.Move(time.Millisecond)
	s := heldServer(t, clock)
	if r := s.Do("POST", "/api/bid", "{}", voucher.Field, before); r.Body != "127.0.0.1 true" || !strings.Contains(s.log.String(), "before this process began") {
		t.Errorf("%q\n%s", r.Body, s.log)
	}
	if r := s.Do("POST", "/api/bid", "{}", voucher.Field, voucher.New(sharedSecret, clock.Now(), "192.0.2.1", true, r)); r.Body != "192.0.2.1 true" {
		t.Errorf("of now: %q", r.Body)
	}
}

func heldServer(t *testing.T, clock *handClock) *site {
	return serve(t, Config{Core: newRing(t), EdgeSecrets: sharedSecrets, Now: clock.Now, Paid: map[string]Handler{"/api/bid": tellSender}})
}

func swapFirstTwo(v string) string {
	p := strings.Split(v, "; ")
	p[0], p[1] = p[1], p[0]
	return strings.Join(p, "; ")
}

func TestTwoVouchersAreNone(t *testing.T) {
	clock := newClock()
	s := heldServer(t, clock)
	r := voucher.Request{Method: []byte("POST"), Target: []byte("/api/bid"), Body: []byte("{}")}
	one, two := voucher.New(sharedSecret, clock.Now(), "192.0.2.1", true, r), voucher.New(sharedSecret, clock.Now(), "192.0.2.2", true, r)
	if r := s.Do("POST", "/api/bid", "{}", voucher.Field, one, voucher.Field, two); r.Body != "127.0.0.1 true" {
		t.Errorf("%q", r.Body)
	}
}

func TestOutsidersCannotVouch(t *testing.T) {
	clock := newClock()
	s := serve(t, Config{Core: newRing(t), Now: clock.Now, Paid: map[string]Handler{"/api/bid": tellSender}})
	v := voucher.New(sharedSecret, clock.Now(), "192.0.2.1", true, voucher.Request{Method: []byte("POST"), Target: []byte("/api/bid"), Body: []byte("{}")})
	if r := s.Do("POST", "/api/bid", "{}", voucher.Field, v); r.Body != "127.0.0.1 true" {
		t.Errorf("%q", r.Body)
	}
}

func TestForwardedRequestsAreCountedApartByClient(t *testing.T) {
	clock := newClock()
	s := serve(t, Config{Core: newRing(t), EdgeSecrets: sharedSecrets, RateLimit: 2, Now: clock.Now, Paid: map[string]Handler{"/api/bid": tellSender}})
	from := func(client string) reply {
		v := voucher.New(sharedSecret, clock.Now(), client, true, voucher.Request{Method: []byte("POST"), Target: []byte("/api/bid"), Body: []byte("{}")})
		return s.Do("POST", "/api/bid", "{}", voucher.Field, v)
	}
	wantFields(t, from("192.0.2.1"), "RateLimit-Remaining", "1")
	wantFields(t, from("192.0.2.2"), "RateLimit-Remaining", "1")
	wantFields(t, from("127.0.0.1"), "RateLimit-Remaining", "1")
	wantFields(t, s.Do("POST", "/api/bid", "{}"), "RateLimit-Remaining", "1") // itself
	wantFields(t, from("192.0.2.1"), "RateLimit-Remaining", "0")
	wantProblem(t, from("192.0.2.1"), api.RateLimited)
	if r := from("192.0.2.2"); r.Status != 200 {
		t.Errorf("status %d", r.Status)
	}
}

func TestFollowersAreCountedApartAndInSilence(t *testing.T) {
	clock := newClock()
	var named []string
	s := serve(t, Config{Core: newRing(t), RateLimit: 2, Now: clock.Now, Sync: map[string]SyncHandler{
		"/sync/keys": func(ctx *fasthttp.RequestCtx, _ string, _ bool) { ctx.SetBodyString("events") },
		"/sync/snapshot/{sha256}": func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
			named = append(named, strings.Clone(ctx.UserValue("sha256").(string)))
		},
	}})
	for range 80 {
		r := s.Get("/sync/keys")
		if r.Status != 200 || r.Body != "events" {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
		wantFields(t, r, "RateLimit-Limit", "", "RateLimit-Remaining", "", "RateLimit-Policy", "")
	}
	r := s.Get("/sync/keys")
	wantProblem(t, r, api.RateLimited)
	wantFields(t, r, "Retry-After", "60", "RateLimit-Limit", "")
	wantFields(t, s.Get("/api"), "RateLimit-Remaining", "1")
	clock.Move(time.Minute)
	if s.Get("/sync/snapshot/abc"); len(named) != 1 || named[0] != "abc" {
		t.Errorf("names: %q", named)
	}
	wantProblem(t, s.Get("/sync/snapshot/abc/d"), api.NotFound)
	wantProblem(t, s.Get("/sync/none"), api.NotFound)
	wantProblem(t, s.Do("POST", "/sync/keys", "{}"), api.MethodNotAllowed)
}

// An edge that shows the secret is known as one, and what strangers at its
// address ask does not count against it.
func TestFollowersThatAreEdgesAreKnown(t *testing.T) {
	tell := func(ctx *fasthttp.RequestCtx, client string, known bool) { fmt.Fprint(ctx, client, " ", known) }
	s := serve(t, Config{Core: newRing(t), RateLimit: 1, EdgeSecrets: sharedSecrets, Sync: map[string]SyncHandler{"/sync/keys": tell}})
	for range 40 {
		if r := s.Get("/sync/keys?from=0"); r.Body != "127.0.0.1 false" {
			t.Fatalf("%q", r.Body)
		}
	}
	wantProblem(t, s.Get("/sync/keys?from=0"), api.RateLimited)
	vouch, err := voucher.ForOwn(sharedSecrets)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		req, err := http.NewRequest("GET", "http://"+s.Addr+"/sync/keys?from=0", nil)
		if err != nil {
			t.Fatal(err)
		}
		vouch(req)
		res, err := s.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if r := s.Read(res); r.Body != "127.0.0.1 true" {
			t.Fatalf("%d %q", r.Status, r.Body)
		}
	}
	// What an edge passes on for a stranger is the stranger's.
	target := "/sync/keys?from=0"
	clock := time.Now()
	v := voucher.New(sharedSecret, clock, "192.0.2.1", true, voucher.Request{Method: []byte("GET"), Target: []byte(target)})
	wantProblem(t, s.Get(target, voucher.Field, v), api.RateLimited)
	unlimited := serve(t, Config{Core: newRing(t), EdgeSecrets: sharedSecrets, Sync: map[string]SyncHandler{"/sync/keys": tell}})
	v = voucher.New(sharedSecret, clock, "192.0.2.1", true, voucher.Request{Method: []byte("GET"), Target: []byte(target)})
	if r := unlimited.Get(target, voucher.Field, v); r.Body != "127.0.0.1 false" {
		t.Errorf("%d %q", r.Status, r.Body)
	}
	if _, err := voucher.ForOwn(new(voucher.Secrets)); err == nil {
		t.Error("no secret is taken for one")
	}
}

func TestStaleAnswersAreMarked(t *testing.T) {
	stale := false
	s := serve(t, Config{Core: newRing(t), Stale: func() bool { return stale }})
	for _, now := range []bool{false, true, false} {
		stale = now
		want := map[bool]string{true: "true"}[now]
		for _, target := range []string{"/", "/api/ring", "/next", "/nowhere"} {
			wantFields(t, s.Get(target), "Webring-Stale", want)
		}
	}
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
