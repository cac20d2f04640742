package edge

import (
	"bytes"
	"time"

	"github.com/valyala/fasthttp"

	"webring/edge/front"
	"webring/edge/share"
	"webring/edge/voucher"
)

// takesJSON returns the handler of a request with a JSON body, such as a paid operation.
func (s *Shell) takesJSON(h Handler) fasthttp.RequestHandler {
	other := s.other(h)
	return func(ctx *fasthttp.RequestCtx) {
		if !jsonBody(&ctx.Request.Header) {
			s.problem(ctx, notJSON)
			return
		}
		other(ctx)
	}
}

// other gives the handler of a request that the core does not answer.
func (s *Shell) other(h Handler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if from, ok := ctx.UserValue(senderKey{}).(voucher.Sender); ok {
			h(ctx, from.Client.String(), from.HTTPS)
		} else {
			s.drop(&ctx.Request.Header, voucher.StopField)
			s.drop(&ctx.Request.Header, voucher.ToLeaderField)
			h(ctx, s.proxies.Client(ctx).String(), s.proxies.Secure(ctx))
		}
		if len(ctx.Response.Header.Peek("Cache-Control")) == 0 {
			setHeader(ctx, "Cache-Control", "no-store")
		}
	}
}

// sync gives the handler of requests by which edges follow this node.
func (s *Shell) sync(h SyncHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		from, vouched := ctx.UserValue(senderKey{}).(voucher.Sender)
		h(ctx, s.proxies.Client(ctx).String(), vouched && ofEdge(from))
	}
}

// ofEdge says whether a request is an edge's own: what edges pass on for others names the
// client, whatever its path.
func ofEdge(from voucher.Sender) bool { return from.Client == front.Client{} }

// senderKey is the key under which a request has the sender that its voucher names.
type senderKey struct{}

// vouched gives the sender of a request that comes through an edge. It removes the voucher
// field, valid or not: what is left is the request as the client sent it.
func (s *Shell) vouched(ctx *fasthttp.RequestCtx) (voucher.Sender, bool) {
	h := &ctx.Request.Header
	lines := h.PeekAll(voucher.Field)
	if len(lines) == 0 {
		return voucher.Sender{}, false
	}
	defer s.drop(h, voucher.Field)
	if s.vouchers == nil {
		return voucher.Sender{}, false
	}
	from, err := s.vouchers.Take(lines, voucher.Request{Method: h.Method(), Target: h.RequestURI(), Body: ctx.Request.Body()})
	if err != nil {
		// At most one line a second, or strangers could fill the log.
		if now := time.Now().Unix(); s.complained.Swap(now) != now {
			s.log.Warn("edge: a request is counted as its peer's", "peer", string(front.ClientOf(front.Peer(ctx.RemoteAddr())).AppendNetwork(nil)), "request", string(RequestID(ctx)), "err", err)
		}
		return voucher.Sender{}, false
	}
	ctx.SetUserValue(senderKey{}, from)
	return from, true
}

// jsonBody says whether the body claims to be JSON, or claims nothing.
func jsonBody(h *fasthttp.RequestHeader) bool {
	media, _, _ := bytes.Cut(h.ContentType(), []byte(";"))
	media = bytes.ToLower(trim(media))
	return len(media) == 0 || string(media) == "application/json" ||
		bytes.HasPrefix(media, []byte("application/")) && bytes.HasSuffix(media, []byte("+json"))
}

// limiters count requests, each request in one of them. proxied counts the requests of
// trusted proxies themselves, followers those below /sync/ and /log/ and edges those of them that come
// with a voucher, icons those for icons of members, forwarded those that edges pass on, and all the
// others.
type limiters struct{ all, proxied, followers, edges, icons, forwarded *share.Limiter }

// SetRateLimit changes [Config.RateLimit] while requests are answered. All counts begin
// anew.
func (s *Shell) SetRateLimit(requests int) {
	now := s.now()
	l := &limiters{all: share.NewLimiter(requests, now), proxied: share.NewLimiter(10*requests, now)}
	if s.originData != nil {
		l.icons = share.NewLimiter(10*requests, now) // a page may show many
	}
	if s.followed {
		l.followers = share.NewSilentLimiter(40*requests, now)
	}
	if s.vouchers != nil {
		// On networks that run edges for others, many share few addresses.
		l.edges = share.NewSilentLimiter(100*requests, now)
		l.forwarded = share.NewLimiter(requests, now)
	}
	s.limits.Store(l)
}

// limiter finds the client of a request, and the limiter in which it is counted.
func (s *Shell) limiter(ctx *fasthttp.RequestCtx) (*share.Limiter, front.Client) {
	limits := s.limits.Load()
	var from voucher.Sender
	vouched := false
	if s.vouchers != nil || ctx.Request.Header.IsPost() {
		from, vouched = s.vouched(ctx)
	}
	c := s.proxies.Client(ctx)
	switch {
	case vouched && ofEdge(from):
		// A stranger at the edge's address does not use up its requests.
		return limits.edges, c.AsEdge()
	case limits.followers != nil && forFollowers(ctx.Request.Header.RequestURI()):
		return limits.followers, c
	case s.isIcon(front.Path(ctx.Request.Header.RequestURI())):
		if vouched {
			c = from.Client
		}
		return limits.icons, c
	case vouched:
		return limits.forwarded, from.Client
	}
	return limits.of(c), c
}

// countMore counts a request that was counted once as so many more, since it costs as much.
// It refuses the request, and reports false, when those are too many.
func (s *Shell) countMore(ctx *fasthttp.RequestCtx, more int) bool {
	limiter, client := s.countedIn(ctx)
	for range more {
		w := limiter.Take(client, s.now())
		ctx.SetUserValue(countedKey{}, w)
		if w.Exceeded() {
			s.refused(&w)
			s.problem(ctx, tooManyRequests)
			return false
		}
	}
	return true
}

// countedIn gives what [Shell.limiter] gave for a request to a path that no follower has.
func (s *Shell) countedIn(ctx *fasthttp.RequestCtx) (*share.Limiter, front.Client) {
	if from, vouched := ctx.UserValue(senderKey{}).(voucher.Sender); vouched {
		return s.limits.Load().forwarded, from.Client
	}
	client := s.proxies.Client(ctx)
	return s.limits.Load().of(client), client
}

// countedKey has the window of a request that was counted as several.
type countedKey struct{}

// of gives the limiter of a client that no edge has named. Trusted proxies have one of
// their own, so their health checks pass whatever other clients do.
func (l *limiters) of(c front.Client) *share.Limiter {
	if c.IsProxy() {
		return l.proxied
	}
	return l.all
}
