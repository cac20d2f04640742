package edge

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
)

var sharedSecret = bytes.Repeat([]byte{7}, 32)

// tellSender answers with whom the request is taken to be from.
func tellSender(ctx *fasthttp.RequestCtx, client string, secure bool) {
	fmt.Fprint(ctx, client, " ", secure)
	if v := ctx.Request.Header.Peek(voucherField); v != nil {
		fmt.Fprintf(ctx, " and the voucher %s", v)
	}
}

func TestAVoucherSaysWhoSentTheRequest(t *testing.T) {
	clock := newClock()
	s := serve(t, Config{Core: newRing(t), EdgeSecret: sharedSecret, Now: clock.Now, Paid: map[string]Handler{"/api/bid": tellSender}})
	for _, c := range []struct {
		client string
		secure bool
	}{{"192.0.2.1", true}, {"192.0.2.1", false}, {"2001:db8:1:2::/64", true}, {"local", true}, {"behind 192.0.2.1", true}, {"behind 2001:db8:1:2::/64", false}, {"behind local", true}} {
		v := newVoucher(sharedSecret, clock.Now(), c.client, c.secure, passedOn{[]byte("POST"), []byte("/api/bid?x=%41"), []byte("{}")})
		want := fmt.Sprint(c.client, " ", c.secure)
		if r := s.do("POST", "/api/bid?x=%41", "{}", voucherField, v, "X-Forwarded-For", "198.51.100.9"); r.body != want {
			t.Errorf("%q, want %q", r.body, want)
		}
	}
	if log := s.log.String(); strings.Contains(log, "WARN") {
		t.Error(log)
	}
}

