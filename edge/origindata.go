package edge

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/edge/front"
	"webring/edge/pages"
)

// OriginData answers a GET for a path and a query of the form name=value: with what the origin
// has besides the ledger. ctx bounds how long it may take.
type OriginData func(ctx context.Context, path, query string) api.Document

// originPaths are what [OriginData] answers, with the parameters that it looks at.
var originPaths = map[string][]string{
	"/api/hops":                      {"days"},
	"/api/ring/{slug}/hops":          {"days"},
	"/api/events":                    {"since", "limit"},
	"/api/ring/{slug}/events":        {},
	describe.FeedsPath:               {},
	describe.MomentsPath:             {},
	iconsPrefix + "{slug}" + IconEnd: {},
}

// The path of a member's icon lies below its page, between these two.
const (
	iconsPrefix = "/members/"
	IconEnd     = "/icon.png"
)

// isIcon says whether a path is that of a member's icon.
func (s *Shell) isIcon(path []byte) bool {
	rest, ok := bytes.CutPrefix(path, []byte(iconsPrefix))
	slug, icon := bytes.CutSuffix(rest, []byte(IconEnd))
	return ok && icon && s.originData != nil && len(slug) > 0 && len(slug) <= maxOriginParameter && bytes.IndexByte(slug, '/') < 0
}

// ringPath is the list of members. A core has it, but for a search by words: q.
const ringPath = "/api/ring"

// searchParameters are those of a search.
var searchParameters = []string{"q", "kind", "category", "limit", "offset", "page"}

// asksForWords says whether a query is a search, which only the origin answers.
func (s *Shell) asksForWords(given *fasthttp.Args) bool {
	return s.originData != nil && slices.ContainsFunc(given.PeekMulti("q"), func(v []byte) bool { return len(v) > 0 })
}

// mayAskForWords is asksForWords for the fast path: false is certain.
func mayAskForWords(query []byte) bool {
	return bytes.IndexByte(query, 'q') >= 0 || bytes.IndexByte(query, '%') >= 0
}

// readRing answers with the members in ring order, or with those that a search finds.
func (s *Shell) readRing(ctx *fasthttp.RequestCtx) {
	given := ctx.QueryArgs()
	if !s.asksForWords(given) {
		s.read(ctx)
		return
	}
	if !s.tooLong(ctx, searchParameters, longestSearched) {
		s.answerOriginData(ctx, ringPath, originQuery(given, searchParameters, longestSearched))
	}
}

// tooLong refuses a request that gives one of these parameters a value of more than longest bytes.
func (s *Shell) tooLong(ctx *fasthttp.RequestCtx, parameters []string, longest int) bool {
	for _, name := range parameters {
		for _, v := range ctx.QueryArgs().PeekMulti(name) {
			if len(v) > longest {
				s.problem(ctx, refusal{api.InvalidParameter, fmt.Sprintf("%s must have at most %d bytes.", name, longest), `,"parameter":"` + name + `"`})
				return true
			}
		}
	}
	return false
}

// longestSearched is the longest value of a parameter of a search, in bytes.
const longestSearched = 512

// ofMember are what the paths of documents of one member end in, by which [originPaths] has
// them.
var ofMember = [...]string{"/hops", "/events"}

// originDocuments adds documents that no core has to the table of paths.
func (s *Shell) originDocuments(get func(path string, h fasthttp.RequestHandler)) {
	if s.originData == nil {
		return
	}
	for pattern, parameters := range originPaths {
		get(pattern, func(ctx *fasthttp.RequestCtx) { s.readOriginData(ctx, parameters) })
	}
}

// originParameters gives the parameters of a document that no core has. known says whether
// there is one at this path.
func (s *Shell) originParameters(path []byte) (parameters []string, known bool) {
	if s.originData == nil {
		return nil, false
	}
	if parameters, known = originPaths[string(path)]; known {
		return parameters, true
	}
	below, ok := bytes.CutPrefix(path, ringPrefix)
	slash := bytes.IndexByte(below, '/')
	if !ok || slash < 1 {
		return nil, false
	}
	for _, end := range ofMember {
		if string(below[slash:]) == end {
			return originPaths["/api/ring/{slug}"+end], true
		}
	}
	return nil, false
}

