package local

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"webring/edge/share"
)

const (
	// maxScans is how many scans are under way at a time. With it and the
	// client's limits, sockets and memory are bounded: a scan holds a few
	// megabytes of what it read.
	maxScans = 16
	// ownTime is for how long a scan is not ended for another. Ordinary sites are
	// scanned in less.
	ownTime = 5 * time.Second
	// WaitTime bounds how long a scan waits to start. It is longer than ownTime, after
	// which a running scan can be ended for a newcomer.
	WaitTime = 8 * time.Second
)

var (
	errNoRoom  = errors.New("local: no scan could start in time")
	errGaveWay = errors.New("local: the scan was ended for a newcomer")
)

// scans bounds how many scans run at a time. Package share shares them between askers, and
// askers are charged for the time of their scans. The waiting scan of the asker that weighs least
// starts first. An attacker with many sites that hang, and many networks to ask from, could still
// occupy all. So when a newcomer waits that weighs less than a [share.Piece], a scan that has run
// for more than [ownTime] is ended: that of the asker that weighs most. It is safe for concurrent
// use.
type scans struct {
	mu      sync.Mutex
	past    *share.Past
	shares  *share.Shares
	running []*entrant // oldest first
	waiting []*entrant // in the order in which they came
}

// entrant is a scan that runs or waits.
type entrant struct {
	asker share.Asker
	ready chan struct{} // closed when the scan may start
	began time.Time
	end   context.CancelCauseFunc
	aging *time.Timer
	old   bool // the scan has run for ownTime
	gone  bool // the scan was ended for a newcomer
}

func newScans(past *share.Past) *scans {
	return &scans{past: past, shares: share.NewShares(share.Rule{Most: maxScans, Past: past})}
}

// enter waits until a scan may start. The scan must run under the context that enter
// returns: it ends with the cause errGaveWay when a newcomer needs the room. leave ends
// the scan.
func (s *scans) enter(ctx context.Context, asker share.Asker) (scan context.Context, leave func(), err error) {
	scan, end := context.WithCancelCause(ctx)
	p := &entrant{asker: asker, ready: make(chan struct{}), end: end}
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
		err = errNoRoom
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

func (s *scans) leave(p *entrant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.aging.Stop()
	p.end(nil)
	s.running = slices.DeleteFunc(s.running, func(other *entrant) bool { return other == p })
	s.shares.Return(p.asker)
	s.past.ChargeTime(p.asker, time.Since(p.began), ownTime)
	s.admit()
}

// admit starts scans that wait, as far as there is room for them. The caller holds mu.
func (s *scans) admit() {
	for {
		next, least := -1, 0
		for i, p := range s.waiting {
			if weight := s.weight(p); s.shares.Room(p.asker) && (next < 0 || weight < least) {
				next, least = i, weight
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

// start starts a scan. The caller holds mu.
func (s *scans) start(p *entrant) {
	s.shares.Take(p.asker)
	s.running = append(s.running, p)
	p.began = time.Now()
	p.aging = time.AfterFunc(ownTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.old = true
		s.makeWay()
	})
	close(p.ready)
}

// weight is what counts against the asker of a scan, in whole pieces of work.
func (s *scans) weight(p *entrant) int { return s.shares.Weight(p.asker) / share.Piece }

// makeWay ends as many old scans as newcomers wait, if there are. The caller holds mu.
func (s *scans) makeWay() {
	wanted := 0
	for _, p := range s.waiting {
		if s.weight(p) == 0 {
			wanted++
		}
	}
	for _, p := range s.running {
		if p.gone {
			wanted--
		}
	}
	for ; wanted > 0; wanted-- {
		var heaviest *entrant
		for _, p := range s.running {
			if p.old && !p.gone && (heaviest == nil || s.weight(p) > s.weight(heaviest)) {
				heaviest = p
			}
		}
		if heaviest == nil {
			return
		}
		heaviest.gone = true
		heaviest.end(errGaveWay)
	}
}

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
