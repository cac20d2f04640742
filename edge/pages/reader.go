package pages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/cache"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/templates"
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

// maxRounds bounds how often a page is filled, and mostAsked how much one call asks for.
const maxRounds, mostAsked = 10, 256

// complete fills a page with documents of one position, or until reading one failed.
func (r *reader) complete(fill func()) {
	for range maxRounds {
		fill()
		if !r.moved {
			return
		}
		wanted := r.wanted[:min(len(r.wanted), mostAsked)]
		if *r = *newReader(r.pages, r.core); len(wanted) > 0 {
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
	asked, all := make([][]byte, len(targets)), make([]api.Response, len(targets))
	for i, target := range targets {
		asked[i], r.read[target] = []byte(target), &all[i]
	}
	r.core.AskAll(asked, all)
	r.moved = r.moved || all[0].Seq != r.seq
	_, r.second = r.core.Head() // or the one before: now is within what the answers hold for
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
		r.failed = a
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
	return r.originWithin(describe.OriginTime, path, query, doc)
}

func (r *reader) originWithin(wait time.Duration, path, query string, doc any) bool {
	seconds, ok := r.pages.site.ReadOrigin(wait, path, query, doc)
	r.until = min(r.until, r.pages.now().Unix()+int64(seconds))
	return ok
}

// fail makes the answer a problem.
func (r *reader) fail(code api.Code, detail string) *content.Content {
	r.failed = &api.Response{Status: code.Status(), Media: api.Problem, Seq: r.seq,
		Body: api.AppendProblem(nil, r.core.BaseURL(), code, detail, nil)}
	return nil
}

// survey is what several pages show of the whole ring. It depends on the ledger
// position alone, and is taken once for each.
type survey struct {
	about      describe.Ring
	members    int
	kinds      []templates.Kind
	categories []templates.Category // the fullest first
	marks      []templates.Mark
}

const (
	// sampled is how many members the picture of a large ring shows besides the first.
	sampled = 80
	// standings is the target of the first forty members by standing. The picture always shows
	// these.
	standings = "/api/leaderboard?limit=40"
	// listedCategories is how many categories pages list.
	listedCategories = 40
)

// surveyTarget is the key of the survey in the cache. No target begins with a space.
const surveyTarget = " survey"

// survey gives the survey of the position that is read. It reports false as [reader.document]
// does.
func (r *reader) survey() (*survey, bool) {
	cached := r.core.Cache()
	key := cached.Key([]byte(surveyTarget))
	if e := cached.Get(key); e != nil && e.Holds(r.core.Build(), r.seq, 0) {
		return e.Value.(*survey), true
	}
	v := new(survey)
	if !r.fillSurvey(v) {
		return nil, false
	}
	e := r.entry(0, cache.Forever)
	e.Value = v
	cached.Put(key, e, 1<<10*(len(v.marks)+len(v.categories)))
	return v, true
}

// fillSurvey takes a survey.
func (r *reader) fillSurvey(v *survey) bool {
	var categories struct{ Categories []templates.Category }
	kinds := [...]string{"agent", "mcp", "website"}
	targets := []string{"/api", "/api/categories", fmt.Sprintf("/api/ring?limit=%d", sampled)}
	for _, kind := range kinds {
		targets = append(targets, "/api/ring?limit=1&kind="+kind)
	}
	r.prefetch(targets...)
	if !r.document("/api", &v.about) || !r.document("/api/categories", &categories) {
		return false
	}
	v.about.Base = r.core.BaseURL()
	for i, kind := range kinds {
		var some listDocument
		if !r.document(targets[3+i], &some) {
			return false
		}
		v.kinds = append(v.kinds, templates.Kind{Kind: kind, Members: some.Total})
	}
	all, ok := r.spread("")
	if !ok {
		return false
	}
	v.members = all.Total
	fee := cents(v.about.Fee)
	for i := range all.Members {
		v.marks = append(v.marks, mark(&all.Members[i], fee))
	}
	v.categories = categories.Categories
	slices.SortStableFunc(v.categories, func(a, b templates.Category) int { return cmp.Compare(b.Members, a.Members) })
	v.categories = v.categories[:min(len(v.categories), listedCategories)]
	return true
}

// spread gives members for a picture: of all that match a filter, which is "" or ends in &, or of
// so many of them, evenly spread.
func (r *reader) spread(filter string) (all listDocument, ok bool) {
	if ok = r.document(fmt.Sprintf("/api/ring?%slimit=%d", filter, sampled), &all); !ok || all.Total <= sampled {
		return all, ok
	}
	var targets []string
	for i := range sampled {
		targets = append(targets, fmt.Sprintf("/api/ring?%slimit=1&offset=%d", filter, i*all.Total/sampled))
	}
	r.prefetch(targets...)
	for i, target := range targets {
		var one listDocument
		if !r.document(target, &one) {
			return all, false
		}
		all.Members[i] = one.Members[0]
	}
	return all, true
}

// mark is a member in the picture. A list shows neither what was paid in total nor what of it
// counts: then the current fee is taken for the one that was paid, and nothing counts.
func mark(m *describe.Member, fee int64) templates.Mark {
	made := templates.Mark{Slug: m.Slug, Name: m.Name, URL: m.URL, Kind: m.Kind, Position: m.Position}
	if m.Paid == "" {
		made.Total = fee + cents(m.Bids)
	} else {
		made.Total, made.Standing = cents(m.Paid), cents(m.Standing)
	}
	return made
}

// picture gives the picture of the ring with the first by standing.
func (v *survey) picture(first *boardDocument) templates.Picture {
	p := templates.Picture{Members: v.members, Marks: v.marks}
	for i := range first.Leaderboard {
		p.Top = append(p.Top, mark(&first.Leaderboard[i], 0))
	}
	return p
}
