package edge

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"webring/core/api"
	"webring/edge/edgetest"
	"webring/edge/forward"
	"webring/edge/front"
	"webring/templates"
)

func readReply(t *testing.T, s *site, c net.Conn) reply {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.Read(resp)
}

func TestSlowRequestsTimeOut(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), ReadTimeout: 100 * time.Millisecond, RateLimit: 9, Paid: map[string]Handler{"/api/bid": paidOK}})
	for _, part := range []string{
		"",
		"GET /api HT",
		"GET /api HTTP/1.1\r\nHost: x\r\n",
		"POST /api/bid HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc",
		"POST /api/bid HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
	} {
		c := s.Dial()
		io.WriteString(c, part)
		r := readReply(t, s, c)
		wantProblem(t, r, api.RequestTimeout)
		// What was never asked is not counted.
		wantFields(t, r, "RateLimit-Remaining", "9")
		if !r.Closed {
			t.Errorf("%q: the connection stays open", part)
		}
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), IdleTimeout: 50 * time.Millisecond})
	c := s.Dial()
	io.WriteString(c, "HEAD /api HTTP/1.1\r\nHost: x\r\n\r\n")
	b, err := io.ReadAll(c) // until the server closes
	if err != nil || strings.Count(string(b), "HTTP/1.1") != 1 {
		t.Errorf("%q, %v", b, err)
	}
}

