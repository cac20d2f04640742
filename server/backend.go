package server

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"webring/edge"
	"webring/server/paid"
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
	// check is [edge.Config.Check]; if it is nil, the form is passed on as one of others.
	check   func(ctx context.Context, client string, draft templates.Draft) templates.Checked
	source  publish.Source
	control http.Handler // answers the operator
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
		return now().check(ctx, client, draft)
	}
	if o.node != nil {
		cfg.Checks = func() bool { return now().check != nil }
		cfg.Stale = o.node.stale
	}
	cfg.Sync = publish.Handlers(&o.answers.source, o.Core.BaseURL)
}

// leaderBackend answers while this origin leads.
func (o *Origin) leaderBackend(l *Leader) *backend {
	taken := map[string]edge.Handler{}
	for pattern, operation := range PaidOperations {
		taken[pattern] = Paid(l.Payments, operation, edge.Body)
	}
	return &backend{
		paid:    taken,
		others:  map[string]edge.Handler{reportsPattern: o.reports(), checkPattern: CheckDraft(l.Payments, edge.Body)},
		check:   Check(l.Payments, o.Core.BaseURL, o.Reports, o.PayingWords, o.Log),
		source:  l.publisher,
		control: l.Operator.Handler(),
	}
}

// reports answers with readiness reports.
func (o *Origin) reports() edge.Handler {
	return Reports(o.Reports, o.Books.rules, o.Log)
}
