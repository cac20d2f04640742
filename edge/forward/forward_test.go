package forward

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge"
	"webring/edge/edgetest"
	"webring/edge/voucher"
)

// answering takes requests off the wire as they come and answers each with what
// answer gives; nothing ends the connection instead.
func answering(t *testing.T, answer func(head, body string) string) (url string) {
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

func edgeTo(t *testing.T, cfg Config, shell edge.Config) *site {
	t.Helper()
	cfg.BaseURL = func() string { return base }
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	shell.Core = newRing(t)
	shell.Paid = map[string]edge.Handler{"/api/register": f.Paid, "/api/bid": f.Paid, "DELETE /api/ring/{slug}": f.Paid}
	return serve(t, shell)
}

func TestForwardedRequestsTravelByteForByte(t *testing.T) {
	var head, body string
	url := answering(t, func(h, b string) string {
		head, body = h, b
		return "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nPayment-Receipt: a=b, c\r\nWWW-Authenticate: Payment x\r\nWWW-Authenticate: Payment y\r\n" +
			"RateLimit-Limit: 7\r\nCache-Control: private\r\nContent-Length: 4\r\n\r\n{ä}"
	})
	s := edgeTo(t, Config{Origins: []string{url}, Secrets: sharedSecrets, TrustedProxies: proxies(t, "X-Asker")}, edge.Config{RateLimit: 50})
	sent := "{\"name\" :\t\"ä\\u0000\"}\n\n"
	r := s.Raw("POST /api/register?x=%41%2f&y HTTP/1.1\r\nHost: ring.example\r\ncontent-type:  application/json ;charset=UTF-8\r\n" +
		"Authorization: Payment eyJ+/=  , x\r\nIdempotency-Key: \"k 1\"\r\nX-Request-Id: as-sent.1\r\nAccept-Payment: a;q=0.5\r\naccept-payment: b\r\nCookie: a=b;;c ; d\r\n" +
		"X-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nVia: 1.1 x\r\nx-asker: 1.2.3.4\r\nCF-Connecting-IP: 1.2.3.4\r\nWebring-Edge: forged\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\n" +
		"Content-Length: " + fmt.Sprint(len(sent)) + "\r\n\r\n" + sent)
	if r.Status != 201 || r.Body != "{ä}" {
		t.Errorf("answer: %d %q", r.Status, r.Body)
	}
	wantFields(t, r, "Payment-Receipt", "a=b, c", "Www-Authenticate", "Payment x | Payment y", "Cache-Control", "private", "RateLimit-Limit", "50", "Content-Type", "application/json",
		"Api-Version", "1", "Access-Control-Allow-Origin", "*", "X-Content-Type-Options", "nosniff")
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
		"Authorization: Payment eyJ+/=  , x", "Content-Type: application/json ;charset=UTF-8", "Cookie: a=b;;c ; d", "Idempotency-Key: \"k 1\"", "X-Request-Id: as-sent.1"}
	slices.Sort(lines)
	slices.Sort(want)
	if !slices.Equal(lines, want) {
		t.Errorf("fields\n%q, want\n%q", lines, want)
	}
}

func TestTheOriginSeesWhoStandsBehindEdges(t *testing.T) {
	p := proxies(t, "", "127.0.0.1")
	origin := serve(t, edge.Config{Core: newRing(t), EdgeSecrets: sharedSecrets, Paid: map[string]edge.Handler{"/api/bid": tellSender}})
	inner := edgeTo(t, Config{Origins: []string{"http://" + origin.Addr}, Secrets: sharedSecrets}, edge.Config{EdgeSecrets: sharedSecrets})
	outer := edgeTo(t, Config{Origins: []string{"http://" + inner.Addr}, Secrets: sharedSecrets}, edge.Config{EdgeSecrets: sharedSecrets, TrustedProxies: p})
	for _, c := range []struct{ address, proto, want string }{
		{"192.0.2.7", "https", "192.0.2.7 true"},
		{"2001:db8::7", "http", "2001:db8::/64 false"},
		{"unknown", "https", "behind 127.0.0.1 true"},
	} {
		if r := outer.Do("POST", "/api/bid", "{}", "X-Forwarded-For", c.address, "X-Forwarded-Proto", c.proto); r.Body != c.want {
			t.Errorf("%q, want %q", r.Body, c.want)
		}
	}
	if r := inner.Do("POST", "/api/bid", "{}"); r.Body != "127.0.0.1 true" {
		t.Errorf("%q", r.Body)
	}
}

