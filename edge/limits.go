package edge

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"webring/edge/clientaddr"
	"webring/edge/limit"
	"webring/edge/voucher"
)

// limiters count requests, each request in one of them. proxied counts the requests of
// trusted proxies themselves, followers those below /sync/ and edges those of them that come
// with a voucher, forwarded those that edges pass on, and all the others.
type limiters struct{ all, proxied, followers, edges, forwarded *limit.Limiter }

// SetRateLimit changes [Config.RateLimit] while requests are answered. All counts begin
// anew.
func (s *Shell) SetRateLimit(requests int) {
	now := s.now()
	l := &limiters{all: limit.New(requests, now), proxied: limit.New(10*requests, now)}
	if s.followed {
		l.followers = limit.NewSilent(10*requests, now)
	}
	if s.vouchers != nil {
		// On networks that run edges for others, many share few addresses.
		l.edges = limit.NewSilent(100*requests, now)
		l.forwarded = limit.New(requests, now)
	}
	s.limits.Store(l)
}

// count finds the client of a request, and counts the request in one of the limiters.
func (s *Shell) count(ctx *fasthttp.RequestCtx) limit.Window {
	now, limits := s.now(), s.limits.Load()
	var from voucher.Sender
	vouched := false
	if s.vouchers != nil || ctx.Request.Header.IsPost() {
		from, vouched = s.vouched(ctx)
	}
	c := s.proxies.Client(ctx)
	switch {
	case vouched && ofEdge(from):
		// A stranger at the edge's address does not use up its requests.
		return limits.edges.Take(c.AsEdge(), now)
	case limits.followers != nil && bytes.HasPrefix(ctx.Request.Header.RequestURI(), syncPrefix):
		return limits.followers.Take(c, now)
	case vouched:
		return limits.forwarded.Take(from.Client, now)
	}
	return limits.of(c).Take(c, now)
}

// countMore counts a request that was counted once as so many more, since it costs as much.
// It refuses the request, and reports false, when those are too many.
func (s *Shell) countMore(ctx *fasthttp.RequestCtx, more int) bool {
	client, limits, now := s.proxies.Client(ctx), s.limits.Load(), s.now()
	limiter := limits.of(client)
	if from, vouched := ctx.UserValue(senderKey{}).(voucher.Sender); vouched {
		client, limiter = from.Client, limits.forwarded
	}
	for range more {
		w := limiter.Take(client, now)
		ctx.SetUserValue(countedKey{}, w)
		if w.Exceeded() {
			s.refused(&w)
			s.problem(ctx, tooManyRequests)
			return false
		}
	}
	return true
}

// countedKey has the window of [Shell.countMore].
type countedKey struct{}

// of gives the limiter of a client that no edge has named. Trusted proxies have one of
// their own, so their health checks pass whatever other clients do.
func (l *limiters) of(c clientaddr.Client) *limit.Limiter {
	if c.IsProxy() {
		return l.proxied
	}
	return l.all
}
