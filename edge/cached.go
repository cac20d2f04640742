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
// answer that depends on random bits is not cached.
func (g *generation) serve(target []byte, h content.Fields, r *api.Response) (*api.Response, content.Form) {
	if len(target) > longestTarget {
		g.Ask(target, r)
		return r, content.Form{Body: r.Body}
	}
	cached := g.Cache()
	key := cached.Key(target)
	e := cached.Get(key)
	seq, second := g.core.Head()
	found := e != nil && e.Holds(g.build, seq, second)
	g.metrics.cached(found)
	if !found {
		again := e != nil || cached.Again(key)
		g.Ask(target, r)
		coded := len(r.Body) >= leastCoded && r.Status == fasthttp.StatusOK && isList(target)
		keep := again || len(r.Body) >= leastList || coded && content.AsksCoding(h)
		if r.Drawn || r.Status >= 500 || len(r.Body) > longestCached || !keep {
			return r, content.Form{Body: r.Body, Varies: coded}
		}
		e = g.entry(r.Seq, r.Validity, r.Since, r.Until)
		d := newDocument(r, coded)
		e.Value = d
		cached.Put(key, e, d.size())
	}
	d := e.Value.(*document)
	if !d.coded {
		return &d.response, content.Form{Body: d.response.Body, Hash: d.hash}
	}
	f, made := d.forms.Pick(&content.Passing, d.response.Body, h)
	if made > 0 {
		cached.Grow(e, made)
	}
	f.Hash = d.hash
	return &d.response, f
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
