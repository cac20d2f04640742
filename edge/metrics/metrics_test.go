package metrics

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func some() *Metrics {
	return New([]Path{{"/", "/"}, {"/api/ring", "/api/ring"}, {"/api/ring/next", "/api/ring/next"}, {"/api/ring/{slug}", "/api/ring/{slug}"},
		{"/static/a.0f.css", "/static/{file}"}, {"/static/b.1e.js", "/static/{file}"}, {"/sync/{kind}/of/{name}", "/sync/{kind}/of/{name}"}})
}

func TestRoutesAreThoseOfTheTable(t *testing.T) {
	m := some()
	for path, want := range map[string]string{
		"/": "/", "/api/ring": "/api/ring", "/api/ring/next": "/api/ring/next", "/api/ring/a-member": "/api/ring/{slug}",
		"/static/a.0f.css": "/static/{file}", "/static/b.1e.js": "/static/{file}", "/sync/x/of/y": "/sync/{kind}/of/{name}",
		"": "other", "*": "other", "/api/ring/": "other", "/api/ring/a/b": "other", "/api/ring//": "other", "/API/RING": "other", "/api": "other",
		"/static/c.js": "other", "/sync/x/of/": "other", "/sync/x/on/y": "other", "/api/ring/{slug}/": "other", "other": "other",
	} {
		if got := m.names[m.Route([]byte(path))]; got != want {
			t.Errorf("%q is of %s, want %s", path, got, want)
		}
	}
}

// rows are all counters as text.
func rows(m *Metrics) string {
	var b strings.Builder
	m.EachStatus(func(route, status string, n uint64) { fmt.Fprintln(&b, route, status, n) })
	m.EachTaken(func(x Taken) { fmt.Fprintln(&b, x.Route, x.Within, x.Count, x.Sum) })
	m.EachRefusal(func(r Reason, n uint64) { fmt.Fprintln(&b, r, n) })
	hits, misses := m.Cache()
	fmt.Fprintln(&b, hits, misses)
	return b.String()
}

func TestCountsAreAddedUp(t *testing.T) {
	m := some()
	ring, other := m.Route([]byte("/api/ring")), m.Route([]byte("/nowhere"))
	for range 2 * len(m.shards) {
		s := m.Shard()
		s.Answered(ring, 200, 50*time.Microsecond)
		s.Answered(ring, 304, time.Millisecond)
		s.Answered(other, 404, 2*time.Hour)
		s.Answered(other, 418, -time.Second)
		s.Answered(other, 99999, 0)
		s.Answered(other, -1, 0)
		s.Refused(ByFollower)
		s.Cached(true)
		m.Any().Cached(false)
	}
	n := 2 * len(m.shards)
	want := strings.ReplaceAll(fmt.Sprintf(`other other %d
other 404 N
/api/ring 200 N
/api/ring 304 N
other [%[1]d %[1]d %[1]d %[1]d %[1]d %[1]d %[1]d %[1]d %[1]d] %[2]d %[3]v
/api/ring [N %[4]d %[4]d %[4]d %[4]d %[4]d %[4]d %[4]d %[4]d] %[4]d %[5]v
client 0
proxy 0
forwarded 0
follower N
connections 0
N N
`, 3*n, 4*n, time.Duration(n)*longest, 2*n, time.Duration(n)*1050*time.Microsecond), "N", fmt.Sprint(n))
	if got := rows(m); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestNoCountIsLostAmongMany(t *testing.T) {
	m := some()
	const each, many = 10_000, 8
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			s, r := m.Shard(), m.Route([]byte("/"))
			for range each {
				s.Answered(r, 200, 0)
				m.Any().Answered(r, 200, 0)
			}
		})
	}
	all.Wait()
	total := uint64(0)
	m.EachStatus(func(_, _ string, n uint64) { total += n })
	if total != 2*each*many {
		t.Errorf("%d of %d were counted", total, 2*each*many)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	m := some()
	path, wrong := []byte("/sync/x/of/y"), []byte("/no/such/path/here")
	if n := testing.AllocsPerRun(1000, func() {
		m.Route(wrong)
		s := m.Any()
		s.Answered(m.Route(path), 302, time.Microsecond)
		s.Refused(ByClient)
		s.Cached(true)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A shell that does not count has a nil *Metrics.
func TestNothingIsCountedWithout(t *testing.T) {
	var m *Metrics
	m.Shard().Answered(m.Route([]byte("/")), 200, 0)
	m.Any().Refused(ByClient)
	m.Any().Cached(true)
	if got := rows(m); got != "0 0\n" {
		t.Errorf("counted %q", got)
	}
}

func BenchmarkAnswered(b *testing.B) {
	m := some()
	b.RunParallel(func(p *testing.PB) {
		s, r := m.Shard(), m.Route([]byte("/api/ring/next"))
		for began := time.Now(); p.Next(); {
			s.Answered(r, 302, time.Since(began))
		}
	})
}
