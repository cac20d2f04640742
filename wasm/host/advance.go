package host

import (
	"errors"
	"fmt"
	"time"

	"webring/core/abi"
)

// How long moving the head waits for an instance. After that the native core applies the
// records; a second is left to the next Tick.
const (
	waitApply = 2 * time.Second
	waitTick  = 500 * time.Millisecond
)

// nearPause is how long to wait before looking again for an instance near the head.
const nearPause = time.Millisecond

// Apply folds records, which follow the ones applied before, and then publishes them
// all at once. Errors are those of [Native.Apply]. A closed pool applies nothing and
// returns [ErrNoInstance].
func (p *Pool) Apply(records []Record) error {
	_, err := p.apply(records, nil)
	return err
}

// ApplyTo folds records, which follow the ones applied before, in one instance, and
// publishes them if they lead to the digest. Otherwise refusal says why, that instance
// is replaced, and readers go on seeing what they saw. With an error, which is one of
// [Pool.Apply], nothing has been applied. The pool goes back by itself: it never calls
// last.
func (p *Pool) ApplyTo(records []Record, digest [16]byte, _ func() ([]byte, []Record, error)) (refusal, err error) {
	return p.apply(records, &digest)
}

// apply is ApplyTo, or Apply if digest is nil. Apply refuses nothing: if instances do not
// fold the records, the native core decides.
func (p *Pool) apply(records []Record, digest *[16]byte) (refusal, err error) {
	encoded := encodeRecords(records)
	p.writing.Lock()
	defer p.writing.Unlock()
	p.boundRecords()
	if p.fallback.Load() == nil {
		refusal, err = p.advance(waitApply, digest != nil, func(in *instance) error { return p.fold(in, encoded, digest) })
		switch {
		case err == nil && refusal == nil:
			return nil, nil
		case err == nil && digest != nil:
			p.awaitWorking(waitApply) // the same records may come again, and readers need an instance
			return refusal, nil
		case p.closed.Load():
			return nil, ErrNoInstance
		}
	}
	n, err := p.startFallback()
	if err != nil {
		return nil, err
	}
	return p.applyFallback(n, records, encoded, digest)
}

func encodeRecords(records []Record) [][]byte {
	encoded := make([][]byte, len(records))
	for i, r := range records {
		encoded[i] = abi.AppendRecord(nil, r)
	}
	return encoded
}

// boundRecords makes a new image when records come faster than renew looks.
func (p *Pool) boundRecords() {
	if !p.cache.overlong() {
		return
	}
	if _, err := p.newImage(); err != nil {
		p.log.Error("no new image of the core's memory can be made", "err", err)
	}
}

// advance runs move on an instance at the head. move takes the instance to the next head
// and publishes that. When it fails, the instance may be damaged: it is replaced, and
// another one is tried, with rebuild only after the first was rebuilt. After a second
// failure, refusal is the error of move if the instance did not trap, and err says why
// there is none otherwise. The caller holds writing.
func (p *Pool) advance(wait time.Duration, rebuild bool, move func(in *instance) error) (refusal, err error) {
	for try := range 2 {
		if try > 0 && rebuild {
			p.awaitWorking(wait)
		}
		p.keepOneNear()
		in := p.acquire(&p.free.writers, wait)
		if in == nil {
			return nil, ErrNoInstance
		}
		failed := move(in)
		if failed == nil {
			p.free.put(in)
			return nil, nil
		}
		p.replace(in, failed)
		if refusal, err = failed, nil; errors.Is(failed, errTrap) {
			refusal, err = nil, failed
		}
	}
	return refusal, err
}

// awaitWorking waits until no instance is being built, but no longer than wait: another
// one is about to go ahead, and requests need one meanwhile.
func (p *Pool) awaitWorking(wait time.Duration) {
	for began := time.Now(); p.working.Load() < int64(p.config.Instances) && p.ctx.Err() == nil && time.Since(began) < wait; {
		time.Sleep(nearPause)
	}
}

