package edge

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
)

// letGoField asks the origin to answer now a payment that it holds: one with the same
// credential and body came before, and the edge in between needs its place. The payer is
// told to send it again, and gets then what has become of it. The field is an edge's: it
// counts with a voucher only.
const letGoField = "Webring-Let-Go"

// errLetGo is why a request ends that the origin did not answer when it was let go.
var errLetGo = errors.New("edge: let go")

// outgoing is a request for the origin, with what it takes to ask that it be let go.
type outgoing struct {
	*http.Request
	body   []byte
	client string
	secure bool
}

// letGo has a request end before its outcome is known. Where the origin does not answer
// it in time, drop ends it.
func (f *Forwarder) letGo(r *outgoing, drop func()) {
	if f.complains() {
		f.log.Warn("edge: payments are let go before they have an outcome: others need their places on the way to the origin")
	}
	time.AfterFunc(letGoTime, drop)
	if f.cfg.Secret != nil {
		go f.askToLetGo(r)
	}
}

// askToLetGo tells the origin. Its answer is the one to the request that is let go.
func (f *Forwarder) askToLetGo(r *outgoing) {
	ctx, cancel := context.WithTimeout(f.open, letGoTime)
	defer cancel()
	ask := r.Clone(ctx)
	ask.Body = io.NopCloser(bytes.NewReader(r.body))
	ask.Header.Set(letGoField, "1")
	f.vouch(ask, r)
	res, err := f.payments.RoundTrip(ask)
	if err != nil {
		f.log.Warn("edge: the origin does not let a payment go", "err", err)
		return
	}
	res.Body.Close()
}

// passLetGo tells the origin what an edge behind this one asks of it.
func (f *Forwarder) passLetGo(ctx *fasthttp.RequestCtx, client string, secure bool) {
	r, ok := f.request(ctx, client, secure)
	if !ok {
		f.problem(ctx, api.Malformed, cannotBePassedOn)
		return
	}
	f.askToLetGo(r)
	ctx.SetStatusCode(fasthttp.StatusNoContent)
}

// pushedOut tells the payer of a request that was let go, and which the origin has not
// answered, what to do.
func (f *Forwarder) pushedOut(ctx *fasthttp.RequestCtx, sent bool) {
	if !sent {
		f.crowded(ctx)
		return
	}
	f.problem(ctx, api.PaymentPending, "The outcome of this payment is not known yet, and others need the place of this request on the way to the origin. "+sendAgain)
	setHeader(ctx, "Retry-After", retryForwarded)
}
