package edge

import (
	"bytes"
	"strconv"

	"github.com/valyala/fasthttp"

	"webring/edge/describe"
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
	if len(s.deprecated) > 0 {
		s.markOld(ctx)
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

// leastNotice is for how many days a deprecated path stays (the service interface,
// "Versioning").
const leastNotice = 90

// deprecations are the deprecated paths: none yet.
var deprecations = map[string]describe.Deprecation{}

// markOld adds Deprecation (RFC 9745), Sunset (RFC 8594) and a link to the successor to
// every answer at a deprecated path, problems included.
func (s *Shell) markOld(ctx *fasthttp.RequestCtx) {
	target, _ := front.Target(&ctx.Request.Header)
	path := front.DecodePath(front.Path(target))
	d, old := s.deprecated[string(path)]
	if _, exact := s.plain.exact[string(path)]; !old && !exact && bytes.HasPrefix(path, ringPrefix) {
		d, old = s.deprecated[string(ringPrefix)+"{slug}"]
	}
	if !old {
		return
	}
	setHeader(ctx, "Deprecation", "@"+strconv.FormatInt(d.Since.Unix(), 10))
	setHeader(ctx, "Sunset", string(fasthttp.AppendHTTPDate(nil, d.Sunset)))
	ctx.Response.Header.Add("Link", "<"+d.Successor+`>; rel="successor-version"`)
}

func trim(b []byte) []byte { return bytes.Trim(b, " \t") }
