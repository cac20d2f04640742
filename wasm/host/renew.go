package host

import (
	"time"

	"webring/wasm/host/sharedmem"
)

const (
	// renewTicks is how many ticks lie between two calls of renew.
	renewTicks = 16
	// renewPause is how long to wait for the instance of a slot to be free.
	renewPause = 10 * time.Millisecond
)

// renew makes a new image when there are many records since the last one, and has all
// instances begin from the newest, one at a time. The reason is members that join: for
// each, an instance writes to memory that it shares with others, and in the end it moves
// its ring out of that memory.
func (p *Pool) renew() {
	if !p.renewing.TryLock() {
		return
	}
	defer p.renewing.Unlock()
	if p.cache.full() {
		if _, err := p.newImage(); err != nil {
			p.log.Error("no new image of the core's memory can be made", "err", err)
			return
		}
	}
	image := p.cache.newest()
	if _, shared := image.memory.(*sharedmem.Image); !shared || image == p.renewed {
		return
	}
	for slot := range p.config.Instances {
		if err := p.renewInstance(slot); err != nil {
			p.log.Error("an instance of the core does not begin anew", "err", err)
			return
		}
	}
	p.renewed = image
}

// renewInstance replaces the instance of a slot by one from the newest image. The new one
// is built first, so no request waits for it. When the old one is not free for a minute,
// restore is building another in its place, which begins from the new image too.
func (p *Pool) renewInstance(slot int) error {
	fresh, err := p.build(slot)
	if err != nil {
		return err
	}
	if err := p.follow(fresh, p.head.Load()); err != nil {
		fresh.close()
		return err
	}
	for began := time.Now(); p.ctx.Err() == nil && time.Since(began) < waitRenew; {
		if old := p.getFrom(slot); old != nil {
			if old.from == fresh.from { // it was replaced after a trap, from the new image
				old, fresh = fresh, old
			}
			p.free.put(fresh)
			old.close()
			return nil
		}
		select {
		case <-time.After(renewPause):
		case <-p.ctx.Done():
		}
	}
	fresh.close()
	return nil
}

// getFrom gives the instance of a slot, or nil when it is not free. While there are more
// requests than instances, none is ever free. Then getFrom waits in line with the
// requests, and may get the instance of another slot, which it puts back.
func (p *Pool) getFrom(slot int) *instance {
	in := p.free.getFrom(slot)
	if in == nil {
		in = p.wait(&p.free.readers, renewPause)
	}
	if in != nil && in.slot != slot {
		p.free.put(in)
		return nil
	}
	return in
}
