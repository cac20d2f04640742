package edge

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/content"
	"webring/edge/front"
)

// answer is what one read needs, reused from request to request.
type answer struct {
	api.Response
	fields []byte // header fields being put together
}

// maxCopied is the longest body that is copied into the buffer of a connection. A longer
// one gets memory of its own, because an idle connection holds its buffer.
const maxCopied = 64 << 10

// read answers a GET from the core.
func (s *Shell) read(ctx *fasthttp.RequestCtx) {
	target, _ := front.Target(&ctx.Request.Header)
	a := s.answers.Get().(*answer)
	g := s.core.enter()
	defer g.leave()
	r, f := g.serve(target, &ctx.Request.Header, &a.Response, bounded(ctx.Conn()))
	if h := &ctx.Request.Header; r.To > 0 && h.IsGet() && !prefetches(h) {
		s.hops.Count(r.From, r.To, s.proxies.Client(ctx), h.UserAgent(), s.now())
	}
	status := s.head(ctx, g, a, r, &f)
	switch {
	case status == fasthttp.StatusNotModified:
	case r != &a.Response:
		ctx.Response.SetBodyRaw(f.Body) // a cached body never changes
	default:
		copyBody(ctx, r.Body)
	}
	s.giveBack(a)
}

// prefetches says whether a browser asks beforehand, in case its user goes on (Fetch,
// "Sec-Purpose", and what browsers sent before it).
func prefetches(h *fasthttp.RequestHeader) bool {
	return len(h.Peek("Sec-Purpose")) > 0 || len(h.Peek("Purpose")) > 0
}

// giveBack puts an answer into the pool.
func (s *Shell) giveBack(a *answer) {
	a.trim()
	s.answers.Put(a)
}

// trim gives up buffers that are longer than most answers need.
func (a *answer) trim() {
	if a.BufferSize() > 2*maxCopied {
		a.Response = api.Response{}
	}
}

// write turns an answer of a core into HTTP.
func (s *Shell) write(ctx *fasthttp.RequestCtx, g *generation, r *api.Response) {
	a := s.answers.Get().(*answer)
	defer s.giveBack(a)
	if s.head(ctx, g, a, r, &content.Form{}) != fasthttp.StatusNotModified {
		copyBody(ctx, r.Body)
	}
}

// head turns all but the body of an answer into HTTP, with what a has room for.
func (s *Shell) head(ctx *fasthttp.RequestCtx, g *generation, a *answer, r *api.Response, f *content.Form) (status int) {
	a.fields, status = g.appendAnswer(a.fields[:0], r, f, ctx.Request.Header.PeekAll("If-None-Match"))
	ctx.SetStatusCode(status)
	setFields(ctx, a.fields)
	return status
}

func copyBody(ctx *fasthttp.RequestCtx, body []byte) {
	if len(body) > maxCopied {
		ctx.Response.SetBodyRaw(bytes.Clone(body))
	} else {
		ctx.Response.SetBody(body)
	}
}
