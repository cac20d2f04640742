package pages

import (
	"errors"
	"strconv"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/cache"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/templates"
)

// Page is a page or a document as it was drawn. Nothing in it changes.
type Page struct {
	*content.Content
	entry  *cache.Entry // for how long it is true
	fields string       // of the page, "" for a document
	maxAge int64        // for how many seconds it may be kept, when that is more than usual
}

// lateBy is for how many seconds a page may be sent while its successor is being
// drawn.
const lateBy = 2

// late says whether the page was true a moment ago and only time has passed since. In a
// large ring some standing changes each second, and then requests need not wait for the
// next drawing.
func (p *Page) late(c Core) bool {
	seq, second := c.Head()
	late := *p.entry
	late.Until = min(late.Until, cache.Forever-lateBy) + lateBy
	return late.Holds(c.Build(), seq, second)
}

func (p *Page) holds(c Core) bool {
	seq, second := c.Head()
	return p.entry.Holds(c.Build(), seq, second)
}

// cacheControl is the Cache-Control of the page.
func (p *Page) cacheControl(c Core) string {
	_, now := c.Head()
	if p.maxAge > content.MaxAge {
		return "public, max-age=" + strconv.FormatInt(max(min(p.maxAge, p.entry.Until-now-1), 0), 10)
	}
	return content.CacheControl(p.entry.Until, now)
}

// Fields are what every page carries.
var Fields = "Content-Security-Policy: " + templates.Policy + "\r\nReferrer-Policy: strict-origin-when-cross-origin\r\n"

// AppendAnswer appends the fields of the answer to what h asks for, and gives its
// status and body, which stays as it is.
func (p *Page) AppendAnswer(dst []byte, h content.Fields, c Core) (_ []byte, status int, body []byte) {
	dst = append(dst, p.fields...)
	dst = content.AppendNumberField(dst, "Webring-Seq", int64(p.entry.Seq))
	dst, status, body, made := p.Content.AppendAnswer(dst, h, p.cacheControl(c))
	if made > 0 {
		c.Cache().Grow(p.entry, made)
	}
	return dst, status, body
}

// drawingStripes is how many pages are drawn at a time.
const drawingStripes = 16

// find gives the cached page of a target, which may no longer hold.
func find(c Core, key cache.Key) *Page {
	if e := c.Cache().Get(key); e != nil {
		return e.Value.(*Page)
	}
	return nil
}

// Has says whether a page can be given at once, though another request may be drawing it anew.
func (s *Pages) Has(c Core, target string) bool {
	p := find(c, c.Cache().Key([]byte(target)))
	return p != nil && (p.holds(c) || p.late(c))
}

// Front gives the front page.
func (s *Pages) Front(c Core) (*Page, *api.Response) { return s.Get(c, drawHome, "/", "/", &noQuery) }

// Get gives a page by what [Target] says of its address, from the cache as long as it
// holds, or what the core answered instead of a document.
func (s *Pages) Get(c Core, v View, target, path string, query *fasthttp.Args) (*Page, *api.Response) {
	return s.get(c, v, target, path, query, 0)
}

func (s *Pages) get(c Core, v View, target, path string, query *fasthttp.Args, maxAge int) (*Page, *api.Response) {
	key := c.Cache().Key([]byte(target))
	p := find(c, key)
	found := p != nil && p.holds(c)
	c.Cached(found)
	if found {
		return p, nil
	}
	return s.draw(c, v, target, path, query, maxAge)
}

// draw draws a page. If another request is drawing it, draw gives the page before, when
// only time has passed since that, or waits.
func (s *Pages) draw(c Core, v View, target, path string, query *fasthttp.Args, maxAge int) (*Page, *api.Response) {
	key := c.Cache().Key([]byte(target))
	drawing := &s.drawing[key.Stripe(drawingStripes)]
	before := find(c, key)
	if !drawing.TryLock() {
		if before != nil && before.late(c) {
			return before, nil
		}
		drawing.Lock()
		before = find(c, key)
	}
	defer drawing.Unlock()
	if before != nil && before.holds(c) {
		return before, nil
	}
	r := newReader(s, c)
	var made *content.Content
	r.complete(func() { made = v(r, path, query) })
	if r.failed != nil {
		return nil, r.failed
	}
	if before != nil && before.Equal(made) {
		made = before.Content // it may have been compressed already
	}
	p := &Page{Content: made, entry: r.entry(r.since, r.until), maxAge: int64(maxAge)}
	if p.Media() == Media {
		if p.fields = Fields; path == VerifyPath {
			p.fields = VerifyFields
		}
	}
	p.entry.Value = p
	// There are more values of parameters than a cache has room for: a page with some is
	// cached when it is asked for again.
	if query.Len() == 0 || before != nil || c.Cache().Again(key) {
		c.Cache().Put(key, p.entry, made.Size())
	}
	return p, nil
}

// Document gives what describe makes, drawn and cached as a page is. key is its name in the
// cache.
func (s *Pages) Document(c Core, key string, d describe.Document) (*Page, *api.Response) {
	return s.get(c, drawDocument(d), key, d.Path, &noQuery, d.MaxAge)
}

// Servers gives a document of the registry of MCP servers by the target that was sent.
func (s *Pages) Servers(c Core, sent []byte) (*Page, *api.Response) {
	target, path, query := Target(sent)
	d := describe.Servers(path, func(name string) string { return string(query.Peek(name)) })
	return s.get(c, drawDocument(d), target, path, query, d.MaxAge)
}

// drawDocument draws what describe makes.
func drawDocument(d describe.Document) View {
	return func(r *reader, path string, _ *fasthttp.Args) *content.Content {
		r.prefetch(d.Reads...)
		source := describe.NewSource(&factReader{r}, r.pages.site, r.pages.now())
		body, err := d.Build(source)
		var refused *describe.Problem
		switch {
		case r.moved:
			return nil
		case errors.As(err, &refused):
			r.failed = &api.Response{Status: refused.Status, Media: api.Problem, Seq: r.seq, Body: refused.Body}
			return nil
		case err != nil:
			panic(err) // a document of the core that does not have its form
		case body == nil:
			return r.fail(api.NotFound, noSuchPath)
		}
		if until := source.Until(); !until.IsZero() {
			r.until = min(r.until, until.Unix())
		}
		return content.New(d.Media, body)
	}
}

// factReader lets describe read.
type factReader struct{ *reader }

// Serve is [describe.Reader]'s.
func (f *factReader) Serve(target []byte, r *api.Response) { *r = *f.answerTo(string(target)) }
