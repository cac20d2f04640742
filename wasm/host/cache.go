package host

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"webring/core/abi"
)

// recordsBefore is how many records from before the image the cache holds. Instances that
// are a little behind when there is a new image still need them.
const recordsBefore = 256

// The cached records may grow to a sixteenth of the image's length, within these bounds
// in bytes. Then it is time for a new image. The records of 7 % more members are that
// long. An image has room for 10 % more: after that, each instance moves its ring to
// memory of its own, and shares nothing any more. The upper bound limits how long it
// takes to build an instance, which folds all of these records.
const (
	leastRecords = 1 << 20
	mostRecords  = 32 << 20
)

// cache is what any instance can be built from: an image, and all records since,
// with a few before it.
type cache struct {
	capacity int // of the ring, in members

	mu      sync.RWMutex
	image   *image
	from    uint64 // position of the first record
	records [][]byte
	bytes   int // of records from the image's position on
	most    int // mostRecords, except in tests
}

// append adds encoded records, which follow the last ones.
func (c *cache) append(records [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.records = append(c.records, records...)
	for _, r := range records {
		c.bytes += len(r)
	}
}

// full says whether it is time for a new image.
func (c *cache) full() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.bytes > min(max(c.image.memory.Len()/16, leastRecords), mostRecords)
}

// overlong says whether there must be a new image before more records are cached.
func (c *cache) overlong() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.bytes > c.most
}

// replace takes an image at a position that the records reach, and drops the records
// that are no longer needed.
func (c *cache) replace(with *image) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := with.at
	if at < c.image.at {
		return // there is a newer one
	}
	c.image, c.bytes = with, 0
	if at-c.from > recordsBefore {
		drop := at - recordsBefore - c.from
		c.records = append([][]byte(nil), c.records[drop:]...)
		c.from += drop
	}
	for _, r := range c.records[at-c.from:] {
		c.bytes += len(r)
	}
}

// newest gives the image.
func (c *cache) newest() *image {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.image
}

// after gives the records from position seq up to end, at most as many as one call
// takes. It is not ok when the cache no longer has them. The caller may read the
// list, which never changes.
func (c *cache) after(seq, end uint64) (records [][]byte, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if seq < c.from || seq > end {
		return nil, false
	}
	records = c.records[seq-c.from : end-c.from]
	return records[:min(len(records), abi.MaxRecords)], true
}

// errRecords says that the cache no longer has the records that an instance lacks.
var errRecords = errors.New("host: the records are gone")

// core gives the native core at h. memory is a copy of the image's.
func (c *cache) core(from *image, memory []byte, h *head) (*abi.Core, error) {
	core, err := abi.Attach(c.capacity, from.header, memory)
	if err != nil {
		return nil, err
	}
	for at := from.at; at < h.seq; {
		records, ok := c.after(at, h.seq)
		if !ok {
			return nil, errRecords
		}
		reply, ok := abi.DecodeReply(core.Call(abi.OpApply, 0, bytes.Join(records, nil)))
		if !ok || reply.Refused {
			return nil, fmt.Errorf("record %d is refused: %.200s", reply.Seq, reply.Rest)
		}
		at += uint64(len(records))
	}
	if from.rewinds != h.rewinds {
		core.Rewind(h.second)
	} else {
		core.Advance(h.second)
	}
	return core, nil
}
