package host

import (
	"errors"
	"fmt"
	"time"

	"webring/core/abi"
)

// errNoInstance says that no instance can move on.
var errNoInstance = errors.New("host: no instance of the module is left")

// Apply folds records, which follow the ones applied before, and then publishes them
// all at once. Errors are those of [Native.Apply]. A closed pool applies nothing and
// returns [ErrClosed].
func (p *Pool) Apply(records []Record) error {
	refusal, err := p.apply(records, nil, nil)
	return errors.Join(refusal, err)
}

// ApplyTo folds records, which follow the ones applied before, in one instance, and
// publishes them if they lead to the digest. Otherwise refusal says why, and readers go on
// seeing what they saw. With an error, which is one of [Pool.Apply], nothing has been
// applied. last is for the native core, if that answers; see [Native.ApplyTo].
func (p *Pool) ApplyTo(records []Record, digest [16]byte, last func() ([]byte, []Record, error)) (refusal, err error) {
	return p.apply(records, &digest, last)
}

// apply is ApplyTo, or Apply if digest is nil.
func (p *Pool) apply(records []Record, digest *[16]byte, last func() ([]byte, []Record, error)) (refusal, err error) {
	p.writing.Lock()
	defer p.writing.Unlock()
	switch n := p.native.Load(); {
	case p.closed:
		return nil, ErrClosed
	case n != nil && digest != nil:
		return n.ApplyTo(records, *digest, last)
	case n != nil:
		return nil, n.Apply(records)
	}
	encoded := make([][]byte, len(records))
	for i, r := range records {
		encoded[i] = abi.AppendRecord(nil, r)
	}
	if err := p.advance(encoded, func(in *instance) (*head, error) { return p.fold(in, encoded, digest) }); err != nil {
		return p.decide(records, digest) // the instance is damaged, or the records are
	}
	if p.base.full() {
		p.renew()
	}
	return nil, nil
}

// fold applies records in an instance and gives the head where it is then. If digest is
// not nil, the records must lead to it.
func (p *Pool) fold(in *instance, records [][]byte, digest *[16]byte) (*head, error) {
	want := in.seq + uint64(len(records))
	for len(records) > 0 {
		n := min(len(records), abi.MaxRecords)
		reply, err := in.apply(records[:n])
		if err != nil {
			return nil, err
		}
		if reply.Refused {
			return nil, fmt.Errorf("host: record %d: %s", reply.Seq, reply.Rest)
		}
		records = records[n:]
	}
	if digest != nil {
		if _, got, err := in.digest(); err != nil {
			return nil, err
		} else if got != *digest {
			return nil, errDigest
		}
	}
	if err := in.advance(p.clock.second); err != nil {
		return nil, err
	}
	if in.seq != want {
		return nil, fmt.Errorf("%w: it is at position %d, not %d", errTrap, in.seq, want)
	}
	return in.head(in.rewinds)
}

// decide has the native core fold records that an instance did not. If it refuses them,
// so does the pool. Otherwise the instance was ill or had no room to grow: all instances
// begin anew, behind the records. The caller holds writing.
func (p *Pool) decide(records []Record, digest *[16]byte) (refusal, err error) {
	var from *image
	var next *head
	err = p.natively(func(c *abi.Core) error {
		refusal = fold(c, records)
		if digest != nil {
			if _, got := c.Digest(); refusal == nil && got != *digest {
				refusal = errDigest
			}
			if refusal != nil {
				return nil
			}
		} // without a digest, the records before the one at fault count
		c.Advance(p.clock.second)
		rewinds := p.head.Load().rewinds
		from = p.imageOf(c, rewinds)
		next = &head{seq: c.Seq(), second: c.Second(), last: c.Last(), rewinds: rewinds, baseURL: c.BaseURL()}
		return nil
	})
	if err == nil && from != nil {
		p.beginAnew(from, next)
		return refusal, nil
	}
	// The same records may come again, and readers need an instance.
	for i := range p.slots {
		if s := &p.slots[i]; s.at.Load() == nil {
			_ = p.fill(s) // if it fails, keep goes on trying
		}
	}
	return refusal, err
}

