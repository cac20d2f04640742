package edge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/edge/fastpath"
	"webring/edge/front"
	"webring/edge/hops"
	"webring/edge/mcp"
	"webring/edge/pages"
	"webring/edge/share"
	"webring/edge/voucher"
)

const (
	// MaxBody is the longest request body in bytes.
	MaxBody = 16 << 10
	// maxMade is how many results of tools are made at a time, and how many pages: each takes some
	// megabytes for a moment, and some wait for the origin.
	maxMade = 16
	// MaxHeader is the longest request header in bytes, request line included.
	// A payment credential of 16 KiB fits in with room to spare. The payment code
	// refuses a longer one with a code of its own.
	MaxHeader = fastpath.MaxHead
)

// ErrClosed is what [Shell.Serve] returns after [Shell.Shutdown].
var ErrClosed = errors.New("edge: the shell was shut down")

// Shell is the HTTP server. Its functions may be called concurrently.
type Shell struct {
	core     *Swappable
	proxies  front.Proxies
	stale    func() bool
	followed bool // by edges
	log      *slog.Logger
	access   *front.AccessLog // nil: none is kept
	tls      *tls.Config

	limits atomic.Pointer[limiters]

	now        func() time.Time  // the limiters' clock
	vouchers   *voucher.Verifier // nil: none are taken
	complained atomic.Int64      // second of the last log line about one

	metrics    *metrics                        // nil: nothing is counted
	hops       *hops.Counter                   // nil: none are counted
	originData OriginData                      // nil: there is none
	feeds      atomic.Pointer[content.Content] // the last [describe.FeedsPath]
	moments    atomic.Pointer[content.Content] // the last [describe.MomentsPath]
	router     *router.Router
	drafts     fasthttp.RequestHandler // answers addresses of the join page with a draft; nil where the form is not taken
	deprecated map[string]describe.Deprecation
	pages      *pages.Pages
	mcp        *mcp.Server
	tools      chan *api.Response // turns to make the result of a tool
	drawing    chan *api.Response // turns to draw a page
	plain      plainPaths
	answers    sync.Pool // of *answer
	draining   atomic.Bool
	live       *live
	room       *room
	fast       *fastpath.Server
	server     fasthttp.Server
}

// New prepares a shell. It fails when the configuration contradicts itself.
func New(cfg Config) (*Shell, error) { return newShell(cfg, deprecations) }

