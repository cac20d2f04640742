package edge

import (
	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/cache"
)

// page is a page as it was drawn. Nothing in it changes.
type page struct {
	*content
	entry    *cache.Entry // for how long it is true
	validity api.Validity
}

// lateBy is for how many seconds a page may be sent while its successor is being
// drawn.
const lateBy = 2

// late says whether the page was true a moment ago and nothing but time has passed
// since. In a large ring some standing changes each second: who asks meanwhile need
// not wait for the drawing.
func (p *page) late(t *tenure) bool {
	seq, second := t.core.Head()
	late := *p.entry
	late.Until = min(late.Until, cache.Forever-lateBy) + lateBy
	return late.Holds(t.build, seq, second)
}

func (p *page) holds(t *tenure) bool {
	seq, second := t.core.Head()
	return p.entry.Holds(t.build, seq, second)
}

// age is the max-age of the page.
func (p *page) age(t *tenure) string {
	r := api.Response{Validity: p.validity, Until: p.entry.Until}
	return cacheControls[t.lifetime(&r)]
}

// grow counts a form of the content that was made.
func (p *page) grow(t *tenure, made int) {
	if made > 0 {
		t.cache().Grow(p.entry, made)
	}
}

// drawingStripes is how many pages are drawn at a time.
const drawingStripes = 16

// find gives the page that was drawn for a target, which may no longer hold.
func (t *tenure) find(key cache.Key) *page {
	if e := t.cache().Get(key); e != nil {
		return e.Value.(*page)
	}
	return nil
}

// cachedPage gives a page, from memory as long as it holds, or what the core answered
// instead of a document.
func (s *Shell) cachedPage(d draw, t *tenure, target, path string, query *fasthttp.Args) (*page, *answer) {
	key := t.cache().Key([]byte(target))
	if p := t.find(key); p != nil && p.holds(t) {
		return p, nil
	}
	return s.draw(d, t, target, path, query)
}

// draw draws a page, unless somebody else just has or, when only time has passed
// since the one before, is about to.
func (s *Shell) draw(d draw, t *tenure, target, path string, query *fasthttp.Args) (*page, *answer) {
	key := t.cache().Key([]byte(target))
	drawing := &s.drawing[key.Stripe(drawingStripes)]
	before := t.find(key)
	if !drawing.TryLock() {
		if before != nil && before.late(t) {
			return before, nil
		}
		drawing.Lock()
		before = t.find(key)
	}
	defer drawing.Unlock()
	if before != nil && before.holds(t) {
		return before, nil
	}
	r := newReader(s, t)
	var c *content
	r.complete(func() { c = d(r, path, query) })
	if r.failed != nil {
		return nil, r.failed
	}
	if before != nil && before.hash == c.hash {
		c = before.content // which may have been packed already
	}
	p := &page{content: c, entry: t.entry(r.seq, r.validity, r.since, r.until), validity: r.validity}
	p.entry.Value = p
	t.cache().Put(key, p.entry, len(c.body)+int(c.packed.Load()))
	return p, nil
}
