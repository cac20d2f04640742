package hops

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"webring/edge/front"
)

// Counter counts hops since the last Take. Its functions may be called concurrently; they
// take no lock. The zero value is not usable.
type Counter struct {
	total  atomic.Uint32
	blocks [maxRows / blockRows]atomic.Pointer[block]

	visitors visitors

	seed  maphash.Seed
	known [knownAgents]atomic.Uint64 // hashes of User-Agents, with 1 for those of crawlers in the lowest bit
}

const (
	// maxRows is the most rows that a ring has.
	maxRows = 1 << 26
	// blockRows is for how many rows memory is taken at a time, 8 bytes for each.
	blockRows = 1 << 13
	// knownAgents is how many User-Agents are known by their hashes.
	knownAgents = 1 << 12
)

type block [blockRows]struct{ from, to atomic.Uint32 }

// NewCounter gives a counter of nothing.
func NewCounter() *Counter { return &Counter{seed: maphash.MakeSeed()} }

// Count counts a hop of a client from one row to another, each plus 1, with 0 for none: for
// each of the two members once an hour, and in all where it counts for the member that it
// leads to. agent is the User-Agent of the request. Nothing happens if c is nil, or if there
// is no row to go to.
func (c *Counter) Count(from, to uint32, client front.Client, agent []byte, now time.Time) {
	if c == nil || to == 0 || c.isCrawler(agent) {
		return
	}
	h := c.visitors.at(now)
	hash := h.hash(client)
	if from > 0 && from <= maxRows && c.visitors.first(h, hash, from, sends) {
		c.block(from - 1)[(from-1)%blockRows].from.Add(1)
	}
	if !c.visitors.first(h, hash, to, receives) {
		return
	}
	c.total.Add(1)
	if to <= maxRows {
		c.block(to - 1)[(to-1)%blockRows].to.Add(1)
	}
}

// block gives the block of a row.
func (c *Counter) block(row uint32) *block {
	at := &c.blocks[row/blockRows]
	b := at.Load()
	if b == nil {
		at.CompareAndSwap(nil, new(block))
		b = at.Load()
	}
	return b
}

// isCrawler looks a User-Agent up among those that were asked about before.
func (c *Counter) isCrawler(agent []byte) bool {
	h := maphash.Bytes(c.seed, agent)
	place := &c.known[h%knownAgents]
	h = h / knownAgents << 1
	found := place.Load()
	if found&^1 != h || h == 0 {
		found = h
		if IsCrawler(agent) {
			found |= 1
		}
		place.Store(found)
	}
	return found&1 == 1
}

// Take gives the hops since the last Take, and calls f with the row of each member that had
// a part in them, in ascending order. Hops that are counted meanwhile may be in this Take
// for one of the two members and in the next for the other.
func (c *Counter) Take(f func(row uint32, from, to uint64)) (total uint64) {
	total = uint64(c.total.Swap(0))
	for i := range c.blocks {
		b := c.blocks[i].Load()
		if b == nil {
			continue
		}
		for j := range b {
			cell := &b[j]
			if cell.from.Load()|cell.to.Load() != 0 {
				f(uint32(i*blockRows+j), uint64(cell.from.Swap(0)), uint64(cell.to.Swap(0)))
			}
		}
	}
	return total
}
