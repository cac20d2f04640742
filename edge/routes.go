package edge

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fasthttp/router"
	"github.com/savsgio/gotils/strconv"
	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/describe"
	"webring/edge/front"
	"webring/edge/pages"
)

// routes builds the table of paths. The router only finds handlers. Its own answers about
// slashes, methods and OPTIONS are not used: they would not look like the others.
func (s *Shell) routes(cfg Config) error {
	s.router = router.New()
	get := func(path string, h fasthttp.RequestHandler) { s.router.GET(path, h) }
	for _, path := range api.Paths() {
		if path == ringPath {
			get(path, s.readRing)
			continue
		}
		// A parameter would be copied out of the path; the core reads it there.
		get(strings.Replace(path, "{slug}", "{slug:*}", 1), s.read)
	}
	s.people(get)
	s.documents(get)
	s.originDocuments(get)
	s.router.POST(mcpPath, s.callTool)
	s.router.POST(describe.AgentPath, s.callAgent)
	if err := s.joinForm(&cfg); err != nil {
		return err
	}
	for pattern, h := range cfg.Paid {
		method, path, named := strings.Cut(pattern, " ")
		if !named {
			method, path = fasthttp.MethodPost, pattern
		}
		if h == nil || !slices.Contains(changing[:], method) || !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#%:*") {
			return fmt.Errorf("edge: no paid operation can be at %q", pattern)
		}
		s.router.Handle(method, path, s.takesJSON(func(ctx *fasthttp.RequestCtx, client string, secure bool) {
			ctx.SetUserValue(changesKey{}, true)
			h(ctx, client, secure)
		}))
	}
	for pattern, h := range cfg.Others {
		method, path, _ := strings.Cut(pattern, " ")
		if h == nil || method != fasthttp.MethodGet && method != fasthttp.MethodPost || !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#%:*") {
			return fmt.Errorf("edge: nothing can be at %q", pattern)
		}
		if pattern == joinPattern {
			continue // joinForm has it
		}
		if method == fasthttp.MethodPost && strings.HasPrefix(path, apiPrefix) {
			s.router.Handle(method, path, s.takesJSON(h))
			continue
		}
		s.router.Handle(method, path, s.other(h))
	}
	for pattern, h := range cfg.Sync {
		method, path, found := strings.Cut(pattern, " ")
		if !found {
			method, path = fasthttp.MethodGet, pattern
		}
		if h == nil || method != fasthttp.MethodGet && method != fasthttp.MethodPost || !forFollowers([]byte(path)) || strings.ContainsAny(path, "?#%:*") && !strings.HasPrefix(path, string(logPrefix)) {
			return fmt.Errorf("edge: edges cannot follow at %q", pattern)
		}
		s.router.Handle(method, path, s.sync(h))
	}
	return nil
}

// joinPattern is the pattern of the form of the join page.
const joinPattern = "POST " + pages.JoinPath

// joinForm routes the form of the join page: this node checks drafts, passes them on, or
// passes them on while it cannot check them. A form of another site is refused first.
func (s *Shell) joinForm(cfg *Config) error {
	passOn := cfg.Others[joinPattern]
	checked, shown := passOn, passOn
	switch {
	case (cfg.Check == nil) != (cfg.Recheck == nil):
		return errors.New("edge: a node that checks drafts knows what it found")
	case cfg.Check == nil && cfg.Checks == nil:
		if passOn == nil {
			return nil
		}
	case cfg.Check == nil || (passOn == nil) != (cfg.Checks == nil):
		return errors.New("edge: the form of the join page is checked here or passed on, and both only where Checks decides")
	case passOn == nil:
		checked, shown = s.check(cfg.Check), s.found(cfg.Recheck)
	default:
		here := func(h Handler) Handler {
			return func(ctx *fasthttp.RequestCtx, client string, secure bool) {
				if cfg.Checks() {
					h(ctx, client, secure)
				} else {
					passOn(ctx, client, secure)
				}
			}
		}
		checked, shown = here(s.check(cfg.Check)), here(s.found(cfg.Recheck))
	}
	s.router.POST(pages.JoinPath, s.other(s.ownForm(checked)))
	s.drafts = s.other(s.ownForm(shown))
	return nil
}

var syncPrefix, logPrefix = []byte("/sync/"), []byte("/log/")

// forFollowers reports whether a path is of those that edges and verifiers of the log read.
func forFollowers(path []byte) bool {
	return bytes.HasPrefix(path, syncPrefix) || bytes.HasPrefix(path, logPrefix)
}

// serversPrefix begins the paths of MCP servers. Their names have a slash, which clients escape.
var serversPrefix = []byte(describe.ServersPath + "/")

const apiPrefix = "/api/"

// dispatch finds the handler of a request, or says why there is none.
func (s *Shell) dispatch(ctx *fasthttp.RequestCtx) {
	target, ok := front.Target(&ctx.Request.Header)
	if !ok {
		s.problem(ctx, badTarget)
		return
	}
	raw := front.Path(target)
	if front.EscapesSlash(raw) && !bytes.HasPrefix(raw, serversPrefix) {
		s.problem(ctx, noSuchPath)
		return
	}
	path := front.DecodePath(raw)
	h := &ctx.Request.Header
	// A slash at the end that is escaped is none: it is part of a name.
	if short := path[:len(path)-1]; raw[len(raw)-1] == '/' && s.endsInSlash(path) {
		if !h.IsOptions() { // a browser follows no redirect of a preflight
			s.toPath(ctx, target)
			return
		}
		path = short
	}
	reads := s.findRead(ctx, path)
	if reads != nil && (h.IsGet() || h.IsHead()) {
		reads(ctx)
		return
	}
	m := methods{reads, s.findChanges(ctx, path)}
	change := m.changes[string(h.Method())]
	switch {
	case h.IsOptions():
		s.options(ctx, path, m)
	case m.none():
		s.problem(ctx, noSuchPath)
	case change != nil:
		s.post(ctx, change)
	default:
		s.problem(ctx, wrongMethod)
		setHeader(ctx, "Allow", m.allowed())
	}
}

