package forward

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/valyala/fasthttp"

	"webring/edge"
	"webring/edge/edgetest"
	"webring/edge/voucher"
)

const base = edgetest.Base

type (
	site  = edgetest.Site
	pipes = edgetest.Pipes
)

var (
	sharedSecret, sharedSecrets = edgetest.Secret, edgetest.Secrets

	newRing, newPipes, proxies = edgetest.NewRing, edgetest.NewPipes, edgetest.Proxies
	wantProblem, wantFields    = edgetest.WantProblem, edgetest.WantFields
)

func serve(t testing.TB, cfg edge.Config) *site {
	t.Helper()
	return edgetest.Serve(t, shellOf(t, cfg), false)
}

func shellOf(t testing.TB, cfg edge.Config) *edge.Shell {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	shell, err := edge.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return shell
}

// inMemory has a shell with a handler of payments serve in a bubble, and sends it a payment.
func inMemory(t *testing.T, paid edge.Handler) net.Conn {
	t.Helper()
	return edgetest.Pay(t, shellOf(t, edge.Config{Core: newRing(t), Paid: map[string]edge.Handler{"/api/bid": paid}}))
}

// outside has fasthttp start what it starts once, for all servers of the process:
// that is no part of a bubble.
func outside(t *testing.T) {
	serve(t, edge.Config{Core: newRing(t), Paid: map[string]edge.Handler{"/api/bid": tellSender}}).Do("POST", "/api/bid", "{}")
}

// tellSender answers with the sender that the request is attributed to.
func tellSender(ctx *fasthttp.RequestCtx, client string, secure bool) {
	fmt.Fprint(ctx, client, " ", secure)
	if v := ctx.Request.Header.Peek(voucher.Field); v != nil {
		fmt.Fprintf(ctx, " and the voucher %s", v)
	}
}

// answerAll answers the requests on each connection of a listener with what answer gives.
func answerAll(l net.Listener, answer func(r *http.Request) (status int, media, body string)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go answerOn(conn, answer)
	}
}

// answerOn answers the requests on a connection. The status 0 ends it, and one below says
// nothing as long as it lasts.
func answerOn(conn net.Conn, answer func(r *http.Request) (status int, media, body string)) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		io.Copy(io.Discard, r.Body)
		status, media, body := answer(r)
		if status < 0 {
			_, _ = in.ReadByte()
		}
		if status <= 0 {
			return
		}
		fmt.Fprintf(conn, "HTTP/1.1 %d x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status, media, len(body), body)
	}
}
