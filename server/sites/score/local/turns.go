package local

import (
	"context"
	"slices"
	"sync"
	"time"
)

// turns lets one scan read at a time, so that reading takes no more than one
// processor and payments have the others: a stranger can write a megabyte that takes
// long to read, on many sites. Of the scans that wait, the one that has read for the
// shortest time is next, so ordinary sites, which take milliseconds, do not wait for
// those. It is safe for concurrent use; the zero value is ready.
type turns struct {
	mu      sync.Mutex
	taken   bool
	waiting []*turn
}

type turn struct {
	spent time.Duration // reading, by the scan so far
	ready chan struct{}
}

// take waits for the turn of a scan, and reports whether it came before ctx ended.
func (t *turns) take(ctx context.Context, spent time.Duration) bool {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return true
	}
	own := &turn{spent, make(chan struct{})}
	t.waiting = append(t.waiting, own)
	t.mu.Unlock()
	select {
	case <-own.ready:
		return true
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, own)
	if i < 0 {
		return true // it came at that moment
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	return false
}

// pass gives the turn on.
func (t *turns) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.taken = false
		return
	}
	next := slices.MinFunc(t.waiting, func(a, b *turn) int { return int(a.spent - b.spent) })
	t.waiting = slices.DeleteFunc(t.waiting, func(other *turn) bool { return other == next })
	close(next.ready)
}
