package api

import (
	"strconv"

	"webring/core"
)

// widget writes the Widget document of the member that from names, or of the
// edges of the ring when there is none.
func (a *answer) widget() {
	o, known := a.locate()
	ring := a.st.Select(0, nil)
	a.document(Position)
	a.Body = append(a.Body, `{"ring":{"name":`...)
	a.Body = AppendString(a.Body, a.rules.Name)
	a.Body = append(a.Body, `,"url":`...)
	a.Body = appendLink(a.Body, a.rules.BaseURL, "/", "")
	a.Body = append(a.Body, `,"count":`...)
	a.Body = strconv.AppendInt(a.Body, int64(ring.Len()), 10)
	a.Body = append(a.Body, `},"member":`...)
	a.memberOrNull(o, known)
	a.Body = append(a.Body, `,"prev":`...)
	a.memberOrNull(pick(ring, prev, o, known, 0))
	a.Body = append(a.Body, `,"next":`...)
	a.memberOrNull(pick(ring, next, o, known, 0))

	query, slug := "", ""
	if known {
		query, slug = "?from=", a.st.Member(o).Slug
	}
	a.Body = append(a.Body, `,"links":{`...)
	for _, to := range [...]direction{next, prev, anywhere} {
		a.Body = append(a.Body, '"')
		a.Body = append(a.Body, to...)
		a.Body = append(a.Body, `":"`...)
		a.Body = appendEscaped(a.Body, a.rules.BaseURL)
		a.Body = append(a.Body, '/')
		a.Body = append(a.Body, to...)
		a.Body = append(a.Body, query...)
		a.Body = append(a.Body, slug...)
		a.Body = append(a.Body, `",`...)
	}
	a.Body = append(a.Body, `"ring":`...)
	a.Body = appendLink(a.Body, a.rules.BaseURL, "/", "")
	a.Body = append(a.Body, `,"leaderboard":`...)
	a.Body = appendLink(a.Body, a.rules.BaseURL, "/api/leaderboard", "")
	a.Body = append(a.Body, "}}"...)
}

func (a *answer) memberOrNull(o core.Ordinal, ok bool) {
	if !ok {
		a.Body = append(a.Body, "null"...)
		return
	}
	a.Body = AppendMember(a.Body, a.st, o, false)
}
