package cache

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
)

// Forever is the Until of an entry that time does not change.
const Forever = math.MaxInt64

// Entry is one answer. Nothing in it changes once it is in a cache.
type Entry struct {
	Build        string // build of the core that made it
	Seq          uint64 // ledger position at which it was made
	Since, Until int64  // it is valid from the second Since to the one before Until
	Value        any    // the answer

	target string
	size   int // in bytes, under the cache's mutex
}

// Holds says whether e is the answer of a build at a ledger position and a second.
func (e *Entry) Holds(build string, seq uint64, second int64) bool {
	return e.Seq == seq && e.Build == build && e.Since <= second && second < e.Until
}

const (
	// ways is how many entries a set has room for.
	ways = 4
	// sets is how many sets there are. Together they have room for 16 384 entries.
	sets = 1 << 12
	// asked is how many targets that were asked for once the cache remembers.
	asked = 1 << 15
	// overhead is about how many bytes an entry takes in addition to its target and its value.
	overhead = 128
)

// Cache is a set-associative table of entries by target. Its functions may be called
// concurrently, and Get takes no lock.
type Cache struct {
	seed  maphash.Seed // secret: strangers cannot choose targets that share a set
	sets  []set
	asked []atomic.Uint32 // by hash: a part of the hash that was asked for last
	max   int             // of bytes

	mu    sync.Mutex // held while entries are put or removed
	bytes int        // of all entries
	hand  int        // the set at which eviction goes on
}

// set is a cache line. A tag is a part of the hash of the target in the same slot.
type set struct {
	tags    [ways]atomic.Uint32
	used    [ways]atomic.Uint32 // 1 when the entry was read since eviction last passed
	entries [ways]atomic.Pointer[Entry]
}

// New gives a cache of at most max bytes.
func New(max int) *Cache {
	return &Cache{seed: maphash.MakeSeed(), sets: make([]set, sets), asked: make([]atomic.Uint32, asked), max: max}
}

// Key is a target and its hash.
type Key struct {
	target []byte
	hash   uint64
}

// Key hashes a target. The target must not change while the key is in use.
func (c *Cache) Key(target []byte) Key { return Key{target, maphash.Bytes(c.seed, target)} }

func (k Key) tag() uint32 { return uint32(k.hash >> 32) }

// Stripe spreads keys over so many locks.
func (k Key) Stripe(locks int) int { return int(k.hash % uint64(locks)) }

func (c *Cache) set(k Key) *set { return &c.sets[k.hash%sets] }

// Get gives the entry of a target, nil when there is none. It may not be valid any more.
func (c *Cache) Get(k Key) *Entry {
	s := c.set(k)
	for i := range s.tags {
		if s.tags[i].Load() != k.tag() {
			continue
		}
		if e := s.entries[i].Load(); e != nil && e.target == string(k.target) {
			if s.used[i].Load() == 0 {
				s.used[i].Store(1)
			}
			return e
		}
	}
	return nil
}

// Again reports whether a target was asked for before, as far as the cache remembers, and
// remembers it from now on. Callers put a cheap answer only when Again is true, so a walk
// through the whole ring evicts nothing.
func (c *Cache) Again(k Key) bool {
	last := &c.asked[k.hash%asked]
	if last.Load() == k.tag() {
		return true
	}
	last.Store(k.tag())
	return false
}

// Put caches e under a target in place of the entry there. size is how many bytes the
// value takes. An entry of more than an eighth of the cache is not cached.
func (c *Cache) Put(k Key, e *Entry, size int) {
	e.target = string(k.target)
	e.size = size + len(k.target) + overhead
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.size > c.max/8 {
		return
	}
	s := c.set(k)
	i := s.slot(k)
	c.remove(s, i)
	c.bytes += e.size
	s.entries[i].Store(e)
	s.tags[i].Store(k.tag())
	s.used[i].Store(1)
	c.evict(e)
}

// Grow counts bytes that were added to the value of an entry, if it is still cached.
func (c *Cache) Grow(e *Entry, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.sets[maphash.String(c.seed, e.target)%sets]
	for i := range s.entries {
		if s.entries[i].Load() == e {
			e.size += bytes
			c.bytes += bytes
			c.evict(e)
		}
	}
}

// slot finds the slot for a target: that of its entry, an empty one, or the first one that
// was not used since the search before.
func (s *set) slot(k Key) int {
	empty, unused := -1, -1
	for i := range s.entries {
		switch e := s.entries[i].Load(); {
		case e == nil:
			empty = i
		case e.target == string(k.target):
			return i
		case unused < 0 && s.used[i].Load() == 0:
			unused = i
		}
	}
	if empty >= 0 {
		return empty
	}
	if unused >= 0 {
		return unused
	}
	for i := range s.used {
		s.used[i].Store(0)
	}
	return int(k.hash>>16) % ways
}

// evict removes entries other than but until what is left fits. The hand goes around
// the sets, twice at most, and spares an entry once when it was used since the last round.
func (c *Cache) evict(but *Entry) {
	for steps := 0; c.bytes > c.max && steps < 2*sets; steps++ {
		c.hand = (c.hand + 1) % sets
		s := &c.sets[c.hand]
		for i := range s.entries {
			if e := s.entries[i].Load(); e != nil && e != but && s.used[i].Swap(0) == 0 {
				c.remove(s, i)
			}
		}
	}
}

// remove empties a slot. The mutex is held.
func (c *Cache) remove(s *set, i int) {
	if e := s.entries[i].Swap(nil); e != nil {
		c.bytes -= e.size
	}
}
