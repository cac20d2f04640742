package server_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"webring/server"
	"webring/server/paid"
	"webring/server/pay/mpp"
)

// quiet keeps what fasthttp says about closed connections out of the output.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// over serves one operation over HTTP in memory, as the shell would, and gives a
// client of it.
func (o *origin) over(op string, secure bool) func(header [][2]string, body string) *fasthttp.Response {
	o.t.Helper()
	handle := server.Paid(o.service, op, (*fasthttp.RequestCtx).PostBody)
	s := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) { handle(ctx, "192.0.2.1", secure) }, ReadBufferSize: 64 << 10, Logger: quiet{}}
	listener := fasthttputil.NewInmemoryListener()
	go s.Serve(listener)
	client := &fasthttp.HostClient{Addr: "ring.example", ReadBufferSize: 64 << 10, Dial: func(string) (net.Conn, error) { return listener.Dial() }}
	o.t.Cleanup(func() {
		client.CloseIdleConnections()
		listener.Close()
	})
	return func(header [][2]string, body string) *fasthttp.Response {
		req, res := fasthttp.AcquireRequest(), &fasthttp.Response{}
		defer fasthttp.ReleaseRequest(req)
		req.SetRequestURI("http://ring.example/api/" + op)
		req.Header.SetMethod("POST")
		for _, f := range header {
			req.Header.Add(f[0], f[1])
		}
		req.SetBodyString(body)
		if err := client.Do(req, res); err != nil {
			o.t.Error(err)
		}
		return res
	}
}

// What the service answers is what goes out: status, every field in its order,
// and the body, byte for byte.
func TestAnswersPassThroughExactly(t *testing.T) {
	o := newOrigin(t)
	post := o.over(paid.OpRegister, true)
	call := o.pay(paid.OpRegister, ada, "a-key-of-the-tests")
	for name, c := range map[string]struct {
		call   paid.Call
		header [][2]string
	}{
		"2xx": {call, [][2]string{{"Authorization", call.Authorization[0]}, {"Idempotency-Key", "a-key-of-the-tests"}}},
		"409": {paid.Call{Operation: paid.OpRegister, Body: []byte(ada), Secure: true}, nil},
		"422": {paid.Call{Operation: paid.OpRegister, Body: []byte("{"), Secure: true}, nil},
		"400": {paid.Call{Operation: paid.OpRegister, Body: []byte(ada), Secure: true, Authorization: []string{"Payment a", "Payment b"}},
			[][2]string{{"Authorization", "Payment a"}, {"Authorization", "Payment b"}}},
	} {
		want := o.service.Handle(context.Background(), c.call)
		got := post(c.header, string(c.call.Body))
		if got.StatusCode() != want.Status || !bytes.Equal(got.Body(), want.Body) {
			t.Errorf("%s: %d %s, want %d %s", name, got.StatusCode(), got.Body(), want.Status, want.Body)
		}
		for _, f := range want.Header {
			var values []string
			for _, v := range got.Header.PeekAll(f[0]) {
				values = append(values, string(v))
			}
			if !slices.Equal(values, []string{f[1]}) {
				t.Errorf("%s: %s: %q, want %q", name, f[0], values, f[1])
			}
		}
		if !strings.HasPrefix(name, "4") != (len(got.Header.Peek("Payment-Receipt")) > 0) {
			t.Errorf("%s: receipt %q", name, got.Header.Peek("Payment-Receipt"))
		}
	}
}

// What the service is told is what came in.
func TestRequestsPassThroughExactly(t *testing.T) {
	o := newOrigin(t)
	// A challenge keeps the digest of the bytes that came, spaces and all.
	body := " " + ada + "\n"
	credential := o.credential(paid.OpRegister, body)
	post := o.over(paid.OpRegister, true)

	unpaid := post([][2]string{{"Accept-Payment", "coin/charge"}}, ada)
	if offers := unpaid.Header.PeekAll("WWW-Authenticate"); unpaid.StatusCode() != 402 || len(offers) != 1 || !bytes.HasPrefix(offers[0], []byte("Payment id=")) {
		t.Errorf("%d %s %s", unpaid.StatusCode(), offers, unpaid.Body())
	}
	joined := post([][2]string{{"Authorization", "Basic YTpi"}, {"Authorization", credential}}, body)
	if joined.StatusCode() != 201 || string(joined.Header.Peek("Location")) != base+"/api/ring/ada" {
		t.Errorf("%d %s", joined.StatusCode(), joined.Body())
	}
	if r := o.over(paid.OpRegister, false)(nil, ada); r.StatusCode() != 403 {
		t.Errorf("over a plain connection: %d", r.StatusCode())
	}
	if r := o.over(paid.OpBid, true)(nil, fund); r.StatusCode() != 402 {
		t.Errorf("the other operation: %d %s", r.StatusCode(), r.Body())
	}
	if r := post([][2]string{{"Idempotency-Key", strings.Repeat("k", 256)}}, ada); r.StatusCode() != 400 {
		t.Errorf("a key of 256 characters: %d", r.StatusCode())
	}
}

// An edge that needs the place of a request has it answered before its outcome.
func TestARequestIsLetGoForAnEdge(t *testing.T) {
	o := newOrigin(t)
	o.pay(paid.OpRegister, ada, "")
	o.coin.becomes(mpp.Pending)
	post, credential := o.over(paid.OpBid, true), o.credential(paid.OpBid, fund)
	answered := make(chan *fasthttp.Response, 1)
	go func() { answered <- post([][2]string{{"Authorization", credential}}, fund) }()
	o.waitOpen("ada")
	if r := post([][2]string{{"Authorization", credential}, {"Webring-Let-Go", "1"}}, fund); r.StatusCode() != 204 || len(r.Body()) > 0 {
		t.Errorf("%d %s", r.StatusCode(), r.Body())
	}
	if r := <-answered; r.StatusCode() != 503 || !bytes.Contains(r.Body(), []byte("payment_pending")) {
		t.Errorf("%d %s", r.StatusCode(), r.Body())
	}
	o.coin.becomes(mpp.Settled)
	if err := o.service.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The work outlives the connection that brought it.
func TestPaymentOutlivesItsConnection(t *testing.T) {
	o := newOrigin(t)
	o.pay(paid.OpRegister, ada, "")
	o.coin.becomes(mpp.Pending)
	credential := o.credential(paid.OpBid, fund)
	handle := server.Paid(o.service, paid.OpBid, (*fasthttp.RequestCtx).PostBody)
	s := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) { handle(ctx, "192.0.2.1", true) }, ReadBufferSize: 64 << 10, Logger: quiet{}}
	listener := fasthttputil.NewInmemoryListener()
	defer listener.Close()
	go s.Serve(listener)
	conn, err := listener.Dial()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST /api/bid HTTP/1.1\r\nHost: ring.example\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n%s",
		credential, len(fund), fund); err != nil {
		t.Fatal(err)
	}
	o.waitOpen("ada")
	conn.Close()
	o.coin.becomes(mpp.Settled)
	// Closing waits for the payment although its client is gone.
	if err := o.service.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := o.total("ada"); got != 250 {
		t.Errorf("ada has %d cents", got)
	}
}
