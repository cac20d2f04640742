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

// ofMember are what the paths of documents of one member end in.
var ofMember = [...][]byte{[]byte("/hops"), []byte("/events")}

// besides adds documents that no core has to the table of paths.
func (s *Shell) besides(get func(path string, h fasthttp.RequestHandler)) {
	if s.beside == nil {
		return
	}
	for pattern, parameters := range besidePaths {
		get(pattern, func(ctx *fasthttp.RequestCtx) { s.readBeside(ctx, parameters) })
	}
}

// isOfMember says whether a path is that of a document of one member.
func (s *Shell) isOfMember(path []byte) bool {
	if s.beside == nil {
		return false
	}
	for _, end := range ofMember {
		if slug, ok := bytes.CutSuffix(bytes.TrimPrefix(path, ringPrefix), end); ok && len(slug) > 0 && bytes.IndexByte(slug, '/') < 0 {
			return true
		}
	}
	return false
}

// readBeside answers with a document that no core has.
func (s *Shell) readBeside(ctx *fasthttp.RequestCtx, parameters []string) {
	target, _ := uri.Target(&ctx.Request.Header)
	path, query := string(uri.Decode(uri.Path(target))), ""
	for _, name := range parameters {
		values := ctx.QueryArgs().PeekMulti(name)
		for _, v := range values {
			if len(v) > 0 && len(v) <= maxBesideParameter {
				var args fasthttp.Args
				args.SetBytesV(name, v)
				query = strings.TrimPrefix(query+"&"+args.String(), "&")
				break
			}
		}
	}
	d := s.beside(ctx, path, query)
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
