package forward

import (
	"context"
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/voucher"
)

// errLetGo ends a request that was let go, and that the origin did not answer in time.
var errLetGo = errors.New("forward: let go")

// letGo has a request end before its outcome is known. If the origin does not answer it in
// time, drop ends it.
func (f *Forwarder) letGo(r *outgoing, drop func()) {
	if mayLog(&f.crowds) {
		f.log.Warn("forward: payments are let go before they have an outcome: others need their slots on the way to the origin")
	}
	time.AfterFunc(letGoTime, drop)
	if f.cfg.Secrets != nil {
		go f.askToLetGo(r)
	}
}

// askToLetGo tells the origin that has the request. Its answer is the one to the request
// that is let go.
func (f *Forwarder) askToLetGo(r *outgoing) {
	at := r.at.Load()
	if at == nil {
		at = f.origins.Current()
	}
	if at == nil {
		return
	}
	ctx, cancel := context.WithTimeout(f.open, letGoTime)
	defer cancel()
	ask := f.to(ctx, at, r)
	ask.Header.Set(voucher.LetGoField, "1")
	res, err := f.payments.RoundTrip(ask)
	if err != nil {
		f.log.Warn("forward: the origin does not let a payment go", "origin", at.URL, "err", err)
		return
	}
	res.Body.Close()
}

// passLetGo passes on the request of an edge that follows this one to let a payment go.
func (f *Forwarder) passLetGo(ctx *fasthttp.RequestCtx, client string, secure bool) {
	r, ok := f.request(ctx, client, secure)
	if !ok {
		f.problem(ctx, api.Malformed, cannotBePassedOn)
		return
	}
	f.askToLetGo(r)
	ctx.SetStatusCode(fasthttp.StatusNoContent)
}
