package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"webring/edge"
	"webring/edge/forward"
	"webring/edge/voucher"
	"webring/wasm/host"
)

// payer sends a payment to a shell whose handler of payments is paid, and gives the
// shell, where it listens, and what the payer is answered.
func payer(t *testing.T, paid edge.Handler) (shell *edge.Shell, address string, answer <-chan string) {
	t.Helper()
	shell, err := edge.New(edge.Config{Core: host.NewNative(10), Log: slog.New(slog.DiscardHandler), Paid: map[string]edge.Handler{"/api/bid": paid}})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go shell.Serve(listener)
	answered := make(chan string, 1)
	go func() {
		req, _ := http.NewRequest(http.MethodPost, "http://"+listener.Addr().String()+"/api/bid", strings.NewReader("{}"))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Payment x")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			answered <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		answered <- string(body)
	}()
	return shell, listener.Addr().String(), answered
}

// A payment that takes longer than a stop waits makes the stop no failure: the log says
// that it stays reserved, and its payer is answered.
func TestAStopOfTheOriginAnswersPayersItCannotWaitFor(t *testing.T) {
	for _, passed := range []bool{false, true} {
		entered, over := make(chan struct{}), make(chan struct{})
		shell, _, answered := payer(t, func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
			close(entered)
			<-over
			ctx.SetBodyString("payment_pending")
		})
		await(t, "the payment", entered)
		var said bytes.Buffer
		err := stopOrigin(func(ctx context.Context) error {
			<-ctx.Done()
			close(over)
			return ctx.Err()
		}, shell, passed, time.Millisecond, slog.New(slog.NewTextHandler(&said, nil)))
		if err != nil || !strings.Contains(said.String(), "payments in flight stay reserved") || strings.Count(said.String(), "\n") != 1 {
			t.Errorf("sockets passed: %v: %v; log: %s", passed, err, &said)
		}
		if got := await(t, "the answer", answered); got != "payment_pending" {
			t.Errorf("sockets passed: %v: the payer got %s", passed, got)
		}
	}
}

// A payment that was accepted on a socket of a supervisor is taken during a stop.
func TestAStopOfTheOriginTakesPaymentsOnPassedSockets(t *testing.T) {
	entered, over, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	shell, address, answered := payer(t, func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
		close(entered)
		<-over
		ctx.SetBodyString("paid")
	})
	await(t, "the payment", entered)
	stopped := make(chan error, 1)
	go func() {
		stopped <- stopOrigin(func(context.Context) error {
			close(closed)
			return nil
		}, shell, true, time.Minute, slog.New(slog.DiscardHandler))
	}()
	eventually(t, "the end of the listener", longEnough, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	select {
	case <-closed:
		t.Error("payments are over while one is in work")
	default:
	}
	close(over)
	if got := await(t, "the answer", answered); got != "paid" {
		t.Errorf("the payer got %s", got)
	}
	if err := await(t, "the stop", stopped); err != nil {
		t.Error(err)
	}
}

// The same holds at an edge: its origin may hold an authorisation for minutes.
func TestAStopOfAnEdgeAnswersWhoWaitsForTheOrigin(t *testing.T) {
	entered, over := make(chan struct{}), make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-over
	}))
	defer origin.Close()
	defer close(over)
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	secrets, err := voucher.NewSecrets(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	forwarder, err := forward.New(forward.Config{Origins: []string{origin.URL}, Secrets: secrets, BaseURL: func() string { return "https://ring.example" }, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	shell, _, answered := payer(t, forwarder.Paid)
	await(t, "the payment", entered)
	if err := stopEdge(forwarder, shell, time.Millisecond, log); err != nil || !strings.Contains(said.String(), "is given up") {
		t.Errorf("%v; log: %s", err, &said)
	}
	if got := await(t, "the answer", answered); !strings.Contains(got, "payment_pending") || !strings.Contains(got, "This node ends") {
		t.Errorf("the payer got %s", got)
	}
}

// A hangup ends neither an origin nor an edge, at whatever time it comes.
func TestAHangupEndsNoProcess(t *testing.T) {
	t.Parallel()
	o := start(t, "--core", "native")
	e := o.follow(t, o.verifier(), "--core", "native")
	for _, process := range []*origin{o, e} {
		for n := 1; n <= 2; n++ {
			if err := process.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			eventually(t, "a line about the hangup", time.Minute, func() bool {
				return strings.Count(process.log.String(), "nothing to reload") == n
			})
		}
		if r := process.get("/api/categories"); r.Status != http.StatusOK {
			t.Errorf("%d %s", r.Status, r.Body)
		}
	}
	e.stop()
	o.stop()
}
