package publish

import "sync"

// semaphore bounds how many long answers are under way at a time: in all, and to each
// stranger. Some room is reserved for edges of this ring.
type semaphore struct {
	all, reserved, each int

	mu        sync.Mutex
	known     int            // held by edges of this ring, which have no bound each
	strangers int            // held by all others
	by        map[string]int // held by strangers, by client
}

func newSemaphore(all, reserved, each int) *semaphore {
	return &semaphore{all: all, reserved: reserved, each: each, by: map[string]int{}}
}

// take acquires the semaphore for a client, and gives the function that releases it and
// may be called more than once. ok is false if there is no room for this client.
func (s *semaphore) take(client string, known bool) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.known+s.strangers >= s.all:
		return nil, false
	case known:
		s.known++
	case s.strangers >= s.all-s.reserved || s.by[client] >= s.each:
		return nil, false
	default:
		s.strangers++
		s.by[client]++
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if known {
			s.known--
			return
		}
		s.strangers--
		if s.by[client]--; s.by[client] == 0 {
			delete(s.by, client)
		}
	}), true
}
