package metrics

import (
	"sync/atomic"
	"time"
)

// Shard is a part of the counters of a [Metrics]. Its functions may be called
// concurrently; they take no lock.
type Shard struct {
	routes  []counts // by Route
	refused [reasons]atomic.Uint64
	hits    atomic.Uint64
	misses  atomic.Uint64
	_       [64]byte // the next shard lies in other cache lines
}

// counts are those of one route.
type counts struct {
	status      [len(statuses)]atomic.Uint64
	took        [len(Bounds) + 1]atomic.Uint64 // by the first of Bounds that is not exceeded
	nanoseconds atomic.Uint64
}

// statuses are those that are told apart: of documents, pages and files, and of the table
// of problems. 0 stands for all others.
var statuses = [...]int{0, 200, 201, 202, 204, 302, 304, 400, 401, 402, 403, 404, 405, 406, 408, 409, 410, 413, 415, 422, 429, 431, 500, 502, 503, 504}

// placeOf is the place in statuses by status.
var placeOf = func() (of [600]uint8) {
	for i, status := range statuses {
		of[status] = uint8(i)
	}
	return of
}()

// Bounds are the upper bounds of the classes by which answers are counted for the time that
// they took: most reads take microseconds, and a payment is held until its block is there.
var Bounds = [...]time.Duration{100 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond,
	100 * time.Millisecond, 500 * time.Millisecond, 2500 * time.Millisecond, 10 * time.Second, time.Minute}

// longest is the longest time that is added up: a clock that was set must not spoil a sum.
const longest = time.Hour

// Answered counts an answer, and how long it took to make.
func (s *Shard) Answered(r Route, status int, took time.Duration) {
	if s == nil {
		return
	}
	c := &s.routes[r]
	place := uint8(0)
	if uint(status) < uint(len(placeOf)) {
		place = placeOf[status]
	}
	c.status[place].Add(1)
	took = min(max(took, 0), longest)
	i := 0
	for i < len(Bounds) && took > Bounds[i] {
		i++
	}
	c.took[i].Add(1)
	c.nanoseconds.Add(uint64(took))
}

// Reason is why a limiter refused something.
type Reason int

// The reasons.
const (
	ByClient     Reason = iota // a client has used up its requests
	ByProxy                    // a trusted proxy has used up those of its own
	ByForwarded                // a client that an edge forwards for has used up its requests
	ByFollower                 // one that follows this node has used up its requests
	ByConnection               // too many connections are open, in all or of one client
	reasons
)

// String is the reason as metrics name it.
func (r Reason) String() string {
	return [reasons]string{"client", "proxy", "forwarded", "follower", "connections"}[r]
}

// Refused counts a refusal.
func (s *Shard) Refused(why Reason) {
	if s != nil {
		s.refused[why].Add(1)
	}
}

// Cached counts a question to the cache of answers.
func (s *Shard) Cached(hit bool) {
	switch {
	case s == nil:
	case hit:
		s.hits.Add(1)
	default:
		s.misses.Add(1)
	}
}
