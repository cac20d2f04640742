package pages

import (
	"cmp"
	"fmt"
	"slices"

	"webring/edge/cache"
	"webring/edge/describe"
	"webring/templates"
)

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
	var all listDocument
	var categories struct{ Categories []templates.Category }
	kinds, list := [...]string{"agent", "mcp", "website"}, fmt.Sprintf("/api/ring?limit=%d", sampled)
	targets := []string{"/api", "/api/categories", list}
	for _, kind := range kinds {
		targets = append(targets, "/api/ring?limit=1&kind="+kind)
	}
	r.prefetch(targets...)
	if !r.document("/api", &v.about) || !r.document("/api/categories", &categories) || !r.document(list, &all) {
		return false
	}
	for i, kind := range kinds {
		var some listDocument
		if !r.document(targets[3+i], &some) {
			return false
		}
		v.kinds = append(v.kinds, templates.Kind{Kind: kind, Members: some.Total})
	}
	if all.Total > sampled {
		// A member at each of so many positions, evenly spread.
		targets = targets[:0]
		for i := range sampled {
			targets = append(targets, fmt.Sprintf("/api/ring?limit=1&offset=%d", i*all.Total/sampled))
		}
		r.prefetch(targets...)
		for i, target := range targets {
			var one listDocument
			if !r.document(target, &one) {
				return false
			}
			all.Members[i] = one.Members[0]
		}
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