func TestWithoutASecretInsecureRequestsStayHere(t *testing.T) {
	origin := serve(t, edge.Config{Core: newRing(t), Paid: map[string]edge.Handler{"/api/bid": tellSender}})
	s := edgeTo(t, Config{Origins: []string{"http://" + origin.Addr}}, edge.Config{})
	wantProblem(t, s.Do("POST", "/api/bid", "{}", "Via", "1.1 x"), api.TLSRequired)
	if r := s.Do("POST", "/api/bid", "{}"); r.Body != "127.0.0.1 true" {
		t.Errorf("%q", r.Body)
	}
}

func TestNothingCanBePaidWithoutTheOrigin(t *testing.T) {
	var asked atomic.Int64
	lost := answering(t, func(_, _ string) string { asked.Add(1); return "" })
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
	away := "http://127.0.0.1:1" // a port that was closed may be another test's by now
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
		s := edgeTo(t, Config{Origins: []string{c.origin}, Secrets: sharedSecrets}, edge.Config{})
		fields := []string{"Idempotency-Key", "k"} // for which some transports would try again
		for _, line := range c.credentials {
			fields = append(fields, "Authorization", line)
		}
		r := s.Do("POST", "/api/bid", "{}", fields...)
		wantProblem(t, r, c.code)
		wantFields(t, r, "Retry-After", "5")
		if n := asked.Load(); n > 1 || (n > 0) != c.sent || strings.Contains(r.Body, "not delivered") == c.sent {
			t.Errorf("%q at %s: sent %d times: %s", c.credentials, c.origin, n, r.Body)
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
		s := edgeTo(t, Config{Origins: []string{answering(t, answer(c.status, c.seq))}, Secrets: sharedSecrets, Reach: func(ctx context.Context, seq uint64) bool {
			asked = append(asked, seq)
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 2*time.Second {
				t.Errorf("%s: it may wait until %v", c.rule, deadline)
			}
			return c.reached
		}}, edge.Config{})
		r := s.Do("POST", "/api/bid", "{}")
		if r.Body != "{}" || !slices.Equal(asked, c.asked) {
			t.Errorf("%s: %d %q, asked for %d", c.rule, r.Status, r.Body, asked)
		}
		wantFields(t, r, "Webring-Stale", c.stale, "Webring-Seq", c.seq)
	}
}

// A request without a body, on a connection that the origin has closed meanwhile, is one
// that Go's client would send again.
func TestALeaveIsNeverSentTwice(t *testing.T) {
	var mu sync.Mutex
	var heads []string
	s := edgeTo(t, Config{Origins: []string{answering(t, func(head, _ string) string {
		mu.Lock()
		defer mu.Unlock()
		if heads = append(heads, head); len(heads) > 1 {
			return ""
		}
		return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	})}, Secrets: sharedSecrets}, edge.Config{})
	fields := []string{"Authorization", "Payment x", "Idempotency-Key", "a-key-of-sixteen-characters"}
	if r := s.Do("DELETE", "/api/ring/beta", "", fields...); r.Status != 200 {
		t.Fatal(r.Status, r.Body)
	}
	wantProblem(t, s.Do("DELETE", "/api/ring/beta", "", fields...), api.PaymentPending)
	mu.Lock()
	defer mu.Unlock()
	if len(heads) != 2 || strings.Contains(heads[1], "Transfer-Encoding") {
		t.Errorf("the origin got %q", heads)
	}
}

func TestForwardersNeedOriginsThatAreURLsAndALongSecret(t *testing.T) {
	for _, cfg := range []Config{{Origins: []string{"ring.example"}}, {Origins: []string{"http://x", "ftp://x"}}, {Origins: []string{"http://x"}, Secrets: new(voucher.Secrets)}, {ToLeader: true}} {
		if f, err := New(cfg); err == nil {
			t.Errorf("%+v: %v", cfg, f)
		}
	}
}

