package pages

import (
	"net/url"
	"slices"
	"strconv"

	"webring/edge/describe"
	"webring/templates"
)

// Drawing is what the picture of the ring shows at one position: of the first forty by standing and of
// the newest member all that it takes to draw them. Open pages get it, and then what changes of it.
type Drawing struct {
	Seq     uint64      `json:"seq"`
	Whole   bool        `json:"whole,omitempty"` // Marks are all there are
	Members int         `json:"members"`
	First   []string    `json:"first"` // slugs of the first three by standing
	Marks   []DrawnMark `json:"marks"`
	Gone    []string    `json:"gone,omitempty"` // slugs of those that it shows no more
}

// DrawnMark is one member in a [Drawing]. Amounts are in cents.
type DrawnMark struct {
	Slug     string `json:"slug"`
	Name     string `json:"name"`
	Host     string `json:"host"`
	Kind     string `json:"kind"`
	Position int    `json:"position"`
	Paid     int64  `json:"paid"`
	Counts   int64  `json:"counts"`
}

// Drawing gives the drawing of the ring now. It is nil when the core does not answer.
func (s *Pages) Drawing(c Core) (d *Drawing) {
	r := newReader(s, c)
	r.complete(func() {
		var board boardDocument
		var last listDocument
		var newest struct{ Member describe.Member }
		d = nil
		if !r.document(standings, &board) {
			return
		}
		made := &Drawing{Seq: r.seq, Whole: true, Members: board.Total, First: []string{}, Marks: []DrawnMark{}}
		for i := range board.Leaderboard {
			made.Marks = append(made.Marks, drawnMark(&board.Leaderboard[i]))
		}
		for _, m := range made.Marks[:min(len(made.Marks), 3)] {
			made.First = append(made.First, m.Slug)
		}
		if board.Total > len(made.Marks) {
			if !r.document("/api/ring?limit=1&offset="+strconv.Itoa(board.Total-1), &last) || len(last.Members) == 0 ||
				!r.document("/api/ring/"+url.PathEscape(last.Members[0].Slug), &newest) {
				return
			}
			if m := drawnMark(&newest.Member); !slices.ContainsFunc(made.Marks, func(o DrawnMark) bool { return o.Slug == m.Slug }) {
				made.Marks = append(made.Marks, m)
			}
		}
		d = made
	})
	if r.failed != nil {
		return nil
	}
	return d
}

func drawnMark(m *describe.Member) DrawnMark {
	return DrawnMark{m.Slug, m.Name, templates.Where(m.URL), m.Kind, m.Position, cents(m.Paid), cents(m.Standing)}
}

// Since gives what of the drawing is not as it was in before, nil if everything is. A standing that has
// faded by less than a hundredth of what was paid is as it was: nobody sees that, and with each event
// some of all of them have.
func (d *Drawing) Since(before *Drawing) *Drawing {
	change := &Drawing{Seq: d.Seq, Members: d.Members, First: d.First, Marks: []DrawnMark{}}
	for i, m := range d.Marks {
		if at := before.index(m.Slug); at >= 0 {
			was := before.Marks[at]
			if lost := was.Counts - m.Counts; lost > 0 && lost*100 < m.Paid {
				d.Marks[i].Counts, m.Counts = was.Counts, was.Counts // until it has lost more
			}
			if m == was {
				continue
			}
		}
		change.Marks = append(change.Marks, m)
	}
	for _, m := range before.Marks {
		if d.index(m.Slug) < 0 {
			change.Gone = append(change.Gone, m.Slug)
		}
	}
	if len(change.Marks)+len(change.Gone) == 0 && d.Members == before.Members && slices.Equal(d.First, before.First) {
		return nil
	}
	return change
}

func (d *Drawing) index(slug string) int {
	return slices.IndexFunc(d.Marks, func(m DrawnMark) bool { return m.Slug == slug })
}
