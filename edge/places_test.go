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
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/api"
)

// heldOrigin takes requests and answers none before it is told to.
type heldOrigin struct {
	*pipes
	mu    sync.Mutex
	there []chan struct{} // of the requests that came, in turn
}

func (o *heldOrigin) serve() {
	for {
		conn, err := o.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			for in := bufio.NewReader(conn); ; {
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				io.Copy(io.Discard, r.Body)
				answered := make(chan struct{})
				o.mu.Lock()
				o.there = append(o.there, answered)
				o.mu.Unlock()
				<-answered
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
			}
		}()
	}
}

func (o *heldOrigin) wantCame(t *testing.T, want int) {
	t.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.there) != want {
		t.Errorf("%d payments were sent, want %d", len(o.there), want)
	}
}

func (o *heldOrigin) answer(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.there[n])
}

func (o *heldOrigin) answerFrom(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for ; n < len(o.there); n++ {
		close(o.there[n])
	}
}

// payerAt is one who has sent a payment through an edge.
type payerAt struct {
	conn net.Conn
	said chan said
}

type said struct {
	status int
	body   string
	retry  string
	after  time.Duration
}

func pay(t *testing.T, public *pipes, client int) *payerAt {
	t.Helper()
	conn, err := public.dial()
	if err != nil {
		t.Fatal(err)
	}
	p := &payerAt{conn, make(chan said, 1)}
	began := time.Now()
	go func() {
		fmt.Fprintf(conn, "POST /api/bid HTTP/1.1\r\nHost: ring.example\r\nX-Forwarded-For: 192.0.2.%d\r\nX-Forwarded-Proto: https\r\n"+
			"Content-Type: application/json\r\nAuthorization: Payment x\r\nContent-Length: 2\r\n\r\n{}", client)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			p.said <- said{body: err.Error()}
			return
		}
		body, _ := io.ReadAll(res.Body)
		p.said <- said{res.StatusCode, string(body), res.Header.Get("Retry-After"), time.Since(began)}
	}()
	synctest.Wait()
	return p
}

func (p *payerAt) wantPaid(t *testing.T) {
	t.Helper()
	if got := <-p.said; got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	p.conn.Close()
}

func (p *payerAt) wantRefused(t *testing.T, after time.Duration) {
	t.Helper()
	got := <-p.said
	if got.status != 503 || got.retry != "5" || got.after != after || !strings.Contains(got.body, string(api.PaymentsUnavailable)) || !strings.Contains(got.body, "not delivered and charges nothing") {
		t.Errorf("after %s, want %s: %d, Retry-After %q, %s", got.after, after, got.status, got.retry, got.body)
	}
	p.conn.Close()
}

// fullEdge is one whose origin holds what it is sent. It runs in a bubble of
// package synctest, and what test leaves unanswered is answered at its end.
func fullEdge(t *testing.T, test func(t *testing.T, origin *heldOrigin, public *pipes, f *Forwarder)) {
	// What fasthttp starts once, for all servers of the process, is no part of
	// the bubble.
	serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": paidOK}}).do("POST", "/api/bid", "{}")
	proxies, err := ParseProxies([]string{"unix"})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		origin, public := &heldOrigin{pipes: newPipes()}, newPipes()
		go origin.serve()
		f, err := NewForwarder(ForwardConfig{Origin: "http://origin.example", Secret: sharedSecret, BaseURL: func() string { return base }, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		f.payments.DialContext = func(context.Context, string, string) (net.Conn, error) { return origin.dial() }
		shell, err := New(Config{Core: newRing(t), TrustedProxies: proxies, Paid: map[string]Handler{"/api/bid": f.Paid}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		go shell.Serve(public)
		test(t, origin, public, f)
		synctest.Wait()
		if len(f.payments.taken) != 0 || len(f.payments.by) != 0 {
			t.Errorf("%d places are taken, %v", len(f.payments.taken), f.payments.by)
		}
		f.Close()
		origin.Close()
		if err := shell.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Hour) // for what runs on by itself
	})
}

// A credential is on its way within seconds or never: its owner may have paid anew
// by then. Nor does one client take the places of all.
func TestPaymentsThatHaveNoPlaceAreNotDelivered(t *testing.T) {
	fullEdge(t, func(t *testing.T, origin *heldOrigin, public *pipes, f *Forwarder) {
		var payers []*payerAt
		for client := range MaxPayments / maxPaymentsPerClient {
			for range maxPaymentsPerClient {
				payers = append(payers, pay(t, public, client))
			}
			pay(t, public, client).wantRefused(t, 0)
		}
		origin.wantCame(t, MaxPayments)
		pay(t, public, 100).wantRefused(t, waitForPlace)
		origin.wantCame(t, MaxPayments)

		// Who waits gets a place that becomes free, and a client another one.
		late := pay(t, public, 100)
		time.Sleep(waitForPlace / 2)
		origin.answer(0)
		origin.wantCame(t, MaxPayments+1)
		origin.answer(1)
		payers = append(payers, late, pay(t, public, 0))
		origin.wantCame(t, MaxPayments+2)
		origin.answerFrom(2)
		for _, p := range payers {
			p.wantPaid(t)
		}
	})
}

// A place is enough to be sent: no connection of the forwarder's keeps a credential
// back, nor one that is still dialled for a request that has been answered.
func TestPaymentsThatHaveAPlaceAreSent(t *testing.T) {
	fullEdge(t, func(t *testing.T, origin *heldOrigin, public *pipes, f *Forwarder) {
		var payers []*payerAt
		for i := range MaxPayments - 1 {
			payers = append(payers, pay(t, public, i/maxPaymentsPerClient))
		}
		dial, slow := f.payments.DialContext, make(chan struct{})
		var dialled atomic.Int64
		f.payments.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			if dialled.Add(1) == 1 {
				<-slow
			}
			return dial(ctx, network, address)
		}
		payers = append(payers, pay(t, public, 100))
		origin.wantCame(t, MaxPayments-1)
		origin.answer(0) // and its connection serves the one that waits for another
		origin.wantCame(t, MaxPayments)
		payers = append(payers, pay(t, public, 101))
		origin.wantCame(t, MaxPayments+1)
		close(slow)
		origin.answerFrom(1)
		for _, p := range payers {
			p.wantPaid(t)
		}
	})
}
