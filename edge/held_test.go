package edge

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
)

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
func inMemory(t *testing.T, paid Handler) net.Conn {
	t.Helper()
	shell, err := New(Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": paid}, Log: slog.New(slog.DiscardHandler)})
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
	serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": paidOK}}).do("POST", "/api/bid", "{}")
}

func TestAHeldRequestOutlastsEveryTimeout(t *testing.T) {
	outside(t)
	synctest.Test(t, func(t *testing.T) {
		conn := inMemory(t, func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
			time.Sleep(time.Hour)
			ctx.SetBodyString("settled")
		})
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
				go func() {
					for {
						conn, err := origin.Accept()
						if err != nil {
							return
						}
						go func() {
							defer conn.Close()
							r, err := http.ReadRequest(bufio.NewReader(conn))
							if err != nil {
								return
							}
							io.Copy(io.Discard, r.Body)
							asked.Add(1)
							time.Sleep(c.silent)
							io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
						}()
					}
				}()
				f, err := NewForwarder(ForwardConfig{Origin: "http://origin.example", Secret: sharedSecret, BaseURL: func() string { return base }, Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				f.payments.DialContext = func(context.Context, string, string) (net.Conn, error) { return origin.dial() }
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
