package edge

import (
	"bytes"
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"webring/edge/front"
	"webring/edge/share"
	"webring/static"
)

// metrics count what a shell answers. Its functions may be called concurrently. To count takes
// no lock, and allocates only for the first answer of a route with a status. A nil *metrics
// counts nothing.
//
// Every label is of a fixed set: the routes are the patterns that the shell serves, and
// "other"; the statuses are those of the table of problems and of answers, and "other"; the
// reasons are listed. Nothing that a stranger sends makes a new one.
type metrics struct {
	routes   []routeCounts
	exact    map[string]int // routes by path
	patterns []routePattern

	requests, refusals *prometheus.CounterVec
	took               *prometheus.HistogramVec
	hits, misses       prometheus.Counter
	refused            [reasons]prometheus.Counter
}

// otherRoute is the route of whatever has none.
const otherRoute = 0

// routeCounts are the counters of one route, those that it has needed so far.
type routeCounts struct {
	name   string
	took   atomic.Pointer[prometheus.Observer]
	status [len(statuses)]atomic.Pointer[prometheus.Counter]
}

// statuses are those that are told apart: of documents, pages and files, and of the table
// of problems. 0 is any other.
var statuses = [...]int{0, 200, 201, 202, 204, 302, 304, 400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 413, 415, 422, 429, 431, 500, 502, 503, 504}

// placeOf is the place in statuses by status.
var placeOf = func() (of [600]uint8) {
	for i, status := range statuses {
		of[status] = uint8(i)
	}
	return of
}()

// tookBounds are the upper bounds of the classes by which answers are counted for the time
// that they took, in seconds: most reads take microseconds, and a payment is held until its
// block is there.
var tookBounds = []float64{100e-6, 1e-3, 5e-3, 25e-3, 100e-3, 500e-3, 2.5, 10, 60}

// longestTook is the longest time that is added up: a clock that was set must not spoil a sum.
const longestTook = time.Hour

// reason is why a limiter refused something.
type reason int

const (
	byClient     reason = iota // a client has used up its requests
	byProxy                    // a trusted proxy has used up those of its own
	byForwarded                // a client that an edge forwards for has used up its requests
	byFollower                 // one that follows this node has used up its requests
	byConnection               // too many connections are open, in all or of one client
	reasons
)

var reasonNames = [reasons]string{"client", "proxy", "forwarded", "follower", "connections"}

// newMetrics prepares the counters of a shell. The keys of names are the patterns that it
// serves, the values the names of their routes. A segment in braces matches any that is not
// empty.
func newMetrics(names map[string]string) *metrics {
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "webring_" + name, Help: help}
	}
	m := &metrics{
		exact:    map[string]int{},
		requests: prometheus.NewCounterVec(counter("requests_total", "Answers to requests, by the pattern of the path and the status."), []string{"route", "status"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "webring_request_duration_seconds",
			Help: "Time from a request that was read whole to its answer, without sending it.", Buckets: tookBounds}, []string{"route"}),
		refusals: prometheus.NewCounterVec(counter("limiter_refusals_total", "Requests and connections that a limit refused, by what was used up."), []string{"reason"}),
		hits:     prometheus.NewCounter(counter("cache_hits_total", "Answers that were found in the cache.")),
		misses:   prometheus.NewCounter(counter("cache_misses_total", "Answers that were made because the cache did not have them.")),
	}
	for why, name := range reasonNames {
		m.refused[why] = m.refusals.WithLabelValues(name)
	}
	places := map[string]int{}
	place := func(name string) int {
		at, known := places[name]
		if !known {
			at = len(places)
			places[name] = at
		}
		return at
	}
	place("other")
	for pattern, name := range names {
		if strings.Contains(pattern, "{") {
			m.patterns = append(m.patterns, routePattern{pattern, place(name)})
		} else {
			m.exact[pattern] = place(name)
		}
	}
	// Of two patterns that take the same path, the one with the literal segment comes first.
	slices.SortFunc(m.patterns, func(a, b routePattern) int { return strings.Compare(a.text, b.text) })
	m.routes = make([]routeCounts, len(places))
	for name, at := range places {
		m.routes[at].name = name
	}
	return m
}

// route gives the route of a path without its query, decoded.
func (m *metrics) route(path []byte) int {
	if m == nil {
		return otherRoute
	}
	if r, known := m.exact[string(path)]; known {
		return r
	}
	if i := slices.IndexFunc(m.patterns, func(p routePattern) bool { return p.matches(path) }); i >= 0 {
		return m.patterns[i].route
	}
	return otherRoute
}

// routePattern is a pattern that has a segment in braces.
type routePattern struct {
	text  string
	route int
}

func (p *routePattern) matches(path []byte) bool {
	for rest := p.text; ; {
		want, later, more := strings.Cut(rest, "/")
		segment, after, slash := bytes.Cut(path, []byte("/"))
		switch {
		case more != slash:
			return false
		case strings.HasPrefix(want, "{"):
			if len(segment) == 0 {
				return false
			}
		case want != string(segment):
			return false
		}
		if !more {
			return true
		}
		rest, path = later, after
	}
}

// answered counts an answer, and how long it took to make.
func (m *metrics) answered(route, status int, took time.Duration) {
	if m == nil {
		return
	}
	r, place := &m.routes[route], uint8(0)
	if uint(status) < uint(len(placeOf)) {
		place = placeOf[status]
	}
	count := r.status[place].Load()
	if count == nil {
		name := "other"
		if place > 0 {
			name = strconv.Itoa(statuses[place])
		}
		made := m.requests.WithLabelValues(r.name, name)
		count = &made
		r.status[place].Store(count)
	}
	(*count).Inc()
	times := r.took.Load()
	if times == nil {
		made := m.took.WithLabelValues(r.name)
		times = &made
		r.took.Store(times)
	}
	(*times).Observe(min(max(took, 0), longestTook).Seconds())
}

// refuse counts a refusal.
func (m *metrics) refuse(why reason) {
	if m != nil {
		m.refused[why].Inc()
	}
}

// cached counts a question to the cache of answers.
func (m *metrics) cached(hit bool) {
	switch {
	case m == nil:
	case hit:
		m.hits.Inc()
	default:
		m.misses.Inc()
	}
}

func (m *metrics) all() []prometheus.Collector {
	if m == nil {
		return nil
	}
	return []prometheus.Collector{m.requests, m.took, m.refusals, m.hits, m.misses}
}

// Describe is for [prometheus.Collector].
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(to)
	}
}

// Collect is for [prometheus.Collector].
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(to)
	}
}

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
	for path, of := range s.plain {
		if of.route != noRoute {
			of.route = s.metrics.route([]byte(cmp.Or(path, "/api/ring/a")))
			s.plain[path] = of
		}
	}
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
