package follow

import "sync"

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
