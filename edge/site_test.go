package edge

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
	"webring/edge/front"
	"webring/wasm/host"
)

const base = "https://ring.example"

// epoch is where test histories begin.
const epoch = 1_760_000_000

// openedRing returns a core of a ring without members.
func openedRing(t testing.TB) *host.Native {
	t.Helper()
	n := host.NewNative(100)
	apply(t, n, coretest.NewStep(&core.Rules{Stamp: epoch * 1000, Name: "Test <Ring>", BaseURL: base, Fee: 100, MinBid: 100,
		Grace: 10, Decay: 1000, Networks: []core.Network{{Name: "tempo:42431", Method: "tempo", Currency: "usd"}}, Scorer: "fixed", RequiredScore: 40}, nil))
	return n
}

// newRing gives a core of three members: an agent "alpha" with a bid, an MCP
// server "beta", a website "gamma".
func newRing(t testing.TB) *host.Native {
	t.Helper()
	n := openedRing(t)
	for i, m := range []struct {
		slug, name string
		kind       core.Kind
		bid        int64
	}{{"alpha", "Alpha & Co", core.Agent, 5000}, {"beta", "Beta", core.MCP, 0}, {"gamma", "Gamma", core.Website, 0}} {
		texts := &core.Texts{Name: core.Text{Value: m.name}, URL: core.Text{Value: "https://" + m.slug + ".example/"}}
		apply(t, n, coretest.NewStep(&core.Joined{Stamp: (epoch+1)*1000 + int64(i), Slug: m.slug, Kind: m.kind, Category: "general",
			Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL), Fee: 100, Bid: m.bid}, texts))
	}
	n.Tick(time.Unix(epoch+2, 0))
	return n
}

func apply(t testing.TB, n *host.Native, s coretest.Step) {
	t.Helper()
	if err := n.Apply([]host.Record{{Event: s.EventBytes, Texts: s.TextBytes}}); err != nil {
		t.Fatal(err)
	}
}

// fakeCore answers with what serve writes, and pages, too, unless that is another function.
type fakeCore struct {
	serve, pages func(target []byte, r *api.Response)
	second       int64
}

func (f *fakeCore) Serve(target []byte, r *api.Response) { f.serve(target, r) }
func (f *fakeCore) ServeAll(targets [][]byte, all []api.Response) {
	serve := f.serve
	if f.pages != nil {
		serve = f.pages
	}
	for i, target := range targets {
		serve(target, &all[i])
	}
}
func (f *fakeCore) Head() (uint64, int64) { return 7, f.second }
func (f *fakeCore) BaseURL() string       { return base }

// documentCore answers everything with one document.
func documentCore(v api.Validity, since, until, second int64, body string) *fakeCore {
	return &fakeCore{second: second, serve: func(_ []byte, r *api.Response) {
		*r = api.Response{Status: 200, Validity: v, Seq: 7, Since: since, Until: until, Body: append(r.Body[:0], body...)}
	}}
}

// handClock is a clock that stands still until it is moved.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *handClock { return &handClock{now: time.Unix(epoch, 0)} }

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// site is a shell that serves on loopback.
type site struct {
	*Shell
	t      testing.TB
	addr   string
	client *http.Client
	served chan error
	log    *syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func serve(t testing.TB, cfg Config) *site {
	t.Helper()
	out := &syncBuffer{}
	cfg.Log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	sh, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return serveShell(t, sh, out)
}

func serveShell(t testing.TB, sh *Shell, out *syncBuffer) *site {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Shell: sh, t: t, addr: ln.Addr().String(), served: make(chan error, 1), log: out}
	s.client = &http.Client{
		Transport:     &http.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       20 * time.Second,
	}
	go func() { s.served <- sh.Serve(ln) }()
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := sh.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return s
}

// reply is a response read to its end.
type reply struct {
	status int
	header http.Header
	body   string
	closed bool // the connection was announced to close
}