// A request with a voucher that does not hold is its peer's, and the field goes
// no further.
func TestVouchersThatDoNotHold(t *testing.T) {
	now := newClock().Now().Add(time.Minute)
	post, bid, body := []byte("POST"), []byte("/api/bid"), []byte("{}")
	good := func(at time.Time) string {
		return newVoucher(sharedSecret, at, "192.0.2.1", true, passedOn{post, bid, body})
	}
	used := good(now)
	resign := func(client, scheme string) string {
		n := strings.Repeat("A", 22)
		ms := fmt.Sprint(now.UnixMilli())
		mac := voucherMAC(sharedSecret, ms, n, client, scheme, passedOn{post, bid, body})
		return strings.Join([]string{"t=" + ms, "n=" + n, "c=" + client, "s=" + scheme, "m=" + b64(mac)}, "; ")
	}
	for _, c := range []struct {
		rule    string
		voucher string
		reason  string // "" if it holds
	}{
		{"fresh", used, ""},
		{"replayed", used, "seen before"},
		{"30 s old", good(now.Add(-30 * time.Second)), ""},
		{"30 s ahead", good(now.Add(30 * time.Second)), ""},
		{"stale", good(now.Add(-30*time.Second - time.Millisecond)), "another time"},
		{"from the future", good(now.Add(30*time.Second + time.Millisecond)), "another time"},
		{"another secret", newVoucher(bytes.Repeat([]byte{8}, 32), now, "192.0.2.1", true, passedOn{post, bid, body}), "wrong MAC"},
		{"another method", newVoucher(sharedSecret, now, "192.0.2.1", true, passedOn{[]byte("GET"), bid, body}), "wrong MAC"},
		{"another target", newVoucher(sharedSecret, now, "192.0.2.1", true, passedOn{post, []byte("/api/register"), body}), "wrong MAC"},
		{"another body", newVoucher(sharedSecret, now, "192.0.2.1", true, passedOn{post, bid, []byte("{ }")}), "wrong MAC"},
		{"another client", strings.Replace(good(now), "192.0.2.1", "192.0.2.2", 1), "wrong MAC"},
		{"another scheme", strings.Replace(newVoucher(sharedSecret, now, "192.0.2.1", false, passedOn{post, bid, body}), "s=http;", "s=https;", 1), "wrong MAC"},
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
			clock.Move(time.Minute)
			want := "192.0.2.1 true"
			if c.reason != "" {
				want = "127.0.0.1 true"
			}
			if c.rule == "replayed" {
				s.do("POST", "/api/bid", "{}", voucherField, used)
			}
			r := s.do("POST", "/api/bid", "{}", voucherField, c.voucher)
			if r.body != want {
				t.Errorf("%q, want %q", r.body, want)
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
	r := passedOn{[]byte("POST"), []byte("/api/bid"), []byte("{}")}
	before := newVoucher(sharedSecret, clock.Now(), "192.0.2.1", true, r)
	clock.Move(time.Millisecond)
	s := heldServer(t, clock)
	if r := s.do("POST", "/api/bid", "{}", voucherField, before); r.body != "127.0.0.1 true" || !strings.Contains(s.log.String(), "before this process began") {
		t.Errorf("%q\n%s", r.body, s.log)
	}
	if r := s.do("POST", "/api/bid", "{}", voucherField, newVoucher(sharedSecret, clock.Now(), "192.0.2.1", true, r)); r.body != "192.0.2.1 true" {
		t.Errorf("of now: %q", r.body)
	}
}

// A clock that was ahead or behind when the node was started, and was set right since,
// keeps no honest voucher away, and none from before the start comes in by it.
func TestTheStartIsWhereTheClockPutsItNow(t *testing.T) {
	about := passedOn{[]byte("POST"), []byte("/api/bid"), []byte("{}")}
	for _, wrong := range []time.Duration{time.Hour, 20 * time.Second, time.Second, -time.Second, -20 * time.Second, -time.Hour} {
		clock := newClock()
		right := clock.Now()
		clock.Move(wrong)
		v := newVouchers(sharedSecret, clock.Now)
		const up = 10 * time.Second
		v.now = func() time.Time { return right.Add(up) }
		v.uptime = func() time.Duration { return up }
		for _, c := range []struct {
			written time.Duration // from the start
			want    error
		}{{up, nil}, {0, nil}, {-time.Millisecond, errVoucherEarlier}, {-up, errVoucherEarlier}} {
			if _, err := v.take(newVoucher(sharedSecret, right.Add(c.written), "192.0.2.1", true, about), about); err != c.want {
				t.Errorf("the clock was %s ahead; a voucher of %s after the start: %v, want %v", wrong, c.written, err, c.want)
			}
		}
	}
}

func heldServer(t *testing.T, clock *handClock) *site {
	return serve(t, Config{Core: newRing(t), EdgeSecret: sharedSecret, Now: clock.Now, Paid: map[string]Handler{"/api/bid": tellSender}})
}

func swapFirstTwo(v string) string {
	p := strings.Split(v, "; ")
	p[0], p[1] = p[1], p[0]
	return strings.Join(p, "; ")
}

func TestTwoVouchersAreNone(t *testing.T) {
	clock := newClock()
	s := heldServer(t, clock)
	r := passedOn{[]byte("POST"), []byte("/api/bid"), []byte("{}")}
	one, two := newVoucher(sharedSecret, clock.Now(), "192.0.2.1", true, r), newVoucher(sharedSecret, clock.Now(), "192.0.2.2", true, r)
	if r := s.do("POST", "/api/bid", "{}", voucherField, one, voucherField, two); r.body != "127.0.0.1 true" {
		t.Errorf("%q", r.body)
	}
}

func TestOutsidersCannotVouch(t *testing.T) {
	clock := newClock()
	s := serve(t, Config{Core: newRing(t), Now: clock.Now, Paid: map[string]Handler{"/api/bid": tellSender}})
	v := newVoucher(sharedSecret, clock.Now(), "192.0.2.1", true, passedOn{[]byte("POST"), []byte("/api/bid"), []byte("{}")})
	if r := s.do("POST", "/api/bid", "{}", voucherField, v); r.body != "127.0.0.1 true" {
		t.Errorf("%q", r.body)
	}
}

// However long ago it was seen, a voucher does not count twice.
func TestAVoucherCountsOnceInAllItsLife(t *testing.T) {
	clock := newClock()
	v := newVouchers(sharedSecret, clock.Now)
	r := passedOn{[]byte("POST"), []byte("/"), nil}
	clock.Move(time.Minute)
	for step := range 400 {
		early := newVoucher(sharedSecret, clock.Now().Add(voucherLife), "192.0.2.1", true, r)
		if _, err := v.take(early, r); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		began := clock.Now()
		for _, wait := range []time.Duration{0, time.Second, 29 * time.Second, 30 * time.Second} {
			clock.Move(wait)
			if _, err := v.take(early, r); err == nil {
				t.Fatalf("step %d: taken again after %s", step, clock.Now().Sub(began))
			}
		}
		clock.Move(time.Duration(step) * 377 * time.Millisecond)
	}
	if n := len(v.seen) + len(v.before); n > 4 {
		t.Errorf("%d vouchers are remembered", n)
	}
}

func TestForwardedRequestsAreCountedApartByClient(t *testing.T) {
	clock := newClock()
	s := serve(t, Config{Core: newRing(t), EdgeSecret: sharedSecret, RateLimit: 2, Now: clock.Now, Paid: map[string]Handler{"/api/bid": tellSender}})
	from := func(client string) reply {
		v := newVoucher(sharedSecret, clock.Now(), client, true, passedOn{[]byte("POST"), []byte("/api/bid"), []byte("{}")})
		return s.do("POST", "/api/bid", "{}", voucherField, v)
	}
	wantFields(t, from("192.0.2.1"), "RateLimit-Remaining", "1")
	wantFields(t, from("192.0.2.2"), "RateLimit-Remaining", "1")
	wantFields(t, from("127.0.0.1"), "RateLimit-Remaining", "1")
	wantFields(t, s.do("POST", "/api/bid", "{}"), "RateLimit-Remaining", "1") // itself
	wantFields(t, from("192.0.2.1"), "RateLimit-Remaining", "0")
	wantProblem(t, from("192.0.2.1"), api.RateLimited)
	if r := from("192.0.2.2"); r.status != 200 {
		t.Errorf("status %d", r.status)
	}
}

func TestFollowersAreCountedApartAndInSilence(t *testing.T) {
	clock := newClock()
	var named []string
	s := serve(t, Config{Core: newRing(t), RateLimit: 2, Now: clock.Now, Sync: map[string]SyncHandler{
		"/sync/events": func(ctx *fasthttp.RequestCtx, _ string, _ bool) { ctx.SetBodyString("events") },
		"/sync/snapshot/{sha256}": func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
			named = append(named, strings.Clone(ctx.UserValue("sha256").(string)))
		},
	}})
	for range 20 {
		r := s.get("/sync/events")
		if r.status != 200 || r.body != "events" {
			t.Fatalf("%d %s", r.status, r.body)
		}
		wantFields(t, r, "RateLimit-Limit", "", "RateLimit-Remaining", "", "RateLimit-Policy", "")
	}
	r := s.get("/sync/events")
	wantProblem(t, r, api.RateLimited)
	wantFields(t, r, "Retry-After", "60", "RateLimit-Limit", "")
	wantFields(t, s.get("/api"), "RateLimit-Remaining", "1")
	clock.Move(time.Minute)
	if s.get("/sync/snapshot/abc"); len(named) != 1 || named[0] != "abc" {
		t.Errorf("names: %q", named)
	}
	wantProblem(t, s.get("/sync/snapshot/abc/d"), api.NotFound)
	wantProblem(t, s.get("/sync/none"), api.NotFound)
	wantProblem(t, s.do("POST", "/sync/events", "{}"), api.MethodNotAllowed)
}

// An edge that shows the secret is known as one, and what strangers at its
// address ask does not count against it.
func TestFollowersThatAreEdgesAreKnown(t *testing.T) {
	tell := func(ctx *fasthttp.RequestCtx, client string, known bool) { fmt.Fprint(ctx, client, " ", known) }
	s := serve(t, Config{Core: newRing(t), RateLimit: 1, EdgeSecret: sharedSecret, Sync: map[string]SyncHandler{"/sync/events": tell}})
	for range 10 {
		if r := s.get("/sync/events?from=0"); r.body != "127.0.0.1 false" {
			t.Fatalf("%q", r.body)
		}
	}
	wantProblem(t, s.get("/sync/events?from=0"), api.RateLimited)
	vouch, err := Vouch(sharedSecret)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		req, err := http.NewRequest("GET", "http://"+s.addr+"/sync/events?from=0", nil)
		if err != nil {
			t.Fatal(err)
		}
		vouch(req)
		res, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if r := s.finishReply(res); r.body != "127.0.0.1 true" {
			t.Fatalf("%d %q", r.status, r.body)
		}
	}
	if _, err := Vouch([]byte("short")); err == nil {
		t.Error("a short secret is taken")
	}
}

func TestStaleAnswersAreMarked(t *testing.T) {
	stale := false
	s := serve(t, Config{Core: newRing(t), Stale: func() bool { return stale }})
	for _, now := range []bool{false, true, false} {
		stale = now
		want := map[bool]string{true: "true"}[now]
		for _, target := range []string{"/", "/api/ring", "/next", "/nowhere"} {
			wantFields(t, s.get(target), "Webring-Stale", want)
		}
	}
}

func FuzzVoucher(f *testing.F) {
	clock := newClock()
	r := passedOn{[]byte("POST"), []byte("/api/bid"), []byte("{}")}
	f.Add(newVoucher(sharedSecret, clock.Now(), "192.0.2.1", true, r))
	f.Add("t=; n=; c=; s=; m=")
	f.Fuzz(func(t *testing.T, field string) {
		v := newVouchers(sharedSecret, clock.Now)
		known := newVoucher(sharedSecret, clock.Now(), "192.0.2.1", true, r)
		_, _ = v.take(field, r)
		// Whatever came before, one that holds is taken.
		if _, err := v.take(known, r); err != nil {
			t.Error(err)
		}
	})
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
