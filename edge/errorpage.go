package edge

import (
	"bytes"
	"encoding/json"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/content"
	"webring/edge/front"
	"webring/edge/pages"
	"webring/templates"
)

// audience says in which form a problem is sent.
type audience uint8

const (
	program audience = iota // the path has documents alone: a problem document, whatever is asked for
	either                  // a problem document, where people get a page
	person                  // a page
)

// programFolders are the paths below which only programs ask.
var programFolders = [...]string{"/api", mcpPath, "/sync"}

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
const errorFields = "Content-Type: " + pages.Media + "\r\n" + notStored + pages.Fields + varyAccept

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

// refusedDraft is the join page with the draft that a form has sent and that could not be
// checked, so that the visitor need not fill it in again. If another site sent the draft, the
// page is without it. It is nil for anything else.
func (s *Shell) refusedDraft(ctx *fasthttp.RequestCtx, g *generation, path []byte) []byte {
	if !ctx.IsPost() || string(path) != pages.JoinPath {
		return nil
	}
	var doc struct{ Detail, Code string }
	if json.Unmarshal(ctx.Response.Body(), &doc) != nil || doc.Code == string(api.Internal) {
		return nil
	}
	if s.isForeign(ctx) {
		return s.pages.ForeignJoin(g)
	}
	draft, ok := readDraft(ctx)
	if !ok {
		return nil
	}
	page, failed := s.pages.Join(g, draft, templates.Checked{Refusal: doc.Detail, Code: doc.Code})
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
