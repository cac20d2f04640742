package describe

import (
	"net/url"
	"slices"
	"strconv"
)

// ListRows is how many members a page of the ring, of a category or of the leaderboard
// lists, as HTML and as Markdown alike: they are one page in two forms.
const ListRows = 50

// FromTheEnd gives the part of so many members that a page shows when the last to join come
// first. page is its number as somebody gave it, "" for the first.
func FromTheEnd(total int, page string) (offset, count int) {
	number, err := strconv.Atoi(page)
	if page == "" {
		number, err = 1, nil
	}
	if err != nil || number < 1 || number > total/ListRows+1 {
		return 0, 0
	}
	end := total - (number-1)*ListRows
	return max(end-ListRows, 0), min(end, ListRows)
}

// ListQuery is the query of a list of members, and of a search with words, in the order in
// which all nodes spell it. part says which part of the list, and comes last. The others are
// "" for no such choice.
func ListQuery(words, kind, category, part string) (query string) {
	for _, p := range [...][2]string{{"q", words}, {"kind", kind}, {"category", category}} {
		if p[1] != "" {
			query += p[0] + "=" + url.QueryEscape(p[1]) + "&"
		}
	}
	return query + part
}

// PagePart is the part of a list that a page in its order shows.
func PagePart(page string) string {
	part := "limit=" + strconv.Itoa(ListRows)
	if page != "" {
		part += "&page=" + url.QueryEscape(page)
	}
	return part
}

// memberList is which members a page lists. A field is "" for no such choice.
type memberList struct {
	page, kind, category string
	words                string // of a search, which only the origin answers
	newest               bool   // the last to join come first
}

type memberListDocument struct {
	Total, Count int
	Offset       int // in the order of the page
	Members      []Member
}

// read reads the page. found is false if the search does not answer. The core refuses what
// is wrong with the other choices.
func (l *memberList) read(s *Source) (doc memberListDocument, found bool, err error) {
	core := func(part string) (bool, error) {
		err := s.read("/api/ring?"+ListQuery("", l.kind, l.category, part), &doc)
		return err == nil, err
	}
	// The core is asked for the page in any case: it says whether the choices are right.
	if found, err = core(PagePart(l.page)); err != nil || l.words == "" && !l.newest {
		return doc, found, err
	}
	part := core
	if l.words != "" {
		part = func(part string) (bool, error) {
			doc = memberListDocument{}
			return s.beside("/api/ring?"+ListQuery(l.words, l.kind, l.category, part), &doc), nil
		}
	}
	if !l.newest {
		found, err = part(PagePart(l.page))
		return doc, found, err
	}
	// How many members there are says where the page lies.
	if found, err = part("limit=1"); !found {
		return doc, found, err
	}
	offset, count := FromTheEnd(doc.Total, l.page)
	if doc = (memberListDocument{Total: doc.Total}); count == 0 {
		return doc, true, nil
	}
	found, err = part("limit=" + strconv.Itoa(count) + "&offset=" + strconv.Itoa(offset))
	slices.Reverse(doc.Members)
	doc.Offset = doc.Total - offset - doc.Count
	return doc, found, err
}
