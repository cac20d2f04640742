package pages

import (
	"cmp"
	"fmt"
	"slices"

	"webring/edge/cache"
	"webring/templates"
)

// survey is what several pages show of the whole ring. It depends on the ledger
// position alone, and is taken once for each.
type survey struct {
	about      directoryDocument
	members    int
	kinds      []templates.Kind
	categories []templates.Category // the fullest first
	marks      []templates.Mark
}

const (
	// sampled is how many members the picture of a large ring shows beside the first.
	sampled = 80
	// standings is the target of the first forty members by standing. The picture always shows
	// these.
	standings = "/api/leaderboard?limit=40"
	// listedCategories is how many categories pages list.
	listedCategories = 40
)

// surveyTarget is the key of the survey in the cache. No target begins with a space.
const surveyTarget = " survey"

// survey gives the survey of the position that is read, or reports false when the
// documents for it are not there.
func (r *reader) survey() (*survey, bool) {
	cached := r.core.Cache()
	key := cached.Key([]byte(surveyTarget))
	last := 0
	if e := cached.Get(key); e != nil {
		if e.Holds(r.core.Build(), r.seq, 0) {
			return e.Value.(*survey), true
		}
		last = e.Value.(*survey).members
	}
	v, before := new(survey), len(r.wanted)
	if !r.fillSurvey(v, last) {
		return nil, false
	}
	r.wanted = r.wanted[:before] // at this position its documents are not needed again
	e := r.entry(0, cache.Forever)
	e.Value = v
	cached.Put(key, e, 1<<10*(len(v.marks)+len(v.categories)))
	return v, true
}

// fillSurvey takes a survey. last is how many members there were at an earlier position,
// which says what to read before it is known how many there are.
func (r *reader) fillSurvey(v *survey, last int) bool {
	var all listDocument
	var categories categoriesDocument
	there := every(r.document("/api", &v.about), r.document("/api/categories", &categories))
	if r.document(fmt.Sprintf("/api/ring?limit=%d", sampled), &all) {
		last = all.Total
	} else {
		there = false
	}
	for _, kind := range [...]string{"agent", "mcp", "website"} {
		var some listDocument
		there = every(r.document("/api/ring?limit=1&kind="+kind, &some), there)
		v.kinds = append(v.kinds, templates.Kind{Kind: kind, Members: some.Total})
	}
	if last > sampled {
		// A member at each of so many positions, evenly spread.
		for i := range sampled {
			var one listDocument
			if !r.document(fmt.Sprintf("/api/ring?limit=1&offset=%d", i*last/sampled), &one) {
				there = false
			} else if len(all.Members) > i && len(one.Members) > 0 {
				all.Members[i] = one.Members[0]
			}
		}
	}
	if !there {
		return false
	}
	v.members = all.Total
	fee := cents(v.about.Payments.Fee)
	for i := range all.Members {
		v.marks = append(v.marks, all.Members[i].mark(fee))
	}
	for _, c := range categories.Categories {
		v.categories = append(v.categories, templates.Category{Name: c.Category, Members: c.Members})
	}
	slices.SortStableFunc(v.categories, func(a, b templates.Category) int { return cmp.Compare(b.Members, a.Members) })
	v.categories = v.categories[:min(len(v.categories), listedCategories)]
	return true
}

// mark is a member in the picture. A list shows neither what was paid in all nor what of it
// stands: then the present fee is taken for the one that was paid, and nothing stands.
func (m *memberDocument) mark(fee int64) templates.Mark {
	mark := templates.Mark{Slug: m.Slug, Name: m.Name, URL: m.URL, Kind: m.Kind, Position: m.Position}
	if m.Paid == "" {
		mark.Total = fee + cents(m.Bids)
	} else {
		mark.Total, mark.Standing = cents(m.Paid), cents(m.Standing)
	}
	return mark
}

// picture gives the picture of the ring with the first by standing.
func (v *survey) picture(first *boardDocument) templates.Picture {
	p := templates.Picture{Members: v.members, Marks: v.marks}
	for i := range first.Leaderboard {
		p.Top = append(p.Top, first.Leaderboard[i].mark(0))
	}
	return p
}
