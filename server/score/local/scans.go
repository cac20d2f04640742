package local

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"webring/server/fair"
)

const (
	// maxScans is how many scans are under way at a time. With it and the
	// client's limits, sockets and memory are bounded: a scan holds a few
	// megabytes of what it read.
	maxScans = 16
	// ownTime is how long nobody takes a scan's place. Ordinary sites are scanned
	// in less.
	ownTime = 5 * time.Second
	// WaitTime bounds how long a scan waits for a place: longer than ownTime, after
	// which there is one for newcomers.
	WaitTime = 8 * time.Second
	// newAfter is how long a network has had no place whose scans are newcomers.
	newAfter = time.Minute
	// maxLast bounds how many networks are remembered.
	maxLast = 1024
)

var (
	errNoPlace = errors.New("local: all scans are taken")
	errGaveWay = errors.New("local: the scan gave its place to a newcomer")
)

// scans are the places of scans. They are shared as package fair says, so that one
// asker holds few of them, and of those that wait, the one goes first whose network
// has had none for the longest time. A site that hangs holds its place for as long as
// a scan may take, and whoever has many such sites, and many networks to ask from, has
// all places. So when a newcomer waits, the oldest scan of more than [ownTime] gives
// way. The places may be used concurrently.
type scans struct {
	mu      sync.Mutex
	shares  *fair.Shares
	running []*place             // oldest first
	waiting []*place             // in the order in which they came
	last    map[string]time.Time // that a network was given one
}

// place is that of one scan, or the wait for it.
type place struct {
	asker fair.Asker
	ready chan struct{} // closed when it is there
	end   context.CancelCauseFunc
	aging *time.Timer
	old   bool // it was held for ownTime
	gone  bool // it was given to a newcomer; the scan ends
}

func newScans() *scans {
	return &scans{shares: fair.NewShares(fair.Rule{Most: maxScans}), last: map[string]time.Time{}}
}

// enter waits for a place. The scan is to end with the context that it gives, whose
// cause is errGaveWay when the place is needed; leave gives it back.
func (s *scans) enter(ctx context.Context, asker fair.Asker) (scan context.Context, leave func(), err error) {
	scan, end := context.WithCancelCause(ctx)
	p := &place{asker: asker, ready: make(chan struct{}), end: end}
	s.mu.Lock()
	s.waiting = append(s.waiting, p)
	s.admit()
	s.mu.Unlock()
	patience := time.NewTimer(WaitTime)
	defer patience.Stop()
	select {
	case <-p.ready:
		return scan, func() { s.leave(p) }, nil
	case <-patience.C:
		err = errNoPlace
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, p)
	if i < 0 {
		return scan, func() { s.leave(p) }, nil // it came at that moment
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	end(nil)
	return nil, nil, err
}

func (s *scans) leave(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.aging.Stop()
	p.end(nil)
	s.running = slices.DeleteFunc(s.running, func(other *place) bool { return other == p })
	s.shares.Return(p.asker)
	s.admit()
}

// admit gives places to those that wait, as far as there are any for them. The
// caller holds mu.
func (s *scans) admit() {
	for {
		next := -1
		for i, p := range s.waiting {
			if s.shares.Room(p.asker) && (next < 0 || s.lastOf(p).Before(s.lastOf(s.waiting[next]))) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		p := s.waiting[next]
		s.waiting = slices.Delete(s.waiting, next, next+1)
		s.start(p)
	}
	s.makeWay()
}

// start gives a scan its place. The caller holds mu.
func (s *scans) start(p *place) {
	s.shares.Take(p.asker)
	s.running = append(s.running, p)
	if len(s.last) >= maxLast {
		clear(s.last)
	}
	s.last[p.asker.Network()] = time.Now()
	p.aging = time.AfterFunc(ownTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.old = true
		s.makeWay()
	})
	close(p.ready)
}

// lastOf is when the network of a scan was given a place.
func (s *scans) lastOf(p *place) time.Time { return s.last[p.asker.Network()] }

// makeWay ends as many old scans as newcomers wait. The caller holds mu.
func (s *scans) makeWay() {
	wanted := 0
	for _, p := range s.waiting {
		if time.Since(s.lastOf(p)) >= newAfter {
			wanted++
		}
	}
	for _, p := range s.running {
		if p.gone {
			wanted--
		}
	}
	for _, p := range s.running {
		if wanted > 0 && p.old && !p.gone {
			p.gone = true
			p.end(errGaveWay)
			wanted--
		}
	}
}
