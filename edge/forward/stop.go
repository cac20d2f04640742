package forward

import (
	"context"
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/voucher"
)

// errStopped ends a request that had to stop waiting, and that the origin did not answer in
// time.
var errStopped = errors.New("forward: another request needs the slot")

// stop has a request stop waiting for its outcome. If the origin does not answer it in time,
// drop ends it.
func (f *Forwarder) stop(r *outgoing, drop func()) {
	if mayLog(&f.crowds) {
		f.log.Warn("forward: payments are answered before they have an outcome: others need their slots on the way to the origin")
	}
	time.AfterFunc(stopTime, drop)
	if f.cfg.Secrets != nil {
		go f.askToStop(r)
	}
}

// askToStop asks the origin that has the request to answer it now.
func (f *Forwarder) askToStop(r *outgoing) {
	at := r.at.Load()
	if at == nil {
		at = f.origins.Current()
	}
	if at == nil {
		return
	}
	ctx, cancel := context.WithTimeout(f.open, stopTime)
	defer cancel()
	ask := f.to(ctx, at, r)
	ask.Header.Set(voucher.StopField, "1")
	res, err := f.payments.RoundTrip(ask)
	if err != nil {
		f.log.Warn("forward: the origin was not asked to answer a payment early", "origin", at.URL, "err", err)
		return
	}
	res.Body.Close()
}

// passStop passes on what an edge asks by [voucher.StopField].
func (f *Forwarder) passStop(ctx *fasthttp.RequestCtx, client string, secure bool) {
	r, ok := f.request(ctx, client, secure)
	if !ok {
		f.problem(ctx, api.Malformed, cannotBePassedOn)
		return
	}
	f.askToStop(r)
	ctx.SetStatusCode(fasthttp.StatusNoContent)
}
