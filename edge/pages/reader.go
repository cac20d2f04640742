package pages

import (
	"encoding/json"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/cache"
	"webring/edge/content"
)

// reader reads the documents that one page shows. All are of one ledger position.
//
// A page reads them one after the other. If the ring moves on meanwhile, the page is filled
// again, from one call of the core for all that it had asked for.
type reader struct {
	pages *Pages
	core  Core

	wanted []string                 // targets that the page has asked for
	read   map[string]*api.Response // by target
	rooms  [][]api.Response         // what read points to
	free   []api.Response           // the rest of the last of them
	seq    uint64                   // position of all that was read
	moved  bool                     // something was of another one, or of another time

	// For how long all answers are true together.
	allSince, allUntil int64
	// For how long the page is valid, by what it has asked for and by what it says of the
	// time.
	since, until int64
	second       int64 // of all that was read

	failed *api.Response // what the core answered instead of a document
}

func newReader(s *Pages, c Core) *reader {
	r := &reader{pages: s, core: c, read: map[string]*api.Response{}, until: cache.Forever, allUntil: cache.Forever}
	r.seq, r.second = c.Head()
	return r
}

// entry says how long what was read is valid.
func (r *reader) entry(since, until int64) *cache.Entry {
	return &cache.Entry{Build: r.core.Build(), Seq: r.seq, Since: since, Until: until}
}

const (
	neverComplete = "The request could not be answered. The fault is not in the request."
	noSuchPath    = "Nothing has this path. GET /api lists what there is."
)

// longestRoom is the longest buffer of an answer that is given back for other pages.
const longestRoom = 64 << 10

// maxRounds bounds how often a page is filled, and mostAsked how much one call asks for.
const maxRounds, mostAsked = 10, 256

// complete fills a page with documents of one position, or until reading one failed.
func (r *reader) complete(fill func()) {
	defer r.release()
	for range maxRounds {
		fill()
		if !r.moved {
			return
		}
		again, wanted := newReader(r.pages, r.core), r.wanted[:min(len(r.wanted), mostAsked)]
		r.release()
		if *r = *again; len(wanted) > 0 {
			r.ask(wanted...)
			r.seq, r.moved = r.read[wanted[0]].Seq, false
		}
	}
	r.fail(api.Internal, neverComplete)
}

// prefetch reads several targets in one call, if they have not been read.
func (r *reader) prefetch(targets ...string) {
	if len(targets) > 0 && r.read[targets[0]] == nil {
		r.ask(targets...)
	}
}

// ask reads several targets in one call.
func (r *reader) ask(targets ...string) {
	asked, all := make([][]byte, len(targets)), r.room(len(targets))
	for i, target := range targets {
		asked[i], r.read[target] = []byte(target), &all[i]
	}
	r.core.AskAll(asked, all)
	r.moved = r.moved || all[0].Seq != r.seq
	_, r.second = r.core.Head() // or the one before: now is within what the answers hold for
}

// room gives room for so many answers.
func (r *reader) room(n int) []api.Response {
	if len(r.free) < n {
		made, ok := r.pages.rooms.Get().(*[]api.Response)
		if !ok || len(*made) < n {
			fresh := make([]api.Response, max(n, 160))
			made = &fresh
		}
		r.free = *made
		r.rooms = append(r.rooms, r.free)
	}
	room := r.free[:n]
	r.free = r.free[n:]
	return room
}

// release puts the rooms back into the pool, without long buffers. Nothing that was read
// may be used from then on.
func (r *reader) release() {
	for _, room := range r.rooms {
		for i := range room {
			if room[i].BufferSize() > longestRoom {
				room[i] = api.Response{}
			}
		}
		r.pages.rooms.Put(&room)
	}
	r.rooms, r.free, r.read = nil, nil, nil
}

// answerTo gives what the core answers.
func (r *reader) answerTo(target string) *api.Response {
	if r.read[target] == nil {
		r.ask(target)
	}
	r.wanted = append(r.wanted, target)
	a := r.read[target]
	if a.Status == fasthttp.StatusOK && a.Validity == api.Timed {
		r.since, r.until = max(r.since, a.Since), min(r.until, a.Until)
		r.allSince, r.allUntil = max(r.allSince, a.Since), min(r.allUntil, a.Until)
		r.moved = r.moved || r.allSince >= r.allUntil
	}
	return a
}

// document decodes the document at a target into doc. It reports false when the page cannot be
// filled with it: the ring has moved on, or the core answered with something else. The page
// fails with the first such answer.
func (r *reader) document(target string, doc any) bool {
	a := r.answerTo(target)
	if r.moved || r.failed != nil {
		return false
	}
	if a.Status != fasthttp.StatusOK {
		answer := content.Clone(a)
		r.failed = &answer
		return false
	}
	if err := json.Unmarshal(a.Body, doc); err != nil {
		panic(err) // a document of the core that does not have its form
	}
	return true
}

// origin decodes data of the origin that is not in the ledger. Pages do without what they do not
// get, for a while. It is called after all documents were read.
func (r *reader) origin(path, query string, doc any) bool {
	seconds, ok := r.pages.site.ReadOrigin(path, query, doc)
	r.until = min(r.until, r.pages.now().Unix()+int64(seconds))
	return ok
}

// fail makes the answer a problem.
func (r *reader) fail(code api.Code, detail string) *content.Content {
	r.failed = &api.Response{Status: code.Status(), Media: api.Problem, Seq: r.seq,
		Body: api.AppendProblem(nil, r.core.BaseURL(), code, detail, nil)}
	return nil
}
