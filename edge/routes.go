package edge

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/fasthttp/router"
	"github.com/savsgio/gotils/strconv"
	"github.com/valyala/fasthttp"

	"webring/core/api"
)

// routes builds the table of paths. The router only finds: what it would do by
// itself about slashes, methods and OPTIONS would not look like the rest.
func (s *Shell) routes(cfg Config) error {
	s.router = router.New()
	get := func(path string, h fasthttp.RequestHandler) { s.router.GET(path, h) }
	for _, path := range api.Paths() {
		// A parameter would be copied out of the path; the core reads it there.
		get(strings.Replace(path, "{slug}", "{slug:*}", 1), s.read)
	}
	s.pages(s.negotiated(get))
	s.documents(get)
	s.router.POST(mcpPath, s.callTool)
	if cfg.Check != nil {
		if cfg.Others["POST "+joinPath] != nil {
			return errors.New("edge: the form of the join page is checked here or passed on, not both")
		}
		s.router.POST(joinPath, s.other(s.check(cfg.Check)))
	}
	for path, h := range cfg.Paid {
		if h == nil || !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "{}?#%") {
			return fmt.Errorf("edge: no paid operation can be at %q", path)
		}
		s.router.POST(path, s.paid(h))
	}
	for pattern, h := range cfg.Others {
		method, path, _ := strings.Cut(pattern, " ")
		if h == nil || method != fasthttp.MethodGet && method != fasthttp.MethodPost || !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#%:*") {
			return fmt.Errorf("edge: nothing can be at %q", pattern)
		}
		s.router.Handle(method, path, s.other(h))
	}
	for path, h := range cfg.Sync {
		if h == nil || !strings.HasPrefix(path, string(syncPrefix)) || strings.ContainsAny(path, "?#%:*") {
			return fmt.Errorf("edge: edges cannot follow at %q", path)
		}
		s.router.GET(path, s.sync(h))
	}
	return nil
}

var syncPrefix = []byte("/sync/")

// dispatch finds the handler of a request, or says why there is none.
func (s *Shell) dispatch(ctx *fasthttp.RequestCtx) {
	target, ok := requestTarget(&ctx.Request.Header)
	if !ok {
		s.problem(ctx, badTarget)
		return
	}
	path := pathOf(target)
	if escapesSlash(path) {
		s.problem(ctx, noSuchPath)
		return
	}
	path = decoded(path)
	reads, posts := s.lookup(ctx, fasthttp.MethodGet, path), s.lookup(ctx, fasthttp.MethodPost, path)
	if bytes.HasPrefix(path, ringPrefix) && !api.Serves(path) {
		reads = nil // the wildcard below this prefix takes more than the core has
	}
	if leadsDeeper(path) {
		reads = nil
	}
	switch h := &ctx.Request.Header; {
	case h.IsOptions():
		s.options(ctx, path, reads != nil, posts != nil)
	case reads == nil && posts == nil:
		s.problem(ctx, noSuchPath)
	case reads != nil && (h.IsGet() || h.IsHead()):
		reads(ctx)
	case posts != nil && h.IsPost():
		s.post(ctx, posts)
	default:
		s.problem(ctx, wrongMethod)
		setHeader(ctx, "Allow", allowed(reads != nil, posts != nil))
	}
}

func (s *Shell) lookup(ctx *fasthttp.RequestCtx, method string, path []byte) fasthttp.RequestHandler {
	if !bytes.HasPrefix(path, syncPrefix) {
		ctx = nil // then nothing of the path is kept, which nobody else needs
	}
	h, _ := s.router.Lookup(method, strconv.B2S(path), ctx)
	return h
}

var ringPrefix = []byte("/api/ring/")

// options answers a preflight, and whoever asks what a path can do.
func (s *Shell) options(ctx *fasthttp.RequestCtx, path []byte, reads, posts bool) {
	if string(path) == "*" {
		reads, posts = true, true
	}
	if !reads && !posts {
		s.problem(ctx, noSuchPath)
		return
	}
	methods, fields := allowed(reads, posts), "Api-Version, If-None-Match"
	if posts {
		fields = "Authorization, Content-Type, Idempotency-Key, Accept-Payment, Api-Version"
	}
	if string(path) == mcpPath {
		fields = "Content-Type, Api-Version, Mcp-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-Id"
	}
	ctx.SetStatusCode(fasthttp.StatusNoContent)
	setHeader(ctx, "Allow", methods)
	setHeader(ctx, "Access-Control-Allow-Methods", methods)
	setHeader(ctx, "Access-Control-Allow-Headers", fields)
	setHeader(ctx, "Access-Control-Max-Age", "86400")
	setHeader(ctx, "Cache-Control", "no-store")
}

func allowed(reads, posts bool) string {
	switch {
	case reads && posts:
		return "GET, HEAD, OPTIONS, POST"
	case posts:
		return "OPTIONS, POST"
	}
	return "GET, HEAD, OPTIONS"
}

// requestTarget gives the target of a request in origin form, path and query
// as they were sent, also when it was sent in absolute form (RFC 9112, 3.2).
// It is not ok when it is in no form that GET has, or has a fragment. "*" is
// the target of OPTIONS alone.
func requestTarget(h *fasthttp.RequestHeader) (target []byte, ok bool) {
	target = h.RequestURI()
	if bytes.IndexByte(target, '#') >= 0 {
		return target, false
	}
	if target[0] == '/' {
		return target, true
	}
	if h.IsOptions() && string(target) == "*" {
		return target, true
	}
	scheme, rest, found := bytes.Cut(target, []byte("://"))
	if !found || !bytes.EqualFold(scheme, []byte("http")) && !bytes.EqualFold(scheme, []byte("https")) {
		return target, false
	}
	at := bytes.IndexAny(rest, "/?")
	switch {
	case at < 0:
		return []byte("/"), len(rest) > 0
	case rest[at] == '?':
		return append([]byte("/"), rest[at:]...), at > 0
	}
	return rest[at:], at > 0
}

// pathOf is a target without its query.
func pathOf(target []byte) []byte {
	path, _, _ := bytes.Cut(target, []byte("?"))
	return path
}

// escapesSlash says whether a slash is escaped in a path. It separates no segments
// (RFC 3986, 2.2), and no path has a segment with one.
func escapesSlash(path []byte) bool {
	return bytes.Contains(path, []byte("%2F")) || bytes.Contains(path, []byte("%2f"))
}

// decoded resolves the percent escapes of a path, as the core does. Broken ones
// stay: no path has them.
func decoded(path []byte) []byte {
	if bytes.IndexByte(path, '%') < 0 {
		return path
	}
	return fasthttp.AppendUnquotedArg(nil, bytes.ReplaceAll(path, []byte("+"), []byte("%2B")))
}