func TestClientsThatDoNotReadAreLetGo(t *testing.T) {
	body := `"` + strings.Repeat("x", 64<<20) + `"`
	s := serve(t, Config{Core: documentCore(api.Position, 0, 0, 0, body), WriteTimeout: 50 * time.Millisecond})
	c := s.Dial()
	io.WriteString(c, "GET /api/ring HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	gone := false
	for range 1000 {
		if gone = s.fast.Open() == 0 && s.server.GetCurrentConcurrency() == 0; gone {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	b, _ := io.ReadAll(c)
	if !gone || len(b) == 0 || len(b) >= len(body) {
		t.Errorf("let go: %v; %d bytes of %d arrived", gone, len(b), len(body))
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	c := s.Dial()
	io.WriteString(c, strings.Repeat("GET /next?from=alpha HTTP/1.1\r\nHost: x\r\n\r\nGET /api/ring/beta HTTP/1.1\r\nHost: x\r\n\r\n", 20))
	r := bufio.NewReader(c)
	for i := range 40 {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := s.Read(resp).Status, []int{302, 200}[i%2]; got != want {
			t.Errorf("answer %d: status %d", i, got)
		}
	}
}

// Bytes behind a body in chunks are no request, even if a proxy counted the body otherwise,
// and whatever becomes of the request before them.
func TestNothingIsTakenFromBehindChunks(t *testing.T) {
	gone, err := forward.New(forward.Config{Origins: []string{"http://127.0.0.1:1"}, BaseURL: func() string { return base }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Core:        newRing(t),
		Paid:        map[string]Handler{"/api/bid": paidOK, "/api/register": gone.Paid},
		Others:      map[string]Handler{"GET /reports/{id}": gone.Pass, "POST /panics": func(*fasthttp.RequestCtx, string, bool) { panic("broken invariant") }},
		Check:       func(context.Context, string, templates.Draft) templates.Checked { return templates.Checked{} },
		IdleTimeout: time.Second, // for what should have been closed
	}
	lavish := serve(t, cfg)
	cfg.RateLimit = 1
	strict := serve(t, cfg)
	strict.Get("/api")
	const asJSON = "Content-Type: application/json\r\n"
	for _, c := range []struct {
		s             *site
		first, fields string
		status        int
		code          api.Code
	}{
		{lavish, "POST /api/bid", "", 200, ""},
		{lavish, "OPTIONS /api/bid", "", 204, ""},
		{lavish, "GET /next", "", 302, ""},
		{lavish, "GET /ring", "", 200, ""},
		{lavish, "POST /join", "Content-Type: " + formType + "\r\n", 303, ""},
		{lavish, "POST /mcp", asJSON + "Accept: application/json, text/event-stream\r\n", 400, ""},
		{lavish, "POST /api/bid", "Api-Version: 2\r\n", 400, api.UnsupportedAPIVersion},
		{lavish, "GET /api#x", "", 400, api.Malformed},
		{lavish, "GET /api/ring?limit=x", "", 400, api.InvalidParameter},
		{lavish, "POST /nowhere", "", 404, api.NotFound},
		{lavish, "OPTIONS /nowhere", "", 404, api.NotFound},
		{lavish, "GET /api/ring/nobody", "", 404, api.UnknownMember},
		{lavish, "DELETE /api/bid", "", 405, api.MethodNotAllowed},
		{lavish, "POST /api/bid", "Content-Type: text/plain\r\n", 422, api.InvalidRequest},
		{lavish, "POST /join", asJSON, 422, api.InvalidRequest},
		{lavish, "POST /mcp", "Content-Type: text/plain\r\n", 422, api.InvalidRequest},
		{lavish, "POST /mcp", asJSON + "Origin: nowhere\r\n", 403, api.OriginNotAllowed},
		{lavish, "POST /panics", "", 500, api.Internal},
		{lavish, "POST /api/register", "Via: 1.1 x\r\n", 403, api.TLSRequired},
		{lavish, "POST /api/register", "A: b\r\n c\r\n", 400, api.Malformed},
		{lavish, "POST /api/register", "", 503, api.PaymentsUnavailable},
		{lavish, "GET /reports/1", "", 503, api.OriginUnavailable},
		{strict, "POST /api/bid", "", 429, api.RateLimited},
		{strict, "GET /next", "", 429, api.RateLimited},
	} {
		for _, length := range []string{"transfer-encoding:chunked\r\n", "transfer-encoding:chunked\r\nContent-Length: 5\r\n",
			"transfer-encoding:chunked\r\nContent-Length: 60\r\n", "Transfer-Encoding:\r\n chunked\r\n"} {
			if c.status == 503 && strings.Contains(length, "\n ") {
				c.status, c.code = 400, api.Malformed // as every folded line that would have to be passed on
			}
			conn := c.s.Dial()
			io.WriteString(conn, c.first+" HTTP/1.1\r\nHost: ring.example\r\n"+c.fields+length+"\r\n0\r\n\r\nGET /next HTTP/1.1\r\nHost: x\r\n\r\n")
			r := bufio.NewReader(conn)
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := c.s.Read(resp)
			if got.Status != c.status || !strings.Contains(got.Body, string(c.code)) || !got.Closed {
				t.Errorf("%s with %q and %q: status %d, closed %v: %.300s", c.first, c.fields, length, got.Status, got.Closed, got.Body)
			}
			if b, err := io.ReadAll(r); len(b) > 0 || err != nil {
				t.Errorf("%s with %q and %q: %q, %v", c.first, c.fields, length, b, err)
			}
		}
	}
}

// A proxy sets the header. A trailer comes from the proxy's client, so it names no client.
func TestATrailerIsNoWordOfAProxy(t *testing.T) {
	tell := func(ctx *fasthttp.RequestCtx, client string, secure bool) { fmt.Fprint(ctx, client, " ", secure) }
	for _, c := range []struct{ header, trailer, want string }{
		{"Forwarded: for=192.0.2.1;proto=http\r\n", "", "192.0.2.1 false"},
		{"Forwarded: for=192.0.2.1;proto=http\r\n", "Forwarded: for=198.51.100.7;proto=https\r\n", "192.0.2.1 false"},
		{"forwarded: for=192.0.2.9\r\nForwarded: for=192.0.2.1;proto=https\r\n", "forwarded: for=198.51.100.7\r\nX: y\r\n", "192.0.2.1 true"},
		{"", "Forwarded: for=198.51.100.7;proto=https\r\n", "127.0.0.1 false"},
		{"A: b\r\n\tForwarded: x\r\nForwarded: for=192.0.2.1;proto=http\r\n", "Forwarded: for=198.51.100.7;proto=https\r\n", "192.0.2.1 false"},
		{"CF-Connecting-IP: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n", "CF-Connecting-IP: 198.51.100.7\r\n", "192.0.2.1 true"},
		{"", "CF-Connecting-IP: 198.51.100.7\r\n", "127.0.0.1 false"},
	} {
		field, _, _ := strings.Cut(c.trailer, ":")
		if field == "" {
			field = "Forwarded"
		}
		s := serve(t, Config{Core: documentCore(api.Position, 0, 0, epoch, "{}"), TrustedProxies: proxies(t, field, "127.0.0.1"), Paid: map[string]Handler{"/api/bid": tell}})
		r := s.Raw("POST /api/bid HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n" + c.header + "\r\n2\r\n{}\r\n0\r\n" + c.trailer + "\r\n")
		if r.Body != c.want {
			t.Errorf("%q and %q behind the body: %s, want %s", c.header, c.trailer, r.Body, c.want)
		}
	}
}

// A trailer that cannot be read to its end names no client either: the request counts for
// the client that the proxy names, as any other does.
func TestABrokenTrailerIsChargedToWhoSentIt(t *testing.T) {
	const sender, other = "192.0.2.1", "198.51.100.7"
	for field, as := range map[string]string{"Forwarded": "Forwarded: for=", "X-Forwarded-For": "X-Forwarded-For: "} {
		for _, trailer := range []string{
			"Forwarded: for=" + other + "\r\nHost: x\r\n",
			"Forwarded: for=" + other + "\r\nno field\r\n",
			"X-Forwarded-For: " + other + "\r\n",
			"no field\r\nForwarded: for=" + other + "\r\n",
		} {
			s := serve(t, Config{Core: newRing(t), RateLimit: 9, Now: newClock().Now, TrustedProxies: proxies(t, field, "127.0.0.1")})
			r := s.Raw("POST /api/bid HTTP/1.1\r\nHost: x\r\n" + as + sender + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + trailer + "\r\n")
			wantProblem(t, r, api.Malformed)
			wantFields(t, r, "RateLimit-Remaining", "8")
			for who, left := range map[string]string{sender: "7", other: "8", "": "89"} {
				if who != "" {
					who = as + who + "\r\n"
				}
				r := s.Raw("GET /api HTTP/1.1\r\nHost: x\r\n" + who + "\r\n")
				if got := r.Header.Get("RateLimit-Remaining"); got != left {
					t.Errorf("%s and %q behind the body: %q has %s left, want %s", field, trailer, who, got, left)
				}
			}
		}
	}
}

func TestShutdownWaitsForARequestInWork(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
		close(entered)
		<-release
		ctx.SetBodyString("settled")
	}}})
	idle := s.Dial()
	io.WriteString(idle, "GET /api HTTP/1.1\r\nHost: x\r\n\r\n")
	readReply(t, s, idle)

	held := s.Dial()
	io.WriteString(held, "POST /api/bid HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	<-entered

	short, cancel := context.WithTimeout(context.Background(), 150*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown beside a held request: %v", err)
	}
	if err := <-s.Served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if c, err := net.Dial("tcp", s.Addr); err == nil {
		c.Close()
		t.Error("connections are still accepted")
	}
	if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("idle connection: %v", err)
	}

	done := make(chan error)
	go func() { done <- s.Shutdown(context.Background()) }()
	close(release)
	if r := readReply(t, s, held); r.Body != "settled" {
		t.Errorf("the held request got %d %q", r.Status, r.Body)
	}
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

func TestServeAfterShutdownFails(t *testing.T) {
	s, err := New(Config{Core: newRing(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	ln := fasthttputil.NewInmemoryListener()
	if err := s.Serve(ln); !errors.Is(err, ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
	if _, err := ln.Dial(); err == nil {
		t.Error("the listener is open")
	}
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestTLSIsSecureAndSpeaksHTTP1(t *testing.T) {
	cfg := Config{Core: newRing(t),
		TLS: &tls.Config{Certificates: []tls.Certificate{certificate(t)}, NextProtos: []string{"h2", "http/1.1"}},
		Paid: map[string]Handler{"/api/bid": func(ctx *fasthttp.RequestCtx, _ string, secure bool) {
			fmt.Fprint(ctx, secure)
		}}}
	s := serve(t, cfg)
	if r := s.Do("POST", "/api/bid", "{}", "X-Forwarded-Proto", "http"); r.Body != "true" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	wantProblem(t, s.Do("POST", "/api/bid", strings.Repeat("x", MaxBody+1)), api.BodyTooLarge)
	c, err := tls.Dial("tcp", s.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if p := c.ConnectionState().NegotiatedProtocol; p != "http/1.1" {
		t.Errorf("negotiated %q", p)
	}
	// A handshake that never comes holds no connection for ever.
	cfg.ReadTimeout = 50 * time.Millisecond
	silent := serve(t, cfg).Dial()
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("an answer to nothing")
	} else if n, ok := err.(net.Error); ok && n.Timeout() {
		t.Error("the connection was kept")
	}
}

// listenerOf gives connections that claim to come from these addresses.
type listenerOf struct {
	conns  chan net.Conn
	errs   []error
	closed chan struct{}
}

func (l *listenerOf) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, err
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *listenerOf) Close() error   { close(l.closed); return nil }
func (l *listenerOf) Addr() net.Addr { return &net.TCPAddr{} }

// connect hands a connection from addr to the listener.
func (l *listenerOf) connect(addr string) net.Conn {
	client, server := net.Pipe()
	l.conns <- peerConn{server, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 4711))}
	return client
}

func TestAShortageDoesNotEndTheServer(t *testing.T) {
	inner := &listenerOf{conns: make(chan net.Conn, 1), closed: make(chan struct{}),
		errs: []error{&net.OpError{Op: "accept", Err: syscall.EMFILE}, &net.OpError{Op: "accept", Err: syscall.ECONNABORTED}}}
	l := &boundedListener{Listener: inner, proxies: &front.Proxies{}, room: newRoom(1, 1, 1, nil)}
	inner.connect("192.0.2.1")
	if _, err := l.Accept(); err != nil {
		t.Errorf("Accept: %v", err)
	}
	l.Close()
	l.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept on a closed listener: %v", err)
	}
}

// TestWhatHasConnectedIsAccepted closes a listener at which connections wait.
func TestWhatHasConnectedIsAccepted(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &boundedListener{Listener: inner, proxies: &front.Proxies{}, room: newRoom(8, 8, 8, nil)}
	var clients [3]net.Conn
	for i := range clients {
		if clients[i], err = net.Dial("tcp", inner.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer clients[i].Close()
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, client := range clients {
		served, err := l.Accept()
		if err != nil {
			t.Fatalf("a connection that waited: %v", err)
		}
		if got, want := served.RemoteAddr().String(), client.LocalAddr().String(); got != want {
			t.Errorf("the connection of %s was accepted, not that of %s", got, want)
		}
		served.Close()
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept when none waits: %v", err)
	}
	if c, err := net.Dial("tcp", inner.Addr().String()); err == nil {
		c.Close()
		t.Error("a closed listener takes connections")
	}
}

func TestUnixSocketsAreServed(t *testing.T) {
	s, err := New(Config{Core: newRing(t), RateLimit: 5})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(ln)
	defer s.Shutdown(context.Background())
	c, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET /api HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 || resp.Header.Get("RateLimit-Remaining") != "4" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
}

// More of a request gives it no more time, over TCP and over TLS.
func TestRequestsThatTrickleTimeOut(t *testing.T) {
	for name, cfg := range map[string]Config{"TCP": {}, "TLS": {TLS: &tls.Config{Certificates: []tls.Certificate{certificate(t)}}}} {
		t.Run(name, func(t *testing.T) {
			cfg.Core = newRing(t)
			// Where the machine takes as long for what does not trickle, there is more time.
			for cfg.ReadTimeout = 300 * time.Millisecond; !trickles(t, cfg); cfg.ReadTimeout *= 2 {
				if cfg.ReadTimeout > 5*time.Second {
					t.Fatal("no request is in time")
				}
			}
		})
	}
}

// trickles says whether a whole request was in time. The next one, of which there is
// always more to come, must not be.
func trickles(t *testing.T, cfg Config) bool {
	t.Helper()
	s := serve(t, cfg)
	c := s.Dial()
	if cfg.TLS != nil {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	// The next has a time of its own.
	io.WriteString(c, "GET /next HTTP/1.1\r\nHost: x\r\n\r\nGET /next HTTP/1.1\r\nHost: x\r\nA: ")
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode == 408 {
		return false
	}
	if got := s.Read(resp); got.Status != 302 {
		t.Fatalf("status %d", got.Status)
	}
	done := make(chan struct{})
	var trickle sync.WaitGroup
	defer trickle.Wait()
	defer close(done)
	trickle.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				io.WriteString(c, "x")
			}
		}
	})
	if resp, err = http.ReadResponse(r, nil); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, s.Read(resp), api.RequestTimeout)
	return true
}

// corked keeps what is written while it is shut, and sends it as one.
type corked struct {
	net.Conn
	shut bool
	kept []byte
}

func (c *corked) Write(p []byte) (int, error) {
	if c.shut {
		c.kept = append(c.kept, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// A request over TLS that comes together with the word that it was the last.
func TestTheLastRequestOverTLSIsAnswered(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), TLS: &tls.Config{Certificates: []tls.Certificate{certificate(t)}, MaxVersion: tls.VersionTLS12}})
	wire := &corked{Conn: s.Dial()}
	c := tls.Client(wire, &tls.Config{InsecureSkipVerify: true})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	wire.shut = true
	io.WriteString(c, "GET /next HTTP/1.1\r\nHost: x\r\n\r\n")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	wire.SetDeadline(time.Now().Add(20 * time.Second)) // the end has set one
	if _, err := wire.Conn.Write(wire.kept); err != nil {
		t.Fatal(err)
	}
	if got := readReply(t, s, c); got.Status != 302 {
		t.Errorf("status %d", got.Status)
	}
}

// An answer may take longer than a window is open. What was sent with its request is
// counted when its turn comes: in a window of the past it would open that again, and
// another after it.
func TestEachOfManyRequestsIsCountedWhenItIsAnswered(t *testing.T) {
	clock := newClock()
	var s *site
	another := func() int { return s.Raw("GET /api/ring HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").Status }
	core := &fakeCore{serve: func(target []byte, r *api.Response) {
		if string(target) == "/next" {
			clock.Move(61 * time.Second)
			if status := another(); status != 200 {
				t.Errorf("in the next window: status %d", status)
			}
		}
		*r = api.Response{Status: 200, Validity: api.Position, Body: append(r.Body[:0], "{}"...)}
	}}
	s = serve(t, Config{Core: core, RateLimit: 1, Now: clock.Now})
	c := s.Dial()
	if _, err := io.WriteString(c, "GET /next HTTP/1.1\r\nHost: x\r\n\r\nGET /prev HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	for _, want := range []int{200, 429} {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != want {
			t.Errorf("status %d, want %d, %v", resp.StatusCode, want, err)
		}
	}
	if status := another(); status != 429 {
		t.Errorf("one more than the limit: status %d", status)
	}
}

