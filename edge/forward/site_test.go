package forward

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
	"webring/edge"
	"webring/edge/front"
	"webring/edge/voucher"
	"webring/wasm/host"
)

const base = "https://ring.example"

var (
	sharedSecret     = bytes.Repeat([]byte{7}, 32)
	sharedSecrets, _ = voucher.NewSecrets(sharedSecret)
)

// newRing returns a core of a ring without members.
func newRing(t testing.TB) *host.Native {
	t.Helper()
	n := host.NewNative(100)
	s := coretest.NewStep(&core.Rules{Stamp: 1_760_000_000_000, Name: "Ring", BaseURL: base, Fee: 100, MinBid: 100,
		Grace: 10, Decay: 1000, Networks: []core.Network{{Name: "tempo:42431", Method: "tempo", Currency: "usd"}}, Scorer: "fixed", RequiredScore: 40}, nil)
	if err := n.Apply([]host.Record{{Event: s.EventBytes, Texts: s.TextBytes}}); err != nil {
		t.Fatal(err)
	}
	return n
}

// site is a shell that serves on loopback.
type site struct {
	t      testing.TB
	addr   string
	client *http.Client
}

func serve(t testing.TB, cfg edge.Config) *site {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	sh, err := edge.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, addr: ln.Addr().String(), client: &http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: 20 * time.Second}}
	go sh.Serve(ln)
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
	req, err := http.NewRequest(method, "http://"+s.addr+target, strings.NewReader(body))
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

// pipes are a listener and its dialer in memory, so that hours pass at once in a
// bubble of package synctest.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) dial() (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.ended:
	default:
		close(p.ended)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// inMemory has a shell with a handler of payments serve in a bubble, and sends it
// a payment. The connection is the caller's to close.
func inMemory(t *testing.T, paid edge.Handler) net.Conn {
	t.Helper()
	shell, err := edge.New(edge.Config{Core: newRing(t), Paid: map[string]edge.Handler{"/api/bid": paid}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	public := newPipes()
	go shell.Serve(public)
	t.Cleanup(func() {
		if err := shell.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Hour) // for what runs on by itself
	})
	conn, err := public.dial()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "POST /api/bid HTTP/1.1\r\nHost: ring.example\r\nContent-Type: application/json\r\nAuthorization: Payment x\r\nContent-Length: 2\r\n\r\n{}")
	return conn
}

// outside has fasthttp start what it starts once, for all servers of the process:
// that is no part of a bubble.
func outside(t *testing.T) {
	serve(t, edge.Config{Core: newRing(t), Paid: map[string]edge.Handler{"/api/bid": tellSender}}).do("POST", "/api/bid", "{}")
}

// tellSender answers with the sender that the request is attributed to.
func tellSender(ctx *fasthttp.RequestCtx, client string, secure bool) {
	fmt.Fprint(ctx, client, " ", secure)
	if v := ctx.Request.Header.Peek(voucher.Field); v != nil {
		fmt.Fprintf(ctx, " and the voucher %s", v)
	}
}

func gzipped(t testing.TB, body string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// zstded compresses a body of unknown length, with a window of 8 MiB.
func zstded(t testing.TB, body string) string {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(8<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(body, "\n") { // in pieces, so that no length can be named
		if _, err := io.WriteString(w, part); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
