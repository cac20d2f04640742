package host

import (
	"errors"
	"time"
)

// How long to wait after building an instance failed: twice as long each time.
const (
	leastPause = time.Second
	mostPause  = time.Minute
)

// wake has keep look for instances to build.
func (p *Pool) wake() {
	select {
	case p.missing <- struct{}{}:
	default:
	}
}

// keep builds the instances that are missing, and builds anew those that began from an
// image before the newest, one at a time, until the pool is closed. The module's code
// cannot be interrupted: one at a time leaves processors for requests.
func (p *Pool) keep() {
	defer close(p.kept)
	for pause := leastPause; p.ctx.Err() == nil; {
		var err error
		for i := range p.slots {
			if err == nil && p.ctx.Err() == nil {
				err = p.fill(&p.slots[i])
			}
		}
		var again <-chan time.Time
		switch {
		case err == nil:
			pause = leastPause
		case errors.Is(err, errRecords): // there is a newer image
			p.wake()
		default:
			p.log.Error("an instance of the core cannot be built", "err", err, "again_in", pause)
			again, pause = time.After(pause), min(2*pause, mostPause)
		}
		select {
		case <-again:
		case <-p.missing:
		case <-p.ctx.Done():
		}
	}
}

// fill puts a new instance into a slot, unless the one there began from the newest image.
// That one answers until the new one is at the head.
func (p *Pool) fill(s *slot) error {
	p.filling.Lock()
	defer p.filling.Unlock()
	s.mu.Lock()
	current := s.in != nil && s.in.from == p.base.newest()
	s.mu.Unlock()
	if current || p.native.Load() != nil {
		return nil
	}
	in, err := p.build()
	if err != nil {
		return err
	}
	if err = p.follow(in, p.head.Load()); err == nil {
		s.mu.Lock() // and then what came meanwhile
		if err = p.follow(in, p.head.Load()); err == nil && p.native.Load() == nil {
			in, s.in = s.in, in
			s.at.Store(s.in.at)
		}
		s.mu.Unlock()
	}
	if errors.Is(err, errTrap) {
		p.traps.Add(1)
	}
	in.close()
	return err
}

// takeOver has the native core answer from now on, at the head, and gives it. It gives
// nil if the pool is closed or the core cannot be made. The caller holds writing.
func (p *Pool) takeOver() *Native {
	if n := p.native.Load(); n != nil || p.closed {
		return n
	}
	from := p.base.newest()
	c, err := p.coreIn(from, from.memory.AppendTo(nil))
	if err != nil {
		p.log.Error("reads cannot be answered", "err", err)
		return nil
	}
	n := &Native{core: c, clock: p.clock, capacity: p.config.Capacity}
	p.native.Store(n)
	p.closeInstances()
	p.log.Error("no instance of the core can go on: the native core answers until a restart", "traps", p.Traps())
	return n
}
