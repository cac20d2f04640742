package edge

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"webring/core/api"
)

// leaf is a page as it was drawn, and for how long it is true.
type leaf struct {
	*content
	build    string // of the core that gave its documents
	seq      uint64
	validity api.Validity
	since    int64 // for api.Timed: seconds between which it holds
	until    int64
}

// holds says whether the leaf is still what would be drawn.
func (l *leaf) holds(t *tenure) bool {
	seq, second := t.core.Head()
	return l.build == t.build && l.seq == seq && (l.validity == api.Position || l.since <= second && second < l.until)
}

// lateBy is for how many seconds a page may be sent while its successor is being
// drawn.
const lateBy = 2

// held says whether the leaf was true a moment ago and nothing but time has passed
// since. In a large ring some standing changes each second: who asks meanwhile need
// not wait for the drawing.
func (l *leaf) held(t *tenure) bool {
	seq, second := t.core.Head()
	return l.build == t.build && l.seq == seq && l.since <= second && second < min(l.until, never-lateBy)+lateBy
}

// age is the max-age of the leaf.
func (l *leaf) age(t *tenure) string {
	r := api.Response{Validity: l.validity, Until: l.until}
	return cacheControls[t.lifetime(&r)]
}

// Bounds of the pages that are kept, for each of two generations: their number,
// and their bytes before compression.
const (
	maxLeaves     = 2048
	maxLeafBytes  = 16 << 20
	drawingStripe = 16
)

// leaves keeps pages that were drawn. When a generation is full, the one before
// it is forgotten, and what is asked for again moves into the new one: a stranger
// who walks through all pages costs memory that is bounded, and the pages that
// are read stay. Reading takes no lock.
type leaves struct {
	young, old atomic.Pointer[generation]
	turn       sync.Mutex // while generations change

	// Who draws holds one of these, so that a page that everybody asks for is
	// drawn once.
	seed    maphash.Seed
	drawing [drawingStripe]sync.Mutex
}

type generation struct {
	pages sync.Map // by target: *leaf
	count atomic.Int64
	bytes atomic.Int64
}

func newLeaves() *leaves {
	c := &leaves{seed: maphash.MakeSeed()}
	c.young.Store(new(generation))
	c.old.Store(new(generation))
	return c
}

// get gives the page that was drawn for a target, which may not hold any more.
func (c *leaves) get(target string) *leaf {
	if l, ok := c.young.Load().pages.Load(target); ok {
		return l.(*leaf)
	}
	if l, ok := c.old.Load().pages.Load(target); ok {
		c.put(target, l.(*leaf))
		return l.(*leaf)
	}
	return nil
}

func (c *leaves) put(target string, l *leaf) {
	g := c.young.Load()
	size := int64(len(l.body) + len(target))
	if before, replaced := g.pages.Swap(target, l); replaced {
		size -= int64(len(before.(*leaf).body) + len(target))
	} else {
		g.count.Add(1)
	}
	if g.bytes.Add(size) <= maxLeafBytes && g.count.Load() <= maxLeaves {
		return
	}
	c.turn.Lock()
	defer c.turn.Unlock()
	if c.young.Load() == g {
		c.old.Store(g)
		c.young.Store(new(generation))
	}
}

// drawingOf gives what is locked while a page is drawn.
func (c *leaves) drawingOf(target string) *sync.Mutex {
	return &c.drawing[maphash.String(c.seed, target)%drawingStripe]
}
