package edge

import (
	"path"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"webring/edge/limit"
	"webring/edge/metrics"
	"webring/edge/uri"
	"webring/static"
)

// Metrics are what the shell has counted, nil without [Config.Count].
func (s *Shell) Metrics() *metrics.Metrics { return s.metrics }

// countAll has everything counted from the first request on, by the table of paths.
func (s *Shell) countAll() {
	var paths []metrics.Path
	for _, of := range s.router.List() {
		for _, pattern := range of {
			pattern = strings.ReplaceAll(pattern, ":*}", "}")
			paths = append(paths, metrics.Path{Pattern: pattern, Route: routeName(pattern)})
		}
	}
	s.metrics = metrics.New(paths)
	s.core.countIn(s.metrics)
	route := func(path string) int { return int(s.metrics.Route([]byte(path))) }
	for path, p := range s.plain.exact {
		p.route = route(path)
		s.plain.exact[path] = p
	}
	s.plain.detail.route = route(string(ringPrefix) + "a")
}

// routeName is the route of a pattern in the table of paths: the pattern itself, but for
// files whose names change with what is in them, and for the pages of problems.
func routeName(pattern string) string {
	switch folder := path.Dir(pattern) + "/"; {
	case pattern == static.Widget.Path:
		return "/widget.{digest}.js"
	case folder == "/static/":
		return folder + "{file}"
	case folder == "/problems/":
		return folder + "{code}"
	}
	return pattern
}

// began is when a request began whose answer is counted.
func (s *Shell) began() (now time.Time) {
	if s.metrics != nil {
		now = time.Now()
	}
	return now
}

// measure counts an answer of a request that began then. It is deferred.
func (s *Shell) measure(ctx *fasthttp.RequestCtx, began time.Time) {
	if s.metrics == nil {
		return
	}
	route := metrics.Other
	if target, ok := uri.Target(&ctx.Request.Header); ok && !uri.EscapesSlash(uri.Path(target)) {
		route = s.metrics.Route(uri.Decode(uri.Path(target)))
	}
	s.metrics.Any().Answered(route, ctx.Response.StatusCode(), time.Since(began))
}

// measureUnread counts an answer to what could not be read: nothing of it is believed. It
// is deferred.
func (s *Shell) measureUnread(ctx *fasthttp.RequestCtx) {
	s.metrics.Any().Answered(metrics.Other, ctx.Response.StatusCode(), 0)
}

// refused counts a request that is one too many.
func (s *Shell) refused(w *limit.Window) {
	why, limits := metrics.ByClient, s.limits.Load()
	switch {
	case w.Of(limits.proxied):
		why = metrics.ByProxy
	case w.Of(limits.forwarded):
		why = metrics.ByForwarded
	case w.Of(limits.followers), w.Of(limits.edges):
		why = metrics.ByFollower
	}
	s.metrics.Any().Refused(why)
}
