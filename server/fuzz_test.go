package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"webring/server"
	"webring/server/paid"
)

// FuzzRequest sends whatever can be read as a request to a paid operation, with a
// method that finds no payment good: nothing is granted, and every answer is of
// the kinds there are.
func FuzzRequest(f *testing.F) {
	o := newOrigin(f)
	o.pay(paid.OpRegister, ada, "")
	o.coin.refuses = true
	before, _ := o.books.Root()
	handle := map[bool]func(*fasthttp.RequestCtx, string, bool){true: server.Paid(o.service, paid.OpBid, (*fasthttp.RequestCtx).PostBody), false: server.Paid(o.service, paid.OpRegister, (*fasthttp.RequestCtx).PostBody)}
	request := func(body string, fields ...string) []byte {
		return []byte("POST /api/x HTTP/1.1\r\nHost: ring.example\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" + strings.Join(fields, "") + "\r\n" + body)
	}
	f.Add(true, request(fund))
	f.Add(true, request(fund, "Authorization: "+o.credential(paid.OpBid, fund)+"\r\n", "Idempotency-Key: a-key-of-the-tests\r\n"))
	f.Add(true, request(fund, "Authorization: Payment e30\r\n", "Authorization: Payment e30\r\n"))
	f.Add(false, request(ada, "Accept-Payment: coin/charge;q=0.5\r\n", "Accept-Payment: */*\r\n"))
	f.Add(false, request(`{"name":"Bob","url":"https://bob.dev","kind":"mcp","bid":"1.00"}`, "Authorization: Bearer x, Payment e30\r\n"))
	f.Add(false, request(""))
	f.Fuzz(func(t *testing.T, bid bool, raw []byte) {
		var ctx fasthttp.RequestCtx
		if err := ctx.Request.ReadLimitBody(bufio.NewReaderSize(bytes.NewReader(raw), 32<<10), 16<<10); err != nil {
			return
		}
		handle[bid](&ctx, "192.0.2.1", true)
		res := &ctx.Response
		switch status := res.StatusCode(); status {
		case 400, 402, 404, 409, 410, 422, 431, 503:
			if offers := len(res.Header.PeekAll("WWW-Authenticate")); offers > 0 != (status == 402) {
				t.Fatalf("%d with %d challenges", status, offers)
			}
		default:
			t.Fatalf("%d %s", status, res.Body())
		}
		if !json.Valid(res.Body()) || len(res.Header.Peek("Payment-Receipt")) > 0 {
			t.Fatalf("%d %s", res.StatusCode(), res.String())
		}
		if after, _ := o.books.Root(); after != before {
			t.Fatal("there is another event")
		}
	})
}

// FuzzOperator asks the operator's side whatever it likes. No question and no
// command about a payment that is not there changes anything.
func FuzzOperator(f *testing.F) {
	o := newOrigin(f)
	o.pay(paid.OpRegister, ada, "")
	before, _ := o.books.Root()
	handler := o.operator.Handler()
	for _, c := range [][3]string{
		{"GET", "/status", ""}, {"GET", "/members?after=1", ""}, {"GET", "/members/ada", ""}, {"GET", "/payments?after=x", ""}, {"GET", "/payments/0x00", ""},
		{"GET", "/scan?since=2026-01-01T00:00:00Z", ""}, {"GET", "/verify?chain=yes", ""}, {"POST", "/members/bob/removal", `{"reason":"x","redact":true}`},
		{"POST", "/adjustments", `{"kind":0,"transaction":"0x00","member":"ada","reason":"x"}`}, {"POST", "/adjustments", `{"kind":1,"transaction":"","reason":"x"}`},
		{"POST", "/adjustments", `{"kind":255,"transaction":"\u0000","member":"","reason":"x"}`},
	} {
		f.Add(c[0], c[1], c[2])
	}
	f.Fuzz(func(t *testing.T, method, target, body string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")))
		if err != nil || strings.Contains(r.URL.Path, "/ada/removal") {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(body))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code >= 500 && w.Code != http.StatusServiceUnavailable {
			t.Fatalf("%s %s %s: %d %s", method, target, body, w.Code, w.Body)
		}
		if after, _ := o.books.Root(); after != before {
			t.Fatalf("%s %s %s: there is another event", method, target, body)
		}
	})
}
