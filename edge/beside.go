package edge

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/content"
	"webring/edge/uri"
)

// Beside answers a GET for a path and a query of the form name=value: with what the origin
// keeps beside the ledger. ctx bounds how long it may take.
type Beside func(ctx context.Context, path, query string) api.Document

// besidePaths are what a [Beside] answers, with the parameters that it looks at.
var besidePaths = map[string][]string{
	"/api/hops":               {"days"},
	"/api/ring/{slug}/hops":   {"days"},
	"/api/events":             {"since", "limit"},
	"/api/ring/{slug}/events": {},
}

// ofMember are what the paths of documents of one member end in, by which [besidePaths] has
// them.
var ofMember = [...]string{"/hops", "/events"}

// besides adds documents that no core has to the table of paths.
func (s *Shell) besides(get func(path string, h fasthttp.RequestHandler)) {
	if s.beside == nil {
		return
	}
	for pattern, parameters := range besidePaths {
		get(pattern, func(ctx *fasthttp.RequestCtx) { s.readBeside(ctx, parameters) })
	}
}

// besideParameters gives the parameters of a document that no core has. known says whether
// there is one at this path.
func (s *Shell) besideParameters(path []byte) (parameters []string, known bool) {
	if s.beside == nil {
		return nil, false
	}
	if parameters, known = besidePaths[string(path)]; known {
		return parameters, true
	}
	below, ok := bytes.CutPrefix(path, ringPrefix)
	slash := bytes.IndexByte(below, '/')
	if !ok || slash < 1 {
		return nil, false
	}
	for _, end := range ofMember {
		if string(below[slash:]) == end {
			return besidePaths["/api/ring/{slug}"+end], true
		}
	}
	return nil, false
}

// besideQuery gives the query of a document that no core has: what was given for its
// parameters, in one order, so that caches keep it once.
func besideQuery(given *fasthttp.Args, parameters []string) (query string) {
	for _, name := range parameters {
		for _, v := range given.PeekMulti(name) {
			if len(v) > 0 && len(v) <= maxBesideParameter {
				var args fasthttp.Args
				args.SetBytesV(name, v)
				query = strings.TrimPrefix(query+"&"+args.String(), "&")
				break
			}
		}
	}
	return query
}

// readBeside answers with a document that no core has.
func (s *Shell) readBeside(ctx *fasthttp.RequestCtx, parameters []string) {
	target, _ := uri.Target(&ctx.Request.Header)
	d := s.beside(ctx, string(uri.Decode(uri.Path(target))), besideQuery(ctx.QueryArgs(), parameters))
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
	lines, status, body, _ := content.New(d.Media, d.Body).AppendAnswer(room[:0], &ctx.Request.Header, age)
	setFields(ctx, lines)
	ctx.SetStatusCode(status)
	ctx.Response.SetBodyRaw(body)
}

// maxBesideParameter is the longest value of a parameter that is looked at.
const maxBesideParameter = 64
