package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge"
	"webring/edge/describe"
	"webring/edge/forward"
	"webring/edge/hops"
	"webring/edge/voucher"
	"webring/server/aside"
	"webring/server/ledger"
	"webring/server/ledger/cluster"
	"webring/server/sites/visits"
)

// HopsPath is where edges report hops.
const HopsPath = "/sync/hops"

// SendHops gives what sends reports of hops to where a forwarder leads.
func SendHops(f *forward.Forwarder) func(ctx context.Context, report []byte) error {
	return func(ctx context.Context, report []byte) error {
		a, err := f.Own(ctx, http.MethodPost, HopsPath, report)
		switch {
		case err != nil:
			return err
		case a.Status == http.StatusUnprocessableEntity:
			return fmt.Errorf("%w: %.300s", hops.ErrRefused, a.Body)
		case a.Status/100 != 2:
			return fmt.Errorf("the origin answers with status %d: %.300s", a.Status, a.Body)
		}
		return nil
	}
}

// takeHops has the shell count hops, take the reports of edges, and answer from what is kept of
// hops, news, words, feeds and icons.
func (o *Origin) takeHops(cfg *edge.Config) {
	cfg.Hops, cfg.OriginData = hops.NewCounter(), o.originData
	here, anywhere := receiveHops(o.hops.Receive, o.Core.BaseURL), receiveHops(o.deliverHops, o.Core.BaseURL)
	cfg.Sync["POST "+HopsPath] = func(ctx *fasthttp.RequestCtx, client string, known bool) {
		if len(ctx.Request.Header.Peek(voucher.ToLeaderField)) > 0 {
			here(ctx, client, known)
		} else {
			anywhere(ctx, client, known)
		}
	}
	o.sender = hops.NewSender(hops.Config{Counter: cfg.Hops, Send: o.deliverHops, Log: o.Log})
}

// CountHops reports the hops that the shell counts until ctx ends.
func (o *Origin) CountHops(ctx context.Context) { o.sender.Run(ctx) }

// receiveHops takes the reports of edges, and gives them to receive.
func receiveHops(receive func(ctx context.Context, report []byte) error, baseURL func() string) edge.SyncHandler {
	return func(ctx *fasthttp.RequestCtx, _ string, known bool) {
		problem := func(code api.Code, detail string) { setProblem(ctx, baseURL(), code, detail) }
		ctx.Response.Header.Set("Cache-Control", "no-store")
		if !known {
			problem(api.NotAdmitted, "Only edges of this ring report hops.")
			return
		}
		switch err := receive(ctx, edge.Body(ctx)); {
		case errors.Is(err, hops.ErrReport), errors.Is(err, hops.ErrRefused):
			problem(api.InvalidRequest, "This is no report of hops.")
		case errors.Is(err, cluster.ErrNotLeading):
			problem(api.NotLeader, "Another node of this ring keeps hops now.")
		case err != nil:
			problem(api.OriginUnavailable, "The report cannot be stored at the moment. Send it again.")
			ctx.Response.Header.Set("Retry-After", "60")
		default:
			ctx.SetStatusCode(fasthttp.StatusNoContent)
		}
	}
}

// originData answers from what this origin has besides the ledger.
func (o *Origin) originData(ctx context.Context, path, query string) (d api.Document) {
	switch {
	case strings.HasSuffix(path, "/hops"):
		return o.hops.Document(path, query)
	case path == "/api/ring":
		return o.found.Document(query)
	case path == describe.FeedsPath:
		return o.feeds.Document()
	case path == describe.MomentsPath:
		return o.moments.Document()
	case strings.HasSuffix(path, edge.IconEnd):
		o.Books.View(func(v *ledger.View) { d = visits.Icon(v, path) })
		return d
	}
	if path == "/api/events" {
		o.best.Look()
	}
	ahead := false
	read := func() { o.Books.View(func(v *ledger.View) { d, ahead = aside.News(v, path, query, o.best) }) }
	read()
	// A node that follows may be behind the one that this reader has asked before.
	for over := time.Now().Add(followTime); ahead && o.node != nil && ctx.Err() == nil && time.Now().Before(over); read() {
		time.Sleep(followTime / 100)
	}
	return d
}

// followTime is how long a node of a cluster waits for news that its reader knows already.
const followTime = 2 * time.Second

// deliverHops stores a report, or passes it on to the node that leads.
func (o *Origin) deliverHops(ctx context.Context, report []byte) error {
	err := o.hops.Receive(ctx, report)
	if errors.Is(err, cluster.ErrNotLeading) && o.passHops != nil {
		return o.passHops(ctx, report)
	}
	return err
}
