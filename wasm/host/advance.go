package host

import (
	"fmt"
	"time"

	"webring/core/abi"
)

// How long moving the head waits for an instance. Records that no instance takes by
// then are applied by the native core; a second comes again soon.
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
	encoded := encodeRecords(records)
	p.writing.Lock()
	defer p.writing.Unlock()
	p.boundRecords()
	if n := p.fallback.Load(); n != nil {
		return p.applyFallback(n, records, encoded)
	}
	err := p.advance(waitApply, func(in *instance) error { return p.fold(in, encoded, nil) })
	if err == nil || p.closed.Load() {
		return err
	}
	n, err := p.startFallback()
	if err != nil {
		return err
	}
	return p.applyFallback(n, records, encoded)
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
// and publishes that. If the instance traps, it may be damaged, so move is run on another;
// if that traps too, the fault is not the instances'. The caller holds writing.
func (p *Pool) advance(wait time.Duration, move func(in *instance) error) error {
	p.keepOneNear()
	for range 2 {
		in := p.acquire(&p.free.writers, wait)
		if in == nil {
			break
		}
		err := move(in)
		if err == nil {
			p.free.put(in)
			return nil
		}
		p.replace(in, err)
	}
	return ErrNoInstance
}

// keepOneNear makes sure that two instances are near the head before one of them goes
// ahead: that may take long, and requests need the other meanwhile. It brings free
// instances there itself, and waits for others as long as a request would. The caller
// holds writing.
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

// fold applies records in an instance at the head and publishes where it gets. Where a
// digest is given, the records must lead to that. After an error the instance must be
// replaced; one that does not wrap errTrap is a refusal of the records.
func (p *Pool) fold(in *instance, records [][]byte, digest *[16]byte) error {
	h, began := p.head.Load(), time.Now()
	for rest := records; len(rest) > 0; {
		n := min(len(rest), abi.MaxRecords)
		reply, err := in.apply(rest[:n])
		if err != nil {
			return err
		}
		if reply.Refused { // whether that is right, the native core decides
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
		return fmt.Errorf("%w: it stands at a record that it was not given", errTrap)
	}
	next.cost = h.cost + time.Since(began)
	in.at = next
	p.publish(next, records)
	return nil
}

// publish moves the head, to which records lead. Nothing fails from here on, so head
// and cached records move together.
func (p *Pool) publish(next *head, records [][]byte) {
	p.cache.append(records)
	p.head.Store(next)
}

// Tick tells the wall clock, at least once a second; see [Native.Tick]. Then it brings
// the free instances to the new second. When none gets there, because no call ends
// within half a second or two trap on their way, the second stays what it was until
// another Tick.
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
	// The instance is not free before the head is published, or answers could go back
	// in time.
	_ = p.advance(waitTick, func(in *instance) error {
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
