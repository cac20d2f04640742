package host

import (
	"time"
)

const (
	// renewTicks is how many ticks lie between two looks at what instances still
	// share.
	renewTicks = 64
	// privateShare is the part of what it began to share, in percent, that an
	// instance may have to itself before a new image is made. What bids and
	// seconds write to is not among that: each instance has its own from the
	// beginning. So it is those who join that make images old.
	privateShare = 25
	// leastShared is the least memory that is worth the trouble, in bytes.
	leastShared = 2 << 20
	// renewPause is how long to wait for an instance to come back into the rack.
	renewPause = 10 * time.Millisecond
)

// renew sees to it that instances share memory: when one has written to more than
// a quarter of what it shared, it makes a new image, and when there is a new one,
// has all begin from it, one at a time. It works beside everything else: what it
// makes, it makes of instances that are not in the pool.
func (p *Pool) renew() {
	if !p.renewing.TryLock() {
		return
	}
	defer p.renewing.Unlock()
	stale, private := p.sharing()
	if !stale && private <= privateShare {
		return
	}
	if private > privateShare {
		if err := p.reimage(); err != nil {
			p.log.Error("no new image of the core's memory can be made", "err", err)
			return
		}
		p.log.Info("instances of the core begin anew from a new image", "private_percent", private)
	}
	for place := range p.config.Instances {
		if err := p.replace(place); err != nil {
			p.log.Error("an instance of the core does not begin anew", "err", err)
			return
		}
	}
}

// sharing says whether an instance has begun from an older image than the newest,
// and, of those that began from the newest, the largest share of its memory that one
// has to itself, in percent.
func (p *Pool) sharing() (stale bool, private int) {
	newest := p.kept.start()
	for place := range p.config.Instances {
		in := p.borrow(place)
		if in == nil {
			continue
		}
		if in.from != newest {
			stale = true
			p.rack.put(in)
			continue
		}
		outgrown, err := in.outgrown()
		if err != nil {
			p.discard(in, err)
			continue
		}
		shared := in.shared
		p.rack.put(in)
		if outgrown {
			private = 100
		} else {
			private = max(private, newest.private(shared))
		}
	}
	return stale, private
}

// reimage makes an image at the head, of an instance of its own.
func (p *Pool) reimage() error {
	in, err := p.atHead(-1)
	if err != nil {
		return err
	}
	defer in.close()
	made, err := p.image(in)
	if err == nil {
		p.kept.replace(made)
	}
	return err
}

// atHead builds an instance and takes it to the head.
func (p *Pool) atHead(place int) (*instance, error) {
	in, err := p.build(place)
	if err != nil {
		return nil, err
	}
	if err := p.follow(in, p.head.Load()); err != nil {
		in.close()
		return nil, err
	}
	return in, nil
}

// replace has a new instance take the place of one that began from an older
// image. When that one does not come back for long, it is being built anew, and from
// the new image at that.
func (p *Pool) replace(place int) error {
	fresh, err := p.atHead(place)
	if err != nil {
		return err
	}
	for began := time.Now(); p.ctx.Err() == nil && time.Since(began) < waitWrite; {
		if in := p.borrow(place); in != nil {
			if in.from == fresh.from { // a trap was faster
				in, fresh = fresh, in
			}
			p.rack.put(fresh)
			in.close()
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

// borrow takes the instance of a place. It never lies there while there are more
// requests than instances: then borrow waits its turn among them, and has to be
// lucky. It gives nil when it is not.
func (p *Pool) borrow(place int) *instance {
	in := p.rack.takeFrom(place)
	if in == nil {
		in = p.wait(&p.rack.others, renewPause)
	}
	if in != nil && in.place != place {
		p.rack.put(in)
		return nil
	}
	return in
}
