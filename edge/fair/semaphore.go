package fair

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// mostWaiting bounds how many wait for a [Semaphore]: each of them is looked at when
// something is given back.
const mostWaiting = 1024

var errCrowded = errors.New("fair: as many wait as may")

// Semaphore bounds how many pieces of work run at a time, and shares the room
// between askers by a [Rule]. It may be used concurrently.
type Semaphore struct {
	mu      sync.Mutex
	shares  *Shares
	waiting []*waiter // the oldest first
}

type waiter struct {
	asker Asker
	ready chan struct{}
}

// NewSemaphore makes a semaphore with all its room free.
func NewSemaphore(r Rule) *Semaphore { return &Semaphore{shares: NewShares(r)} }

// Acquire waits until there is room for a, or until ctx ends; then it returns the
// cause of that. It does not wait if too many do. Release gives the room back.
func (s *Semaphore) Acquire(ctx context.Context, a Asker) error {
	w := &waiter{a, make(chan struct{})}
	s.mu.Lock()
	if s.shares.Room(a) { // there is none for those who wait
		s.shares.Take(a)
		s.mu.Unlock()
		return nil
	}
	if len(s.waiting) >= mostWaiting {
		s.shares.rule.Past.Charge(a, refusal)
		s.mu.Unlock()
		return errCrowded
	}
	s.waiting = append(s.waiting, w)
	s.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, w)
	if i < 0 {
		return nil // admitted just as ctx ended
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	s.shares.rule.Past.Charge(a, refusal)
	return context.Cause(ctx)
}

// Release gives back what an Acquire for a got.
func (s *Semaphore) Release(a Asker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shares.Return(a)
	s.admit()
}

// admit lets waiters go on for which there is room, the oldest first. The caller
// holds mu.
func (s *Semaphore) admit() {
	s.waiting = slices.DeleteFunc(s.waiting, func(w *waiter) bool {
		if s.shares.Full() || !s.shares.Room(w.asker) {
			return false
		}
		s.shares.Take(w.asker)
		close(w.ready)
		return true
	})
}

// Taken is how many hold the semaphore.
func (s *Semaphore) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shares.Taken()
}
