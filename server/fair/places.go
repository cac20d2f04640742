package fair

import (
	"context"
	"slices"
	"sync"
)

// Places are shared by those who hold them for a while, and wait for them. They may be
// used concurrently.
type Places struct {
	mu      sync.Mutex
	shares  *Shares
	waiting []*waiter // in the order in which they came
}

type waiter struct {
	asker Asker
	ready chan struct{}
}

// NewPlaces gives places that nobody holds.
func NewPlaces(r Rule) *Places { return &Places{shares: NewShares(r)} }

// Enter waits until there is a place for a, or ctx ends. A place is given back by Leave.
func (p *Places) Enter(ctx context.Context, a Asker) error {
	w := &waiter{a, make(chan struct{})}
	p.mu.Lock()
	p.waiting = append(p.waiting, w)
	p.admit()
	p.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting, w)
	if i < 0 {
		return nil // it came at that moment
	}
	p.waiting = slices.Delete(p.waiting, i, i+1)
	return context.Cause(ctx)
}

// Leave gives back a place of a.
func (p *Places) Leave(a Asker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shares.Return(a)
	p.admit()
}

// admit gives places to those who wait, as far as there is room for them. The caller
// holds mu.
func (p *Places) admit() {
	p.waiting = slices.DeleteFunc(p.waiting, func(w *waiter) bool {
		if !p.shares.Take(w.asker) {
			return false
		}
		close(w.ready)
		return true
	})
}

// Taken is how many places are held.
func (p *Places) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shares.Taken()
}
