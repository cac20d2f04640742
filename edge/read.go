package edge

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"webring/core/api"
)

// answer is what one read needs, reused from request to request.
type answer struct {
	api.Response
	field []byte // a header field being put together
}

// keepBody is the longest body that is copied into the buffer of a connection.
// Longer ones get memory of their own: an idle connection keeps its buffer.
const keepBody = 64 << 10

// read answers a GET from the core.
func (s *Shell) read(ctx *fasthttp.RequestCtx) {
	target, _ := requestTarget(&ctx.Request.Header)
	a := s.answers.Get().(*answer)
	t := s.core.enter()
	defer t.leave()
	t.core.Serve(target, &a.Response)
	s.write(ctx, t, a)
	s.answers.Put(a)
}

// write turns an answer of a core into HTTP.
func (s *Shell) write(ctx *fasthttp.RequestCtx, t *tenure, a *answer) {
	h := &ctx.Response.Header
	ctx.SetStatusCode(a.Status)
	setNumber(ctx, "Webring-Seq", a.Seq)
	if a.Unknown {
		setHeader(ctx, "Webring-From", "unknown")
	}
	if len(a.Location) > 0 {
		h.SetCanonical([]byte("Location"), a.Location)
	}
	if a.appendLinks(); len(a.field) > 0 {
		h.SetCanonical([]byte("Link"), a.field)
	}
	if a.Validity == api.Never {
		setHeader(ctx, "Cache-Control", "no-store")
	} else {
		setHeader(ctx, "Cache-Control", cacheControls[t.lifetime(&a.Response)])
		a.field = t.appendTag(a.field[:0], &a.Response)
		h.SetCanonical([]byte("ETag"), a.field)
		if a.Status == fasthttp.StatusOK && unchanged(&ctx.Request.Header, a.field) {
			ctx.SetStatusCode(fasthttp.StatusNotModified)
			return
		}
	}
	switch a.Media {
	case api.Problem:
		h.SetContentType("application/problem+json")
	case api.HTML:
		h.SetContentType("text/html; charset=utf-8")
		setHeader(ctx, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	default:
		h.SetContentType("application/json")
	}
	if len(a.Body) > keepBody {
		ctx.Response.SetBodyRaw(bytes.Clone(a.Body))
	} else {
		ctx.Response.SetBody(a.Body)
	}
}

// appendLinks puts the Link field of a list's neighbouring pages together.
func (a *answer) appendLinks() {
	a.field = a.field[:0]
	for _, l := range [...]struct {
		address []byte
		rel     string
	}{{a.Next, "next"}, {a.Prev, "prev"}} {
		if len(l.address) == 0 {
			continue
		}
		if len(a.field) > 0 {
			a.field = append(a.field, ", "...)
		}
		a.field = append(a.field, '<')
		a.field = append(a.field, l.address...)
		a.field = append(a.field, `>; rel="`...)
		a.field = append(a.field, l.rel...)
		a.field = append(a.field, '"')
	}
}
