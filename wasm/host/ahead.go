package host

import (
	"fmt"
	"time"

	"webring/core/abi"
)

// mostWay is how long a way, by [head.way], a request may have an instance go to
// the head: about half of the millisecond that it may wait for all that records
// and seconds cost. A count of records or steps would not do instead. A bid is
// folded in some 10 µs, while one that joins may have all the memory of a
// ring copied, and one that leaves is sought among all on its host. A time
// that was measured too long, because somebody else had the processor, does no
// harm: the other instances catch up outside the pool once.
const mostWay = 500 * time.Microsecond

// leavePause is how long to wait before looking again for an instance that is on
// its way.
const leavePause = time.Millisecond

// far says that the way from where an instance stands to h is too long for a
// request. One that is being built stands nowhere.
func (at *head) far(h *head) bool { return at == nil || h.way-at.way > mostWay }

// leaveOne sees to it that an instance is left near the head when another goes
// ahead of it, which may take long: requests need one meanwhile. It waits for one
// that is on its way, for as long as a request would wait, and itself brings one that
// nobody uses. The caller holds writing.
func (p *Pool) leaveOne() {
	h := p.head.Load()
	for began := time.Now(); p.ctx.Err() == nil && time.Since(began) < waitServe; time.Sleep(leavePause) {
		for place := range p.config.Instances {
			if p.rack.near(h) >= int(min(2, p.whole.Load())) {
				return
			}
			if in := p.rack.takeFrom(place); in != nil && p.catchUp(in, h) {
				p.rack.put(in)
			}
		}
	}
}

// write has in, which stands at the head, apply records, and moves the head to
// where it gets. With a digest, the head stays, and the records are refused, unless
// all of them lead to that; in must not be used any more then.
func (p *Pool) write(in *instance, records [][]byte, digest *[16]byte) (refusal, trap error) {
	h, began := p.head.Load(), time.Now()
	for rest := records; len(rest) > 0; {
		n := min(len(rest), abi.MaxRecords)
		reply, err := in.apply(rest[:n])
		if err != nil {
			return nil, err
		}
		if reply.Refused {
			refusal = fmt.Errorf("host: record %d: %s", reply.Seq, reply.Rest)
			if p.config.Native || digest != nil {
				return refusal, nil // there is another opinion
			}
			break
		}
		rest = rest[n:]
	}
	if digest != nil {
		_, got, err := in.digest()
		if err != nil {
			return nil, err
		}
		if got != *digest {
			return errDigest, nil
		}
	}
	if err := in.advance(p.clock.second); err != nil {
		return nil, err
	}
	next, err := in.head(h.rewinds)
	if err != nil {
		return nil, err
	}
	if next.seq-h.seq > uint64(len(records)) {
		return nil, fmt.Errorf("%w: it stands at a record that it was not given", errTrap)
	}
	next.way = h.way + time.Since(began)
	records = records[:next.seq-h.seq]
	var renewed *image
	if p.kept.full(records) {
		if renewed, err = p.image(in); err != nil {
			return nil, err
		}
	}
	// Nothing fails from here on: records and head move together, and no instance
	// begins from an image beyond the head.
	p.kept.append(records)
	in.at = next
	p.head.Store(next)
	if renewed != nil {
		p.kept.replace(renewed)
	}
	return refusal, nil
}

// Tick tells the wall clock, at least once a second; see [Native.Tick]. Then it
// brings the instances that nobody is using to the new second. When none gets there,
// because no call ends within half a second or two trap on their way, the second stays
// what it was until another Tick. It waits behind no request.
func (p *Pool) Tick(now time.Time) {
	p.writing.Lock()
	p.ticks++
	look := p.ticks%renewTicks == 0
	p.tick(now)
	p.writing.Unlock()

	p.standDown()
	for place := range p.config.Instances {
		if in := p.rack.takeFrom(place); in != nil && p.bring(in) {
			p.rack.put(in)
		}
	}
	if look {
		go p.renew()
	}
}

// tick moves the head to a reading of the clock. The caller holds writing.
func (p *Pool) tick(now time.Time) {
	h, clock := *p.head.Load(), p.clock
	rewound := clock.tick(now)
	second := max(h.second, clock.second)
	if rewound {
		second = max(clock.second, h.last)
		h.rewinds++
	}
	moves := rewound || second != h.second
	h.second = second
	n := p.native.Load()
	switch {
	case n != nil:
		began := time.Now()
		n.Tick(now)
		h.way += time.Since(began)
	case moves:
		ahead := p.lead(&h)
		if ahead == nil {
			return // and the clock has not been read
		}
		// Not before the head is shown, or answers would go back in time.
		defer p.rack.put(ahead)
	}
	p.clock = clock
	if moves {
		p.head.Store(&h)
	}
}

// lead has an instance go ahead to the second of a head that is to be shown, and
// notes in that how long it took: so whoever asks from then on finds one that is
// there, while the others answer at the old head until then. It may give nil.
func (p *Pool) lead(h *head) *instance {
	p.leaveOne()
	for range 2 { // one that traps may have been ill
		in := p.take(&p.rack.movers, waitLead)
		if in == nil {
			break
		}
		began := time.Now()
		err := in.keepTime(h)
		if err == nil {
			h.way += time.Since(began)
			in.at = h
			return in
		}
		p.discard(in, err)
	}
	return nil
}
