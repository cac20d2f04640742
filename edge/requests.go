package edge

import (
	"time"

	"github.com/valyala/fasthttp"
	"webring/edge/fastpath"
	"webring/edge/front"
	"webring/edge/voucher"
)

// identify gives a request the one X-Request-Id under which it is answered, passed on and
// logged, whatever the client has sent.
func (s *Shell) identify(h *fasthttp.RequestHeader) {
	ids := h.PeekAll(front.IDField)
	if len(ids) == 1 && front.ValidID(ids[0]) {
		return
	}
	var room [64]byte
	id := append(room[:0], front.GivenID(nil, h.PeekAll(front.TraceField))...)
	if len(id) == 0 {
		id = front.AppendID(id)
	}
	s.drop(h, front.IDField)
	h.SetBytesV(front.IDField, id)
}

// drop removes the lines of a field from a request. fasthttp changes the order of what is left
// then, and of the lines of the field that names clients the last one counts: they are put back
// in the order in which they came, or a request with a field to drop could choose its address.
func (s *Shell) drop(h *fasthttp.RequestHeader, name string) {
	var lines []string
	if named := h.PeekAll(s.proxies.Field()); len(named) > 1 {
		for _, line := range named {
			lines = append(lines, string(line))
		}
	}
	h.Del(name)
	if lines != nil {
		h.Del(s.proxies.Field())
		for _, line := range lines {
			h.Add(s.proxies.Field(), line)
		}
	}
}

// RequestID gives the id of a request that a [Handler] answers. It is valid as long as
// the request.
func RequestID(ctx *fasthttp.RequestCtx) []byte { return ctx.Request.Header.Peek(front.IDField) }

// noteAccess writes the access log's line of a request that fasthttp has read.
func (s *Shell) noteAccess(ctx *fasthttp.RequestCtx) {
	if s.access == nil {
		return
	}
	h, answer, began := &ctx.Request.Header, &ctx.Response, ctx.Time()
	if began.IsZero() {
		began = time.Now() // it was not read to its end
	}
	line := front.AccessLine{At: began, Took: time.Since(began), ID: RequestID(ctx), Client: s.proxies.ClientOfUnread(ctx),
		Method: h.Method(), Target: h.RequestURI(), UserAgent: h.UserAgent(), Status: answer.StatusCode()}
	if from, ok := ctx.UserValue(senderKey{}).(voucher.Sender); ok {
		line.Client = from.Client
	}
	if !h.IsHead() && !answer.IsBodyStream() {
		line.Bytes = len(answer.Body())
	}
	s.access.Add(&line)
}

// noteAccess writes the access log's line of a plain read.
func (p *plainAnswerer) noteAccess(r *fastpath.Request, a *fastpath.Answer, began time.Time) {
	if p.s.access == nil {
		return
	}
	p.s.access.Add(&front.AccessLine{At: began, Took: p.s.now().Sub(began), ID: r.ID, Client: r.Client,
		Method: methodGet, Target: r.Target, UserAgent: r.UserAgent, Status: a.Status, Bytes: len(a.Body)})
}

var methodGet = []byte(fasthttp.MethodGet)
