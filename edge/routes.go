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
	"webring/edge/pages"
	"webring/edge/uri"
)

// routes builds the table of paths. The router only finds handlers. Its own answers about
// slashes, methods and OPTIONS are not used: they would not look like the others.
func (s *Shell) routes(cfg Config) error {
	s.router = router.New()
	get := func(path string, h fasthttp.RequestHandler) { s.router.GET(path, h) }
	for _, path := range api.Paths() {
		// A parameter would be copied out of the path; the core reads it there.
		get(strings.Replace(path, "{slug}", "{slug:*}", 1), s.read)
	}
	s.people(get)
	s.documents(get)
	s.besides(get)
	s.router.POST(mcpPath, s.callTool)
	if err := s.joinForm(&cfg); err != nil {
		return err
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
		if pattern == joinPattern && cfg.Check != nil {
			continue // joinForm has it
		}
		s.router.Handle(method, path, s.other(h))
	}
	for pattern, h := range cfg.Sync {
		method, path, found := strings.Cut(pattern, " ")
		if !found {
			method, path = fasthttp.MethodGet, pattern
		}
		if h == nil || method != fasthttp.MethodGet && method != fasthttp.MethodPost || !strings.HasPrefix(path, string(syncPrefix)) || strings.ContainsAny(path, "?#%:*") {
			return fmt.Errorf("edge: edges cannot follow at %q", pattern)
		}
		s.router.Handle(method, path, s.sync(h))
	}
	return nil
}

// joinPattern is the pattern of the form of the join page.
const joinPattern = "POST " + pages.JoinPath

// joinForm routes the form of the join page, if this node checks drafts: it does so always,
// or it passes the form on while it cannot.
func (s *Shell) joinForm(cfg *Config) error {
	passOn := cfg.Others[joinPattern]
	switch {
	case cfg.Check == nil && cfg.Checks == nil:
		return nil
	case cfg.Check == nil || (passOn == nil) != (cfg.Checks == nil):
		return errors.New("edge: the form of the join page is checked here or passed on, and both only where Checks decides")
	}
	handler := s.check(cfg.Check)
	if passOn != nil {
		here, checks := handler, cfg.Checks
		handler = func(ctx *fasthttp.RequestCtx, client string, secure bool) {
			if checks() {
				here(ctx, client, secure)
			} else {
				passOn(ctx, client, secure)
			}
		}
	}
	s.router.POST(pages.JoinPath, s.other(handler))
	return nil
}

var syncPrefix = []byte("/sync/")

// dispatch finds the handler of a request, or says why there is none.
func (s *Shell) dispatch(ctx *fasthttp.RequestCtx) {
	target, ok := uri.Target(&ctx.Request.Header)
	if !ok {
		s.problem(ctx, badTarget)
		return
	}
	path := uri.Path(target)
	if uri.EscapesSlash(path) {
		s.problem(ctx, noSuchPath)
		return
	}
	path = uri.Decode(path)
	reads, posts := s.lookup(ctx, fasthttp.MethodGet, path), s.lookup(ctx, fasthttp.MethodPost, path)
	if bytes.HasPrefix(path, ringPrefix) && !api.Serves(path) && !s.isOfMember(path) {
		reads = nil // the wildcard below this prefix takes more than the core has
	}
	if pages.LeadsDeeper(path) {
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
		ctx = nil // store no parameters: only handlers below /sync/ read them
	}
	h, _ := s.router.Lookup(method, strconv.B2S(path), ctx)
	return h
}

var ringPrefix = []byte("/api/ring/")

// options answers a preflight, and says which methods a path has.
func (s *Shell) options(ctx *fasthttp.RequestCtx, path []byte, reads, posts bool) {
	if string(path) == "*" {
		reads, posts = true, true
	}
	if !reads && !posts {
		s.problem(ctx, noSuchPath)
		return
	}
	methods, fields := allowed(reads, posts), "Api-Version, If-None-Match, X-Request-Id"
	if posts {
		fields = "Authorization, Content-Type, Idempotency-Key, Accept-Payment, Api-Version, X-Request-Id"
	}
	if string(path) == mcpPath {
		fields = "Content-Type, Api-Version, X-Request-Id, Mcp-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-Id"
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
