package host

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"webring/core/abi"
)

// The records since the image may grow to a sixteenth of its length, within these bounds
// in bytes. Then there is a new image. The records of 7 % more members are that long. An
// image has room for 10 % more: after that, each instance moves its ring to memory of its
// own, and shares nothing any more. The upper bound limits how long it takes to build an
// instance, which folds all of these records.
const (
	leastRecords = 1 << 20
	mostRecords  = 32 << 20
)

// base is what any instance can be built from: an image, and all records since.
type base struct {
	mu      sync.Mutex
	image   *image
	records [][]byte // from the image's position on
	bytes   int      // of these records
}

// errRecords says that an instance lacks records that are before the newest image.
var errRecords = errors.New("host: the records are gone")

// append adds encoded records, which follow the last ones.
func (b *base) append(records [][]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.records = append(b.records, records...)
	for _, r := range records {
		b.bytes += len(r)
	}
}

// full says whether it is time for a new image.
func (b *base) full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes > min(max(b.image.memory.Len()/16, leastRecords), mostRecords)
}

// replace takes an image at the head. No records follow it.
func (b *base) replace(with *image) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.image, b.records, b.bytes = with, nil, 0
}

// swap takes an image in the place of another one at the same position, unless there is
// a newer one.
func (b *base) swap(old, with *image) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.image == old {
		b.image = with
	}
}

// newest gives the image.
func (b *base) newest() *image {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.image
}

// after gives the records from position seq up to end, at most as many as one call
// takes. It is not ok when they are not there. The caller may read the list, which
// never changes.
func (b *base) after(seq, end uint64) (records [][]byte, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	from := b.image.at
	if seq < from || end > from+uint64(len(b.records)) {
		return nil, false
	}
	records = b.records[seq-from : end-from]
	return records[:min(len(records), abi.MaxRecords)], true
}

// natively calls f with a native core at the head, which lasts until f returns. The
// caller holds writing.
func (p *Pool) natively(f func(c *abi.Core) error) error {
	from := p.base.newest()
	return from.memory.View(func(b []byte) error {
		c, err := p.coreIn(from, b)
		if err != nil {
			return err
		}
		return f(c)
	})
}

// coreIn gives the native core at the head, in a copy of the image's memory. The caller
// holds writing.
func (p *Pool) coreIn(from *image, memory []byte) (*abi.Core, error) {
	c, err := abi.Attach(p.config.Capacity, from.header, memory)
	if err != nil {
		return nil, err
	}
	h := p.head.Load()
	for c.Seq() < h.seq {
		records, ok := p.base.after(c.Seq(), h.seq)
		if !ok {
			return nil, errRecords
		}
		reply, ok := abi.DecodeReply(c.Call(abi.OpApply, 0, bytes.Join(records, nil)))
		if !ok || reply.Refused {
			return nil, fmt.Errorf("host: record %d was applied before, and is refused: %.200s", reply.Seq, reply.Rest)
		}
	}
	if from.rewinds != h.rewinds {
		c.Rewind(h.second)
	} else {
		c.Advance(h.second)
	}
	return c, nil
}

// renew makes a new image at the head, from which instances begin anew in the background.
// The reason is members that join: for each, an instance writes to memory that it shares
// with others, and in the end it moves its ring out of that memory. The caller holds
// writing.
func (p *Pool) renew() {
	err := p.natively(func(c *abi.Core) error {
		p.base.replace(p.imageOf(c, p.head.Load().rewinds))
		return nil
	})
	if err != nil {
		p.log.Error("no new image of the core's memory can be made", "err", err)
		return
	}
	p.wake()
}