// keepOneNear makes sure that two instances are near the head before one of them goes
// ahead: that may take long, and requests need the other meanwhile. It has free instances
// catch up, and waits for the others as long as a request would. The caller holds
// writing.
func (p *Pool) keepOneNear() {
	h := p.head.Load()
	for began := time.Now(); p.ctx.Err() == nil && time.Since(began) < waitServe; time.Sleep(nearPause) {
		for slot := range p.config.Instances {
			if p.free.near(h) >= int(min(2, p.working.Load())) {
				return
			}
			if in := p.free.getFrom(slot); in != nil && p.catchUpTo(in, h) {
				p.free.put(in)
			}
		}
	}
}

// fold applies records in an instance at the head and publishes the new head. If digest
// is not nil, the records must lead to it. After an error the instance must be replaced.
// An error that does not wrap errTrap is a refusal of the records.
func (p *Pool) fold(in *instance, records [][]byte, digest *[16]byte) error {
	h, began := p.head.Load(), time.Now()
	for rest := records; len(rest) > 0; {
		n := min(len(rest), abi.MaxRecords)
		reply, err := in.apply(rest[:n])
		if err != nil {
			return err
		}
		if reply.Refused {
			return fmt.Errorf("host: record %d: %s", reply.Seq, reply.Rest)
		}
		rest = rest[n:]
	}
	if digest != nil {
		if _, got, err := in.digest(); err != nil {
			return err
		} else if got != *digest {
			return errDigest
		}
	}
	if err := in.advance(p.clock.second); err != nil {
		return err
	}
	next, err := in.head(h.rewinds)
	if err != nil {
		return err
	}
	if next.seq != h.seq+uint64(len(records)) {
		return fmt.Errorf("%w: it is at position %d, not %d", errTrap, next.seq, h.seq+uint64(len(records)))
	}
	next.cost = h.cost + time.Since(began)
	in.at = next
	p.publish(next, records)
	return nil
}

// publish moves the head, and caches the records that lead there.
func (p *Pool) publish(next *head, records [][]byte) {
	p.cache.append(records)
	p.head.Store(next)
}

// Tick tells the wall clock, at least once a second; see [Native.Tick]. Then it has the
// free instances catch up. If no instance gets to the new second, because none is free
// within half a second or because two trap, the second stays until the next Tick.
func (p *Pool) Tick(now time.Time) {
	p.writing.Lock()
	p.tick(now)
	p.ticks++
	if p.ticks%renewTicks == 0 {
		go p.renew()
	}
	p.writing.Unlock()

	p.endFallback()
	for slot := range p.config.Instances {
		if in := p.free.getFrom(slot); in != nil && p.catchUp(in) {
			p.free.put(in)
		}
	}
}

// tick moves the head to a reading of the clock. The caller holds writing.
func (p *Pool) tick(now time.Time) {
	next, clock := *p.head.Load(), p.clock
	rewound := clock.tick(now)
	second := max(next.second, clock.second)
	if rewound {
		second = max(clock.second, next.last)
		next.rewinds++
	}
	moves := rewound || second != next.second
	next.second = second
	began := time.Now()
	if n := p.fallback.Load(); n != nil {
		n.Tick(now)
		next.cost += time.Since(began)
		p.clock = clock
		if moves {
			p.publish(&next, nil)
		}
		return
	}
	if !moves {
		p.clock = clock
		return
	}
	// The head is published before the instance is free again. Otherwise a request
	// could see the new second, and the next one the old one.
	_, _ = p.advance(waitTick, false, func(in *instance) error {
		began := time.Now()
		if err := in.setSecond(&next); err != nil {
			return err
		}
		next.cost += time.Since(began)
		in.at, p.clock = &next, clock
		p.publish(&next, nil)
		return nil
	})
}

// setSecond takes an instance with the records of h to its second.
func (in *instance) setSecond(h *head) error {
	if in.rewinds == h.rewinds {
		return in.advance(h.second)
	}
	if _, err := in.must(abi.OpRewind, uint64(max(h.second, 0)), nil); err != nil {
		return err
	}
	in.rewinds = h.rewinds
	return nil
}
