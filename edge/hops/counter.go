package hops

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"
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

// visitors tells which clients have been counted in the present hour, for which members. It
// keeps hashes with a key that is made anew each hour and kept nowhere, so after the hour
// it cannot be told of a client whether it was there. Its functions take no lock, and allocate
// only when an hour begins.
//
// It has places for 2^18 hashes in 2 MB. When the eight places of a hash are full, it takes
// the place of another of this hour. That client may then be counted once more.
type visitors struct {
	hour   atomic.Pointer[hour]
	places [rows][8]atomic.Uint64 // hashes, with the hour's mark in the lowest byte
}

const rows = 1 << 15

type hour struct {
	number int64
	seed   maphash.Seed
	factor uint64 // odd, and as secret as the seed
}

func newHour(number int64) *hour {
	h := &hour{number: number, seed: maphash.MakeSeed()}
	h.factor = maphash.Comparable(h.seed, number) | 1
	return h
}

// hash gives the hash of a client, and of with a member: one hash serves both members of a hop.
func (h *hour) hash(c front.Client) uint64 {
	net, kind := c.Key()
	return maphash.Comparable(h.seed, net) + uint64(kind)*h.factor
}

func (h *hour) with(hash uint64, row uint32, s side) uint64 {
	high, low := bits.Mul64(hash^uint64(row)<<1^uint64(s), h.factor)
	high, low = bits.Mul64(high^low, h.factor)
	return high ^ low
}

// mark tells hashes of one hour from older ones. Places of older ones are free. It is never 0.
func (h *hour) mark() uint64 { return uint64(h.number)%255 + 1 }

// side says in which part of a hop a member had.
type side uint8

const (
	sends side = iota
	receives
)

// at gives the hour of a time, or the one after it, if that has begun: requests at the turn
// of an hour must not begin hours in turns.
func (v *visitors) at(now time.Time) *hour {
	number := now.Unix() / 3600
	for {
		h := v.hour.Load()
		if h != nil && (h.number == number || h.number == number+1) {
			return h
		}
		v.hour.CompareAndSwap(h, newHour(number))
	}
}

// first reports whether a client with this hash has not been counted yet in an hour for the
// member in a row, and notes that it is now.
func (v *visitors) first(h *hour, client uint64, row uint32, s side) bool {
	hash := h.with(client, row, s)
	own := hash&^0xff | h.mark()
	places := &v.places[hash>>8%rows]
again:
	free := -1
	for i := range places {
		switch p := places[i].Load(); {
		case p == own:
			return false
		case free < 0 && p&0xff != h.mark():
			free = i
		}
	}
	if free < 0 {
		places[hash>>61].Store(own)
		return true
	}
	before := places[free].Load()
	if before&0xff == h.mark() || !places[free].CompareAndSwap(before, own) {
		goto again // it was taken meanwhile, perhaps for the same
	}
	return true
}

// A crawler is told by its User-Agent: by one of these words, in any case. They are what
// names of crawlers have in common on the lists that others keep, such as
// github.com/monperrus/crawler-user-agents and github.com/omrilotan/isbot. A client that names an
// address where it explains itself is no browser: browsers name none. Programs that fetch pages for their
// users, such as curl or an agent, are no crawlers.
//
// forUsers are words of agents that fetch for a user, at that moment. Some of them explain
// themselves by an address, too. The Worker in edge/worker reads the same file.
var crawlers, forUsers = func() (crawlers, forUsers []string) {
	var words struct{ Crawlers, ForUsers []string }
	if err := json.Unmarshal(crawlersJSON, &words); err != nil {
		panic(err) // the file is embedded
	}
	return words.Crawlers, words.ForUsers
}()

//go:embed crawlers.json
var crawlersJSON []byte

// firsts has the first bytes of all words, in both cases.
var firsts = func() (has [256]bool) {
	for _, w := range slices.Concat(crawlers, forUsers) {
		has[w[0]], has[strings.ToUpper(w)[0]] = true, true
	}
	return has
}()

// IsCrawler reports whether a User-Agent is that of a crawler.
func IsCrawler(agent []byte) bool {
	found := false
	for i := range agent {
		if !firsts[agent[i]] {
			continue
		}
		if begins(agent[i:], forUsers) {
			return false
		}
		found = found || begins(agent[i:], crawlers)
	}
	return found
}

func begins(text []byte, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		return len(w) <= len(text) && bytes.EqualFold(text[:len(w)], []byte(w))
	})
}
