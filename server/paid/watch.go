package paid

import (
	"context"
	"errors"
	"sync"
	"time"
)

// network is a payment method with what was last heard of its newest block. One
// goroutine asks for that, see [Service.watch], so that no request for a challenge
// waits for a node.
type network struct {
	Method
	payees []string // all that the ring ever had there, today's first

	requests requests

	looking chan struct{} // holds one for each look-up of a refused payment
	wanted  chan struct{} // holds one when somebody waits for a block
	heard   chan struct{} // closed with the first answer

	mu   sync.Mutex
	last answer
	next chan struct{} // closed with the next answer
}

// answer is what a network says of its newest block, or that it says nothing.
type answer struct {
	asked time.Time // by our clock
	block time.Time // of the newest block; zero when that is not known
	err   error     // why no payment may be taken; nil when one may
}

// Timing of the questions for the newest block.
const (
	// clockEvery is how often a network is asked while nobody waits for a block, and
	// clockTimeout how long it has to answer: together they are how soon a silent one
	// is noticed.
	clockEvery   = 10 * time.Second
	clockTimeout = 5 * time.Second
	// clockAgain is how soon a network that takes no payments is asked again.
	clockAgain = 2 * time.Second
	// clockFresh is how long an answer counts. It is longer than two take to come, for
	// a machine that is slow.
	clockFresh = clockEvery + 2*clockTimeout
	// firstAnswer is how long a start waits for the first answers.
	firstAnswer = 2 * time.Second
	// blockEvery is how soon a network is asked again while somebody waits for a
	// block. The longer there is none, the longer that becomes, up to blockRarely.
	blockEvery  = 250 * time.Millisecond
	blockRarely = 2 * time.Second
	// blockFresh is how long an answer counts for those who wait for a block.
	blockFresh = time.Second
	// blockPatience is after how long without a block payments are asked for all the
	// same.
	blockPatience = 15 * time.Second
)

func newNetwork(m Method) *network {
	return &network{Method: m, requests: requests{by: map[int64]string{}, method: m.Request},
		looking: make(chan struct{}, seenAtOnce), wanted: make(chan struct{}, 1), heard: make(chan struct{}), next: make(chan struct{})}
}

// watch asks a network for its newest block: now and then, and often while payments
// wait for one.
func (s *Service) watch(n *network) {
	defer s.group.Done()
	for moved := s.Now(); ; { // when it was last heard of another block
		before := n.now()
		a := s.ask(n)
		if s.ctx.Err() != nil {
			return // what it says is that we have ended
		}
		select {
		case <-n.wanted: // by those who have their answer now
		default:
		}
		n.publish(a)
		switch {
		case a.err != nil && (before.asked.IsZero() || before.err == nil):
			s.Log.Warn("payment network takes no payments", "method", n.Name(), "err", a.err)
		case a.err == nil && before.err != nil:
			s.Log.Info("payment network takes payments again", "method", n.Name())
		}
		if !a.block.Equal(before.block) {
			moved = a.asked
		}
		gap := min(max(a.asked.Sub(moved)/4, blockEvery), blockRarely)
		rest := clockEvery
		if a.err != nil {
			rest = clockAgain
		}
		if !s.sleep(gap) || !s.wait(rest-gap, n.wanted) {
			return
		}
	}
}

// ask asks a network for its newest block. Payments can be taken when it answers, and
// that block and our clock agree: anything else would let somebody pay into a
// challenge whose times mean nothing.
func (s *Service) ask(n *network) answer {
	ctx, cancel := context.WithTimeout(s.ctx, clockTimeout)
	defer cancel()
	a := answer{asked: s.Now()}
	a.block, a.err = n.Clock(ctx)
	if a.err == nil && a.asked.Sub(a.block).Abs() > maxSkew {
		a.err = errSkew
	}
	return a
}

var (
	errSkew = errors.New("paid: our clock and the newest block are more than 60 s apart")
	errLate = errors.New("paid: the network's last answer is too old")
)

func (n *network) publish(a answer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last.asked.IsZero() {
		close(n.heard)
	}
	n.last = a
	close(n.next)
	n.next = make(chan struct{})
}

func (n *network) now() answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last
}

// ready says why no payments can be taken by this method, nil when they can, from
// what was last heard.
func (n *network) ready(now time.Time) error {
	a := n.now()
	if a.err == nil && now.Sub(a.asked).Abs() > clockFresh {
		return errLate
	}
	return a.err
}

// hear waits, not for long, until each network has answered once: the first request
// is to find all offers.
func (s *Service) hear() {
	t := time.NewTimer(firstAnswer)
	defer t.Stop()
	for _, n := range s.networks {
		select {
		case <-n.heard:
		case <-t.C:
			return
		}
	}
}

// nextBlock waits for a pause, and then for another block than the one seen, or for
// blockPatience. It says whether there is any use in going on.
func (s *Service) nextBlock(n *network, seen *time.Time, pause time.Duration) bool {
	if !s.sleep(pause) {
		return false
	}
	for until := s.Now().Add(blockPatience); ; {
		n.mu.Lock()
		a, next := n.last, n.next
		n.mu.Unlock()
		now := s.Now()
		if !a.block.Equal(*seen) && now.Sub(a.asked).Abs() <= blockFresh || !now.Before(until) {
			*seen = a.block
			return true
		}
		select {
		case n.wanted <- struct{}{}:
		default:
		}
		if !s.wait(until.Sub(now), next) {
			return false
		}
	}
}
