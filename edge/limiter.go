package edge

import (
	"hash/maphash"
	"strconv"
	"sync"
	"time"
)

const (
	windowLength = 60 * time.Second
	windowMillis = int64(windowLength / time.Millisecond)

	// The table holds 2^18 clients in 8 MB, for ever: 256 shards, so that
	// workers rarely meet at a lock, of 64 rows of 16 slots.
	limiterShards = 256
	limiterRows   = 64
	limiterWays   = 16
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
type limiter struct {
	limit  uint32
	policy string // the RateLimit-Policy field
	quiet  bool   // says nothing of itself while it is kept
	now    func() time.Time
	start  time.Time
	seed   maphash.Seed
	shards [limiterShards]limiterShard
}

type limiterShard struct {
	mu   sync.Mutex
	rows [limiterRows][limiterWays]slot
}

type slot struct {
	client client
	count  uint32 // 0: free
	opened int64  // milliseconds since start
}

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
	return &limiter{limit: uint32(limit), policy: strconv.Itoa(limit) + ";w=60", now: now, start: now(), seed: maphash.MakeSeed()}
}

func (l *limiter) millis() int64 { return l.now().Sub(l.start).Milliseconds() }

// take counts a request.
func (l *limiter) take(c client) window { return l.ask(c, 1) }

// look says how things stand without counting.
func (l *limiter) look(c client) window { return l.ask(c, 0) }

func (l *limiter) ask(c client, cost uint32) window {
	if l == nil {
		return window{}
	}
	hash := maphash.Comparable(l.seed, c)
	shard := &l.shards[hash%limiterShards]
	row := &shard.rows[hash/limiterShards%limiterRows]
	now := l.millis()

	shard.mu.Lock()
	defer shard.mu.Unlock()
	found, free, least := -1, -1, 0
	for i := range row {
		s := &row[i]
		// A clock that went back would otherwise hold a window open for long.
		if s.count > 0 && (now-s.opened >= windowMillis || now < s.opened) {
			s.count = 0
		}
		switch {
		case s.count == 0:
			free = i
		case s.client == c:
			found = i
		}
		if row[i].count < row[least].count {
			least = i
		}
	}
	if found < 0 && cost == 0 {
		return window{from: l, limit: l.limit, remaining: l.limit, ends: now + windowMillis}
	}
	if found < 0 {
		if found = free; found < 0 {
			found = least
			row[found].client = c
		} else {
			row[found] = slot{client: c, opened: now}
		}
	}
	s := &row[found]
	s.count = min(s.count+cost, l.limit+1)
	return window{
		from:      l,
		limit:     l.limit,
		remaining: l.limit - min(s.count, l.limit),
		exceeded:  s.count > l.limit,
		ends:      s.opened + windowMillis,
	}
}

// reset gives the whole seconds until the window ends, rounded up. A request
// may have been held until after its end; then the next one opens a new window
// and has all of it.
func (l *limiter) reset(w window) (remaining uint32, seconds int64) {
	left := w.ends - l.millis()
	if left <= 0 {
		return w.limit, windowMillis / 1000
	}
	return w.remaining, (left + 999) / 1000
}
