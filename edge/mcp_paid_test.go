package edge

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"webring/core/api"
)

// asPaid answers as the origin does: with a challenge, a refusal of a credential, a grant, or
// a problem.
func asPaid(t *testing.T, seen *[]string) Handler {
	offer := `Payment id="c1", realm="ring.example", method="tempo", intent="charge", request="` + base64.RawURLEncoding.EncodeToString([]byte(`{"amount":"1"}`)) + `", expires="2026-11-24T12:00:00Z", opaque="e30"`
	return func(ctx *fasthttp.RequestCtx, client string, secure bool) {
		h := &ctx.Request.Header
		var credentials []string
		for _, line := range h.PeekAll("Authorization") {
			text, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(string(line), "Payment "))
			if err != nil {
				t.Errorf("%s: %v", line, err)
			}
			credentials = append(credentials, string(text))
		}
		// What is passed on is the header as it came.
		if len(h.RawHeaders()) == 0 || len(h.Peek("X-Request-Id")) == 0 {
			t.Errorf("%q", h.RawHeaders())
		}
		*seen = append(*seen, fmt.Sprintf("%s %s %s %s %s %v %s %t", h.Method(), h.RequestURI(), Body(ctx), h.Peek("Idempotency-Key"), credentials, ctx.UserValue("slug"), client, secure))
		problem := func(code api.Code) {
			ctx.SetStatusCode(code.Status())
			ctx.SetContentType("application/problem+json")
			ctx.SetBody(api.AppendProblem(nil, "https://ring.example", code, "Why.", nil))
		}
		switch {
		case len(credentials) > 1:
			problem(api.MultipleCredentials)
		case len(credentials) == 0:
			problem(api.PaymentRequired)
			ctx.Response.Header.Add("WWW-Authenticate", offer)
			ctx.Response.Header.Add("WWW-Authenticate", strings.Replace(offer, "tempo", "evm", 1))
		case strings.Contains(credentials[0], "bad"):
			problem(api.VerificationFailed)
			ctx.Response.Header.Add("WWW-Authenticate", offer)
		case strings.Contains(credentials[0], "unreadable"):
			problem(api.MalformedCredential)
			ctx.Response.Header.Add("WWW-Authenticate", offer)
		case strings.Contains(credentials[0], "panic"):
			panic("in a handler")
		case strings.Contains(credentials[0], "late"):
			problem(api.PaymentPending)
		default:
			ctx.SetContentType("application/json")
			ctx.Response.Header.Set("Payment-Receipt", base64.RawURLEncoding.EncodeToString([]byte(`{"method":"tempo","reference":"0x1","status":"success","timestamp":"2026-11-24T12:00:00.000Z"}`)))
			ctx.SetBodyString(`{"bid":{}}`)
		}
	}
}