// While a shell drains, everything is answered, and each answer is the last of its
// connection, whichever way it came.
func TestADrainAnswersAndEndsConnections(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	requests := map[string]string{
		"a plain read":  "GET /api HTTP/1.1\r\nHost: x\r\n\r\n",
		"three at once": strings.Repeat("GET /next HTTP/1.1\r\nHost: x\r\n\r\n", 3),
		"a page":        "GET /join HTTP/1.1\r\nHost: x\r\n\r\n",
		"a refusal":     "DELETE /api HTTP/1.1\r\nHost: x\r\n\r\n",
	}
	before := map[string]net.Conn{}
	for name, request := range requests {
		c := s.Dial()
		io.WriteString(c, request)
		for r, n := bufio.NewReader(c), strings.Count(request, "HTTP/1.1"); n > 0; n-- {
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.Read(resp)
		}
		before[name] = c
	}
	s.Drain()
	for name, request := range requests {
		for at, c := range map[string]net.Conn{"one that was open": before[name], "a new one": s.Dial()} {
			io.WriteString(c, request)
			answer, err := io.ReadAll(c)
			if err != nil || strings.Count(string(answer), "\r\nConnection: close\r\n") != 1 || strings.Count(string(answer), "HTTP/1.1 ") != strings.Count(request, "HTTP/1.1") {
				t.Errorf("%s on %s: %v, %s", name, at, err, answer)
			}
		}
	}
}

