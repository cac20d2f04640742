package pages

import (
	"encoding/json"
	"slices"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/cache"
	"webring/edge/content"
)

// reader gives the documents that one page shows. They come from one call of the
// core, so all are of one ledger position and second.
//
// A page does not say in advance what it reads. It is filled once without any document,
// which shows what it asks for. Then these documents are read, and it is filled anew, until
// nothing that it asked for is missing. Each call reads everything again, so a page never
// mixes what two calls gave.
type reader struct {
	pages *Pages
	core  Core

	wanted  []string                 // targets that the page has asked for, in this round
	missing bool                     // some of them have not been read
	read    map[string]*api.Response // by target
	room    []api.Response           // what read points to
	seq     uint64                   // position of all that was read

	// For how long the page is valid, by what it has asked for and by what it says of the
	// time.
	since, until int64
	second       int64 // of all that was read

	failed *api.Response // what the core answered instead of a document
}

func newReader(s *Pages, c Core) *reader {
	r := &reader{pages: s, core: c}
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

// maxRounds bounds how often a page is filled. Where a document leads to is known from
// another one, which takes a round more, and the ring may have moved on by then.
const maxRounds = 10

// complete fills a page with documents until none is missing, or reading one failed.
func (r *reader) complete(fill func()) {
	defer r.release()
	for range maxRounds {
		r.wanted, r.missing, r.failed = nil, false, nil
		r.since, r.until = 0, cache.Forever
		fill()
		if !r.missing || r.failed != nil {
			return
		}
		r.ask()
	}
	r.fail(api.Internal, neverComplete)
}

// ask reads all that is wanted in one call.
func (r *reader) ask() {
	r.release()
	targets, all := make([][]byte, len(r.wanted)), r.pages.responses(len(r.wanted))
	r.room = all
	r.read = make(map[string]*api.Response, len(r.wanted))
	for i, target := range r.wanted {
		targets[i], r.read[target] = []byte(target), &all[i]
	}
	r.core.AskAll(targets, all)
	r.seq = all[0].Seq
	_, r.second = r.core.Head() // or the one before: now is within what the answers hold for
}

// responses gives room for so many answers.
func (s *Pages) responses(n int) []api.Response {
	if room, ok := s.rooms.Get().(*[]api.Response); ok && cap(*room) >= n {
		return (*room)[:n]
	}
	return make([]api.Response, n, max(n, 160))
}

// release puts the room back into the pool, without long buffers. Nothing that was read
// may be used from then on.
func (r *reader) release() {
	if r.room == nil {
		return
	}
	for i := range r.room {
		if r.room[i].BufferSize() > longestRoom {
			r.room[i] = api.Response{}
		}
	}
	room := r.room
	r.pages.rooms.Put(&room)
	r.room, r.read = nil, nil
}

// answerTo gives what the core answered, nil when it has not been asked.
func (r *reader) answerTo(target string) *api.Response {
	r.wanted = append(r.wanted, target)
	a := r.read[target]
	if a == nil {
		r.missing = true
	} else if a.Status == fasthttp.StatusOK && a.Validity == api.Timed {
		r.since, r.until = max(r.since, a.Since), min(r.until, a.Until)
	}
	return a
}

// document decodes the document at a target into doc. It reports false when that has not
// been read, and when the core answered with something else. The page fails with the first
// such answer.
func (r *reader) document(target string, doc any) bool {
	a := r.answerTo(target)
	switch {
	case a == nil:
		return false
	case a.Status != fasthttp.StatusOK:
		if r.failed == nil {
			answer := content.Clone(a)
			r.failed = &answer
		}
		return false
	}
	if err := json.Unmarshal(a.Body, doc); err != nil {
		panic(err) // a document of the core that does not have its form
	}
	return true
}

// beside decodes what the origin keeps beside the ledger. Pages do without what they do not
// get, for a while. It is called when all documents are there.
func (r *reader) beside(path, query string, doc any) bool {
	seconds, ok := r.pages.site.ReadBeside(path, query, doc)
	r.until = min(r.until, r.pages.now().Unix()+int64(seconds))
	return ok
}

// every reports whether all documents of a page are there. Its arguments are read
// first, so all that are missing are found in one round.
func every(there ...bool) bool { return !slices.Contains(there, false) }

// fail makes the answer a problem.
func (r *reader) fail(code api.Code, detail string) *content.Content {
	r.failed = &api.Response{Status: code.Status(), Media: api.Problem, Seq: r.seq,
		Body: api.AppendProblem(nil, r.core.BaseURL(), code, detail, nil)}
	return nil
}
