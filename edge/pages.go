package edge

import (
	"bytes"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/uri"
	"webring/static"
	"webring/templates"
)

// immutable is the Cache-Control of what is named by its content, and briefly
// that of what has one name for ever.
const (
	immutable = "public, max-age=31536000, immutable"
	briefly   = "public, max-age=300, stale-while-revalidate=86400, stale-if-error=604800"
)

const pageMedia = "text/html; charset=utf-8"

// pages adds the pages for people to the table of paths.
func (s *Shell) pages(get func(path string, h fasthttp.RequestHandler)) {
	get("/", s.page(drawHome))
	get("/ring", s.page(drawRing))
	get("/join", s.page(drawJoin))
	get("/embed", s.page(drawEmbed))
	get("/docs", s.page(drawDocs))
	// What varies in these paths is read where it stands: a parameter would be
	// copied out of the path.
	get(membersPath+"{slug:*}", s.page(drawMember))
	get(categoriesPath+"{category:*}", s.page(drawCategory))
	get(badgesPath+"{slug:*}", s.page(drawBadge))
	for _, code := range api.Codes() {
		get("/problems/"+string(code), s.page(drawProblem))
	}
	for _, asset := range static.Assets() {
		get(asset.Path, serveAsset(asset, immutable))
	}
	get("/widget.js", serveAsset(static.Widget, briefly))
}

// The folders of pages that there is one of for each member or category.
const (
	membersPath    = "/members/"
	categoriesPath = "/categories/"
	badgesPath     = "/badge/"
)

// leadsDeeper says whether a path lies below a page, where there is nothing: the
// wildcards in the table take more than one segment.
func leadsDeeper(path []byte) bool {
	for _, folder := range [...]string{membersPath, categoriesPath, badgesPath} {
		if rest, ok := bytes.CutPrefix(path, []byte(folder)); ok {
			return len(rest) == 0 || bytes.IndexByte(rest, '/') >= 0
		}
	}
	return false
}

// A draw draws one page for a path, percent-decoded, and the parameters of its
// query. It reads documents from r and nothing else, so the page holds as long
// as they do. It gives nil when r has failed; what r failed with is then the
// answer.
type draw func(r *reader, path string, query *fasthttp.Args) *content

// pageParameters are what the page at a path looks at in a query, in the order in
// which the target of a page that is kept spells them.
func pageParameters(path string) []string {
	switch {
	case path == "/ring", strings.HasPrefix(path, categoriesPath):
		return []string{"kind", "page"}
	case path == "/embed":
		return []string{"from"}
	}
	return nil
}

// maxParameter is the longest value of a parameter that is looked at.
const maxParameter = 300

// page serves what d draws, from memory as long as it holds.
func (s *Shell) page(d draw) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		t := s.core.enter()
		defer t.leave()
		target, path, query := s.pageTarget(ctx)
		p, failed := s.cachedPage(d, t, target, path, query)
		if failed != nil {
			s.write(ctx, t, failed)
			return
		}
		var room [1024]byte
		lines, status, body := p.appendAnswer(room[:0], &ctx.Request.Header, t)
		setFields(ctx, lines)
		ctx.SetStatusCode(status)
		ctx.Response.SetBodyRaw(body)
	}
}

// pageFields are what every page carries.
const pageFields = "Content-Security-Policy: " + templates.Policy + "\r\nReferrer-Policy: strict-origin-when-cross-origin\r\n"

// appendAnswer is that of the content, with what goes with a page.
func (p *page) appendAnswer(dst []byte, h fields, t *tenure) (_ []byte, status int, body []byte) {
	if p.media == pageMedia {
		dst = append(dst, pageFields...)
	}
	dst = appendNumberField(dst, "Webring-Seq", int64(p.entry.Seq))
	dst, status, body, made := p.content.appendAnswer(dst, h, p.age(t))
	p.grow(t, made)
	return dst, status, body
}

// pageTarget gives the name under which a page is kept, its path and its query:
// of the parameters only what the page looks at, so that others make no new page.
func (s *Shell) pageTarget(ctx *fasthttp.RequestCtx) (target, path string, query *fasthttp.Args) {
	sent, _ := uri.Target(&ctx.Request.Header)
	at, raw, asked := bytes.Cut(sent, []byte("?"))
	path = string(uri.Decode(at))
	looked := pageParameters(path)
	if !asked || len(raw) == 0 || len(looked) == 0 {
		return path, path, &noQuery
	}
	var all fasthttp.Args
	all.ParseBytes(raw)
	query = new(fasthttp.Args)
	for _, name := range looked {
		values := all.PeekMulti(name)
		// Without a value a parameter is absent.
		if i := slices.IndexFunc(values, func(v []byte) bool { return len(v) > 0 }); i >= 0 && len(values[i]) <= maxParameter {
			query.SetBytesV(name, values[i])
		}
	}
	if query.Len() == 0 {
		return path, path, &noQuery
	}
	// A path may have a '?' in it, written as an escape: what is asked for stands
	// first, where no path begins.
	return query.String() + " " + path, path, query
}

var noQuery fasthttp.Args

// drawn makes a page the content of an answer.
func drawn(body []byte) *content { return newContent(pageMedia, body) }

// frame is what a page at a path has around it.
func (d *directoryDocument) frame(path, title, description string) templates.Page {
	return templates.Page{Title: title, Ring: d.Name, Description: description, Path: path, Synthetic: d.Synthetic,
		Root: strings.Repeat("../", strings.Count(path[1:], "/")), Style: static.Style.Path, Script: static.Script.Path, Icon: static.Icon.Path}
}

func serveAsset(a static.Asset, cache string) fasthttp.RequestHandler {
	c := newContent(a.Type, a.Body)
	c.sharing = a.Shared
	return func(ctx *fasthttp.RequestCtx) { c.send(ctx, cache) }
}
