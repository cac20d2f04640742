package main

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
	"webring/edge/cache"
	"webring/edge/follow"
	"webring/edge/forward"
	"webring/edge/hops"
	"webring/edge/voucher"
	"webring/server/aside"
	"webring/server/ledger"
	"webring/server/ledger/cluster"
)

// hopsPath is where edges report hops.
const hopsPath = "/sync/hops"

// ringPath is where members are found by words.
const ringPath = "/api/ring"

// countHops makes an edge count hops and report them, and show what its origin keeps next to
// the ledger, except words that r has seen withdrawn. Without a secret the origin takes no
// reports. run reports until its context ends.
func countHops(cfg *edge.Config, f *forward.Forwarder, r *follow.Replica) (run func(ctx context.Context)) {
	cfg.OriginData = cache.NewRelay(func(ctx context.Context, target string) (int, http.Header, []byte, error) {
		a, err := f.Own(ctx, http.MethodGet, target, nil)
		if err != nil {
			return 0, nil, nil, err
		}
		return a.Status, a.Header, a.Body, nil
	}, cfg.Core.BaseURL, r.Withdrawn, time.Now).Document
	if cfg.EdgeSecrets == nil {
		return func(context.Context) {}
	}
	cfg.Hops = hops.NewCounter()
	return hops.NewSender(hops.Config{Counter: cfg.Hops, Send: sendHops(f), Log: cfg.Log}).Run
}

// sendHops gives what sends reports to where a forwarder leads.
func sendHops(f *forward.Forwarder) func(ctx context.Context, report []byte) error {
	return func(ctx context.Context, report []byte) error {
		a, err := f.Own(ctx, http.MethodPost, hopsPath, report)
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

// inBackground runs a function until end is called, which waits for its end.
func inBackground(run func(ctx context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// receiveHops takes the reports of edges, and gives them to receive.
func receiveHops(receive func(ctx context.Context, report []byte) error, baseURL func() string) edge.SyncHandler {
	return func(ctx *fasthttp.RequestCtx, _ string, known bool) {
		problem := func(code api.Code, detail string) {
			ctx.SetStatusCode(code.Status())
			ctx.Response.Header.SetContentType("application/problem+json")
			ctx.Response.SetBodyRaw(api.AppendProblem(nil, baseURL(), code, detail, nil))
		}
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

// countHops has an origin count hops, take the reports of edges, and answer from what it
// keeps. run reports until its context ends.
func (n *originNode) countHops(cfg *edge.Config) (run func(ctx context.Context)) {
	cfg.Hops = hops.NewCounter()
	cfg.OriginData = n.originData
	here, anywhere := receiveHops(n.hops.Receive, n.origin.Core.BaseURL), receiveHops(n.deliverHops, n.origin.Core.BaseURL)
	cfg.Sync["POST "+hopsPath] = func(ctx *fasthttp.RequestCtx, client string, known bool) {
		if len(ctx.Request.Header.Peek(voucher.ToLeaderField)) > 0 {
			here(ctx, client, known)
		} else {
			anywhere(ctx, client, known)
		}
	}
	return hops.NewSender(hops.Config{Counter: cfg.Hops, Send: n.deliverHops, Log: n.log}).Run
}

// originData answers from what this origin has besides the ledger.
func (n *originNode) originData(ctx context.Context, path, query string) (d api.Document) {
	switch {
	case strings.HasSuffix(path, "/hops"):
		return n.hops.Document(path, query)
	case path == ringPath:
		return n.found.Document(query)
	}
	ahead := false
	read := func() { n.books.View(func(v *ledger.View) { d, ahead = aside.News(v, path, query) }) }
	read()
	// A node that follows may be behind the one that this reader has asked before.
	for over := time.Now().Add(followTime); ahead && n.origin.Node() != nil && ctx.Err() == nil && time.Now().Before(over); read() {
		time.Sleep(followTime / 100)
	}
	return d
}

// followTime is how long a node of a cluster waits for news that its reader knows already.
const followTime = 2 * time.Second

// deliverHops stores a report, or passes it on to the node that leads.
func (n *originNode) deliverHops(ctx context.Context, report []byte) error {
	err := n.hops.Receive(ctx, report)
	if errors.Is(err, cluster.ErrNotLeading) && n.passHops != nil {
		return n.passHops(ctx, report)
	}
	return err
}
