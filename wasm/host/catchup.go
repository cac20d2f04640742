package host

import (
	"errors"
	"fmt"
	"time"

	"webring/core/abi"
)

// How long to wait after building an instance failed: twice as long each time.
const (
	leastPause = time.Second
	mostPause  = time.Minute
)

// take gives an instance at the head, for the caller alone, which puts it into
// the rack again or discards it. It gives nil when none comes within the time,
// and when the native core has taken over.
func (p *Pool) take(line *queue, wait time.Duration) *instance {
	var late time.Time // one for all that come and cannot be used
	for {
		in := p.rack.take()
		if in == nil {
			if late.IsZero() {
				late = time.Now().Add(wait)
			}
			if in = p.wait(line, time.Until(late)); in == nil {
				return nil
			}
		}
		if p.bring(in) {
			return in
		}
	}
}

// wait is for when no instance is free at once.
func (p *Pool) wait(line *queue, most time.Duration) *instance {
	timer := p.timers.Get().(*time.Timer)
	defer p.timers.Put(timer)
	timer.Reset(most)
	defer timer.Stop()
	return p.rack.await(line, timer.C, p.ctx.Done(), func() bool { return p.native.Load() != nil })
}

// bring takes an instance that is the caller's alone to the head. When it
// reports false the instance is no longer the caller's: it is too far behind, or
// it trapped.
func (p *Pool) bring(in *instance) bool {
	h := p.head.Load()
	if in.at != h && in.at.far(h) {
		p.heal(in)
		return false
	}
	return p.catchUp(in, h)
}

// catchUp is bring to h, however far that is.
func (p *Pool) catchUp(in *instance, h *head) bool {
	if in.at == h {
		return true
	}
	err := p.follow(in, h)
	switch {
	case errors.Is(err, errGone):
		p.heal(in)
	case err != nil:
		p.discard(in, err)
	}
	return err == nil
}

// errGone says that records an instance lacks are no longer kept.
var errGone = errors.New("host: the records are gone")

// follow takes an instance to h, however far that is.
func (p *Pool) follow(in *instance, h *head) error {
	for {
		if there, err := p.approach(in, h); there || err != nil {
			return err
		}
	}
}

// approach takes an instance towards h by as many records as one call takes, or to
// its second when it has them all: then it is there.
func (p *Pool) approach(in *instance, h *head) (there bool, err error) {
	if in.seq >= h.seq {
		if err := in.keepTime(h); err != nil {
			return false, err
		}
		in.at = h
		return true, nil
	}
	from := in.seq
	records, ok := p.kept.after(from, h.seq)
	if !ok {
		return false, errGone
	}
	reply, err := in.apply(records)
	if err != nil {
		return false, err
	}
	if reply.Refused || reply.Seq != from+uint64(len(records)) {
		return false, fmt.Errorf("%w: record %d was applied before, and is refused: %.200s", errTrap, reply.Seq, reply.Rest)
	}
	return false, nil
}

// keepTime takes an instance with the records of h to its second.
func (in *instance) keepTime(h *head) error {
	if in.rewinds == h.rewinds {
		return in.advance(h.second)
	}
	if _, err := in.must(abi.OpRewind, uint64(max(h.second, 0)), nil); err != nil {
		return err
	}
	in.rewinds = h.rewinds
	return nil
}

// discard gives up an instance that trapped, and builds another.
func (p *Pool) discard(in *instance, err error) {
	p.log.Error("an instance of the core is built anew", "err", err, "traps", p.traps.Add(1))
	place := in.place
	in.close()
	p.lost(place)
	p.heal(&instance{place: place})
}

// lost counts the instance of a place that is to be built anew. After the last
// one, the native core answers.
func (p *Pool) lost(place int) {
	p.rack.places[place].at.Store(nil)
	if p.whole.Add(-1) == 0 && p.config.Native {
		go p.takeOver()
	}
}

// heal brings an instance that is far behind near the head, or builds one that
// is missing, and gives it to the pool: beside everything else.
func (p *Pool) heal(in *instance) {
	go func() {
		if in = p.healed(in); in == nil {
			p.retired.Add(1)
			return
		}
		p.rack.put(in)
	}()
}

// skipAhead has instances begin where the native core stands that answers for
// them, when none can get there by itself: one that grows needs room for the ring
// as it was and as it is, and one that begins with it only for the latter. It says
// whether there was any way to skip.
func (p *Pool) skipAhead() bool {
	if p.native.Load() == nil {
		return false // and the writer may be waiting for the very instance
	}
	p.writing.Lock() // so that head, records and native core are at one position
	defer p.writing.Unlock()
	n, h := p.native.Load(), p.head.Load()
	if from := p.kept.start(); n == nil || from.at == h.seq && from.rewinds == h.rewinds {
		return false
	}
	p.kept.replace(p.nativeImage(n, h.rewinds))
	return true
}

// healed gives nil when the pool is closed before it is done.
func (p *Pool) healed(in *instance) *instance {
	place, pause := in.place, leastPause
	for p.ctx.Err() == nil {
		var err error
		built := in.module == nil
		if built {
			in, err = p.build(place)
		}
		if err == nil {
			// By turns: one that has seconds to go must not hold up one that the
			// writer waits for.
			for h, there := p.head.Load(), false; err == nil && !there; {
				p.catching <- struct{}{}
				there, err = p.approach(in, h)
				<-p.catching
			}
			if err == nil {
				if built {
					p.whole.Add(1)
				}
				return in
			}
			in.close()
			in = &instance{place: place}
			if !built {
				p.lost(place)
			}
			if errors.Is(err, errGone) {
				continue
			}
			p.traps.Add(1)
			if p.skipAhead() {
				continue
			}
		}
		p.log.Error("an instance of the core cannot be built", "err", err, "again_in", pause, "traps", p.Traps())
		select {
		case <-time.After(pause):
		case <-p.ctx.Done():
		}
		in, pause = &instance{place: place}, min(2*pause, mostPause)
	}
	in.close()
	return nil
}
