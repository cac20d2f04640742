package edge

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
)

// upstream takes requests off the wire as they come and answers each with what
// answer gives; nothing ends the connection instead.
func upstream(t *testing.T, answer func(head, body string) string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					var head strings.Builder
					length := 0
					for {
						line, err := r.ReadString('\n')
						if err != nil {
							return
						}
						if line == "\r\n" {
							break
						}
						fmt.Sscanf(line, "Content-Length: %d", &length)
						head.WriteString(line)
					}
					body := make([]byte, length)
					if _, err := io.ReadFull(r, body); err != nil {
						return
					}
					out := answer(head.String(), string(body))
					if out == "" {
						return
					}
					io.WriteString(c, out)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func edgeTo(t *testing.T, cfg ForwardConfig, shell Config) *site {
	t.Helper()
	cfg.BaseURL = func() string { return base }
	f, err := NewForwarder(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	shell.Core = newRing(t)
	shell.Paid = map[string]Handler{"/api/register": f.Paid, "/api/bid": f.Paid}
	return serve(t, shell)
}

func TestForwardedRequestsTravelByteForByte(t *testing.T) {
	var head, body string
	url := upstream(t, func(h, b string) string {
		head, body = h, b
		return "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nPayment-Receipt: a=b, c\r\nWWW-Authenticate: Payment x\r\nWWW-Authenticate: Payment y\r\n" +
			"RateLimit-Limit: 7\r\nCache-Control: private\r\nContent-Length: 4\r\n\r\n{ä}"
	})
	s := edgeTo(t, ForwardConfig{Origin: url, Secret: sharedSecret, TrustedProxies: proxies(t, "X-Asker")}, Config{RateLimit: 50})
	sent := "{\"name\" :\t\"ä\\u0000\"}\n\n"
	r := s.raw("POST /api/register?x=%41%2f&y HTTP/1.1\r\nHost: ring.example\r\ncontent-type:  application/json ;charset=UTF-8\r\n" +
		"Authorization: Payment eyJ+/=  , x\r\nIdempotency-Key: \"k 1\"\r\nAccept-Payment: a;q=0.5\r\naccept-payment: b\r\nCookie: a=b;;c ; d\r\n" +
		"X-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nVia: 1.1 x\r\nx-asker: 1.2.3.4\r\nCF-Connecting-IP: 1.2.3.4\r\nWebring-Edge: forged\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\n" +
		"Content-Length: " + fmt.Sprint(len(sent)) + "\r\n\r\n" + sent)
	if r.status != 201 || r.body != "{ä}" {
		t.Errorf("answer: %d %q", r.status, r.body)
	}
	wantFields(t, r, "Payment-Receipt", "a=b, c", "Www-Authenticate", "Payment x | Payment y", "Cache-Control", "private", "RateLimit-Limit", "50", "Content-Type", "application/json")
	wantCommon(t, r)
	if body != sent {
		t.Errorf("body %q", body)
	}
	lines := strings.Split(strings.TrimSuffix(head, "\r\n"), "\r\n")
	if lines[0] != "POST /api/register?x=%41%2f&y HTTP/1.1" {
		t.Errorf("request line %q", lines[0])
	}
	lines = lines[1:]
	lines = slices.DeleteFunc(lines, func(l string) bool {
		if v, ok := strings.CutPrefix(l, "Webring-Edge: "); ok && v != "forged" && strings.Contains(v, "c=127.0.0.1; s=http;") {
			return true
		}
		return false
	})
	want := []string{"Host: " + strings.TrimPrefix(url, "http://"), "Content-Length: " + fmt.Sprint(len(sent)), "Accept-Payment: a;q=0.5", "Accept-Payment: b",
		"Authorization: Payment eyJ+/=  , x", "Content-Type: application/json ;charset=UTF-8", "Cookie: a=b;;c ; d", "Idempotency-Key: \"k 1\""}
	slices.Sort(lines)
	slices.Sort(want)
	if !slices.Equal(lines, want) {
		t.Errorf("fields\n%q, want\n%q", lines, want)
	}
}

func TestTheOriginSeesWhoStandsBehindEdges(t *testing.T) {
	p := proxies(t, "", "127.0.0.1")
	origin := serve(t, Config{Core: newRing(t), EdgeSecret: sharedSecret, Paid: map[string]Handler{"/api/bid": tellSender}})
	inner := edgeTo(t, ForwardConfig{Origin: "http://" + origin.addr, Secret: sharedSecret}, Config{EdgeSecret: sharedSecret})
	outer := edgeTo(t, ForwardConfig{Origin: "http://" + inner.addr, Secret: sharedSecret}, Config{EdgeSecret: sharedSecret, TrustedProxies: p})
	for _, c := range []struct{ address, proto, want string }{
		{"192.0.2.7", "https", "192.0.2.7 true"},
		{"2001:db8::7", "http", "2001:db8::/64 false"},
		{"unknown", "https", "behind 127.0.0.1 true"},
	} {
		if r := outer.do("POST", "/api/bid", "{}", "X-Forwarded-For", c.address, "X-Forwarded-Proto", c.proto); r.body != c.want {
			t.Errorf("%q, want %q", r.body, c.want)
		}
	}
	if r := inner.do("POST", "/api/bid", "{}"); r.body != "127.0.0.1 true" {
		t.Errorf("%q", r.body)
	}
}

func TestWithoutASecretInsecureRequestsStayHere(t *testing.T) {
	origin := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": tellSender}})
	s := edgeTo(t, ForwardConfig{Origin: "http://" + origin.addr}, Config{})
	wantProblem(t, s.do("POST", "/api/bid", "{}", "Via", "1.1 x"), api.TLSRequired)
	if r := s.do("POST", "/api/bid", "{}"); r.body != "127.0.0.1 true" {
		t.Errorf("%q", r.body)
	}
}

func TestNothingCanBePaidWithoutTheOrigin(t *testing.T) {
	var asked atomic.Int64
	lost := upstream(t, func(_, _ string) string { asked.Add(1); return "" })
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	away := "http://" + gone.Addr().String()
	for _, c := range []struct {
		origin      string
		credentials []string // lines of Authorization
		code        api.Code
		sent        bool
	}{
		{away, nil, api.PaymentsUnavailable, false},
		{away, []string{"Payment x"}, api.PaymentsUnavailable, false},
		{"https://" + l.Addr().String(), []string{"Payment x"}, api.PaymentsUnavailable, false}, // a connection without TLS is none
		{lost, nil, api.PaymentsUnavailable, true},
		{lost, []string{""}, api.PaymentsUnavailable, true},
		{lost, []string{"Payment x"}, api.PaymentPending, true},
		{lost, []string{"", "Payment x"}, api.PaymentPending, true},
		{lost, []string{"Payment x", ""}, api.PaymentPending, true},
	} {
		asked.Store(0)
		s := edgeTo(t, ForwardConfig{Origin: c.origin, Secret: sharedSecret}, Config{})
		fields := []string{"Idempotency-Key", "k"} // for which some transports would try again
		for _, line := range c.credentials {
			fields = append(fields, "Authorization", line)
		}
		r := s.do("POST", "/api/bid", "{}", fields...)
		wantProblem(t, r, c.code)
		wantFields(t, r, "Retry-After", "5")
		if n := asked.Load(); n > 1 || (n > 0) != c.sent || strings.Contains(r.body, "not delivered") == c.sent {
			t.Errorf("%q at %s: sent %d times: %s", c.credentials, c.origin, n, r.body)
		}
	}
}

func TestAnswersWaitUntilThisNodeSeesWhatWasPaidFor(t *testing.T) {
	answer := func(status, seq string) func(string, string) string {
		return func(string, string) string {
			return "HTTP/1.1 " + status + "\r\nWebring-Seq: " + seq + "\r\nContent-Length: 2\r\n\r\n{}"
		}
	}
	for _, c := range []struct {
		rule, status, seq string
		reached           bool
		asked             []uint64
		stale             string
	}{
		{"seen", "200 OK", "17", true, []uint64{17}, ""},
		{"not seen in time", "201 Created", "18", false, []uint64{18}, "true"},
		{"nothing was changed", "409 Conflict", "19", false, nil, ""},
		{"no position", "200 OK", "x", false, nil, ""},
	} {
		var asked []uint64
		s := edgeTo(t, ForwardConfig{Origin: upstream(t, answer(c.status, c.seq)), Secret: sharedSecret, Reach: func(ctx context.Context, seq uint64) bool {
			asked = append(asked, seq)
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 2*time.Second {
				t.Errorf("%s: it may wait until %v", c.rule, deadline)
			}
			return c.reached
		}}, Config{})
		r := s.do("POST", "/api/bid", "{}")
		if r.body != "{}" || !slices.Equal(asked, c.asked) {
			t.Errorf("%s: %d %q, asked for %d", c.rule, r.status, r.body, asked)
		}
		wantFields(t, r, "Webring-Stale", c.stale, "Webring-Seq", c.seq)
	}
}

func TestForwardersNeedAnOriginAndALongSecret(t *testing.T) {
	for _, cfg := range []ForwardConfig{{Origin: "ring.example"}, {Origin: "ftp://x"}, {Origin: "http://x/y"}, {Origin: "http://x?y"},
		{Origin: "http://u@x"}, {Origin: "http://x", Secret: []byte("short")}, {Origin: "http://x", Secret: []byte{}}} {
		if f, err := NewForwarder(cfg); err == nil {
			t.Errorf("%+v: %v", cfg, f)
		}
	}
	if _, err := New(Config{Core: newRing(t), EdgeSecret: []byte("short")}); err == nil {
		t.Error("a short secret is taken")
	}
	h := func(*fasthttp.RequestCtx, string, bool) {}
	for _, path := range []string{"/elsewhere", "/sync/a?b", "/sync/{x:*}"} {
		if _, err := New(Config{Core: newRing(t), Sync: map[string]SyncHandler{path: h}}); err == nil {
			t.Errorf("%s is followed", path)
		}
	}
}

// What cannot be passed on byte for byte is refused before anything is sent,
// and as what it is: not as a payment whose outcome is unknown.
func TestRequestsThatCannotBePassedOnAreMalformed(t *testing.T) {
	var asked atomic.Int64
	s := edgeTo(t, ForwardConfig{Origin: upstream(t, func(_, _ string) string { asked.Add(1); return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" }),
		Secret: sharedSecret}, Config{})
	for _, c := range []struct{ rule, target, line string }{
		{"a space in a name", "/api/bid", "A b: c"},
		{"a space behind a name", "/api/bid", "A : c"},
		{"no name", "/api/bid", ": c"},
		{"no token", "/api/bid", "A(b): c"},
		{"no colon", "/api/bid", "Abc"},
		{"a folded line", "/api/bid", "A: b\r\n c"},
		{"a folded line like a field", "/api/bid", "A: b\r\n\tC: d"},
		{"a control character in a value", "/api/bid", "A: b\x01c"},
		{"a control character in the target", "/api/bid?\x01", "A: b"},
	} {
		r := s.raw("POST " + c.target + " HTTP/1.1\r\nHost: ring.example\r\nContent-Type: application/json\r\n" + c.line +
			"\r\nAuthorization: Payment x\r\nContent-Length: 2\r\n\r\n{}")
		if r.status != 400 || !strings.Contains(r.body, `"code":"bad_request"`) {
			t.Errorf("%s: %d %s", c.rule, r.status, r.body)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d were passed on", n)
	}
}

// passing is an edge that passes more on than payments.
func passing(t *testing.T, cfg ForwardConfig, shell Config) *site {
	cfg.BaseURL = func() string { return base }
	f, err := NewForwarder(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	shell.Core = newRing(t)
	shell.Paid = map[string]Handler{"/api/bid": f.Paid}
	shell.Others = map[string]Handler{"POST /join": f.Pass, "GET /reports/{id}": f.Pass}
	return serve(t, shell)
}

func TestPagesOfTheOriginAreReadAtEdges(t *testing.T) {
	p := proxies(t, "", "127.0.0.1")
	tell := func(ctx *fasthttp.RequestCtx, client string, secure bool) {
		h := &ctx.Response.Header
		h.Set("Cache-Control", "public, max-age=60")
		h.Set("ETag", `"a"`)
		h.SetContentType("text/html")
		if string(ctx.Request.Header.Peek("If-None-Match")) == `"a"` {
			ctx.SetStatusCode(304)
			return
		}
		fmt.Fprint(ctx, string(ctx.Method()), " ", string(ctx.RequestURI()), " ", client, " ", secure, " ", string(ctx.Request.Body()))
	}
	origin := serve(t, Config{Core: newRing(t), EdgeSecret: sharedSecret, RateLimit: 3,
		Others: map[string]Handler{"POST /join": tell, "GET /reports/{id}": tell}})
	e := passing(t, ForwardConfig{Origin: "http://" + origin.addr, Secret: sharedSecret}, Config{TrustedProxies: p})
	as := func(client string, more ...string) []string {
		return append(more, "X-Forwarded-For", client, "X-Forwarded-Proto", "https")
	}
	// Each client is counted for itself at the origin, readers too.
	for _, client := range []string{"192.0.2.1", "192.0.2.2"} {
		r := e.get("/reports/a%2Db?x=1", as(client)...)
		if want := "GET /reports/a%2Db?x=1 " + client + " true "; r.status != 200 || r.body != want {
			t.Errorf("%d %q, want %q", r.status, r.body, want)
		}
		wantFields(t, r, "Cache-Control", "public, max-age=60", "ETag", `"a"`, "Content-Type", "text/html")
		if r := e.do("HEAD", "/reports/1", "", as(client)...); r.status != 200 || r.body != "" || r.header.Get("Content-Length") == "0" {
			t.Errorf("HEAD: %d %q, length %s", r.status, r.body, r.header.Get("Content-Length"))
		}
		r = e.get("/reports/1", as(client, "If-None-Match", `"a"`)...)
		wantFields(t, r, "ETag", `"a"`)
		if r.status != 304 || r.body != "" {
			t.Errorf("what has not changed: %d %q", r.status, r.body)
		}
		wantProblem(t, e.get("/reports/1", as(client)...), api.RateLimited)
	}
	r := e.do("POST", "/join", "name=a&url=b", as("192.0.2.3", "Content-Type", "application/x-www-form-urlencoded")...)
	if r.body != "POST /join 192.0.2.3 true name=a&url=b" {
		t.Errorf("%d %q", r.status, r.body)
	}
	if r := e.get("/join"); r.status != 200 || !strings.Contains(r.body, `method="post"`) {
		t.Errorf("the form is an edge's own page: %d %q", r.status, r.body)
	}
	wantProblem(t, e.get("/reports/"), api.NotFound)
	wantProblem(t, e.get("/reports/a/b"), api.NotFound)
}

// Whatever the origin answers shows that it is there; what does not come, or may
// come from something before it, shows nothing.
func TestAnAnswerShowsThatTheOriginIsThere(t *testing.T) {
	for _, c := range []struct {
		method, target, answer string
		there                  int64
	}{
		{"POST", "/api/bid", "200 OK", 1},
		{"POST", "/api/bid", "402 Payment Required", 1},
		{"POST", "/api/bid", "502 Bad Gateway", 0},
		{"POST", "/api/bid", "", 0},
		{"POST", "/join", "200 OK", 1},
		{"GET", "/reports/1", "404 Not Found", 1},
		{"GET", "/reports/1", "504 Gateway Timeout", 0},
		{"GET", "/api", "200 OK", 0}, // answered here
	} {
		var there atomic.Int64
		url := upstream(t, func(_, _ string) string {
			if c.answer == "" {
				return ""
			}
			return "HTTP/1.1 " + c.answer + "\r\nContent-Length: 2\r\n\r\n{}"
		})
		e := passing(t, ForwardConfig{Origin: url, Secret: sharedSecret, Answered: func() { there.Add(1) }}, Config{})
		if e.do(c.method, c.target, "{}"); there.Load() != c.there {
			t.Errorf("%s %s %q: heard of %d times", c.method, c.target, c.answer, there.Load())
		}
	}
}

// Whoever reads what only the origin has, has drafts checked there, or asks what is to
// be paid, does not keep payments from it, and gets an answer when it is gone.
func TestWhatIsFreeDoesNotStopPayments(t *testing.T) {
	var reading, checking, asking atomic.Int64
	release := make(chan struct{})
	url := upstream(t, func(head, _ string) string {
		switch {
		case strings.HasPrefix(head, "GET "):
			reading.Add(1)
			<-release
		case strings.HasPrefix(head, "POST /join "):
			checking.Add(1)
			<-release
		case !strings.Contains(head, "Authorization: "):
			asking.Add(1)
			<-release
		}
		return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
	})
	e := passing(t, ForwardConfig{Origin: url, Secret: sharedSecret}, Config{})
	var free sync.WaitGroup
	ask := func(n int, method, target string) {
		for range n {
			free.Go(func() {
				if r := e.do(method, target, ""); r.status != 200 {
					t.Errorf("%s %s: %d %s", method, target, r.status, r.body)
				}
			})
		}
	}
	ask(maxReads, "GET", "/reports/1")
	ask(maxChecks, "POST", "/join")
	ask(MaxAsks, "POST", "/api/bid")
	for late := time.Now().Add(10 * time.Second); (reading.Load() < maxReads || checking.Load() < maxChecks || asking.Load() < MaxAsks) && time.Now().Before(late); time.Sleep(time.Millisecond) {
	}
	if r := e.do("POST", "/api/bid", "{}", "Authorization", "Payment x"); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	var more sync.WaitGroup
	for _, c := range []struct{ method, target string }{{"GET", "/reports/1"}, {"POST", "/join"}, {"POST", "/api/bid"}} {
		more.Go(func() {
			r := e.do(c.method, c.target, "")
			wantProblem(t, r, api.PaymentsUnavailable)
			wantFields(t, r, "Retry-After", "5")
		})
	}
	more.Wait()
	if r, c, a := reading.Load(), checking.Load(), asking.Load(); r != maxReads || c != maxChecks || a != MaxAsks {
		t.Errorf("%d readers, %d checks and %d asks at a time", r, c, a)
	}
	close(release)
	free.Wait()

	lost := passing(t, ForwardConfig{Origin: upstream(t, func(_, _ string) string { return "" }), Secret: sharedSecret}, Config{})
	r := lost.get("/reports/1", "Authorization", "Payment x")
	wantProblem(t, r, api.PaymentsUnavailable)
	wantFields(t, r, "Retry-After", "5")
}
