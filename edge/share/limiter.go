package share

import (
	"fmt"
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"webring/edge/front"
)

const (
	windowLength = 60 * time.Second
	windowMillis = int64(windowLength / time.Millisecond)

	// The table holds 2^18 clients in 6 MB: 16 384 rows of 16 slots. Newcomers to a
	// row take one of 256 locks.
	lockCount = 256
	rowCount  = 16384
	rowSlots  = 16
)

// Limiter counts the requests of each client in fixed windows of 60 seconds
// that the client's first request opens, in bounded memory and without allocating. It may be
// used concurrently. A nil Limiter
// sets no limit.
//
// Its memory is bounded, so under a flood from more clients than it has slots, some must
// share a slot. A newcomer to a full row takes the slot with the lowest count and continues
// that count and window. Counts are then too high for some clients. While no window of the
// row ends, no count is too low, so a client gains nothing by crowding out its own slot. A
// seeded hash chooses the row, so a client cannot aim at the row of another.
//
// A client with an open window is counted without a lock, by one addition. Giving a slot to
// a client or opening a window takes the lock of the row. A request that is counted while its
// slot changes hands counts for the next owner, so here too counts are at most too high.
type Limiter struct {
	limit  uint32
	fields []byte // RateLimit-Limit and RateLimit-Policy, as they are sent
	start  time.Time
	seed   maphash.Seed
	locks  [lockCount]sync.Mutex
	rows   [][rowSlots]slot // a power of two
}

// slot is one client's window.
type slot struct {
	net    atomic.Uint64
	opened atomic.Int64  // milliseconds since start, and below that the kind of client
	count  atomic.Uint32 // 0: free
}

const kindBits = front.KindBits

// key identifies a client.
type key struct {
	net  uint64
	kind uint8
}

func (s *slot) holds(c key) bool {
	return s.net.Load() == c.net && uint8(s.opened.Load()&(1<<kindBits-1)) == c.kind
}

// openSince gives when the window of the slot was opened.
func (s *slot) openSince() int64 { return s.opened.Load() >> kindBits }

// isOpen reports whether a window that was opened then has not ended. A clock that
// went back must not hold a window open for long.
func isOpen(opened, now int64) bool { return now-opened < windowMillis && now >= opened }

// NewLimiter gives a limiter of so many requests per window, nil for 0. Its times begin with
// now.
func NewLimiter(limit int, now time.Time) *Limiter {
	if limit <= 0 {
		return nil
	}
	limit = min(limit, 1<<30)
	return &Limiter{limit: uint32(limit), start: now, seed: maphash.MakeSeed(), rows: make([][rowSlots]slot, rowCount),
		fields: fmt.Appendf(nil, "RateLimit-Limit: %[1]d\r\nRateLimit-Policy: %[1]d;w=60\r\n", limit)}
}

// NewSilentLimiter returns a limiter with windows that write only the field Retry-After.
func NewSilentLimiter(limit int, now time.Time) *Limiter {
	l := NewLimiter(limit, now)
	if l != nil {
		l.fields = nil
	}
	return l
}

// Take counts a request that arrived at a time.
func (l *Limiter) Take(c front.Client, at time.Time) Window { return l.ask(c, at, 1) }

// Charge counts so many more requests of a client, for one that cost as much. It uses up the
// window at most: the next request is refused, and this one was answered.
func (l *Limiter) Charge(c front.Client, at time.Time, more int) Window {
	w := l.ask(c, at, 0)
	return l.ask(c, at, min(uint32(more), w.remaining))
}

// Look gives a client's window without counting a request.
func (l *Limiter) Look(c front.Client, at time.Time) Window { return l.ask(c, at, 0) }

func (l *Limiter) ask(client front.Client, at time.Time, cost uint32) Window {
	if l == nil {
		return Window{}
	}
	var c key
	c.net, c.kind = client.Key()
	now := at.Sub(l.start).Milliseconds()
	hash := maphash.Comparable(l.seed, c)
	row := &l.rows[hash&uint64(len(l.rows)-1)]
	for i := range row {
		if s := &row[i]; s.holds(c) {
			if opened := s.openSince(); isOpen(opened, now) && s.count.Load() > 0 {
				return l.window(s, opened, cost)
			}
			break
		}
	}
	if cost == 0 {
		return Window{from: l, remaining: l.limit, ends: now + windowMillis}
	}
	lock := &l.locks[hash%lockCount]
	lock.Lock()
	defer lock.Unlock()
	s := admit(row, c, now)
	return l.window(s, s.openSince(), cost)
}

// window counts in a slot.
func (l *Limiter) window(s *slot, opened int64, cost uint32) Window {
	count := s.count.Load()
	if count <= l.limit {
		// As many additions may follow at a time as there are requests under way:
		// far from where the count would overflow.
		count = s.count.Add(cost)
	}
	return Window{from: l, remaining: l.limit - min(count, l.limit), exceeded: count > l.limit, ends: opened + windowMillis}
}

// admit gives the client's slot in a row that is locked, with an open window.
func admit(row *[rowSlots]slot, c key, now int64) *slot {
	var own, free, least *slot
	for i := range row {
		s := &row[i]
		if s.count.Load() > 0 && !isOpen(s.openSince(), now) {
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
	opened := now
	switch {
	case own != nil && own.count.Load() > 0:
		return own
	case own != nil:
	case free != nil:
		own = free
	default:
		own, opened = least, least.openSince()
	}
	own.net.Store(c.net)
	own.opened.Store(opened<<kindBits | int64(c.kind))
	return own
}

// Window is what a limiter says of one request. The zero value is that of no limit.
type Window struct {
	from      *Limiter
	remaining uint32
	exceeded  bool
	ends      int64 // milliseconds since the limiter's start
}

// Exceeded reports whether the request is one too many.
func (w *Window) Exceeded() bool { return w.exceeded }

// Of reports whether the window is of l.
func (w *Window) Of(l *Limiter) bool { return w.from == l }

// AppendFields appends the header fields of the answer, each line ended with CRLF.
func (w *Window) AppendFields(dst []byte, now time.Time) []byte {
	if w.from == nil {
		return dst
	}
	remaining, seconds := w.reset(now)
	if w.exceeded {
		dst = appendField(dst, "Retry-After: ", seconds)
	}
	if w.from.fields == nil {
		return dst
	}
	dst = append(dst, w.from.fields...)
	dst = appendField(dst, "RateLimit-Remaining: ", int64(remaining))
	return appendField(dst, "RateLimit-Reset: ", seconds)
}

// reset gives the whole seconds until the window ends, rounded up. The request
// may have been held until after its end; then the next one opens a new window
// and has all of it.
func (w *Window) reset(now time.Time) (remaining uint32, seconds int64) {
	left := w.ends - now.Sub(w.from.start).Milliseconds()
	if left <= 0 {
		return w.from.limit, windowMillis / 1000
	}
	return w.remaining, (left + 999) / 1000
}

func appendField(dst []byte, name string, n int64) []byte {
	dst = append(dst, name...)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, "\r\n"...)
}
