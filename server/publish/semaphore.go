package publish

import (
	"sync"

	"webring/edge/fair"
)

// semaphore bounds how many long answers are under way at a time: in all, and to each
// stranger. Some room is reserved for edges of this ring. Package fair shares the rest
// between strangers, so a crowd leaves room to others.
type semaphore struct {
	all, each int

	mu        sync.Mutex
	known     int          // held by edges of this ring, which have no bound each
	strangers *fair.Shares // held by all others
}

func newSemaphore(all, reserved, each int) *semaphore {
	return &semaphore{all: all, each: each, strangers: fair.NewShares(fair.Rule{Most: all - reserved, Half: halfOfOne})}
}

// halfOfOne is how many a stranger has that is refused while half are held.
const halfOfOne = 8

// take acquires the semaphore for a client, and gives the function that releases it and
// may be called more than once. ok is false if there is no room for this client.
func (s *semaphore) take(client string, known bool) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asker := fair.AskerOf(client)
	switch {
	case s.known+s.strangers.Taken() >= s.all:
		return nil, false
	case known:
		s.known++
	case s.strangers.Had(asker) >= s.each || !s.strangers.Take(asker):
		return nil, false
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if known {
			s.known--
			return
		}
		s.strangers.Return(asker)
	}), true
}