func newShell(cfg Config, deprecated map[string]describe.Deprecation) (*Shell, error) {
	if cfg.Core == nil {
		return nil, errors.New("edge: no core to serve")
	}
	for path, d := range deprecated {
		if d.Sunset.Before(d.Since.AddDate(0, 0, leastNotice)) {
			return nil, fmt.Errorf("edge: %s would be gone before %d days of notice are over", path, leastNotice)
		}
	}
	now := cfg.Now
	if now == nil {
		now = time.Now
	}
	core, ok := cfg.Core.(*Swappable)
	if !ok {
		core = NewSwappable(cfg.Core, cfg.CoreDigest)
	}
	s := &Shell{
		core:       core,
		proxies:    cfg.TrustedProxies,
		stale:      cfg.Stale,
		followed:   len(cfg.Sync) > 0,
		now:        now,
		log:        cfg.Log,
		access:     cfg.Access,
		hops:       cfg.Hops,
		originData: cfg.OriginData,
		deprecated: deprecated,
		plain:      newPlainPaths(deprecated),
		answers:    sync.Pool{New: func() any { return new(answer) }},
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.pages = pages.New(s.describedSite(&cfg), now)
	s.live = newLive(core, s.pages)
	s.mcp = mcp.New(toolReader{s}, cfg.Version, s.log)
	s.tools, s.drawing = newTurns(maxMade), newTurns(maxMade)
	if cfg.TLS != nil {
		s.tls = cfg.TLS.Clone()
		s.tls.NextProtos = spoken(cfg.TLS.NextProtos)
	}
	if cfg.EdgeSecrets != nil {
		var err error
		if s.vouchers, err = voucher.NewVerifier(cfg.EdgeSecrets, now); err != nil {
			return nil, err
		}
	}
	s.SetRateLimit(cfg.RateLimit)
	if err := s.routes(cfg); err != nil {
		return nil, err
	}
	if cfg.Count {
		s.countAll()
	}
	s.room = newRoom(maxConns, maxConnsPerClient, maxHolding, s.metrics)
	s.server = fasthttp.Server{
		Handler:        s.handle,
		ErrorHandler:   s.unread,
		HeaderReceived: readHead,

		ReadTimeout:  cmp.Or(cfg.ReadTimeout, 10*time.Second),
		IdleTimeout:  cmp.Or(cfg.IdleTimeout, 30*time.Second),
		WriteTimeout: cmp.Or(cfg.WriteTimeout, 30*time.Second),

		ReadBufferSize:     MaxHeader,
		MaxRequestBodySize: MaxBody,
		// A front page fits in with its header, and goes out in one piece.
		WriteBufferSize: 12 << 10,
		// A worker outlives the slot of its connection by a moment.
		Concurrency: maxConns + 1024,

		CloseOnShutdown:              true,
		KeepHijackedConns:            true, // by live
		NoDefaultServerHeader:        true,
		NoDefaultContentType:         true,
		DisablePreParseMultipartForm: true,
		SecureErrorLogMessage:        true,
		Logger:                       connectionLog{s.log},
	}
	s.fast = fastpath.New(fastpath.Config{
		Serves:      s.plain.have,
		NewAnswerer: func() fastpath.Answerer { return &plainAnswerer{s: s} },
		OnPanic:     func(v any) { s.logPanic(v, nil, nil, nil) },
		Proxies:     &s.proxies,
		APIVersion:  apiVersion,
		ReadTimeout: s.server.ReadTimeout, IdleTimeout: s.server.IdleTimeout, WriteTimeout: s.server.WriteTimeout,
		Now: now,
	})
	return s, nil
}

// Serve answers requests on l until [Shell.Shutdown], and then returns nil
// while requests may still be in work. It closes l. It may be called for
// several listeners.
func (s *Shell) Serve(l net.Listener) error {
	l = &boundedListener{Listener: l, room: s.room, proxies: &s.proxies, sealed: s.tls != nil}
	if s.tls != nil {
		l = tls.NewListener(l, s.tls)
	}
	handed := s.fast.Listen(l)
	if handed == nil {
		l.Close()
		return ErrClosed
	}
	return s.server.Serve(handed)
}

// Drain has every connection end with its next answer, which says so, from now on. New
// connections are still accepted, and their requests answered, until [Shell.Shutdown]. So
// clients and proxies that keep connections move to another node without losing a
// request.
func (s *Shell) Drain() {
	s.draining.Store(true)
	s.live.end()
	s.fast.Drain()
}

// Shutdown stops accepting connections and returns when every request in work
// has been answered, or with ctx's error when it ends before. Idle connections
// are closed, others after their answer.
func (s *Shell) Shutdown(ctx context.Context) error {
	s.live.end()
	// The fast path first: it may still hand connections over.
	return errors.Join(s.fast.Shutdown(ctx), s.server.ShutdownWithContext(ctx))
}

// inHeader counts the lines of a field in the header as it was received. fasthttp drops
// Transfer-Encoding when it has read the body, and adds trailers to the header.
func inHeader(h *fasthttp.RequestHeader, name string) (lines int) {
	for line := range bytes.SplitSeq(h.RawHeaders(), []byte("\n")) {
		// What begins with white space goes on with the line before it.
		if field, _, ok := bytes.Cut(line, []byte(":")); ok && bytes.EqualFold(field, []byte(name)) {
			lines++
		}
	}
	return lines
}

// readHead reads what fasthttp does not read as it is written. The expectation
// 100-continue comes in any case (RFC 9110, 10.1.1), and a client may not send its body
// until it is answered. Connection is a list of options in any case, on one line or
// several, and close among them is the last word (RFC 9110, 7.6.1).
func readHead(h *fasthttp.RequestHeader) (bounds fasthttp.RequestConfig) {
	const known = "100-continue"
	if sent := h.Peek("Expect"); len(sent) > 0 && bytes.EqualFold(sent, []byte(known)) {
		h.Set("Expect", known)
	}
	ours := false // a line that goes on is of Connection
	for line := range bytes.SplitSeq(h.RawHeaders(), []byte("\n")) {
		options := line
		if len(line) == 0 || line[0] != ' ' && line[0] != '\t' {
			var name []byte
			name, options, _ = bytes.Cut(line, []byte(":"))
			ours = bytes.EqualFold(name, []byte("Connection"))
		} else {
			h.SetConnectionClose() // a folded line may be read otherwise by a proxy
		}
		for ours && len(options) > 0 {
			var option []byte
			if option, options, _ = bytes.Cut(options, []byte(",")); bytes.EqualFold(bytes.TrimSpace(option), []byte("close")) {
				h.SetConnectionClose()
				break
			}
		}
	}
	return bounds
}

// dropTrailers removes the lines of a field that came as trailers: a proxy may pass
// trailers on without reading them. fasthttp itself refuses trailers of X-Forwarded.
func dropTrailers(h *fasthttp.RequestHeader, name string) {
	lines := h.PeekAll(name)
	if len(lines) == 0 {
		return
	}
	header := inHeader(h, name)
	if len(lines) <= header {
		return
	}
	own := make([]string, header)
	for i := range own {
		own[i] = string(lines[i])
	}
	h.Del(name)
	for _, line := range own {
		h.Add(name, line)
	}
}

// handle answers a request that was read whole.
func (s *Shell) handle(ctx *fasthttp.RequestCtx) {
	var w share.Window
	defer s.measure(ctx, s.began())
	if b := bounded(ctx.Conn()); b != nil {
		b.work()
	}
	defer s.contain(ctx, &w)
	dropTrailers(&ctx.Request.Header, s.proxies.Field())
	s.identify(&ctx.Request.Header)
	limiter, client := s.limiter(ctx)
	w = limiter.Take(client, s.now())
	switch {
	case w.Exceeded():
		s.refused(&w)
		s.problem(ctx, tooManyRequests)
	case !versionServed(&ctx.Request.Header):
		s.problem(ctx, unsupportedVersion)
	default:
		s.dispatch(ctx)
		if more, ok := ctx.UserValue(countedKey{}).(share.Window); ok {
			w = more
		}
	}
	s.bound(ctx)
	s.finish(ctx, w)
}

// bound counts what an answer holds until its client has read it, and lets the connection make room
// for others from then on, if it can be asked for again. Without room, that is the answer.
func (s *Shell) bound(ctx *fasthttp.RequestCtx) {
	b, status := bounded(ctx.Conn()), ctx.Response.StatusCode()
	// What a refused request did can be asked again; 409 says what a payment came to.
	refused := status >= 400 && status < 500 && status != fasthttp.StatusConflict
	if b == nil || b.Evicted() || ctx.Response.IsBodyStream() || ctx.UserValue(changesKey{}) != nil && !refused {
		return
	}
	if !b.send(len(ctx.Response.Body())) {
		s.noRoom(ctx)
	}
}

// turn waits for one of turns, and gives what ends it; or it answers that there is no room.
func (s *Shell) turn(ctx *fasthttp.RequestCtx, turns chan *api.Response) (end func(), ok bool) {
	room, ok := bounded(ctx.Conn()).turn(turns)
	if !ok {
		s.noRoom(ctx)
		return nil, false
	}
	return sync.OnceFunc(func() { turns <- room }), true
}

// noRoom refuses a request for which there is no room.
func (s *Shell) noRoom(ctx *fasthttp.RequestCtx) {
	s.problem(ctx, overloaded)
	setHeader(ctx, "Retry-After", overloadedFor)
}

// changesKey is the key under which a request is known to have asked for a paid operation.
type changesKey struct{}

// contain answers a request after its handler panicked, and the process goes on. Defer it.
func (s *Shell) contain(ctx *fasthttp.RequestCtx, w *share.Window) {
	v := recover()
	if v == nil {
		return
	}
	target, _ := front.Target(&ctx.Request.Header)
	s.logPanic(v, ctx.Method(), target, RequestID(ctx))
	s.problem(ctx, internal)
	s.finish(ctx, *w)
}

// connectionLog receives what fasthttp logs about connections. The arguments quote what
// could not be parsed, which may be an Authorization field. So only the format is logged.
type connectionLog struct{ log *slog.Logger }

// Printf is what fasthttp calls.
func (l connectionLog) Printf(format string, _ ...any) {
	l.log.Debug("edge: connection", "occasion", format)
}

// logPanic logs where a panic came from, and of the request only method, path and id. A
// panic value of another type than these two may contain parts of the request.
func (s *Shell) logPanic(v any, method, target, id []byte) {
	reason := fmt.Sprintf("%T", v)
	switch v := v.(type) {
	case runtime.Error:
		reason = v.Error()
	case string:
		reason = v
	}
	s.log.Error("edge: panic while answering", "reason", reason,
		"method", string(method), "path", string(front.Path(target)), "request", string(id), "stack", string(debug.Stack()))
}
