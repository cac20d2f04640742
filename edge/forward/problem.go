package forward

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/front"
)

const (
	cannotBePassedOn = "The request target or a header field has a form that cannot be passed on as it is."

	sendAgain = "Send the same request with the same credential again: it has one effect, and its answer is kept."

	notDelivered = "so this request was not delivered and charges nothing. " +
		"If you sent a credential before, do not pay anew: send the same request with the same credential again later. Reads go on."
)

// crowded refuses a request that gets no slot. It is not sent later.
func (f *Forwarder) crowded(ctx *fasthttp.RequestCtx, by *slots) {
	if mayLog(&f.crowds) {
		f.log.Warn("forward: as many requests are on their way to the origin as may be, of one client or of all", requestOf(ctx))
	}
	const crowded = "As many requests like this one are on their way to the origin of this ring as may be, of this client or of all"
	if f.paid(by) {
		f.refuse(ctx, api.PaymentsUnavailable, crowded+", "+notDelivered)
	} else {
		f.refuse(ctx, api.OriginUnavailable, crowded+". Other reads go on.")
	}
}

// pushedOut answers a request that had to stop waiting and that the origin has not answered.
func (f *Forwarder) pushedOut(ctx *fasthttp.RequestCtx, sent bool) {
	if !sent {
		f.crowded(ctx, f.payments)
		return
	}
	f.refuse(ctx, api.PaymentPending, "The outcome of this payment is not known yet, and others need the place of this request on the way to the origin. "+sendAgain)
}

// unanswered says that the origin did not answer. A payment that has been sent
// may have been taken, and its credential may be sent again: the origin then
// gives the answer that was lost.
func (f *Forwarder) unanswered(ctx *fasthttp.RequestCtx, by *slots, sent bool, err error) {
	happened, lost := "forward: the origin does not answer", "The origin of this ring was lost before it answered."
	if f.open.Err() != nil {
		happened, lost = "forward: ending before the origin has answered", "This node ends, and the origin of this ring has not answered yet."
	}
	f.log.Warn(happened, requestOf(ctx), "err", err)
	switch {
	case !f.paid(by):
		f.refuse(ctx, api.OriginUnavailable, "Only the origin of this ring has what is at this address, and it cannot be reached. Other reads go on.")
	case !sent:
		f.refuse(ctx, api.PaymentsUnavailable, "The origin of this ring cannot be reached, "+notDelivered)
	case hasCredential(ctx):
		f.refuse(ctx, api.PaymentPending, lost+" "+sendAgain)
	default:
		f.refuse(ctx, api.PaymentsUnavailable, lost+" This request brought no payment and charges nothing. Reads go on.")
	}
}

// paid says whether requests that take these slots may cost money.
func (f *Forwarder) paid(by *slots) bool { return by == f.payments || by == f.asks }

func isRead(ctx *fasthttp.RequestCtx) bool { return ctx.IsGet() || ctx.IsHead() }

// requestOf names a request in the log.
func requestOf(ctx *fasthttp.RequestCtx) slog.Attr {
	return slog.String("request", string(ctx.Request.Header.Peek(front.IDField)))
}

// mayLog reports whether there may be another log line of a kind: at most one a second, so
// that strangers do not fill the log. last is the second of the last one.
func mayLog(last *atomic.Int64) bool {
	now := time.Now().Unix()
	return last.Swap(now) != now
}

// noLeader refuses a request that no node has done anything with: none leads now, or it is
// not known which. A new one leads within seconds.
func (f *Forwarder) noLeader(ctx *fasthttp.RequestCtx) {
	const none = "No node of this ring's origin is known to lead"
	if !isRead(ctx) {
		f.refuse(ctx, api.NotLeader, none+", "+notDelivered)
	} else {
		f.refuse(ctx, api.NotLeader, none+", and only that one has what is at this address. Other reads go on.")
	}
	ctx.Response.Header.Set("Retry-After", "2")
}

// refuse answers with a problem that may be over in a few seconds.
func (f *Forwarder) refuse(ctx *fasthttp.RequestCtx, code api.Code, detail string) {
	f.problem(ctx, code, detail)
	ctx.Response.Header.Set("Retry-After", "5")
}

func (f *Forwarder) problem(ctx *fasthttp.RequestCtx, code api.Code, detail string) {
	ctx.Response.Reset()
	ctx.SetStatusCode(code.Status())
	ctx.SetContentType("application/problem+json")
	ctx.Response.Header.Set("Cache-Control", "no-store")
	if !isRead(ctx) && len(ctx.Request.Header.Peek(x402Field)) > 0 {
		ctx.Response.Header.Set(x402ResponseField, x402Refused(&ctx.Request.Header, code, detail))
	}
	ctx.SetBody(api.AppendProblem(nil, f.cfg.BaseURL(), code, detail, nil))
}