// endsInSlash reports whether a path has a slash at its end too many: without it, there is
// something at the path, which has no other slash at its end.
func (s *Shell) endsInSlash(path []byte) bool {
	if len(path) < 2 || path[len(path)-1] != '/' {
		return false
	}
	path = path[:len(path)-1]
	if len(path) > 1 && path[len(path)-1] == '/' {
		return false
	}
	return s.findRead(nil, path) != nil || len(s.findChanges(nil, path)) > 0
}

// toPath sends a request for a path that ends in a slash too many, with its method, body and
// query, to the path without it. The reference is relative, so it also leads there where a
// proxy takes the path of the base URL off before this node, and never to another host.
func (s *Shell) toPath(ctx *fasthttp.RequestCtx, target []byte) {
	path := front.Path(target)
	short := path[:len(path)-1]
	last := short[bytes.LastIndexByte(short, '/')+1:]
	ctx.SetStatusCode(fasthttp.StatusPermanentRedirect)
	setHeader(ctx, "Location", string(front.AppendEscaped([]byte("../"), last, target[len(path):])))
	setHeader(ctx, "Cache-Control", "no-store")
}

// changing are the methods of requests that are no reads.
var changing = [...]string{fasthttp.MethodDelete, fasthttp.MethodPatch, fasthttp.MethodPost}

// methods has the handlers of a path, those of requests that are no reads by their method.
type methods struct {
	reads   fasthttp.RequestHandler
	changes map[string]fasthttp.RequestHandler
}

func (m *methods) none() bool { return m.reads == nil && len(m.changes) == 0 }

// allowed is the Allow field of a path.
func (m *methods) allowed() string {
	names := slices.AppendSeq([]string{fasthttp.MethodOptions}, maps.Keys(m.changes))
	if m.reads != nil {
		names = append(names, fasthttp.MethodGet, fasthttp.MethodHead)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (s *Shell) findRead(ctx *fasthttp.RequestCtx, path []byte) fasthttp.RequestHandler {
	if bytes.HasPrefix(path, ringPrefix) && !api.Serves(path) {
		if _, known := s.originParameters(path); !known {
			return nil // the wildcard below this prefix takes more than the core has
		}
	}
	if pages.LeadsDeeper(path) && !s.isIcon(path) {
		return nil
	}
	if !bytes.HasPrefix(path, syncPrefix) {
		ctx = nil // store no parameters: only handlers below /sync/ read them
	}
	return s.lookup(ctx, fasthttp.MethodGet, path)
}

// findChanges gives the handlers of requests that are no reads. It stores their parameters
// as values of ctx.
func (s *Shell) findChanges(ctx *fasthttp.RequestCtx, path []byte) map[string]fasthttp.RequestHandler {
	if _, named := s.plain[string(path)]; named && bytes.HasPrefix(path, ringPrefix) {
		return nil // a read of the ring, and no member's slug
	}
	found := map[string]fasthttp.RequestHandler{}
	for _, method := range changing {
		if h := s.lookup(ctx, method, path); h != nil {
			found[method] = h
		}
	}
	return found
}

func (s *Shell) lookup(ctx *fasthttp.RequestCtx, method string, path []byte) fasthttp.RequestHandler {
	h, _ := s.router.Lookup(method, strconv.B2S(path), ctx)
	return h
}

var ringPrefix = []byte("/api/ring/")

// options answers a preflight, and says which methods a path has.
func (s *Shell) options(ctx *fasthttp.RequestCtx, path []byte, m methods) {
	methods, changes := m.allowed(), len(m.changes) > 0
	switch {
	case string(path) == "*":
		methods, changes = "DELETE, GET, HEAD, OPTIONS, PATCH, POST", true
	case m.none():
		s.problem(ctx, noSuchPath)
		return
	}
	fields := "Api-Version, If-None-Match, X-Request-Id"
	if changes {
		// The x402 reference client sends the last field with its payments, though it means
		// nothing in a request.
		fields = "Authorization, Content-Type, Content-Encoding, Idempotency-Key, Accept-Payment, Wallet-Account, Api-Version, X-Request-Id, PAYMENT-SIGNATURE, Access-Control-Expose-Headers"
	}
	if string(path) == mcpPath {
		fields = "Content-Type, Content-Encoding, Api-Version, X-Request-Id, Mcp-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-Id"
	}
	if string(path) == describe.AgentPath {
		fields = "Content-Type, Content-Encoding, Api-Version, X-Request-Id, A2A-Version, A2A-Extensions"
	}
	ctx.SetStatusCode(fasthttp.StatusNoContent)
	setHeader(ctx, "Allow", methods)
	setHeader(ctx, "Access-Control-Allow-Methods", methods)
	setHeader(ctx, "Access-Control-Allow-Headers", fields)
	setHeader(ctx, "Access-Control-Max-Age", "86400")
	setHeader(ctx, "Cache-Control", "no-store")
}
