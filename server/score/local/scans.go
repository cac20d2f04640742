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
	// ownTime is for how long a scan is not ended for another. Ordinary sites are
	// scanned in less.
	ownTime = 5 * time.Second
	// WaitTime bounds how long a scan waits to start. It is longer than ownTime, after
	// which a running scan can be ended for a newcomer.
	WaitTime = 8 * time.Second
	// newAfter is for how long a network must have started no scan for its next one to
	// be a newcomer.
	newAfter = time.Minute
	// maxLast bounds how many networks have a time of their last scan.
	maxLast = 1024
)

var (
	errNoRoom  = errors.New("local: no scan could start in time")
	errGaveWay = errors.New("local: the scan was ended for a newcomer")
)

// scans bounds how many scans run at a time. Package fair shares them between askers. Of the
// scans that wait, the one of the network that has started none for the longest time starts
// first. An attacker with many sites that hang, and many networks to ask from, could still
// occupy all. So when a newcomer waits, the oldest scan that has run for more than [ownTime]
// is ended. It is safe for concurrent use.
type scans struct {
	mu      sync.Mutex
	shares  *fair.Shares
	running []*entrant           // oldest first
	waiting []*entrant           // in the order in which they came
	last    map[string]time.Time // when a network last started a scan
}

// entrant is a scan that runs or waits.
type entrant struct {
	asker fair.Asker
	ready chan struct{} // closed when the scan may start
	end   context.CancelCauseFunc
	aging *time.Timer
	old   bool // the scan has run for ownTime
	gone  bool // the scan was ended for a newcomer
}

func newScans() *scans {
	return &scans{shares: fair.NewShares(fair.Rule{Most: maxScans}), last: map[string]time.Time{}}
}

// enter waits until a scan may start. The scan must run under the context that enter
// returns: it ends with the cause errGaveWay when a newcomer needs the room. leave ends
// the scan.
func (s *scans) enter(ctx context.Context, asker fair.Asker) (scan context.Context, leave func(), err error) {
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
	s.admit()
}

// admit starts scans that wait, as far as there is room for them. The caller holds mu.
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

// start starts a scan. The caller holds mu.
func (s *scans) start(p *entrant) {
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

// lastOf is when the network of a scan last started one.
func (s *scans) lastOf(p *entrant) time.Time { return s.last[p.asker.Network()] }

// makeWay ends as many old scans as newcomers wait, if there are. The caller holds mu.
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
