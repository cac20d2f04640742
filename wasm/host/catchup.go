package host

import (
	"errors"
	"fmt"
	"time"
)

// mostLag is how far, by [head.cost], an instance may catch up while a request waits:
// about half of the millisecond that records and seconds may cost a request. A count of
// records would not do: most bids are folded in some 10 µs, while one member that joins
// may have the memory of the whole ring copied. A cost that was measured too high,
// because another process had the processor, does no harm: the other instances catch up
// in the background once.
const mostLag = 500 * time.Microsecond

// far says whether catching up from at to h takes too long for a request. An instance
// that is being built has no head, and is far from any.
func (at *head) far(h *head) bool { return at == nil || h.cost-at.cost > mostLag }

// acquire gives an instance at the head to the caller alone. The caller puts it back into
// the free list or replaces it. acquire gives nil when none comes within the time, and
// when the fallback answers instead.
func (p *Pool) acquire(q *queue, wait time.Duration) *instance {
	var end time.Time // of all waiting together: instances may come that are too far behind
	for {
		in := p.free.get()
		if in == nil {
			if end.IsZero() {
				end = time.Now().Add(wait)
			}
			if in = p.wait(q, time.Until(end)); in == nil {
				return nil
			}
		}
		if p.catchUp(in) {
			return in
		}
	}
}

// wait waits for an instance when none is free.
func (p *Pool) wait(q *queue, most time.Duration) *instance {
	timer := p.timers.Get().(*time.Timer)
	defer p.timers.Put(timer)
	timer.Reset(most)
	defer timer.Stop()
	return p.free.wait(q, timer.C, p.ctx.Done(), p.fellBack.Load().(chan struct{}))
}

// catchUp brings an instance to the head if that takes no longer than a request may wait.
// Otherwise, and after a trap, it returns false. Then the instance is no longer the
// caller's: it catches up, or is replaced, in the background.
func (p *Pool) catchUp(in *instance) bool {
	h := p.head.Load()
	if in.at == h {
		return true
	}
	if in.at.far(h) {
		go p.restore(in)
		return false
	}
	return p.catchUpTo(in, h)
}

// catchUpTo is catchUp to h, however long that takes.
func (p *Pool) catchUpTo(in *instance, h *head) bool {
	err := p.follow(in, h)
	switch {
	case errors.Is(err, errRecords):
		go p.restore(in)
	case err != nil:
		p.replace(in, err)
	}
	return err == nil
}

// follow brings an instance to h.
func (p *Pool) follow(in *instance, h *head) error {
	for in.at != h {
		if err := p.step(in, h); err != nil {
			return err
		}
	}
	return nil
}

// step takes an instance towards h: by as many records as one call takes, or, when it has
// them all, to the second of h. Then in.at is h.
func (p *Pool) step(in *instance, h *head) error {
	from := in.seq
	if from >= h.seq {
		err := in.setSecond(h)
		if err == nil {
			in.at = h
		}
		return err
	}
	records, ok := p.cache.after(from, h.seq)
	if !ok {
		return errRecords
	}
	reply, err := in.apply(records)
	if err != nil {
		return err
	}
	if reply.Refused || reply.Seq != from+uint64(len(records)) {
		return fmt.Errorf("%w: record %d was applied before, and is refused: %.200s", errTrap, reply.Seq, reply.Rest)
	}
	return nil
}
