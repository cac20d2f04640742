package follow

import (
	"sync"
	"sync/atomic"
	"time"
)

// StaleAfter is for how long answers count as fresh without a new checkpoint.
const StaleAfter = 60 * time.Second

// WitnessLag is how much longer answers count as fresh under a policy: the origin asks its witnesses
// once a minute, and each may take a while.
const WitnessLag = 90 * time.Second

// Freshness knows when the newest checkpoint came and when it was signed. The zero value
// knows of none. It may be used concurrently.
type Freshness struct {
	came, signed atomic.Int64 // ms since 1970
}

// Note notes a checkpoint that came at one time and was signed at another, in milliseconds
// since 1970.
func (f *Freshness) Note(came, signed int64) {
	f.came.Store(came)
	f.signed.Store(signed)
}

// Age returns how old the newest checkpoint is: the time since it came, or since it was
// signed if that is longer. An origin, or a cache before it, may repeat an old checkpoint.
// The age is unknown before the first checkpoint.
func (f *Freshness) Age(now time.Time) (age time.Duration, known bool) {
	came, signed := f.came.Load(), f.signed.Load()
	if signed == 0 {
		return 0, false
	}
	ms := now.UnixMilli()
	return time.Duration(max(ms-came, ms-signed, 0)) * time.Millisecond, true
}

// Stale reports whether the age is unknown or longer than [StaleAfter].
func (f *Freshness) Stale(now time.Time) bool {
	age, known := f.Age(now)
	return !known || age > StaleAfter
}

// Signal tells goroutines that there is something new. The zero value is ready to use. It
// may be used concurrently.
type Signal struct {
	mu   sync.Mutex
	next chan struct{}
}

// Wait returns a channel that the next Send closes. Get the channel before you look at what
// it announces.
func (s *Signal) Wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// Send wakes everything that waits.
func (s *Signal) Send() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}