func TestAHeldRequestOutlastsEveryTimeout(t *testing.T) {
	// What fasthttp starts once for all servers of the process is no part of a bubble.
	serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": paidOK}}).Do("POST", "/api/bid", "{}")
	synctest.Test(t, func(t *testing.T) {
		shell, err := New(Config{Core: newRing(t), Log: slog.New(slog.DiscardHandler), Paid: map[string]Handler{"/api/bid": func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
			time.Sleep(time.Hour)
			ctx.SetBodyString("settled")
		}}})
		if err != nil {
			t.Fatal(err)
		}
		conn := edgetest.Pay(t, shell)
		defer conn.Close()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "settled" {
			t.Errorf("%d %q, %v", res.StatusCode, body, err)
		}
	})
}

// hurried has an hour for every wait: what it answers or ends, it does at once.
func hurried(t *testing.T) *site {
	return serve(t, Config{Core: newRing(t), ReadTimeout: time.Hour, IdleTimeout: time.Hour, Paid: map[string]Handler{"/api/bid": paidOK}})
}

// begins are what may come before a request on its connection: nothing, one that the fast
// path answers, and one that it does not.
var begins = map[string]string{"first": "", "after a plain read": "GET /api HTTP/1.1\r\nHost: x\r\n\r\n", "after another": "POST /api/bid HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"}

