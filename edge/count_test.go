package edge

import (
	"bufio"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
)

// counted gives the answers that were counted: "route status", and how many of it.
func (s *site) counted() map[string]float64 { return s.countedOf("requests_total") }

// countedOf gives a metric by its labels, or by "" without any.
func (s *site) countedOf(metric string) map[string]float64 {
	all := map[string]float64{}
	for name, n := range gathered(s.T, s.Metrics()) {
		if labels, ok := strings.CutPrefix(name, metric); ok {
			all[strings.TrimPrefix(labels, " ")] = n
		}
	}
	return all
}

// Each answer is counted once, by the pattern of its path, whichever path it takes.
func TestAnswersAreCountedByTheirRoutes(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Count: true,
		Paid:   map[string]Handler{"/api/bid": func(ctx *fasthttp.RequestCtx, _ string, _ bool) { ctx.SetStatusCode(402) }},
		Others: map[string]Handler{"GET /reports/{id}": func(ctx *fasthttp.RequestCtx, _ string, _ bool) { ctx.SetStatusCode(404) }},
		Sync:   map[string]SyncHandler{"/sync/snapshot/{sha256}": func(*fasthttp.RequestCtx, string, bool) {}}})
	want := map[string]float64{}
	for _, c := range []struct{ request, route string }{
		{"GET /next?from=alpha", "/next 302"},
		{"GET /api/ring/alpha", "/api/ring/{slug} 200"}, {"GET /api/ring/beta", "/api/ring/{slug} 200"}, {"GET /api/ring/nobody", "/api/ring/{slug} 404"},
		{"GET /api/ring/next?from=alpha", "/api/ring/next 200"}, {"HEAD /api/ring", "/api/ring 200"}, {"DELETE /api/ring", "/api/ring 405"},
		{"GET /api/ring?limit=x", "/api/ring 400"}, {"GET /", "/ 200"}, {"GET /members/alpha", "/members/{slug} 200"},
		{"GET /members/alpha/more", "other 404"}, {"GET /members/%61lpha", "/members/{slug} 200"}, {"GET /api%2Fring", "other 404"},
		{"GET /problems/not_found", "/problems/{code} 200"}, {"GET /nowhere", "other 404"}, {"OPTIONS *", "other 204"},
		{"POST /api/bid", "/api/bid 402"}, {"GET /reports/abc", "/reports/{id} 404"}, {"GET /sync/snapshot/0f", "/sync/snapshot/{sha256} 200"},
	} {
		got := s.Raw(c.request + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		if !strings.HasSuffix(c.route, fmt.Sprint(" ", got.Status)) {
			t.Errorf("%s: status %d, expected %s", c.request, got.Status, c.route)
		}
		want[c.route]++
	}
	for range 5 { // on the fast path
		conn := s.Dial()
		r := bufio.NewReader(conn)
		for _, route := range []string{"/next?from=alpha", "/api/ring/alpha", "/", "/api/ring/nobody"} {
			ask(t, s, conn, r, "GET "+route+" HTTP/1.1\r\nHost: x\r\n\r\n")
		}
		for _, route := range []string{"/next 302", "/api/ring/{slug} 200", "/ 200", "/api/ring/{slug} 404"} {
			want[route]++
		}
	}
	s.Raw("what is this\r\n\r\n")
	want["other 400"]++
	if got := s.counted(); !maps.Equal(got, want) {
		for _, route := range slices.Sorted(maps.Keys(got)) {
			t.Logf("%s: %v, want %v", route, got[route], want[route])
		}
		t.Errorf("%d rows were counted, want %d", len(got), len(want))
	}
	total, taken := 0.0, 0.0
	for _, n := range want {
		total += n
	}
	for route, n := range s.countedOf("request_duration_seconds") {
		if !strings.Contains(route, " ") {
			taken += n
		}
	}
	if taken != total {
		t.Errorf("%v answers have a time, want %v", taken, total)
	}
}

// Whatever strangers ask for, no more names are counted than there are routes.
func TestStrangersMakeNoNames(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Count: true})
	for i := range 300 {
		path := []string{"/made-up-%d", "/api/ring/x%d", "/members/%d", "/static/%d.css", "/problems/%d", "/api/ring/a/%d", "/%%2e%%2e/%d", "/sitemaps/%d"}[i%8]
		method := []string{"GET", "BREW", "X-%d", "PUT", "HEAD"}[i%5]
		if strings.Contains(method, "%") {
			method = fmt.Sprintf(method, i)
		}
		s.Raw(method + " " + fmt.Sprintf(path, i) + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	}
	routes := map[string]bool{}
	for row := range s.counted() {
		route, _, _ := strings.Cut(row, " ")
		routes[route] = true
	}
	want := []string{"/api/ring/{slug}", "/members/{slug}", "/problems/{code}", "/sitemaps/{name}", "other"}
	for route := range routes {
		if !slices.Contains(want, route) {
			t.Errorf("%s was counted", route)
		}
	}
}

