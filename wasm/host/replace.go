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

// replace closes an instance that trapped, and has another one built for its slot.
func (p *Pool) replace(in *instance, err error) {
	p.log.Error("an instance of the core is built anew", "err", err, "traps", p.traps.Add(1))
	in.close()
	p.lost(in.slot)
	go p.restore(&instance{slot: in.slot})
}

// lost counts an instance that was closed. After the last one, the native core answers.
func (p *Pool) lost(slot int) {
	p.free.slots[slot].at.Store(nil)
	if p.working.Add(-1) == 0 {
		go p.fallBack()
	}
}

// restore brings an instance that is far behind to the head, or builds one if in is an
// empty slot, and puts it into the free list. It runs in the background, and tries until
// it succeeds or the pool is closed.
func (p *Pool) restore(in *instance) {
	slot, pause := in.slot, leastPause
	for p.ctx.Err() == nil {
		var err error
		built := in.module == nil
		if built {
			in, err = p.build(slot)
		}
		if err == nil {
			if err = p.followByTurns(in); err == nil {
				if built {
					p.working.Add(1)
				}
				p.free.put(in)
				return
			}
			in.close()
			if !built {
				p.lost(slot)
			}
			if in = (&instance{slot: slot}); errors.Is(err, errRecords) {
				continue
			}
			p.traps.Add(1)
			// An instance that grows needs memory for the ring as it was and as it is,
			// and one that begins from a newer image only for the latter.
			if made, _ := p.newImage(); made {
				continue
			}
		}
		p.log.Error("an instance of the core cannot be built", "err", err, "again_in", pause, "traps", p.Traps())
		select {
		case <-time.After(pause):
		case <-p.ctx.Done():
		}
		in, pause = &instance{slot: slot}, min(2*pause, mostPause)
	}
	in.close()
	p.ended.Add(1)
}

// followByTurns brings an instance to the head. Instances take turns. So one that is far
// behind does not hold up one for which the writer waits, and processors are left for
// requests: the module's code cannot be interrupted.
func (p *Pool) followByTurns(in *instance) error {
	for h := p.head.Load(); in.at != h; {
		p.turns <- struct{}{}
		err := p.step(in, h)
		<-p.turns
		if err != nil {
			return err
		}
	}
	return nil
}
