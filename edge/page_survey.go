package edge

import (
	"cmp"
	"fmt"
	"slices"

	"webring/core/api"
	"webring/templates"
)

// survey is what several pages show of the whole ring. It depends on the ledger
// position alone, and is taken once for each.
type survey struct {
	build      string
	seq        uint64
	about      directoryDocument
	members    int
	kinds      []templates.Kind
	categories []templates.Category // the fullest first
	marks      []templates.Mark
}

const (
	// sampled is how many members the picture of a large ring shows.
	sampled = 120
	// listedCategories is how many categories pages list.
	listedCategories = 40
)

// survey gives the survey of the present position, or reports false when the
// core has none to give.
func (r *reader) survey() (*survey, bool) {
	seq, _ := r.tenure.core.Head()
	if v := r.shell.surveyed.Load(); v != nil && v.seq == seq && v.build == r.tenure.build {
		r.depend(seq, api.Position, 0, 0)
		return v, true
	}
	// What it rests on is told apart from what the page has read before.
	own := reader{shell: r.shell, tenure: r.tenure}
	v := &survey{build: r.tenure.build}
	if !own.take(v) {
		r.failed = own.failed
		return nil, false
	}
	v.seq = own.seq
	r.depend(own.seq, api.Position, 0, 0)
	if r.torn = r.torn || own.torn; !own.torn {
		r.shell.surveyed.Store(v)
	}
	return v, true
}

// take fills a survey from the documents of this moment.
func (r *reader) take(v *survey) bool {
	if !r.document("/api", &v.about) {
		return false
	}
	var all listDocument
	if !r.document(fmt.Sprintf("/api/ring?limit=%d", sampled), &all) {
		return false
	}
	v.members = all.Total
	fee := cents(v.about.Payments.Fee)
	for i := range all.Members {
		if all.Total > sampled {
			// A member at each of so many places, evenly spread.
			offset := i * all.Total / sampled
			var one listDocument
			if !r.document(fmt.Sprintf("/api/ring?limit=1&offset=%d", offset), &one) {
				return false
			}
			if len(one.Members) == 0 {
				continue // the ring became smaller meanwhile
			}
			all.Members[i] = one.Members[0]
		}
		v.marks = append(v.marks, all.Members[i].mark(fee))
	}
	for _, kind := range [...]string{"agent", "mcp", "website"} {
		var some listDocument
		if !r.document("/api/ring?limit=1&kind="+kind, &some) {
			return false
		}
		v.kinds = append(v.kinds, templates.Kind{Kind: kind, Members: some.Total})
	}
	var categories categoriesDocument
	if !r.document("/api/categories", &categories) {
		return false
	}
	for _, c := range categories.Categories {
		v.categories = append(v.categories, templates.Category{Name: c.Category, Members: c.Members})
	}
	slices.SortStableFunc(v.categories, func(a, b templates.Category) int { return cmp.Compare(b.Members, a.Members) })
	v.categories = v.categories[:min(len(v.categories), listedCategories)]
	return true
}

// mark is a member in the picture. A list does not show what was paid in all;
// the fee that is asked for now stands in for the one that was paid.
func (m *memberDocument) mark(fee int64) templates.Mark {
	return templates.Mark{Slug: m.Slug, Name: m.Name, URL: m.URL, Kind: m.Kind, Position: m.Position, Total: fee + cents(m.Bids)}
}

// picture draws the ring with the member at rank 1, who may be nil.
func (v *survey) picture(first *memberDocument) templates.Picture {
	p := templates.Picture{Members: v.members, Marks: v.marks}
	if first != nil {
		m := first.mark(cents(v.about.Payments.Fee))
		p.First = &m
	}
	return p
}
