package forward

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

const (
	// acquireTime bounds how long a request waits for its turn. It may have cost its
	// client a signature, but a client that waits for longer may have gone and paid
	// elsewhere.
	acquireTime = 2 * time.Second
	// crowdedTime is after how much of that another request is let go for it: crowds
	// that are answered soon end nobody's request early.
	crowdedTime = acquireTime / 4
	// letGoTime is how long a request that is let go keeps its slot if the origin does
	// not answer it. With crowdedTime that is less than acquireTime.
	letGoTime = acquireTime / 2
)

// semaphore bounds how many requests are on their way to the origin at a time. It may be
// used concurrently.
type semaphore struct {
	slots     chan struct{} // holds one for each request under way
	perClient int           // how many of one client, those that wait among them

	mu       sync.Mutex
	byClient map[string]int // requests, those that wait among them
	held     []*holder      // the longest held first
}

// holder is a request that has a slot of a semaphore, or waits for one.
type holder struct {
	client  string
	account string // that pays, as the request names it; "" for none
	letGo   func() // has the request end soon; nil where that is not possible
	going   bool   // letGo was called; guarded by semaphore.mu
}

func newSemaphore(all, perClient int) *semaphore {
	return &semaphore{slots: make(chan struct{}, all), perClient: perClient, byClient: map[string]int{}}
}

// acquire reports whether a request has a slot, which release gives back. It waits while
// others have all, but not for the client's own, and has one of the others let go.
func (s *semaphore) acquire(h *holder) bool {
	s.mu.Lock()
	enough := s.byClient[h.client] >= s.perClient
	if !enough {
		s.byClient[h.client]++
	}
	s.mu.Unlock()
	if enough {
		return false
	}
	crowded := time.AfterFunc(crowdedTime, s.letOneGo)
	defer crowded.Stop()
	timeout := time.NewTimer(acquireTime)
	defer timeout.Stop()
	select {
	case s.slots <- struct{}{}:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held = append(s.held, h)
		return true
	case <-timeout.C:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.uncount(h)
		return false
	}
}

func (s *semaphore) release(h *holder) {
	<-s.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = slices.DeleteFunc(s.held, func(other *holder) bool { return other == h })
	s.uncount(h)
}

// uncount no longer counts a request of a client. The caller holds mu.
func (s *semaphore) uncount(h *holder) {
	if s.byClient[h.client]--; s.byClient[h.client] == 0 {
		delete(s.byClient, h.client)
	}
}

// letOneGo ends a request early: of the client with most slots, and of its account with
// most, the one held longest. So a few clients that hold all slots make room for each
// other, and a client with one slot keeps it.
//
// Accounts are counted within a client only. The account that a request names is not
// verified, and a client must not be able to end the requests of another one by naming its
// account.
func (s *semaphore) letOneGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	type payer struct{ client, account string }
	clients, payers := map[string]int{}, map[payer]int{}
	for _, h := range s.held {
		if !h.going {
			clients[h.client]++
			payers[payer{h.client, h.account}]++
		}
	}
	most := func(a, b *holder) int {
		return cmp.Or(clients[a.client]-clients[b.client],
			payers[payer{a.client, a.account}]-payers[payer{b.client, b.account}])
	}
	var first *holder
	for _, h := range s.held {
		if h.letGo != nil && !h.going && (first == nil || most(h, first) > 0) {
			first = h
		}
	}
	if first != nil {
		first.going = true
		first.letGo()
	}
}
