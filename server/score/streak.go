package score

import (
	"sync"
	"time"
)

// streak is the failures since the last success, by client. Its zero value is
// ready.
type streak struct {
	mu      sync.Mutex
	clients map[string]*failures
}

type failures struct {
	n     int
	until time.Time // the client rests
}

// mostOfOne is how many of [tripAfter] failures may be one client's.
const mostOfOne = 3

// add takes an outcome. A client whose failures alone are [tripAfter] rests.
func (s *streak) add(client string, failed bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !failed || s.clients == nil {
		s.clients = map[string]*failures{}
	}
	if !failed {
		return
	}
	f := s.clients[client]
	if f == nil {
		f = &failures{}
		s.clients[client] = f
	}
	if f.n++; f.n >= tripAfter {
		f.until = now.Add(openFor)
	}
}

// ofMany reports whether there are [tripAfter] failures of more than one client,
// and begins a new streak if so. The map is small therefore: each client in it
// counts.
func (s *streak) ofMany() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, f := range s.clients {
		n += min(f.n, mostOfOne)
	}
	if n < tripAfter {
		return false
	}
	s.clients = nil
	return true
}

// rest is how long a client has to stay away, or 0.
func (s *streak) rest(client string, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.clients[client]
	if f == nil {
		return 0
	}
	return max(0, f.until.Sub(now))
}