// originQuery gives the query of a document that no core has: what was given for its
// parameters and is no longer than longest, in one order, so that caches keep it once.
func originQuery(given *fasthttp.Args, parameters []string, longest int) (query string) {
	for _, name := range parameters {
		for _, v := range given.PeekMulti(name) {
			if len(v) > 0 && len(v) <= longest {
				var args fasthttp.Args
				args.SetBytesV(name, v)
				if words := pages.Words(string(v)); name == "q" && words != "" {
					args.Set(name, words)
				}
				query = strings.TrimPrefix(query+"&"+args.String(), "&")
				break
			}
		}
	}
	return query
}

// readOriginData answers with a document that no core has.
func (s *Shell) readOriginData(ctx *fasthttp.RequestCtx, parameters []string) {
	target, _ := front.Target(&ctx.Request.Header)
	path := string(front.DecodePath(front.Path(target)))
	if slug, icon := strings.CutSuffix(strings.TrimPrefix(path, iconsPrefix), IconEnd); icon && !s.hasMember(ctx, slug) {
		return
	}
	s.answerOriginData(ctx, path, originQuery(ctx.QueryArgs(), parameters, maxOriginParameter))
}

// hasMember reports whether the core has a member, and answers if it does not: icons are asked for
// often, and the origin is not asked about slugs that are made up.
func (s *Shell) hasMember(ctx *fasthttp.RequestCtx, slug string) bool {
	g := s.core.enter()
	defer g.leave()
	var r api.Response
	g.Ask(append(slices.Clone(ringPrefix), url.PathEscape(slug)...), &r)
	if r.Status == fasthttp.StatusOK {
		return true
	}
	s.write(ctx, g, &r)
	return false
}

// answerOriginData answers with the document that no core has for a path and a query.
func (s *Shell) answerOriginData(ctx *fasthttp.RequestCtx, path, query string) {
	d := s.originData(ctx, path, query)
	if d.Status != fasthttp.StatusOK {
		ctx.SetStatusCode(d.Status)
		ctx.Response.Header.SetContentType(d.Media)
		setHeader(ctx, "Cache-Control", "no-store")
		if d.Status == fasthttp.StatusServiceUnavailable {
			setHeader(ctx, "Retry-After", "5")
		}
		ctx.Response.SetBodyRaw(d.Body)
		return
	}
	var room [512]byte
	age := fmt.Sprintf("public, max-age=%d, stale-while-revalidate=60, stale-if-error=86400", d.MaxAge)
	fields := room[:0]
	if d.Seq > 0 {
		fields = content.AppendNumberField(fields, "Webring-Seq", int64(d.Seq))
	}
	lines, status, body, _ := s.contentOf(path, &d).AppendAnswer(fields, &ctx.Request.Header, age)
	setFields(ctx, lines)
	ctx.SetStatusCode(status)
	ctx.Response.SetBodyRaw(body)
}

// contentOf gives a document as content. The list of feeds and the moments can have hundreds of
// kilobytes, so they are compressed once for as long as they stay the same.
func (s *Shell) contentOf(path string, d *api.Document) *content.Content {
	long := &s.feeds
	switch path {
	case describe.FeedsPath:
	case describe.MomentsPath:
		long = &s.moments
	default:
		c := content.New(d.Media, d.Body)
		c.Plain = strings.HasSuffix(path, IconEnd)
		return c
	}
	c := long.Load()
	if c == nil || !bytes.Equal(c.Body(), d.Body) {
		c = content.New(d.Media, d.Body)
		long.Store(c)
	}
	return c
}

// maxOriginParameter is the longest value of a parameter that is looked at.
const maxOriginParameter = 64