// The origin is told the one id under which this node answers, whatever the client has
// sent and whatever the origin calls it.
func TestOneRequestIDStandsInTheLogsOfAllNodes(t *testing.T) {
	var head string
	s := edgeTo(t, Config{Origins: []string{answering(t, func(h, _ string) string {
		head = h
		return "HTTP/1.1 200 OK\r\nX-Request-Id: the-origins\r\nContent-Length: 0\r\n\r\n"
	})}, Secrets: sharedSecrets}, edge.Config{})
	for _, c := range []struct{ fields, want string }{
		{"", ""},
		{"X-Request-Id: my-request\r\n", "my-request"},
		{"X-Request-Id: no\r\nX-Request-Id: my-request\r\n", ""},
		{"X-Request-Id: a b c d e f g\r\n", ""},
		{"Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n", "4bf92f3577b34da6a3ce929d0e0e4736"},
	} {
		r := s.Raw("POST /api/bid HTTP/1.1\r\nHost: x\r\n" + c.fields + "Content-Length: 2\r\n\r\n{}")
		got := r.Header.Values("X-Request-Id")
		if len(got) != 1 || c.want != "" && got[0] != c.want || strings.Count(head, "X-Request-Id") != 1 || !strings.Contains(head, "X-Request-Id: "+got[0]+"\r\n") {
			t.Errorf("%q: the answer has %q, and the origin got %q", c.fields, got, head)
		}
	}
}

