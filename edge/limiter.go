package edge

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	windowLength = 60 * time.Second
	windowMillis = int64(windowLength / time.Millisecond)

	// The table holds 2^18 clients in 6 MB, for ever: 16 384 rows of 16 slots.
	// Newcomers to a row take one of 256 locks.
	limiterLocks = 256
	limiterRows  = 16384
	limiterWays  = 16
)

// limiter counts the requests of each client in fixed windows of 60 seconds
// that the client's first request opens. It allocates nothing per request.
//
// Its memory is bounded, so under a flood from more clients than it has room
// for, some must share a slot. A newcomer to a full row takes the slot with the
// lowest count and continues that count and window. Counts are then too high
// for some, and while no window of the row ends, too low for nobody: crowding
// out one's own entry wins nothing. Rows are chosen by a seeded hash, so nobody
// can aim at another's.
//
// A client whose window is open is counted without a lock, by one addition: what
// it takes to give a slot to a client or to open a window is done under the lock
// of the row. A request that is counted while its slot changes hands counts for
// the next owner, so here too counts are at most too high.
type limiter struct {
	limit  uint32
	fields []byte // RateLimit-Limit and RateLimit-Policy, as they stand on the wire
	quiet  bool   // says nothing of itself while it is kept
	now    func() time.Time
	start  time.Time
	seed   maphash.Seed
	locks  [limiterLocks]sync.Mutex
	rows   [][limiterWays]slot // a power of two
}

// slot is one client's window.
type slot struct {
	net    atomic.Uint64
	opened atomic.Int64  // milliseconds since start, and in kindBits below that the kind of client
	count  atomic.Uint32 // 0: free
}

func (s *slot) holds(c client) bool {
	return s.net.Load() == c.net && family(s.opened.Load()&(1<<kindBits-1)) == c.kind
}

// open says whether a window that was opened then has not ended. A clock that
// went back would otherwise hold a window open for long.
func open(opened, now int64) bool { return now-opened < windowMillis && now >= opened }

// window is what a limiter says of one request. The zero value is that of no
// limit.
type window struct {
	from             *limiter
	limit, remaining uint32
	exceeded         bool
	ends             int64 // milliseconds since the limiter's start
}

// newLimiter gives a limiter of so many requests per window, nil for none.
func newLimiter(limit int, now func() time.Time) *limiter {
	if limit <= 0 {
		return nil
	}
	limit = min(limit, 1<<30)
	return &limiter{limit: uint32(limit), now: now, start: now(), seed: maphash.MakeSeed(), rows: make([][limiterWays]slot, limiterRows),
		fields: fmt.Appendf(nil, "RateLimit-Limit: %[1]d\r\nRateLimit-Policy: %[1]d;w=60\r\n", limit)}
}

// take counts a request that arrived now.
func (l *limiter) take(c client, now time.Time) window { return l.ask(c, now, 1) }

// look says how things stand without counting.
func (l *limiter) look(c client, now time.Time) window { return l.ask(c, now, 0) }

func (l *limiter) ask(c client, at time.Time, cost uint32) window {
	if l == nil {
		return window{}
	}
	now := at.Sub(l.start).Milliseconds()
	hash := maphash.Comparable(l.seed, c)
	row := &l.rows[hash&uint64(len(l.rows)-1)]
	for i := range row {
		if s := &row[i]; s.holds(c) {
			if opened := s.opened.Load() >> kindBits; open(opened, now) && s.count.Load() > 0 {
				return l.window(s, opened, cost)
			}
			break
		}
	}
	if cost == 0 {
		return window{from: l, limit: l.limit, remaining: l.limit, ends: now + windowMillis}
	}
	lock := &l.locks[hash%limiterLocks]
	lock.Lock()
	defer lock.Unlock()
	s := admit(row, c, now)
	return l.window(s, s.opened.Load()>>kindBits, cost)
}

// window counts in a slot.
func (l *limiter) window(s *slot, opened int64, cost uint32) window {
	count := s.count.Load()
	if count <= l.limit {
		// As many may be here at a time as there are requests in work: far from
		// where the count would overflow.
		count = s.count.Add(cost)
	}
	return window{
		from:      l,
		limit:     l.limit,
		remaining: l.limit - min(count, l.limit),
		exceeded:  count > l.limit,
		ends:      opened + windowMillis,
	}
}

// admit gives the client's slot in a row that is locked, with an open window.
func admit(row *[limiterWays]slot, c client, now int64) *slot {
	var own, free, least *slot
	for i := range row {
		s := &row[i]
		if s.count.Load() > 0 && !open(s.opened.Load()>>kindBits, now) {
			s.count.Store(0)
		}
		switch {
		case s.holds(c):
			own = s
		case s.count.Load() == 0:
			free = s
		}
		if least == nil || s.count.Load() < least.count.Load() {
			least = s
		}
	}
	switch {
	case own != nil:
		if own.count.Load() == 0 {
			own.opened.Store(now<<kindBits | int64(c.kind))
		}
		return own
	case free != nil:
		free.net.Store(c.net)
		free.opened.Store(now<<kindBits | int64(c.kind))
		return free
	}
	least.net.Store(c.net)
	least.opened.Store(least.opened.Load()&^(1<<kindBits-1) | int64(c.kind))
	return least
}

// reset gives the whole seconds until the window ends, rounded up. A request
// may have been held until after its end; then the next one opens a new window
// and has all of it.
func (l *limiter) reset(w window, now time.Time) (remaining uint32, seconds int64) {
	left := w.ends - now.Sub(l.start).Milliseconds()
	if left <= 0 {
		return w.limit, windowMillis / 1000
	}
	return w.remaining, (left + 999) / 1000
}
