package edge

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"webring/edge/front"
	"webring/edge/share"
)

const apiVersion = "1"

// versionServed says whether the request asks for the one version that there
// is, or for none in particular.
func versionServed(h *fasthttp.RequestHeader) bool {
	for _, v := range h.PeekAll("Api-Version") {
		if string(trim(v)) != apiVersion {
			return false
		}
	}
	return true
}

// setHeader sets a field under exactly this spelling.
func setHeader(ctx *fasthttp.RequestCtx, name, value string) {
	ctx.Response.Header.SetCanonical([]byte(name), []byte(value))
}

// finish adds the fields that every answer carries.
func (s *Shell) finish(ctx *fasthttp.RequestCtx, w share.Window) {
	if inHeader(&ctx.Request.Header, "Transfer-Encoding") > 0 {
		// A proxy before this server may have read a Content-Length instead, and then
		// takes other bytes for the next request. So this is the last one that is read
		// from the connection (RFC 9112, 6.1). This comes last, because a handler that
		// answers with a problem resets the response.
		ctx.SetConnectionClose()
		lingering(ctx.Conn())
	}
	if s.draining.Load() {
		ctx.SetConnectionClose()
	}
	a := s.answers.Get().(*answer)
	a.fields = s.appendCommon(a.fields[:0], w, s.now())
	a.fields = append(append(append(a.fields, front.IDField+": "...), ctx.Request.Header.Peek(front.IDField)...), "\r\n"...)
	setFields(ctx, a.fields)
	s.giveBack(a)
	s.showError(ctx)
	s.noteAccess(ctx)
}

// staleField marks an answer of a node that may be behind the ring: it has
// heard nothing new from its origin for a while, or has not yet seen what the
// answer speaks of.
const staleField = "Webring-Stale"

// exposed are the fields that a script of another site may read.
const exposed = "ETag, Link, Location, Retry-After, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, RateLimit-Policy, " +
	"WWW-Authenticate, Payment-Receipt, PAYMENT-REQUIRED, PAYMENT-RESPONSE, Api-Version, X-Request-Id, Webring-Seq, Webring-From, Webring-Stale, Deprecation, Sunset"

func trim(b []byte) []byte { return bytes.Trim(b, " \t") }
