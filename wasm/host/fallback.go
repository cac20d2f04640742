package host

import (
	"errors"
	"fmt"
	"time"
)

// startFallback has the native core answer from now on, at the head, and gives it. The
// caller holds writing.
func (p *Pool) startFallback() (*Native, error) {
	if n := p.fallback.Load(); n != nil {
		return n, nil
	}
	began, n := time.Now(), &Native{clock: p.clock, capacity: p.config.Capacity}
	for n.core == nil {
		from := p.cache.newest()
		var err error
		n.core, err = p.cache.core(from, from.memory.AppendTo(nil), p.head.Load())
		if err != nil && !errors.Is(err, errRecords) { // after errRecords there is a newer image
			return nil, fmt.Errorf("host: the native core cannot answer: %w", err)
		}
	}
	p.setFallback(n)
	p.log.Error("no instance of the core can go on: the native core answers until all are built anew", "took", time.Since(began).Round(time.Millisecond))
	return n, nil
}

// setFallback sets or, with nil, unsets the core that answers instead of instances.
// Setting it ends all waiting for instances.
func (p *Pool) setFallback(n *Native) {
	if n == nil {
		p.fellBack.Store(make(chan struct{}))
	}
	p.fallback.Store(n)
	if n != nil {
		close(p.fellBack.Load().(chan struct{}))
	}
}

// fallBack is startFallback for when no instance is left to answer.
func (p *Pool) fallBack() {
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.working.Load() > 0 || p.closed.Load() {
		return
	}
	if _, err := p.startFallback(); err != nil {
		p.log.Error("reads cannot be answered", "err", err)
	}
}

// endFallback lets instances answer again when all are there, and at the head.
func (p *Pool) endFallback() {
	if p.fallback.Load() == nil || p.working.Load() < int64(p.config.Instances) {
		return
	}
	// Nothing moves the head meanwhile, so no answer is older than one before.
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.fallback.Load() == nil || p.working.Load() < int64(p.config.Instances) {
		return // one was lost in between
	}
	h := p.head.Load()
	for slot := range p.config.Instances {
		in := p.free.getFrom(slot)
		if in == nil || !p.catchUpTo(in, h) {
			return // it is catching up: the next Tick tries again
		}
		p.free.put(in)
	}
	p.setFallback(nil)
	p.log.Info("all instances of the core are there again")
}

// applyFallback has the native core apply records, to the digest if one is given, and
// publishes where that leads. The caller holds writing.
func (p *Pool) applyFallback(n *Native, records []Record, encoded [][]byte, digest *[16]byte) (refusal, err error) {
	began := time.Now()
	if digest == nil {
		err = n.Apply(records) // with an error, those before the one at fault are applied
	} else if refusal, err = n.ApplyTo(records, *digest, p.present); refusal != nil || err != nil {
		return refusal, err
	}
	h := p.head.Load()
	next := n.head(h.rewinds)
	next.cost = h.cost + time.Since(began)
	p.publish(next, encoded[:next.seq-h.seq])
	return nil, err
}

// present gives what a native core is loaded from at the head.
func (p *Pool) present() (snapshot []byte, records []Record, err error) {
	if snapshot = p.Snapshot(); snapshot == nil {
		err = errors.New("no snapshot can be made")
	}
	return snapshot, nil, err
}

// head gives the head at which the core is.
func (n *Native) head(rewinds uint64) *head {
	n.mu.RLock()
	defer n.mu.RUnlock()
	c := n.core
	return &head{seq: c.Seq(), second: c.Second(), last: c.Last(), rewinds: rewinds, baseURL: c.BaseURL()}
}
