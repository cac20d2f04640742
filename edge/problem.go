package edge

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/content"
	"webring/edge/fastpath"
	"webring/edge/front"
	"webring/edge/pages"
	"webring/edge/share"
	"webring/templates"
)

// refusal is a problem that the shell itself finds with a request.
type refusal struct {
	code   api.Code
	detail string
	more   string // further members of the document, each after a comma
}

var (
	unsupportedVersion = refusal{api.UnsupportedAPIVersion, "The only version is 1. Send Api-Version: 1, or leave the field out.", ""}
	badTarget          = refusal{api.Malformed, "The request target must be a path, or an http or https URL, without a fragment.", ""}
	noSuchPath         = refusal{api.NotFound, "Nothing has this path. GET /api lists what there is.", ""}
	wrongMethod        = refusal{api.MethodNotAllowed, "The Allow field lists the methods that this path has.", ""}
	notJSON            = refusal{api.InvalidRequest, "The body must be sent as application/json.",
		`,"errors":[{"pointer":"","detail":"Content-Type must be application/json, end in +json, or be left out."}]`}
	tooManyRequests = refusal{api.RateLimited, "This client has used up its requests for now. Retry-After says in how many seconds it has new ones.", ""}
	internal        = refusal{api.Internal, "The request could not be answered. The fault is not in the request.", ""}
	malformed       = refusal{api.Malformed, "The request is not well-formed HTTP/1.1.", ""}
	headerTooLarge  = refusal{api.HeaderTooLarge, "Request line and header fields must fit into 24 KiB.", ""}
	bodyTooLarge    = refusal{api.BodyTooLarge, "A request body may have 16 KiB, without its content coding too.", ""}
	otherVersion    = refusal{api.UnsupportedHTTP, "This node speaks HTTP/1.1, and HTTP/1.0.", ""}
	overloaded      = refusal{api.Overloaded, "Too many requests are being sent or answered. Retry-After says in how many seconds to try again. No money has moved.", ""}
	tooSlow         = refusal{api.RequestTimeout, "The request did not arrive in time.", ""}
)

// problem makes p the answer, in place of what has been written to it so far.
func (s *Shell) problem(ctx *fasthttp.RequestCtx, p refusal) { p.write(ctx, s.core.BaseURL()) }

func (p *refusal) write(ctx *fasthttp.RequestCtx, baseURL string) {
	ctx.Response.Reset()
	ctx.SetStatusCode(p.code.Status())
	ctx.Response.Header.SetContentType(problemMedia)
	setHeader(ctx, "Cache-Control", "no-store")
	ctx.Response.SetBodyRaw(api.AppendProblem(nil, baseURL, p.code, p.detail, []byte(p.more)))
}

// overloadedFor is in how many seconds there may be room again.
const overloadedFor = "10"

// evicted reports whether a connection had to make room for others.
func evicted(c net.Conn) bool {
	b := bounded(c)
	return b != nil && b.Evicted()
}

// unread answers a request that could not be read to its end. The connection
// is closed afterwards. Of such a request nothing may be known but the peer.
func (s *Shell) unread(ctx *fasthttp.RequestCtx, err error) {
	var w share.Window
	defer s.measureUnread(ctx)
	defer s.contain(ctx, &w)
	lingering(ctx.Conn())
	dropTrailers(&ctx.Request.Header, s.proxies.Field()) // the error may be in the trailers
	s.identify(&ctx.Request.Header)
	c := s.proxies.ClientOfUnread(ctx)
	limiter := s.limits.Load().of(c)
	p, count := malformed, limiter.Take
	var timeout net.Error
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge):
		p = bodyTooLarge
	case errors.As(err, new(*fasthttp.ErrSmallBuffer)):
		p = headerTooLarge
	case errors.Is(err, fastpath.ErrVersion):
		p = otherVersion
	case errors.Is(err, fastpath.ErrNoRoom), evicted(ctx.Conn()):
		p, count = overloaded, limiter.Look
	case errors.As(err, &timeout) && timeout.Timeout():
		// A connection on which nothing was asked counts as no request.
		p, count = tooSlow, limiter.Look
	}
	if w = count(c, s.now()); w.Exceeded() {
		s.refused(&w)
		p = tooManyRequests
	}
	s.problem(ctx, p)
	if p.code == api.Overloaded {
		setHeader(ctx, "Retry-After", overloadedFor)
	}
	ctx.Response.SkipBody = ctx.Request.Header.IsHead()
	s.finish(ctx, w)
}

