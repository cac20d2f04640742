package server

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"webring/edge"
	"webring/server/paid"
	"webring/server/pay/x402"
	"webring/server/publish"
	"webring/templates"
)

// PaidOperations are the operations that are paid for or proved, by their patterns in [edge.Config].
// Edges and standbys pass them on.
var PaidOperations = map[string]string{
	"POST /api/register":           paid.OpRegister,
	"POST /api/bid":                paid.OpBid,
	"PATCH /api/ring/{slug}":       paid.OpChange,
	"DELETE /api/ring/{slug}":      paid.OpLeave,
	"POST /api/ring/{slug}/claim":  paid.OpClaim,
	"POST /api/ring/{slug}/visit":  paid.OpVisit,
	"POST /api/ring/{slug}/return": paid.OpReturn,
}

// Patterns of other requests that edges and standbys pass on.
const (
	joinForm       = "POST /join"      // the form of the join page
	checkPattern   = "POST /api/check" // the check of a draft by programs
	reportsPattern = "GET " + ReportsPath + "{id}"
)

// OnlyAtOrigin are those patterns.
var OnlyAtOrigin = []string{joinForm, checkPattern, reportsPattern}

// backend answers requests and the operator while an origin has one role.
type backend struct {
	paid, others map[string]edge.Handler // those of [edge.Config]
	drafts       *Drafts                 // if nil, the form of the join page is passed on as one of others
	source       publish.Source
	control      http.Handler // answers the operator
}

// backendSwitch passes requests to the present backend. One switch lasts for the whole life of a
// process, and with it one shell with its listeners.
type backendSwitch struct {
	now    atomic.Pointer[backend]
	source publish.Switch
}

// show has b answer requests from now on. Requests in work stay with the backend that has them.
func (s *backendSwitch) show(b *backend) {
	s.now.Store(b)
	s.source.Use(b.source)
}

// ServeHTTP answers the operator.
func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.answers.now.Load().control.ServeHTTP(w, r)
}

// Fill puts what this origin answers into the configuration of a shell.
func (o *Origin) Fill(cfg *edge.Config) {
	now := func() *backend { return o.answers.now.Load() }
	cfg.Core, cfg.Paid, cfg.Others = o.Core, map[string]edge.Handler{}, map[string]edge.Handler{}
	for pattern := range PaidOperations {
		cfg.Paid[pattern] = func(ctx *fasthttp.RequestCtx, client string, secure bool) { now().paid[pattern](ctx, client, secure) }
	}
	for _, pattern := range OnlyAtOrigin {
		if pattern == joinForm && o.node == nil {
			continue // the only origin always checks it
		}
		cfg.Others[pattern] = func(ctx *fasthttp.RequestCtx, client string, secure bool) { now().others[pattern](ctx, client, secure) }
	}
	cfg.Check = func(ctx context.Context, client string, draft templates.Draft) templates.Checked {
		return now().drafts.Check(ctx, client, draft)
	}
	cfg.Recheck = func(draft templates.Draft) (templates.Checked, bool) { return now().drafts.Recheck(draft) }
	if o.node != nil {
		cfg.Checks = func() bool { return now().drafts != nil }
		cfg.Stale = o.node.stale
	}
	cfg.Sync = publish.Handlers(&o.answers.source, o.Core.BaseURL)
	if o.Witnesses != nil {
		cfg.Witnessed = func() (int64, time.Time) { return o.answers.source.Witnessed(o.Witnesses) }
	}
	o.takeHops(cfg)
}

// leaderBackend answers while this origin leads.
func (o *Origin) leaderBackend(l *Leader) *backend {
	taken := map[string]edge.Handler{}
	for pattern, operation := range PaidOperations {
		taken[pattern] = Paid(l.Payments, operation, edge.Body)
	}
	return &backend{
		paid:    taken,
		others:  map[string]edge.Handler{reportsPattern: o.showReports(), checkPattern: CheckDraft(l.Payments, edge.Body)},
		drafts:  NewDrafts(Drafts{Payments: l.Payments, Sites: o.Sites, Base: o.Core.BaseURL, Reports: o.reports, Extra: o.PayingWords, Log: o.Log}),
		source:  l.publisher,
		control: l.Operator.Handler(),
	}
}

// showReports answers with readiness reports.
func (o *Origin) showReports() edge.Handler {
	return Reports(o.reports, o.Books.rules, o.Log)
}

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
			OldPayment:     len(h.Peek(x402.OldField)) > 0,
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
