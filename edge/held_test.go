package edge

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"
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