func TestRefusalsAreCountedByReason(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Count: true, RateLimit: 3, Sync: map[string]SyncHandler{"/sync/x": func(*fasthttp.RequestCtx, string, bool) {}}})
	for range 5 {
		s.Get("/api")
	}
	for range 122 {
		s.Get("/sync/x")
	}
	got := s.countedOf("limiter_refusals_total")
	if want := map[string]float64{"client": 2, "proxy": 0, "forwarded": 0, "follower": 2, "connections": 0}; !maps.Equal(got, want) {
		t.Errorf("refused %v, want %v", got, want)
	}
	if n := s.counted()["/api 429"]; n != 2 {
		t.Errorf("%v answers of 429, want 2", n)
	}
}

func TestQuestionsToTheCacheAreCounted(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Count: true})
	for range 10 {
		s.Get("/api/ring/alpha")
	}
	hits, misses := s.countedOf("cache_hits_total")[""], s.countedOf("cache_misses_total")[""]
	if hits != 8 || misses != 2 { // what is cheap to make is kept when it is asked for again
		t.Errorf("%v found and %v not, want 8 and 2", hits, misses)
	}
	for range 3 {
		s.Get("/ring")
	}
	if more := s.countedOf("cache_hits_total")[""]; more != hits+2 {
		t.Errorf("%v of 3 pages were found", more-hits)
	}
}

func TestNothingIsCountedUnasked(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), RateLimit: 1})
	for range 3 {
		s.Get("/api")
	}
	if len(gathered(t, s.Metrics())) > 0 {
		t.Error("the shell counts")
	}
}

// gathered gives what a collector counts, by name and labels as in "name a b": of a histogram
// the number of observations, and by "name le" and "name sum" the buckets and the sum.
func gathered(t testing.TB, c prometheus.Collector) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := strings.TrimPrefix(f.GetName(), "webring_")
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			if h := m.Histogram; h != nil {
				all[name], all[name+" sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
				all[name+" fast"], all[name+" slow"] = float64(h.Bucket[0].GetCumulativeCount()), float64(h.Bucket[len(h.Bucket)-1].GetCumulativeCount())
			} else {
				all[name] = m.Counter.GetValue()
			}
		}
	}
	return all
}

func someMetrics() *metrics {
	return newMetrics(map[string]string{"/": "/", "/api/ring": "/api/ring", "/api/ring/next": "/api/ring/next", "/api/ring/{slug}": "/api/ring/{slug}",
		"/static/a.0f.css": "/static/{file}", "/static/b.1e.js": "/static/{file}", "/sync/{kind}/of/{name}": "/sync/{kind}/of/{name}"})
}

func TestMetricsCount(t *testing.T) {
	m := someMetrics()
	ring, other := m.route([]byte("/api/ring")), m.route([]byte("/nowhere"))
	const each, many = 500, 8
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			for range each {
				m.answered(ring, 200, 50*time.Microsecond)
				m.answered(ring, 304, time.Second/2)
				m.answered(other, 404, 2*time.Hour)
				m.answered(other, 418, -time.Second)
				m.answered(other, 99999, 0)
				m.answered(other, -1, 0)
				m.refuse(byFollower)
				m.cached(true)
				m.cached(false)
			}
		})
	}
	all.Wait()
	got := gathered(t, m)
	const n = each * many
	if sum := got["request_duration_seconds /api/ring sum"]; sum < 0.50004*n || sum > 0.50006*n {
		t.Errorf("the answers of /api/ring took %v seconds", sum)
	}
	delete(got, "request_duration_seconds /api/ring sum")
	want := map[string]float64{
		"requests_total other other": 3 * n, "requests_total other 404": n, "requests_total /api/ring 200": n, "requests_total /api/ring 304": n,
		"request_duration_seconds other": 4 * n, "request_duration_seconds other fast": 3 * n, "request_duration_seconds other slow": 3 * n, "request_duration_seconds other sum": 3600 * n,
		"request_duration_seconds /api/ring": 2 * n, "request_duration_seconds /api/ring fast": n, "request_duration_seconds /api/ring slow": 2 * n,
		"limiter_refusals_total client": 0, "limiter_refusals_total proxy": 0, "limiter_refusals_total forwarded": 0, "limiter_refusals_total follower": n, "limiter_refusals_total connections": 0,
		"cache_hits_total": n, "cache_misses_total": n,
	}
	if !maps.Equal(got, want) {
		for _, name := range slices.Sorted(maps.Keys(got)) {
			t.Logf("%s: %v, want %v", name, got[name], want[name])
		}
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
}
