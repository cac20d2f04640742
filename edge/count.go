package edge

import (
	"path"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"webring/edge/front"
	"webring/edge/share"
	"webring/static"
)

// Metrics collects what the shell has counted: nothing without [Config.Count].
func (s *Shell) Metrics() prometheus.Collector { return s.metrics }

// countAll has everything counted from the first request on, by the table of paths.
func (s *Shell) countAll() {
	names := map[string]string{}
	for _, of := range s.router.List() {
		for _, pattern := range of {
			pattern = strings.ReplaceAll(pattern, ":*}", "}")
			names[pattern] = routeName(pattern)
		}
	}
	s.metrics = newMetrics(names)
	s.core.countIn(s.metrics)
	for path := range s.plain {
		s.plain[path] = s.metrics.route([]byte(path))
	}
	s.plain[""] = s.metrics.route([]byte("/api/ring/a"))
}

// routeName returns the route of a pattern in the table of paths. It is the pattern itself,
// except for pages of problems and for files named by their content.
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

// began returns when the request being counted began.
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
	route := otherRoute
	if target, ok := front.Target(&ctx.Request.Header); ok && !front.EscapesSlash(front.Path(target)) {
		route = s.metrics.route(front.DecodePath(front.Path(target)))
	}
	s.metrics.answered(route, ctx.Response.StatusCode(), time.Since(began))
}

// measureUnread counts an answer to what could not be read: nothing of it is believed. It
// is deferred.
func (s *Shell) measureUnread(ctx *fasthttp.RequestCtx) {
	s.metrics.answered(otherRoute, ctx.Response.StatusCode(), 0)
}

// refused counts a request that is one too many.
func (s *Shell) refused(w *share.Window) {
	why, limits := byClient, s.limits.Load()
	switch {
	case w.Of(limits.proxied):
		why = byProxy
	case w.Of(limits.forwarded):
		why = byForwarded
	case w.Of(limits.followers), w.Of(limits.edges):
		why = byFollower
	}
	s.metrics.refuse(why)
}
