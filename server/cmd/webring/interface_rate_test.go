package main

import (
	"strconv"
	"testing"
)

// TestInterfaceRateLimit holds 120 requests a minute per client on all public
// endpoints together, the four header fields, and 429 with Retry-After. The
// flag has its default; clients stand behind a trusted proxy, which this is.
func TestInterfaceRateLimit(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, "--trusted-proxy", "127.0.0.1")
	number := func(t *testing.T, r reply, name string) int {
		t.Helper()
		n, err := strconv.Atoi(r.Header.Get(name))
		if err != nil {
			t.Errorf("%s: %q", name, r.Header.Get(name))
		}
		return n
	}
	requests := []struct {
		method, path string
	}{{"GET", "/api/ring"}, {"GET", "/next"}, {"POST", "/api/bid"}, {"OPTIONS", "/api/register"}, {"GET", "/nowhere"}, {"HEAD", "/api"},
		{"GET", "/"}, {"DELETE", "/api"}, {"GET", "/api/ring?limit=0"}, {"POST", "/api/register"}}

	t.Run("120 requests of every kind, then 429 on the 121st", func(t *testing.T) {
		o := o.in(t)
		reset := 60
		for i := range 120 {
			q := requests[i%len(requests)]
			r := o.send(q.method, q.path, nil, "X-Forwarded-For", "203.0.113.9")
			if r.Status == 429 {
				t.Fatalf("request %d: 429", i+1)
			}
			o.fields(r, "RateLimit-Policy", "120;w=60", "RateLimit-Limit", "120", "RateLimit-Remaining", strconv.Itoa(119-i))
			n := number(t, r, "RateLimit-Reset")
			if n > reset || n < 1 {
				t.Fatalf("request %d: RateLimit-Reset %d after %d: the window is not fixed", i+1, n, reset)
			}
			if reset = n; i == 0 && n < 59 {
				t.Errorf("the first request does not open the window: RateLimit-Reset %d", n)
			}
		}
		for i, q := range requests {
			r := o.send(q.method, q.path, nil, "X-Forwarded-For", "203.0.113.9")
			if r.Status != 429 {
				t.Fatalf("request %d, %s %s: status %d", 121+i, q.method, q.path, r.Status)
			}
			if q.method != "HEAD" {
				o.refused(r, 429, "rate_limited")
			}
			o.fields(r, "RateLimit-Policy", "120;w=60", "RateLimit-Limit", "120", "RateLimit-Remaining", "0")
			if after := number(t, r, "Retry-After"); after < number(t, r, "RateLimit-Reset") || after > 60 {
				t.Errorf("Retry-After %d, RateLimit-Reset %s", after, r.Header.Get("RateLimit-Reset"))
			}
		}
	})
	named := map[string]*origin{"X-Forwarded-For": o}
	for _, field := range []string{"Forwarded", "CF-Connecting-IP"} {
		named[field] = founded(t, reference, "--trusted-proxy", "127.0.0.1", "--client-ip-header", field)
	}
	for _, c := range []struct {
		rule, field, first, second string
		same                       bool
	}{
		{"an IPv4 address is a client", "X-Forwarded-For", "198.51.100.1", "198.51.100.2", false},
		{"an IPv4 address, also mapped into IPv6", "X-Forwarded-For", "198.51.100.3", "::ffff:198.51.100.3", true},
		{"an IPv6 /64 is a client", "X-Forwarded-For", "2001:db8:1:1::1", "2001:db8:1:1:ffff::2", true},
		{"another /64 is another client", "X-Forwarded-For", "2001:db8:1:2::1", "2001:db8:1:3::1", false},
		{"the last untrusted hop counts, not what it claims", "X-Forwarded-For", "192.0.2.1, 198.51.100.5", "192.0.2.2, 198.51.100.5, 127.0.0.1", true},
		{"Forwarded, where that field is chosen", "Forwarded", `for="[2001:db8:1:4::1]:4711";proto=https`, `for=192.0.2.3, For="[2001:db8:1:4::9]"`, true},
		{"a field that holds one address, where that is chosen", "CF-Connecting-IP", "198.51.100.1", "198.51.100.2", false},
		{"those whom it does not name are one client", "CF-Connecting-IP", "198.51.100.1, 198.51.100.2", "unknown", true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			o := named[c.field].in(t)
			if n := number(t, o.get("/api", c.field, c.first), "RateLimit-Remaining"); n != 119 {
				t.Errorf("first: %d remain", n)
			}
			want := 119
			if c.same {
				want = 118
			}
			if n := number(t, o.get("/api", c.field, c.second), "RateLimit-Remaining"); n != want {
				t.Errorf("second: %d remain, want %d", n, want)
			}
		})
	}
	t.Run("no other field than the chosen one counts", func(t *testing.T) {
		for _, c := range [][4]string{
			{"X-Forwarded-For", "198.51.100.9", "Forwarded", "for=198.51.100.10"},
			{"Forwarded", "for=198.51.100.9", "X-Forwarded-For", "198.51.100.10"},
			{"CF-Connecting-IP", "198.51.100.9", "X-Forwarded-For", "unknown"},
		} {
			o := named[c[0]].in(t)
			first := number(t, o.get("/api", c[:2]...), "RateLimit-Remaining")
			if second := number(t, o.get("/api", c[:]...), "RateLimit-Remaining"); second != first-1 {
				t.Errorf("%q: %d, then %d remain", c, first, second)
			}
		}
	})
	t.Run("a trusted proxy itself has ten times as many", func(t *testing.T) {
		o := o.in(t)
		own := o.get("/api")
		o.fields(own, "RateLimit-Policy", "1200;w=60", "RateLimit-Limit", "1200")
		o.fields(o.get("/api", "X-Forwarded-For", "unknown"), "RateLimit-Policy", "120;w=60", "RateLimit-Remaining", "119")
		o.fields(o.get("/api"), "RateLimit-Remaining", strconv.Itoa(number(t, own, "RateLimit-Remaining")-1))
	})
	t.Run("a peer that is no trusted proxy is not believed", func(t *testing.T) {
		o := start(t, "--rate-limit", "120")
		first := number(t, o.get("/api", "X-Forwarded-For", "203.0.113.1"), "RateLimit-Remaining")
		if second := number(t, o.get("/api", "X-Forwarded-For", "203.0.113.2"), "RateLimit-Remaining"); second != first-1 {
			t.Errorf("%d, then %d remain", first, second)
		}
	})
	t.Run("--rate-limit 0 switches it off", func(t *testing.T) {
		o := start(t, "--rate-limit", "0")
		for i := range 130 {
			r := o.get("/api")
			if r.Status != 200 {
				t.Fatalf("request %d: status %d", i+1, r.Status)
			}
			o.fields(r, "RateLimit-Limit", "", "RateLimit-Policy", "")
		}
	})
}
