package edge

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// paid lets the handler of a paid operation answer.
func (s *Shell) paid(h PaidHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if !jsonBody(&ctx.Request.Header) {
			s.problem(ctx, notJSON)
			return
		}
		h(ctx, s.proxies.client(ctx).String(), s.proxies.secure(ctx))
		if len(ctx.Response.Header.Peek("Cache-Control")) == 0 {
			setHeader(ctx, "Cache-Control", "no-store")
		}
	}
}

// jsonBody says whether the body claims to be JSON, or claims nothing.
func jsonBody(h *fasthttp.RequestHeader) bool {
	media, _, _ := bytes.Cut(h.ContentType(), []byte(";"))
	media = bytes.ToLower(trim(media))
	return len(media) == 0 || string(media) == "application/json" ||
		bytes.HasPrefix(media, []byte("application/")) && bytes.HasSuffix(media, []byte("+json"))
}
