package edge

import (
	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/cache"
	"webring/edge/content"
	"webring/edge/front"
)

// cacheBytes is how many bytes the cached answers of a shell take, in all their codings.
const cacheBytes = 32 << 20

const (
	// longestTarget is the length of the longest target with a cached answer: twice the
	// length of one with every parameter of lists.
	longestTarget = 256
	// longestCached is the longest document that is cached: that of 500 members with the
	// longest words fits in.
	longestCached = 2 << 20
	// leastList is the length from which a document is cached when it is first asked for.
	// To make a shorter one anew costs little more than copying it.
	leastList = 4 << 10
	// leastCoded is the length from which a list is compressed. A shorter one is sent in
	// one packet as it is.
	leastCoded = 1 << 10
)

// document is an answer of the core that is cached. Nothing in it changes.
type document struct {
	response api.Response
	coded    bool         // it comes in the codings of forms
	hash     content.Hash // of a body that shows standings
	forms    content.Forms
}

// documentSize is about how many bytes a document takes without its texts.
const documentSize = 512

// serve answers from the cache, or from the core into r. It gives the answer and its
// body in the form that h asks for. The caller may change the answer only when it is r.
//
// A cached answer is valid at its position, and a timed one from Since until Until. An
// answer that depends on random bits is not cached. Lists are made a few at a time, each when
// it is the turn of its connection, which may be nil, and once for all that wait for the same.
func (g *generation) serve(target []byte, h content.Fields, r *api.Response, conn *boundedConn) (*api.Response, content.Form) {
	e, d := g.find(target)
	if d == nil {
		return g.miss(target, h, r, conn, e != nil)
	}
	g.metrics.cached(true)
	return g.form(e, d, h)
}

// miss is serve for a target without a cached answer that holds. stale says that there is one.
func (g *generation) miss(target []byte, h content.Fields, r *api.Response, conn *boundedConn, stale bool) (*api.Response, content.Form) {
	if known := api.Known(target); len(known) < len(target) {
		return g.serve(known, h, r, conn)
	}
	list := isList(target)
	if list {
		room, ok := conn.turn(g.lists)
		if !ok {
			*r = api.Response{Status: overloaded.code.Status(), Media: api.Problem, Body: api.AppendProblem(r.Body[:0], g.BaseURL(), overloaded.code, overloaded.detail, nil)}
			r.Seq, _ = g.Head()
			return r, content.Form{Body: r.Body}
		}
		defer func() { g.lists <- room }()
		r = room
		if e, d := g.find(target); d != nil { // it was made meanwhile
			g.metrics.cached(true)
			return g.form(e, d, h)
		}
	}
	g.metrics.cached(false)
	e, d := g.ask(target, h, r, stale, list)
	if d == nil {
		return r, content.Form{Body: r.Body}
	}
	return g.form(e, d, h)
}

// form gives a document and its body in the form that h asks for.
func (g *generation) form(e *cache.Entry, d *document, h content.Fields) (*api.Response, content.Form) {
	if !d.coded {
		return &d.response, content.Form{Body: d.response.Body, Hash: d.hash}
	}
	f, made := d.forms.Pick(&content.Passing, d.response.Body, h)
	if made > 0 {
		g.Cache().Grow(e, made)
	}
	f.Hash = d.hash
	return &d.response, f
}

// find gives the entry of a target, if there is one, and its document if that holds.
func (g *generation) find(target []byte) (*cache.Entry, *document) {
	if len(target) > longestTarget {
		return nil, nil
	}
	e := g.cache.Get(g.cache.Key(target))
	if seq, second := g.core.Head(); e != nil && e.Holds(g.build, seq, second) {
		return e, e.Value.(*document)
	}
	return e, nil
}

// ask has the core answer into r, and gives a copy if that is cached, or is a list. again says
// that the target was asked for before.
func (g *generation) ask(target []byte, h content.Fields, r *api.Response, again, list bool) (*cache.Entry, *document) {
	short := len(target) <= longestTarget
	key := g.cache.Key(target)
	again = again || short && g.cache.Again(key)
	g.Ask(target, r)
	coded := list && len(r.Body) >= leastCoded && r.Status == fasthttp.StatusOK
	keep := short && !r.Drawn && r.Status < 500 && len(r.Body) <= longestCached && (again || len(r.Body) >= leastList || coded && content.AsksCoding(h))
	if !keep && !list {
		return nil, nil
	}
	e, d := g.entry(r.Seq, r.Validity, r.Since, r.Until), newDocument(r, coded)
	e.Value = d
	if keep {
		g.cache.Put(key, e, d.size())
	}
	return e, d
}

// entry says how long an answer holds.
func (g *generation) entry(seq uint64, v api.Validity, since, until int64) *cache.Entry {
	if v != api.Timed {
		since, until = 0, cache.Forever
	}
	return &cache.Entry{Build: g.build, Seq: seq, Since: since, Until: until}
}

// isList says whether the document at a target may be long, and is worth compressing. The
// others show one to three members and fit into one packet or two.
func isList(target []byte) bool {
	switch path := front.Path(target); string(path) {
	case "/api/leaderboard", "/api/ring", "/api/categories", "/api":
		return true
	}
	return false
}

// newDocument copies an answer.
func newDocument(r *api.Response, coded bool) *document {
	d := &document{coded: coded, response: content.Clone(r)}
	if r.Validity == api.Timed {
		d.hash = content.HashOf(r.Body)
	}
	return d
}

func (d *document) size() int {
	r := &d.response
	return documentSize + len(r.Location) + len(r.Next) + len(r.Prev) + len(r.Body)
}
