package share

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// mostWaiting bounds how many wait for a [Semaphore]: each of them is looked at when
// something is given back.
const mostWaiting = 1024

var (
	errCrowded = errors.New("share: as many wait as may")
	errEach    = errors.New("share: this client has as many as it may")
)

// Semaphore bounds how many pieces of work run at a time, and shares the room
// between askers by a [Rule]. It may be used concurrently.
type Semaphore struct {
	mu      sync.Mutex
	each    int
	shares  *Shares
	waiting []*waiter     // the oldest first
	clients map[Asker]int // with each: how many they have, those that wait among them
}

type waiter struct {
	asker Asker
	ready chan struct{}
}

// NewSemaphore makes a semaphore with all its room free. Of one client at most each have room
// or wait for it; 0 sets no such limit.
func NewSemaphore(r Rule, each int) *Semaphore {
	return &Semaphore{each: each, shares: NewShares(r), clients: map[Asker]int{}}
}

// Acquire waits until there is room for a, or until ctx ends; then it returns the
// cause of that. It does not wait if too many do. Release gives the room back.
func (s *Semaphore) Acquire(ctx context.Context, a Asker) error {
	w := &waiter{a, make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(w); err != nil {
		return err
	}
	s.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
	}
	s.mu.Lock()
	i := slices.Index(s.waiting, w)
	if i < 0 {
		return nil // admitted, perhaps just as ctx ended
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	s.count(a, -1)
	s.shares.rule.Past.Charge(a, refusal)
	return context.Cause(ctx)
}

// enter admits a waiter, or adds it to those that wait. The caller holds mu.
func (s *Semaphore) enter(w *waiter) error {
	switch {
	case s.each > 0 && s.clients[w.asker] >= s.each:
		return errEach
	case s.shares.Room(w.asker): // there is none for those that wait
		s.shares.Take(w.asker)
		close(w.ready)
	case len(s.waiting) >= mostWaiting:
		s.shares.rule.Past.Charge(w.asker, refusal)
		return errCrowded
	default:
		s.waiting = append(s.waiting, w)
	}
	s.count(w.asker, 1)
	return nil
}

// TryAcquire reports whether there is room for a now, and takes it.
func (s *Semaphore) TryAcquire(a Asker) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.each > 0 && s.clients[a] >= s.each || !s.shares.Take(a) {
		return false
	}
	s.count(a, 1)
	return true
}

// Release gives back what an Acquire for a got, and admits those that wait and have room now,
// the oldest first.
func (s *Semaphore) Release(a Asker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shares.Return(a)
	s.count(a, -1)
	s.waiting = slices.DeleteFunc(s.waiting, func(w *waiter) bool {
		if s.shares.Full() || !s.shares.Room(w.asker) {
			return false
		}
		s.shares.Take(w.asker)
		close(w.ready)
		return true
	})
}

func (s *Semaphore) count(a Asker, n int) {
	if s.each == 0 {
		return
	}
	if s.clients[a] += n; s.clients[a] == 0 {
		delete(s.clients, a)
	}
}

// Taken is how many hold the semaphore.
func (s *Semaphore) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shares.Taken()
}
