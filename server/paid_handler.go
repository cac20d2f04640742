package server

import (
	"bytes"
	"context"
	"strings"

	"github.com/valyala/fasthttp"

	"webring/server/paid"
	"webring/server/pay/x402"
)

// stopWaiting is the field by which an edge ends the wait of a request ([paid.Service.StopWaiting]).
// The shell accepts it from edges only.
const stopWaiting = "Webring-Let-Go"

// Paid gives the handler of one operation that is paid for or proved. The shell calls it with the
// client as its limiter knows it and whether the connection counts as secure. body
// gives the body of a request without its content coding.
func Paid(s *paid.Service, operation string, body func(*fasthttp.RequestCtx) []byte) func(ctx *fasthttp.RequestCtx, client string, secure bool) {
	return func(ctx *fasthttp.RequestCtx, client string, secure bool) {
		h := &ctx.Request.Header
		slug, _ := ctx.UserValue("slug").(string) // of the path
		call := paid.Call{
			Operation: operation, Slug: strings.Clone(slug),
			// The work may outlive the request, and fasthttp reuses the request's buffers.
			Body:           bytes.Clone(body(ctx)),
			AcceptPayment:  string(bytes.Join(h.PeekAll("Accept-Payment"), []byte(","))),
			IdempotencyKey: string(h.Peek("Idempotency-Key")),
			WalletAccount:  string(bytes.Join(h.PeekAll("Wallet-Account"), []byte(","))),
			Client:         client,
			Secure:         secure,
			Request:        string(h.Peek("X-Request-Id")), // as the shell has it
		}
		if received := ctx.PostBody(); !bytes.Equal(received, call.Body) {
			call.Received = bytes.Clone(received)
		}
		for _, v := range h.PeekAll("Authorization") {
			call.Authorization = append(call.Authorization, string(v))
		}
		for _, v := range h.PeekAll(x402.SignatureField) {
			call.PaymentSignature = append(call.PaymentSignature, string(v))
		}
		var answer paid.Answer
		if len(h.Peek(stopWaiting)) > 0 {
			answer = s.StopWaiting(call)
		} else {
			// Not the request's own context: a payment is not tied to it.
			answer = s.Handle(context.Background(), call)
		}
		ctx.SetStatusCode(answer.Status)
		for _, f := range answer.Header {
			if f[0] == "Content-Type" {
				ctx.SetContentType(f[1])
				continue
			}
			ctx.Response.Header.Add(f[0], f[1])
		}
		ctx.SetBody(answer.Body)
	}
}
