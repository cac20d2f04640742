package metrics

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Route is the number of a route of one [Metrics].
type Route int

// Other is the route of whatever has none.
const Other Route = 0

// Path names the route of the requests for a path. In Pattern a segment in braces stands
// for any that is not empty.
type Path struct{ Pattern, Route string }

// Metrics are the counters of one shell. Its functions may be called concurrently.
type Metrics struct {
	names    []string         // of routes
	exact    map[string]Route // by path
	patterns []pattern
	shards   []*Shard
	next     atomic.Uint32 // shard that is given out next
}

// pattern is one that has a segment in braces.
type pattern struct {
	text  string
	route Route
}

// mostShards bounds the shards. One takes about 300 bytes for each route.
const mostShards = 64

// New prepares the counters of a shell that serves these paths. Several may be of one route.
func New(paths []Path) *Metrics {
	m := &Metrics{names: []string{"other"}, exact: map[string]Route{}}
	for _, p := range paths {
		at := slices.Index(m.names, p.Route)
		if at < 0 {
			at = len(m.names)
			m.names = append(m.names, p.Route)
		}
		if strings.Contains(p.Pattern, "{") {
			m.patterns = append(m.patterns, pattern{p.Pattern, Route(at)})
		} else {
			m.exact[p.Pattern] = Route(at)
		}
	}
	// A power of two, and several for each processor: two that count at once seldom meet.
	n := min(1<<bits.Len(uint(4*runtime.GOMAXPROCS(0)-1)), mostShards)
	for range n {
		m.shards = append(m.shards, &Shard{routes: make([]counts, len(m.names))})
	}
	return m
}

// Route gives the route of a path without its query, decoded.
func (m *Metrics) Route(path []byte) Route {
	if m == nil {
		return Other
	}
	if r, known := m.exact[string(path)]; known {
		return r
	}
	for i := range m.patterns {
		if m.patterns[i].matches(path) {
			return m.patterns[i].route
		}
	}
	return Other
}

func (p *pattern) matches(path []byte) bool {
	for rest := p.text; ; {
		want, later, more := strings.Cut(rest, "/")
		at := bytes.IndexByte(path, '/')
		if more != (at >= 0) {
			return false
		}
		segment := path
		if more {
			segment, path = path[:at], path[at+1:]
		}
		if strings.HasPrefix(want, "{") {
			if len(segment) == 0 {
				return false
			}
		} else if want != string(segment) {
			return false
		}
		if !more {
			return true
		}
		rest = later
	}
}

// Shard gives a shard to a caller that counts often, the shards in turn.
func (m *Metrics) Shard() *Shard {
	if m == nil {
		return nil
	}
	return m.shards[m.next.Add(1)%uint32(len(m.shards))]
}

// Any gives some shard, for one count.
func (m *Metrics) Any() *Shard {
	if m == nil {
		return nil
	}
	return m.shards[rand.Uint32()&uint32(len(m.shards)-1)]
}

// EachStatus calls f with the number of answers of each route and status that has any. The
// status is a number, or "other".
func (m *Metrics) EachStatus(f func(route, status string, n uint64)) {
	if m == nil {
		return
	}
	for r, name := range m.names {
		for i, status := range statuses {
			if n := m.sum(func(s *Shard) *atomic.Uint64 { return &s.routes[r].status[i] }); n > 0 {
				text := "other"
				if status > 0 {
					text = strconv.Itoa(status)
				}
				f(name, text, n)
			}
		}
	}
}

// Taken is how long the answers of a route took.
type Taken struct {
	Route string
	Count uint64
	Sum   time.Duration
	// Within has the number of answers that took at most as long as the value of
	// [Bounds] in the same place.
	Within [len(Bounds)]uint64
}

// EachTaken calls f for each route that has answered.
func (m *Metrics) EachTaken(f func(Taken)) {
	if m == nil {
		return
	}
	for r, name := range m.names {
		t := Taken{Route: name}
		for i := range len(Bounds) + 1 {
			t.Count += m.sum(func(s *Shard) *atomic.Uint64 { return &s.routes[r].took[i] })
			if i < len(Bounds) {
				t.Within[i] = t.Count
			}
		}
		if t.Count > 0 {
			t.Sum = time.Duration(m.sum(func(s *Shard) *atomic.Uint64 { return &s.routes[r].nanoseconds }))
			f(t)
		}
	}
}

// EachRefusal calls f with the number of refusals for each reason.
func (m *Metrics) EachRefusal(f func(reason Reason, n uint64)) {
	if m == nil {
		return
	}
	for r := range reasons {
		f(r, m.sum(func(s *Shard) *atomic.Uint64 { return &s.refused[r] }))
	}
}

// Cache gives how often an answer was found in the cache, and how often it was not.
func (m *Metrics) Cache() (hits, misses uint64) {
	if m == nil {
		return 0, 0
	}
	return m.sum(func(s *Shard) *atomic.Uint64 { return &s.hits }), m.sum(func(s *Shard) *atomic.Uint64 { return &s.misses })
}

func (m *Metrics) sum(of func(*Shard) *atomic.Uint64) (n uint64) {
	for _, s := range m.shards {
		n += of(s).Load()
	}
	return n
}
