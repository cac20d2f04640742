package edge

import (
	"bytes"
	"time"

	"github.com/valyala/fasthttp"

	"webring/edge/front"
	"webring/edge/voucher"
)

// takesJSON returns the handler of a request with a JSON body, such as a paid operation.
func (s *Shell) takesJSON(h Handler) fasthttp.RequestHandler {
	other := s.other(h)
	return func(ctx *fasthttp.RequestCtx) {
		if !jsonBody(&ctx.Request.Header) {
			s.problem(ctx, notJSON)
			return
		}
		other(ctx)
	}
}

// other gives the handler of a request that the core does not answer.
func (s *Shell) other(h Handler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if from, ok := ctx.UserValue(senderKey{}).(voucher.Sender); ok {
			h(ctx, from.Client.String(), from.HTTPS)
		} else {
			s.drop(&ctx.Request.Header, voucher.StopField)
			s.drop(&ctx.Request.Header, voucher.ToLeaderField)
			h(ctx, s.proxies.Client(ctx).String(), s.proxies.Secure(ctx))
		}
		if len(ctx.Response.Header.Peek("Cache-Control")) == 0 {
			setHeader(ctx, "Cache-Control", "no-store")
		}
	}
}

// sync gives the handler of requests by which edges follow this node.
func (s *Shell) sync(h SyncHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		from, vouched := ctx.UserValue(senderKey{}).(voucher.Sender)
		h(ctx, s.proxies.Client(ctx).String(), vouched && ofEdge(from))
	}
}

// ofEdge says whether a request is an edge's own: what edges pass on for others names the
// client, whatever its path.
func ofEdge(from voucher.Sender) bool { return from.Client == front.Client{} }

// senderKey is the key under which a request has the sender that its voucher names.
type senderKey struct{}

// vouched gives the sender of a request that comes through an edge. It removes the voucher
// field, valid or not: what is left is the request as the client sent it.
func (s *Shell) vouched(ctx *fasthttp.RequestCtx) (voucher.Sender, bool) {
	h := &ctx.Request.Header
	lines := h.PeekAll(voucher.Field)
	if len(lines) == 0 {
		return voucher.Sender{}, false
	}
	defer s.drop(h, voucher.Field)
	if s.vouchers == nil {
		return voucher.Sender{}, false
	}
	from, err := s.vouchers.Take(lines, voucher.Request{Method: h.Method(), Target: h.RequestURI(), Body: ctx.Request.Body()})
	if err != nil {
		// At most one line a second, or strangers could fill the log.
		if now := time.Now().Unix(); s.complained.Swap(now) != now {
			s.log.Warn("edge: a request is counted as its peer's", "peer", string(front.ClientOf(front.Peer(ctx.RemoteAddr())).AppendNetwork(nil)), "request", string(RequestID(ctx)), "err", err)
		}
		return voucher.Sender{}, false
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
