package forward

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"webring/edge/fair"
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
	// promptTime is how long a request without a payment may take for each [fair.Piece] that
	// its client is charged.
	promptTime = 5 * time.Second
)

// semaphore bounds how many requests are on their way to the origin at a time. It may be
// used concurrently.
type semaphore struct {
	slots     *fair.Semaphore
	past      *fair.Past // where clients are charged for the time of a slot; nil: nowhere
	perClient int        // how many of one client, those that wait among them

	mu       sync.Mutex
	byClient map[string]int // requests, those that wait among them
	held     []*holder      // the longest held first
}

// holder is a request that has a slot of a semaphore, or waits for one.
type holder struct {
	asker   fair.Asker
	account string // that pays, as the request names it; "" for none
	letGo   func() // has the request end soon; nil where that is not possible
	going   bool   // letGo was called; guarded by semaphore.mu
	began   time.Time
}

// newSemaphore gives a semaphore whose slots are shared by a rule.
func newSemaphore(r fair.Rule, perClient int) *semaphore {
	return &semaphore{slots: fair.NewSemaphore(r), past: r.Past, perClient: perClient, byClient: map[string]int{}}
}

// acquire reports whether a request has a slot, which release gives back. It waits while
// others have all, but not for the client's own, and has one of the others let go.
func (s *semaphore) acquire(h *holder) bool {
	s.mu.Lock()
	enough := s.byClient[h.asker.Client()] >= s.perClient
	if !enough {
		s.byClient[h.asker.Client()]++
	}
	s.mu.Unlock()
	if enough {
		return false
	}
	crowded := time.AfterFunc(crowdedTime, s.letOneGo)
	defer crowded.Stop()
	waits, cancel := context.WithTimeout(context.Background(), acquireTime)
	defer cancel()
	err := s.slots.Acquire(waits, h.asker)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.uncount(h)
		return false
	}
	h.began = time.Now()
	s.held = append(s.held, h)
	return true
}

func (s *semaphore) release(h *holder) {
	s.past.ChargeTime(h.asker, time.Since(h.began), promptTime)
	s.slots.Release(h.asker)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = slices.DeleteFunc(s.held, func(other *holder) bool { return other == h })
	s.uncount(h)
}

// uncount no longer counts a request of a client. The caller holds mu.
func (s *semaphore) uncount(h *holder) {
	client := h.asker.Client()
	if s.byClient[client]--; s.byClient[client] == 0 {
		delete(s.byClient, client)
	}
}

// letOneGo ends a request early: of the client that weighs most by its slots and those of
// the networks around it, and of its account with most, the one held longest. So a few
// clients or networks that hold all slots make room for each other, and a client with one
// slot keeps it.
//
// Accounts are counted within a client only. The account that a request names is not
// verified, and a client must not be able to end the requests of another one by naming its
// account.
func (s *semaphore) letOneGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	type payer struct {
		asker   fair.Asker
		account string
	}
	clients, payers := fair.NewShares(fair.Rule{Most: -1}), map[payer]int{}
	for _, h := range s.held {
		if !h.going {
			clients.Take(h.asker)
			payers[payer{h.asker, h.account}]++
		}
	}
	most := func(a, b *holder) int {
		return cmp.Or(clients.Weight(a.asker)-clients.Weight(b.asker),
			payers[payer{a.asker, a.account}]-payers[payer{b.asker, b.account}])
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