// do sends a request; fields alternate names and values.
func (s *site) do(method, target, body string, fields ...string) reply {
	s.t.Helper()
	scheme := "http://"
	if s.tls != nil {
		scheme = "https://"
	}
	req, err := http.NewRequest(method, scheme+s.addr+target, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.finishReply(resp)
}

func (s *site) get(target string, fields ...string) reply {
	s.t.Helper()
	return s.do("GET", target, "", fields...)
}

func (s *site) finishReply(resp *http.Response) reply {
	s.t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(b), resp.Close}
}

// raw sends bytes on a connection of their own, and reads one response.
func (s *site) raw(request string) reply {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	// The server may refuse before it has read all; what it says still counts.
	go io.WriteString(c, request)
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		s.t.Fatalf("%.60q: %v", request, err)
	}
	return s.finishReply(resp)
}

// rawHead sends bytes and reads the header of the response as it was written.
func (s *site) rawHead(request string) string {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		s.t.Fatal(err)
	}
	var head strings.Builder
	for r := bufio.NewReader(c); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			s.t.Fatal(err)
		}
		if head.WriteString(line); line == "\r\n" {
			return head.String()
		}
	}
}

// wantProblem holds a reply to everything that every problem must have.
func wantProblem(t testing.TB, r reply, code api.Code) {
	t.Helper()
	var doc struct {
		Type, Title, Detail, Code string
		Status                    int
	}
	if r.body != "" {
		if err := json.Unmarshal([]byte(r.body), &doc); err != nil {
			t.Errorf("%s: body %.100q: %v", code, r.body, err)
		}
		if doc.Code != string(code) || doc.Status != code.Status() || doc.Title != code.Title() || doc.Detail == "" ||
			doc.Type != base+"/problems/"+string(code) {
			t.Errorf("%s: document %+v", code, doc)
		}
	}
	if r.status != code.Status() {
		t.Errorf("%s: status %d, want %d", code, r.status, code.Status())
	}
	wantFields(t, r, "Content-Type", "application/problem+json", "Cache-Control", "no-store")
	wantCommon(t, r)
}

// wantCommon holds a reply to the fields that every answer has.
func wantCommon(t testing.TB, r reply) {
	t.Helper()
	wantFields(t, r, "Api-Version", "1", "Access-Control-Allow-Origin", "*", "X-Content-Type-Options", "nosniff", "Server", "")
	for _, name := range []string{"ETag", "Link", "Location", "Retry-After", "RateLimit-Limit", "RateLimit-Remaining",
		"RateLimit-Reset", "RateLimit-Policy", "WWW-Authenticate", "Payment-Receipt", "PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "Api-Version", "X-Request-Id"} {
		if !strings.Contains(r.header.Get("Access-Control-Expose-Headers"), name) {
			t.Errorf("%s is not exposed to scripts", name)
		}
	}
	if ids := r.header.Values("X-Request-Id"); len(ids) != 1 || !front.ValidID([]byte(ids[0])) {
		t.Errorf("status %d: the request's ids are %q", r.status, ids)
	}
}

func wantFields(t testing.TB, r reply, fields ...string) {
	t.Helper()
	for i := 0; i < len(fields); i += 2 {
		if got := strings.Join(r.header.Values(fields[i]), " | "); got != fields[i+1] {
			t.Errorf("status %d: %s: %q, want %q", r.status, fields[i], got, fields[i+1])
		}
	}
}

// proxies gives trusted ones that name their client in a field, "" for the usual one.
func proxies(t testing.TB, field string, words ...string) front.Proxies {
	t.Helper()
	p, err := front.ParseProxies(words)
	if err == nil && field != "" {
		err = p.NameClientsIn(field)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// peerConn is a connection from an address.
type peerConn struct {
	net.Conn
	remote net.Addr
}

func (c peerConn) RemoteAddr() net.Addr { return c.remote }