// What cannot be passed on byte for byte is refused before anything is sent,
// and as what it is: not as a payment without a known outcome.
func TestRequestsThatCannotBePassedOnAreMalformed(t *testing.T) {
	var asked atomic.Int64
	s := edgeTo(t, Config{Origins: []string{answering(t, func(_, _ string) string { asked.Add(1); return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" })},
		Secrets: sharedSecrets}, edge.Config{})
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
		r := s.Raw("POST " + c.target + " HTTP/1.1\r\nHost: ring.example\r\nContent-Type: application/json\r\n" + c.line +
			"\r\nAuthorization: Payment x\r\nContent-Length: 2\r\n\r\n{}")
		if r.Status != 400 || !strings.Contains(r.Body, `"code":"bad_request"`) {
			t.Errorf("%s: %d %s", c.rule, r.Status, r.Body)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d were passed on", n)
	}
}

// passing is an edge that passes more on than payments.
func passing(t *testing.T, cfg Config, shell edge.Config) *site {
	cfg.BaseURL = func() string { return base }
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	shell.Core = newRing(t)
	shell.Paid = map[string]edge.Handler{"/api/bid": f.Paid}
	shell.Others = map[string]edge.Handler{"POST /join": f.Pass, "GET /reports/{id}": f.Pass}
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
	origin := serve(t, edge.Config{Core: newRing(t), EdgeSecrets: sharedSecrets, RateLimit: 3,
		Others: map[string]edge.Handler{"POST /join": tell, "GET /reports/{id}": tell}})
	e := passing(t, Config{Origins: []string{"http://" + origin.Addr}, Secrets: sharedSecrets}, edge.Config{TrustedProxies: p})
	as := func(client string, more ...string) []string {
		return append(more, "X-Forwarded-For", client, "X-Forwarded-Proto", "https")
	}
	// Each client is counted for itself at the origin, readers too.
	for _, client := range []string{"192.0.2.1", "192.0.2.2"} {
		r := e.Get("/reports/a%2Db?x=1", as(client)...)
		if want := "GET /reports/a%2Db?x=1 " + client + " true "; r.Status != 200 || r.Body != want {
			t.Errorf("%d %q, want %q", r.Status, r.Body, want)
		}
		wantFields(t, r, "Cache-Control", "public, max-age=60", "ETag", `"a"`, "Content-Type", "text/html")
		if r := e.Do("HEAD", "/reports/1", "", as(client)...); r.Status != 200 || r.Body != "" || r.Header.Get("Content-Length") == "0" {
			t.Errorf("HEAD: %d %q, length %s", r.Status, r.Body, r.Header.Get("Content-Length"))
		}
		r = e.Get("/reports/1", as(client, "If-None-Match", `"a"`)...)
		wantFields(t, r, "ETag", `"a"`)
		if r.Status != 304 || r.Body != "" {
			t.Errorf("what has not changed: %d %q", r.Status, r.Body)
		}
		wantProblem(t, e.Get("/reports/1", as(client)...), api.RateLimited)
	}
	r := e.Do("POST", "/join", "name=a&url=b", as("192.0.2.3", "Content-Type", "application/x-www-form-urlencoded")...)
	if r.Body != "POST /join 192.0.2.3 true name=a&url=b" {
		t.Errorf("%d %q", r.Status, r.Body)
	}
	if r := e.Get("/join?draft=e30", as("192.0.2.3")...); r.Body != "GET /join?draft=e30 192.0.2.3 true " {
		t.Errorf("a checked draft: %d %q", r.Status, r.Body)
	}
	if r := e.Get("/join"); r.Status != 200 || !strings.Contains(r.Body, `method="post"`) {
		t.Errorf("the form is an edge's own page: %d %q", r.Status, r.Body)
	}
	wantProblem(t, e.Get("/reports/"), api.NotFound)
	wantProblem(t, e.Get("/reports/a/b"), api.NotFound)
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
		url := answering(t, func(_, _ string) string {
			if c.answer == "" {
				return ""
			}
			return "HTTP/1.1 " + c.answer + "\r\nContent-Length: 2\r\n\r\n{}"
		})
		e := passing(t, Config{Origins: []string{url}, Secrets: sharedSecrets, Answered: func() { there.Add(1) }}, edge.Config{})
		if e.Do(c.method, c.target, "{}"); there.Load() != c.there {
			t.Errorf("%s %s %q: heard of %d times", c.method, c.target, c.answer, there.Load())
		}
	}
}

// Whoever reads what only the origin has, has drafts checked there, or asks what is to
// be paid, does not keep payments from it, and gets an answer when it is gone.
func TestWhatIsFreeDoesNotStopPayments(t *testing.T) {
	var reading, checking, asking atomic.Int64
	release := make(chan struct{})
	url := answering(t, func(head, _ string) string {
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
	e := passing(t, Config{Origins: []string{url}, Secrets: sharedSecrets}, edge.Config{TrustedProxies: proxies(t, "", "127.0.0.1")})
	var free sync.WaitGroup
	ask := func(n int, method, target string) {
		for i := range n {
			free.Go(func() {
				// One client gets no more than its share.
				if r := e.Do(method, target, "", "X-Forwarded-For", fmt.Sprintf("100.%d.0.1", i)); r.Status != 200 {
					t.Errorf("%s %s: %d %s", method, target, r.Status, r.Body)
				}
			})
		}
	}
	ask(maxReads, "GET", "/reports/1")
	ask(maxChecks, "POST", "/join")
	ask(MaxAsks, "POST", "/api/bid")
	for late := time.Now().Add(10 * time.Second); (reading.Load() < maxReads || checking.Load() < maxChecks || asking.Load() < MaxAsks) && time.Now().Before(late); time.Sleep(time.Millisecond) {
	}
	if r := e.Do("POST", "/api/bid", "{}", "Authorization", "Payment x"); r.Status != 200 {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	var more sync.WaitGroup
	for _, c := range []struct {
		method, target string
		code           api.Code
	}{{"GET", "/reports/1", api.OriginUnavailable}, {"POST", "/join", api.OriginUnavailable}, {"POST", "/api/bid", api.PaymentsUnavailable}} {
		more.Go(func() {
			r := e.Do(c.method, c.target, "")
			wantProblem(t, r, c.code)
			wantFields(t, r, "Retry-After", "5")
		})
	}
	more.Wait()
	if r, c, a := reading.Load(), checking.Load(), asking.Load(); r != maxReads || c != maxChecks || a != MaxAsks {
		t.Errorf("%d readers, %d checks and %d asks at a time", r, c, a)
	}
	close(release)
	free.Wait()

	lost := passing(t, Config{Origins: []string{answering(t, func(_, _ string) string { return "" })}, Secrets: sharedSecrets}, edge.Config{})
	r := lost.Get("/reports/1", "Authorization", "Payment x")
	wantProblem(t, r, api.OriginUnavailable)
	wantFields(t, r, "Retry-After", "5")
}

// An edge passes on the bytes that came, which the voucher and the challenge are about;
// what it can refuse by itself it does not.
func TestCodedBodiesAreForwardedAsTheyCame(t *testing.T) {
	origin := serve(t, edge.Config{Core: newRing(t), EdgeSecrets: sharedSecrets, Paid: map[string]edge.Handler{"/api/bid": func(ctx *fasthttp.RequestCtx, client string, secure bool) {
		fmt.Fprintf(ctx, "%s %q %x %s", client, ctx.Request.Header.Peek("Content-Encoding"), ctx.Request.Body(), edge.Body(ctx))
	}}})
	e := edgeTo(t, Config{Origins: []string{"http://" + origin.Addr}, Secrets: sharedSecrets}, edge.Config{})
	for coding, coded := range map[string]string{"gzip": edgetest.Gzipped(t, "{ }"), "zstd": edgetest.Zstded(t, "{ }")} {
		r := e.Do("POST", "/api/bid", coded, "Content-Encoding", coding)
		if want := fmt.Sprintf("127.0.0.1 %q %x { }", coding, coded); r.Status != 200 || r.Body != want {
			t.Errorf("%s: %d %s, want %s", coding, r.Status, r.Body, want)
		}
	}
	wantProblem(t, e.Do("POST", "/api/bid", "{}", "Content-Encoding", "br"), api.UnsupportedEncoding)
	wantProblem(t, e.Do("POST", "/api/bid", "{}", "Content-Encoding", "gzip"), api.InvalidRequest)
}

// A payment that is paid through an edge is held as long as the origin can hold
// it, which is the five minutes of a challenge and ten seconds. An origin that is
// silent for longer is given up, and the payer told to ask again and not to pay.
func TestAForwardedPaymentIsHeldAsLongAsTheOriginHoldsIt(t *testing.T) {
	outside(t)
	for _, c := range []struct {
		rule   string
		silent time.Duration
		status int
		after  time.Duration
	}{
		{"it answers at last", 310 * time.Second, 200, 310 * time.Second},
		{"it says nothing", time.Hour, 503, 330 * time.Second},
	} {
		t.Run(c.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				origin := newPipes()
				var asked atomic.Int64
				go answerAll(origin, func(*http.Request) (int, string, string) {
					asked.Add(1)
					time.Sleep(c.silent)
					return 200, "application/json", "{}"
				})
				f, err := New(Config{Origins: []string{"http://origin.example"}, Secrets: sharedSecrets, BaseURL: func() string { return base }, Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				f.transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return origin.Dial() }
				began := time.Now()
				conn := inMemory(t, f.Paid)
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				if err != nil || res.StatusCode != c.status || time.Since(began) != c.after || asked.Load() != 1 {
					t.Errorf("%d %s after %s, %v; asked %d times", res.StatusCode, body, time.Since(began), err, asked.Load())
				}
				if c.status == 503 && (!strings.Contains(string(body), string(api.PaymentPending)) || res.Header.Get("Retry-After") != "5" || res.Header.Get("WWW-Authenticate") != "") {
					t.Errorf("%s %v", body, res.Header)
				}
				conn.Close()
				f.Close()
				origin.Close()
			})
		})
	}
}

// The origin may not know this node, and then gives it what one client has.
func TestAForwarderNeedsNoMoreConnectionsThanAClientHas(t *testing.T) {
	if n := MaxPayments + MaxAsks + maxChecks + maxReads + maxOwn; mostConns-n < 12 || mostConns >= othersPerClient {
		t.Errorf("%d requests, with %d connections", n, mostConns)
	}
}