// audience says in which form a problem is sent.
type audience uint8

const (
	program audience = iota // the path has documents alone: a problem document, whatever is asked for
	either                  // a problem document, where people get a page
	person                  // a page
)

// programFolders are the paths below which only programs ask.
var programFolders = [...]string{"/api", mcpPath, "/sync", "/log"}

// asker says what kind of client asks for a path, percent-decoded, with these fields.
func asker(path []byte, h content.Fields) audience {
	for _, folder := range programFolders {
		if rest, ok := bytes.CutPrefix(path, []byte(folder)); ok && (len(rest) == 0 || rest[0] == '/') {
			return program
		}
	}
	if pages.PrefersHTML(content.List(h, "Accept")) {
		return person
	}
	return either
}

// errorFields are the fields of an error page. It names its request, so it is not shared.
var errorFields = "Content-Type: " + pages.Media + "\r\n" + notStored + pages.Fields + varyAccept

// showError makes a page of a problem document that a person would get. It comes when the
// answer has its other fields.
func (s *Shell) showError(ctx *fasthttp.RequestCtx) {
	r, h := &ctx.Response, &ctx.Request.Header
	if r.StatusCode() < fasthttp.StatusBadRequest || string(r.Header.ContentType()) != problemMedia || len(r.Header.ContentEncoding()) > 0 {
		return
	}
	target, _ := front.Target(h)
	path := front.DecodePath(front.Path(target))
	whose := asker(path, h)
	if whose == program {
		return
	}
	if !varies(r, "Accept") {
		r.Header.Add("Vary", "Accept")
	}
	if whose == either {
		return
	}
	g := s.core.enter()
	defer g.leave()
	var page []byte
	crowded := r.StatusCode() == fasthttp.StatusTooManyRequests
	if !crowded {
		page = s.refusedDraft(ctx, g, path)
	}
	if page == nil {
		f := &pages.Failure{Method: string(h.Method()), Target: target, Status: r.StatusCode(), Body: r.Body(),
			RetryAfter: string(r.Header.Peek("Retry-After")), Reads: s.findRead(ctx, path) != nil, RequestID: string(RequestID(ctx))}
		if crowded {
			page = s.pages.CrowdedPage(g, f)
		} else {
			page = s.pages.ErrorPage(g, f)
		}
	}
	r.Header.Del("ETag")
	setFields(ctx, []byte(errorFields))
	r.SetBodyRaw(page)
}

// refusedDraft is the join page with the draft that a form or an address has and that could not be
// checked, so that the visitor need not fill it in again. If another site sent the draft, the
// page is without it. It is nil for anything else.
func (s *Shell) refusedDraft(ctx *fasthttp.RequestCtx, g *generation, path []byte) []byte {
	draft, ok := draftAsked(ctx)
	if !ok && !ctx.IsPost() || string(path) != pages.JoinPath {
		return nil
	}
	var doc struct{ Detail, Code string }
	if json.Unmarshal(ctx.Response.Body(), &doc) != nil || doc.Code == string(api.Internal) {
		return nil
	}
	if s.isForeign(ctx) {
		return s.pages.ForeignJoin(g)
	}
	if !ok {
		if draft, ok = readDraft(ctx); !ok {
			return nil
		}
	}
	page, failed := s.pages.Join(g, templates.Checked{Draft: draft, Refusal: doc.Detail, Code: doc.Code})
	if failed != nil {
		return nil
	}
	return page
}

// varies says whether an answer already names a field in Vary.
func varies(r *fasthttp.Response, name string) bool {
	for _, line := range r.Header.PeekAll("Vary") {
		for field := range bytes.SplitSeq(line, []byte(",")) {
			if bytes.EqualFold(trim(field), []byte(name)) {
				return true
			}
		}
	}
	return false
}
