package edge

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"webring/core/api"
)

// answer is what one read needs, reused from request to request.
type answer struct {
	api.Response
	fields []byte // header fields being put together
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
	t.serve(target, &a.Response)
	s.write(ctx, t, a)
	s.answers.Put(a)
}

// write turns an answer of a core into HTTP.
func (s *Shell) write(ctx *fasthttp.RequestCtx, t *tenure, a *answer) {
	var status int
	a.fields, status = t.appendAnswer(a.fields[:0], &a.Response, ctx.Request.Header.PeekAll("If-None-Match"))
	ctx.SetStatusCode(status)
	setFields(ctx, a.fields)
	switch {
	case status == fasthttp.StatusNotModified:
	case len(a.Body) > keepBody:
		ctx.Response.SetBodyRaw(bytes.Clone(a.Body))
	default:
		ctx.Response.SetBody(a.Body)
	}
}