// exchange sends a request, in pieces if there are several, and gives the last of the
// answers that come until the connection ends.
func exchange(t *testing.T, s *site, answers int, pieces ...string) reply {
	t.Helper()
	c := s.Dial()
	for _, piece := range pieces {
		io.WriteString(c, piece) // it may be refused before all is sent
	}
	all, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("%q: %v after %q", pieces, err, all)
	}
	at := strings.LastIndex(string(all), "HTTP/1.1 ")
	if n := strings.Count(string(all), "HTTP/1.1 "); n != answers {
		t.Fatalf("%q: %d answers: %q", pieces, n, all)
	}
	var of *http.Request
	if answers == 1 && strings.HasPrefix(pieces[0], "HEAD ") && strings.Contains(string(all), " 200 OK\r\n") {
		of = &http.Request{Method: http.MethodHead}
	}
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(all[at:]))), of)
	if err != nil {
		t.Fatal(err)
	}
	return s.Read(resp)
}

// A head that is not as HTTP/1 has it is refused at once, and whatever follows it is no
// request.
func TestHeadsThatAreNotHTTPAreRefusedAtOnce(t *testing.T) {
	s := hurried(t)
	for head, code := range map[string]api.Code{
		"GET /api HTTP/1.1\n": api.Malformed, "GET /api HTTP/1.1\nHost: x\n\n": api.Malformed, "GET /api HTTP/1.1\nHost: x\r\n\r\n": api.Malformed,
		"GET /api HTTP/1.1\r\nHost: x\n": api.Malformed, "GET /api HTTP/1.1\r\nHost: x\r\n\n": api.Malformed, "GET /api HTTP/1.1\r\n\n": api.Malformed,
		"POST /api/bid HTTP/1.1\r\nHost: x\nContent-Length: 2\n\n{}": api.Malformed, "\nGET /api HTTP/1.1\r\nHost: x\r\n\r\n": api.Malformed,
		"GET / HTTP/1.0\n\n": api.Malformed, "GET /api HTTP/1.1\rHost: x\r\r": api.Malformed, "GET /api HTTP/1.1\r\r\n": api.Malformed,
		"POST /api/bid HTTP/1.1\r\nHost: x\r\nA: b\rc": api.Malformed, "GET /api HTTP/1.1\r\nHost: x\r\nA: \x00": api.Malformed, "HEAD /api HTTP/1.1\r\nHost: \x7f": api.Malformed,
		"GET /api\r\n": api.Malformed, "GET /api \r\n": api.Malformed, "GET /api http/1.1\r\n": api.Malformed, "GET /api HTTP/1.1 \r\n": api.Malformed, "GET /api HTTP/11\r\n": api.Malformed,
		"GET /api HTTP/1.10\r\n": api.Malformed, "GET /api HTTP/01.1\r\n": api.Malformed, "GET /api HTTP/1,1\r\n": api.Malformed, "GET /api HTTP/1.x\r\n": api.Malformed, "GET /api XHTTP/1.1\r\n": api.Malformed,
		"HTTP/1.1\r\n": api.Malformed, "hello\r\n": api.Malformed, "\x16\x03\x01\x02\x00\x01\x00": api.Malformed, "SSH-2.0-x\r\n": api.Malformed,
		"GET /api HTTP/2.0\r\n": api.UnsupportedHTTP, "POST /api/bid HTTP/3.0\r\nHost: x\r\nContent-Length: 9\r\n\r\n": api.UnsupportedHTTP, "GET /api HTTP/0.9\r\n": api.UnsupportedHTTP,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": api.UnsupportedHTTP, "DELETE /api/x HTTP/9.9\r\n": api.UnsupportedHTTP,
	} {
		for name, begin := range begins {
			const next = "GET /next HTTP/1.1\r\nHost: x\r\n\r\n"
			for _, pieces := range [][]string{{begin + head}, {begin + head + next}, append([]string{begin}, strings.SplitAfter(head, "\n")...)} {
				answers := 2
				if begin == "" {
					answers = 1
				}
				r := exchange(t, s, answers, pieces...)
				if r.Header.Get("Content-Type") != "application/problem+json" || !r.Closed {
					t.Errorf("%s, %q: closed %v, %v", name, pieces, r.Closed, r.Header)
				}
				wantProblem(t, r, code)
			}
		}
	}
}

