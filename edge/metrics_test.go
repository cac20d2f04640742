package edge

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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
