package host

import (
	"bytes"
	"fmt"
	"time"

	"webring/core/abi"
)

// standIn has the native core answer from now on, at the head, and gives it. The
// caller holds writing.
func (p *Pool) standIn() (*Native, error) {
	if n := p.native.Load(); n != nil {
		return n, nil
	}
	began, h := time.Now(), p.head.Load()
	n, err := p.kept.native(p.config.Capacity, h)
	if err != nil {
		return nil, fmt.Errorf("host: the native core cannot stand in: %w", err)
	}
	n.clock = p.clock
	p.native.Store(n)
	p.rack.wake()
	p.log.Error("no instance of the core can go on: the native core answers until all are built anew", "took", time.Since(began).Round(time.Millisecond))
	return n, nil
}

// takeOver is standIn for when there is nobody else to answer.
func (p *Pool) takeOver() {
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.whole.Load() > 0 || p.closed.Load() {
		return
	}
	if _, err := p.standIn(); err != nil {
		p.log.Error("reads cannot be answered", "err", err)
	}
}

// standDown lets instances answer again when all are there, and at the head.
func (p *Pool) standDown() {
	if p.native.Load() == nil || p.whole.Load() < int64(p.config.Instances) {
		return
	}
	// Head and native core move together, so nothing goes back.
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.native.Load() == nil || p.whole.Load() < int64(p.config.Instances) {
		return // one was lost in between
	}
	h := p.head.Load()
	for place := range p.config.Instances {
		in := p.rack.takeFrom(place)
		if in == nil || !p.catchUp(in, h) {
			return // it is on its way: another time
		}
		p.rack.put(in)
	}
	p.native.Store(nil)
	p.log.Info("all instances of the core are there again")
}

// writeNative has the core that stands in apply records, and moves the head with
// it. The caller holds writing.
func (p *Pool) writeNative(n *Native, records []Record, encoded [][]byte) error {
	began := time.Now()
	err := n.Apply(records)
	p.moveNative(n, encoded, began)
	return err
}

// moveNative moves the head to where the core that stands in has come since began by
// some of the records. The caller holds writing.
func (p *Pool) moveNative(n *Native, encoded [][]byte, began time.Time) {
	h := p.head.Load()
	next := n.head(h.rewinds)
	next.way = h.way + time.Since(began)
	encoded = encoded[:next.seq-h.seq]
	full := p.kept.full(encoded)
	p.kept.append(encoded)
	p.head.Store(next)
	if full {
		p.kept.replace(p.nativeImage(n, h.rewinds))
	}
}

// head is where the core stands.
func (n *Native) head(rewinds uint64) *head {
	n.mu.RLock()
	defer n.mu.RUnlock()
	c := n.core
	return &head{seq: c.Seq(), second: c.Second(), last: c.Last(), rewinds: rewinds, baseURL: c.BaseURL()}
}

// native gives a core at h, of what is kept.
func (k *kept) native(capacity int, h *head) (*Native, error) {
	from := k.start()
	c, err := k.core(capacity, from, from.memory.append(nil), h)
	if err != nil {
		return nil, err
	}
	if from.rewinds != h.rewinds {
		c.Rewind(h.second)
	} else {
		c.Advance(h.second)
	}
	return &Native{core: c, capacity: capacity}, nil
}

// core gives a core with the records of h in memory that holds what an image's does.
func (k *kept) core(capacity int, from *image, memory []byte, h *head) (*abi.Core, error) {
	c, err := abi.Attach(capacity, from.head, memory)
	if err != nil {
		return nil, err
	}
	for at := from.at; at < h.seq; {
		records, ok := k.after(at, h.seq)
		if !ok {
			return nil, errGone
		}
		reply, ok := abi.DecodeReply(c.Call(abi.OpApply, 0, bytes.Join(records, nil)))
		if !ok || reply.Refused {
			return nil, fmt.Errorf("record %d is refused: %.200s", reply.Seq, reply.Rest)
		}
		at += uint64(len(records))
	}
	return c, nil
}

// snapshot gives a snapshot at h, of what is kept.
func (k *kept) snapshot(capacity int, h *head) (snapshot []byte, err error) {
	from := k.start()
	err = from.memory.with(func(memory []byte) error {
		c, err := k.core(capacity, from, memory, h)
		if err == nil {
			snapshot = c.AppendSnapshot(nil)
		}
		return err
	})
	return snapshot, err
}