// Heads that are odd and right are answered, and the connection goes on.
func TestOddHeadsAreRead(t *testing.T) {
	s := hurried(t)
	for _, head := range []string{
		"\r\nGET /api HTTP/1.1\r\nHost: x\r\n\r\n", "\r\n\r\n\r\nPOST /api/bid HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
		"GET /api HTTP/1.2\r\nHost: x\r\n\r\n", "GET /api HTTP/1.9\r\nHost: x\r\n\r\n", "GET /api HTTP/1.1\r\nHost: x\r\nA:\tb\xff\r\n\r\n",
		"POST /api/bid HTTP/1.1\r\nHost: x\r\ncontent-LENGTH:  4 \r\nContent-Type: application/json\r\n\r\n{\n\r}", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /api HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
	} {
		for name, begin := range begins {
			answers := 3
			if begin == "" {
				answers = 2
			}
			r := exchange(t, s, answers, begin+head+"GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			if r.Status != 302 {
				t.Errorf("%s, %q: what follows it gets %d", name, head, r.Status)
			}
		}
	}
}

// A connection ends with the answer to a request that says so, in whatever way it says it.
func TestCloseIsSaidInAnyCaseAndInLists(t *testing.T) {
	s := hurried(t)
	const keep = "Connection: keep-alive\r\n"
	for fields, closes := range map[string]bool{
		"Connection: close\r\n": true, "Connection: Close\r\n": true, "connection: CLOSE\r\n": true, "Connection:cLoSe\r\n": true, "Connection: close \t\r\n": true,
		"Connection: keep-alive, close\r\n": true, "Connection: close, keep-alive\r\n": true, "Connection: te,Close,\r\n": true, "Connection: ,\tclose\r\n": true,
		"Connection: close\r\n" + keep: true, keep + "Connection: Close\r\n": true, "Connection: te\r\nConnection: close, te\r\n" + keep: true,
		"Connection: keep-alive,\r\n Close\r\n": true,
		keep:                                    false, "Connection: Keep-Alive\r\n": false, "Connection: closed\r\n": false, "Connection: te, not-close\r\n": false, "X-Connection: close\r\n": false, "Connection: \r\n": false, "Connection: \"close\"\r\n": false,
	} {
		for request, answer := range map[string]int{
			"GET /api HTTP/1.1\r\nHost: x\r\n": 200, "GET / HTTP/1.1\r\nHost: x\r\n": 200, "GET /next HTTP/1.1\r\nHost: x\r\n": 302, "GET /nowhere HTTP/1.1\r\nHost: x\r\n": 404,
			"GET /ring HTTP/1.1\r\nHost: x\r\n": 200, "HEAD /api HTTP/1.1\r\nHost: x\r\n": 200, "DELETE /api HTTP/1.1\r\nHost: x\r\n": 405,
			"POST /api/bid HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n": 200,
			"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n":     400,
			"GET /api HTTP/1.0\r\n": 200,
		} {
			body := ""
			if strings.HasPrefix(request, "POST") {
				body = "{}"
			}
			one := request + fields + "\r\n" + body
			closes := closes || strings.Contains(request, "HTTP/1.0") && !strings.Contains(strings.ToLower(fields), "connection: keep-alive")
			if closes {
				r := exchange(t, s, 1, one+"GET /next HTTP/1.1\r\nHost: x\r\n\r\n")
				if r.Status != answer || !r.Closed {
					t.Errorf("%q: %d, and it says that it closes: %v", one, r.Status, r.Closed)
				}
			} else if r := exchange(t, s, 2, one+"GET /next HTTP/1.1\r\nHost: x\r\nConnection: Close\r\n\r\n"); r.Status != 302 {
				t.Errorf("%q: what follows it gets %d", one, r.Status)
			}
		}
	}
}
