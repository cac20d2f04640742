package edge

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"webring/edge/front"
	"webring/edge/share"
	"webring/edge/voucher"
)

// limiters count requests, each request in one of them. proxied counts the requests of
// trusted proxies themselves, followers those below /sync/ and edges those of them that come
// with a voucher, forwarded those that edges pass on, and all the others.
type limiters struct{ all, proxied, followers, edges, forwarded *share.Limiter }

// SetRateLimit changes [Config.RateLimit] while requests are answered. All counts begin
// anew.
func (s *Shell) SetRateLimit(requests int) {
	now := s.now()
	l := &limiters{all: share.NewLimiter(requests, now), proxied: share.NewLimiter(10*requests, now)}
	if s.followed {
		l.followers = share.NewSilentLimiter(10*requests, now)
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
	case limits.followers != nil && bytes.HasPrefix(ctx.Request.Header.RequestURI(), syncPrefix):
		return limits.followers, c
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
