package edge

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/cache"
	"webring/edge/uri"
)

// cacheBytes is how much the answers take that a shell keeps, in all their codings.
const cacheBytes = 32 << 20

const (
	// longestTarget is the longest target whose answer is kept: twice what one with
	// every parameter of lists takes.
	longestTarget = 256
	// longestKept is the longest document that is kept: 500 members who say as much of
	// themselves as they may are not above it.
	longestKept = 2 << 20
	// leastList is the length from which a document is kept when it is first asked for.
	// To make a shorter one anew costs little more than copying it.
	leastList = 4 << 10
	// leastCoded is the length from which a list is compressed. A shorter one is sent in
	// one packet as it is.
	leastCoded = 1 << 10
)

// document is an answer of the core that is kept. Nothing in it changes.
type document struct {
	response api.Response
	coded    bool // it comes in the codings of forms
	forms    forms
}

// documentSize is about what a document takes beside its texts, in bytes.
const documentSize = 512

// serve answers from the cache, or from the core into r. It gives the answer and its
// body in the form that h asks for. The caller may change the answer only when it is r.
//
// An answer counts at its position, and a timed one while it says that it holds. What
// random bits have a part in is not kept.
func (t *tenure) serve(target []byte, h fields, r *api.Response) (*api.Response, form) {
	if len(target) > longestTarget {
		t.ask(target, r)
		return r, form{body: r.Body}
	}
	kept := t.cache()
	key := kept.Key(target)
	e := kept.Get(key)
	seq, second := t.core.Head()
	if e == nil || !e.Holds(t.build, seq, second) {
		again := e != nil || kept.Again(key)
		t.ask(target, r)
		coded := len(r.Body) >= leastCoded && r.Status == fasthttp.StatusOK && isList(target)
		keep := kept.Keeps() && (again || len(r.Body) >= leastList) || coded && asksCoding(h)
		if r.Drawn || r.Status >= 500 || len(r.Body) > longestKept || !keep {
			return r, form{body: r.Body, varies: coded}
		}
		e = t.entry(r.Seq, r.Validity, r.Since, r.Until)
		d := newDocument(r, coded)
		e.Value = d
		kept.Put(key, e, d.size())
	}
	d := e.Value.(*document)
	if !d.coded {
		return &d.response, form{body: d.response.Body}
	}
	f, made := d.forms.pick(&passingCodings, d.response.Body, h)
	if made > 0 {
		kept.Grow(e, made)
	}
	return &d.response, f
}

// entry says how long an answer holds.
func (t *tenure) entry(seq uint64, v api.Validity, since, until int64) *cache.Entry {
	if v != api.Timed {
		since, until = 0, cache.Forever
	}
	return &cache.Entry{Build: t.build, Seq: seq, Since: since, Until: until}
}

// isList says whether the document at a target may be a long one. The others are of
// one to three members: they fit into one packet or two, and there are as many of them
// as members, so compressing them would cost more than it saves.
func isList(target []byte) bool {
	switch path := uri.Path(target); string(path) {
	case "/api/leaderboard", "/api/ring", "/api/categories", "/api":
		return true
	}
	return false
}

// newDocument copies an answer, but for what the core keeps in it for itself.
func newDocument(r *api.Response, coded bool) *document {
	return &document{coded: coded, response: api.Response{
		Status: r.Status, Media: r.Media, Validity: r.Validity, Seq: r.Seq, Since: r.Since, Until: r.Until, Unknown: r.Unknown,
		Location: bytes.Clone(r.Location), Next: bytes.Clone(r.Next), Prev: bytes.Clone(r.Prev), Body: bytes.Clone(r.Body),
	}}
}

func (d *document) size() int {
	r := &d.response
	return documentSize + len(r.Location) + len(r.Next) + len(r.Prev) + len(r.Body)
}