// beginAnew publishes a head at an image, with one instance that begins there. The
// others follow in the background. If none can begin there, the native core takes over.
func (p *Pool) beginAnew(from *image, next *head) {
	in, err := p.buildFrom(from)
	if err != nil {
		p.log.Error("no instance of the core can begin from a new image", "err", err)
		p.base.replace(from)
		p.head.Store(next)
		p.takeOver()
		return
	}
	in.at = next
	s := &p.slots[0]
	s.mu.Lock()
	in, s.in = s.in, in
	s.at.Store(next)
	p.head.Store(next)
	p.base.replace(s.in.from)
	s.mu.Unlock()
	in.close()
	p.wake()
}

// Tick tells the wall clock, at least once a second; see [Native.Tick].
func (p *Pool) Tick(now time.Time) {
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.closed {
		return
	}
	n := p.native.Load()
	if n == nil && !p.tick(now) {
		n = p.takeOver()
	}
	if n != nil {
		n.Tick(now)
	}
}

// tick has instances take the head to a reading of the clock. It reports false when none
// gets there.
func (p *Pool) tick(now time.Time) bool {
	h, clock := p.head.Load(), p.clock
	rewound := clock.tick(now)
	next := *h
	next.second = max(h.second, clock.second)
	if rewound {
		next.second = max(clock.second, h.last)
		next.rewinds++
	}
	moved := next == *h
	for range p.slots {
		if !moved {
			moved = p.advance(nil, func(in *instance) (*head, error) { return &next, in.setSecond(&next) }) == nil
		}
	}
	if moved {
		p.clock = clock
	}
	return moved
}

// advance takes one instance further, publishes the head where it is then, with the
// records that lead there, and has the other instances follow. When move fails, its
// instance is given up. The caller holds writing.
func (p *Pool) advance(records [][]byte, move func(in *instance) (*head, error)) error {
	s := p.ahead()
	if s == nil {
		return errNoInstance
	}
	next, err := move(s.in)
	if err != nil {
		p.release(s, err)
		return err
	}
	p.base.append(records)
	s.in.at = next
	s.at.Store(next) // before the head, or a request could find no instance there
	p.head.Store(next)
	s.mu.Unlock()
	for i := range p.slots { // no request waits for one that is behind
		if s := &p.slots[i]; s.at.Load() != next {
			s.at.Store(nil)
		}
	}
	for i := range p.slots {
		if s := &p.slots[i]; s.at.Load() == nil {
			if s.mu.Lock(); p.ready(s) {
				s.mu.Unlock()
			}
		}
	}
	return nil
}

// ahead locks a slot with its instance at the head and keeps requests away from it. It returns
// nil if there is none.
func (p *Pool) ahead() *slot {
	for _, atHead := range []bool{true, false} {
		for i := range p.slots {
			s := &p.slots[i]
			if atHead != (s.at.Load() == p.head.Load()) {
				continue
			}
			s.at.Store(nil)
			if s.mu.Lock(); p.catchUp(s) {
				return s
			}
		}
	}
	return nil
}

// ready takes the instance of a locked slot to the head, for requests. Without an
// instance that gets there, it unlocks the slot and reports false.
func (p *Pool) ready(s *slot) bool {
	ok := p.catchUp(s)
	if ok {
		s.at.Store(s.in.at)
	}
	return ok
}

// catchUp is ready for the caller alone.
func (p *Pool) catchUp(s *slot) bool {
	err := errRecords
	if s.in != nil {
		err = p.follow(s.in, p.head.Load())
	}
	switch {
	case err == nil:
		return true
	case errors.Is(err, errRecords): // keep builds another one
		s.mu.Unlock()
	default:
		p.release(s, err)
	}
	return false
}

// follow brings an instance to h.
func (p *Pool) follow(in *instance, h *head) error {
	for in.seq < h.seq {
		records, ok := p.base.after(in.seq, h.seq)
		if !ok {
			return errRecords
		}
		want := in.seq + uint64(len(records))
		reply, err := in.apply(records)
		if err != nil {
			return err
		}
		if reply.Refused || reply.Seq != want {
			return fmt.Errorf("%w: record %d was applied before, and is refused: %.200s", errTrap, reply.Seq, reply.Rest)
		}
	}
	if in.at == h {
		return nil
	}
	err := in.setSecond(h)
	if err == nil {
		in.at = h
	}
	return err
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