// A tool that sends is the same request over HTTP, and its answer the same answer.
func TestToolsThatPay(t *testing.T) {
	var seen []string
	paid := asPaid(t, &seen)
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": paid, "PATCH /api/ring/{slug}": paid}})
	const bid = `"name":"ring_bid","arguments":{"member":"alpha","amount":"1.00"}`
	const metadata, modern = `"_meta":{"org.paymentauth/credential":%s}`, "2026-07-28"
	good := `{"challenge":{"id":"c1","request":{"amount":"1"}},"payload":{"signature":"good"}}`
	sent := func(word string) string {
		return `{"challenge":{"id":"c1","request":"eyJhbW91bnQiOiIxIn0"},"payload":{"signature":"` + word + `"}}`
	}
	with := func(word string) string { return fmt.Sprintf(metadata, strings.Replace(good, "good", word, 1)) }
	for _, c := range []struct {
		name, params, more string
		version            string
		asks               string // what the handler sees, "" when it is not called
		want               []string
	}{
		{"unpaid", bid, "", "", `POST /api/bid {"amount":"1.00","member":"alpha"}  [] <nil> 127.0.0.1 true`,
			[]string{`"code":-32042`, `"httpStatus":402`, `"request":{"amount":"1"}`, `"method":"evm"`, `"opaque":"e30"`, `"code":"payment_required"`}},
		{"unpaid, without sessions", bid, "", modern, `POST /api/bid {"amount":"1.00","member":"alpha"}  [] <nil> 127.0.0.1 true`,
			[]string{`"org.paymentauth/payment-required":{"httpStatus":402,"challenges":[{"id":"c1"`, `"isError":true`, `"method":"evm"`, `"resultType":"complete"`}},
		{"paid", bid + "," + with("good"), "", "", `POST /api/bid {"amount":"1.00","member":"alpha"}  [` + sent("good") + `] <nil> 127.0.0.1 true`,
			[]string{`"structuredContent":{"bid":{}}`, `"org.paymentauth/receipt":{"challengeId":"c1"`, `"reference":"0x1"`}},
		{"paid, beside params", bid, "," + with("good"), "", `POST /api/bid {"amount":"1.00","member":"alpha"}  [` + sent("good") + `] <nil> 127.0.0.1 true`,
			[]string{`"structuredContent":{"bid":{}}`, `"org.paymentauth/receipt"`}},
		{"paid twice", bid + "," + with("good"), "," + with("good"), "", `POST /api/bid {"amount":"1.00","member":"alpha"}  [` + sent("good") + " " + sent("good") + `] <nil> 127.0.0.1 true`,
			[]string{`multiple_credentials`, `"isError":true`}},
		{"refused", bid + "," + with("bad"), "", "", `POST /api/bid {"amount":"1.00","member":"alpha"}  [` + sent("bad") + `] <nil> 127.0.0.1 true`,
			[]string{`"code":-32043`, `"failure":{"reason":"verification_failed","detail":"Why."}`, `"challenges":[{"id":"c1"`}},
		{"unreadable", bid + "," + with("unreadable"), "", "", `POST /api/bid {"amount":"1.00","member":"alpha"}  [` + sent("unreadable") + `] <nil> 127.0.0.1 true`,
			[]string{`"code":-32602`, `"failure":{"reason":"malformed_credential","detail":"Why."}`, `"challenges":[{"id":"c1"`}},
		{"unreadable, without sessions", bid + "," + with("unreadable"), "", modern, `POST /api/bid {"amount":"1.00","member":"alpha"}  [` + sent("unreadable") + `] <nil> 127.0.0.1 true`,
			[]string{`"code":-32602`, `"challenges":[{"id":"c1"`}},
		{"pending", bid + "," + with("late"), "", modern, `POST /api/bid {"amount":"1.00","member":"alpha"}  [` + sent("late") + `] <nil> 127.0.0.1 true`,
			[]string{`payment_pending`, `"isError":true`}},
		{"a handler that fails", bid + "," + with("panic"), "", "", `POST /api/bid {"amount":"1.00","member":"alpha"}  [` + sent("panic") + `] <nil> 127.0.0.1 true`,
			[]string{`internal`, `"isError":true`}},
		{"a member's", `"name":"ring_change","arguments":{"slug":"alpha","name":"<b>","idempotency_key":"0123456789abcdef"}`, "", "", `PATCH /api/ring/alpha {"name":"<b>"} 0123456789abcdef [] alpha 127.0.0.1 true`,
			[]string{`"code":-32042`}},
		{"no key", `"name":"ring_bid","arguments":{"idempotency_key":"a\r\nAuthorization: Payment x"}`, "", "", "", []string{`invalid_idempotency_key`}},
		{"too large", bid + "," + with(strings.Repeat("x", 13_000)), "", "", "", []string{`credential_too_large`}},
		{"not here", `"name":"ring_join","arguments":{}`, "", "", "", []string{`not_found`, `"isError":true`}},
		{"no path", `"name":"ring_change","arguments":{"slug":"../bid"}`, "", "", "", []string{`unknown_member`}},
		{"an unknown argument", `"name":"ring_leave","arguments":{"slug":"alpha","x":1}`, "", "", "", []string{`invalid_request`}},
	} {
		seen = nil
		params, fields := c.params, []string(nil)
		if c.version != "" {
			fields = []string{"Mcp-Protocol-Version", c.version, "Mcp-Method", "tools/call", "Mcp-Name", "ring_bid"}
			own := `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + c.version + `","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`
			if before, given, found := strings.Cut(params, `"_meta":{`); found {
				params = before + own + "," + given
			} else {
				params += "," + own + "}"
			}
		}
		r := s.message(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`}`+c.more+`}`, fields...)
		if asked := strings.Join(seen, "\n"); asked != c.asks {
			t.Errorf("%s: asked\n%s\nwant\n%s", c.name, asked, c.asks)
		}
		wantFields(t, r, "Content-Type", "application/json", "Cache-Control", "no-store")
		// The revision without sessions has a status for parameters that are wrong.
		status := 200
		if c.version == modern && strings.Contains(r.Body, `"code":-32602`) {
			status = 400
		}
		if r.Status != status || !json.Valid([]byte(r.Body)) {
			t.Errorf("%s: %d %s", c.name, r.Status, r.Body)
		}
		for _, part := range c.want {
			// A document is text in a result.
			if !strings.Contains(r.Body, part) {
				t.Errorf("%s lacks %s: %s", c.name, part, r.Body)
			}
		}
	}
}
