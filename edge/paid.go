package edge

import (
	"bytes"
	"time"

	"github.com/valyala/fasthttp"
)

// paid lets the handler of a paid operation answer.
func (s *Shell) paid(h Handler) fasthttp.RequestHandler {
	other := s.other(h)
	return func(ctx *fasthttp.RequestCtx) {
		if !jsonBody(&ctx.Request.Header) {
			s.problem(ctx, notJSON)
			return
		}
		if _, vouched := ctx.UserValue(senderKey{}).(sender); !vouched {
			ctx.Request.Header.Del(letGoField)
		}
		other(ctx)
	}
}

// other lets a handler answer that needs to know who asks.
func (s *Shell) other(h Handler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if from, ok := ctx.UserValue(senderKey{}).(sender); ok {
			h(ctx, from.client.String(), from.https)
		} else {
			h(ctx, s.proxies.Client(ctx).String(), s.proxies.Secure(ctx))
		}
		if len(ctx.Response.Header.Peek("Cache-Control")) == 0 {
			setHeader(ctx, "Cache-Control", "no-store")
		}
	}
}

// sync lets a handler answer those who follow this node.
func (s *Shell) sync(h SyncHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		_, vouched := ctx.UserValue(senderKey{}).(sender)
		h(ctx, s.proxies.Client(ctx).String(), vouched)
	}
}

// senderKey is where the request keeps who sent it, as its voucher says.
type senderKey struct{}

// vouched says who sent a request that comes through an edge. The voucher is
// taken away, held or not: what is left is the request as the client sent it.
func (s *Shell) vouched(ctx *fasthttp.RequestCtx) (sender, bool) {
	h := &ctx.Request.Header
	fields := h.PeekAll(voucherField)
	if len(fields) == 0 {
		return sender{}, false
	}
	field := string(fields[0])
	h.Del(voucherField)
	if s.vouchers == nil {
		return sender{}, false
	}
	from, err := sender{}, errVoucherForm
	if len(fields) == 1 {
		from, err = s.vouchers.take(field, passedOn{h.Method(), h.RequestURI(), ctx.Request.Body()})
	}
	if err != nil {
		// Strangers do not fill the log.
		if now := time.Now().Unix(); s.complained.Swap(now) != now {
			s.log.Warn("edge: a request is counted as its peer's", "peer", ctx.RemoteAddr().String(), "err", err)
		}
		return sender{}, false
	}
	ctx.SetUserValue(senderKey{}, from)
	return from, true
}

// jsonBody says whether the body claims to be JSON, or claims nothing.
func jsonBody(h *fasthttp.RequestHeader) bool {
	media, _, _ := bytes.Cut(h.ContentType(), []byte(";"))
	media = bytes.ToLower(trim(media))
	return len(media) == 0 || string(media) == "application/json" ||
		bytes.HasPrefix(media, []byte("application/")) && bytes.HasSuffix(media, []byte("+json"))
}
