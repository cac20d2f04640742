package pages

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"webring/edge/content"
	"webring/templates"
)

// listRows is how many members a page of the ring, of a category or of the leaderboard lists.
const listRows = 50

// drawRing draws a page of the ring, of one category of it, or of a search.
func drawRing(r *reader, path string, query *fasthttp.Args) *content.Content {
	return r.list(path, text(query, "category"), query)
}

// drawCategory draws a page of the members in one category.
func drawCategory(r *reader, path string, query *fasthttp.Args) *content.Content {
	return r.list(path, strings.TrimPrefix(path, categoriesPath), query)
}

// text is a parameter as UTF-8.
func text(query *fasthttp.Args, name string) string {
	return strings.ToValidUTF8(string(query.Peek(name)), "\ufffd")
}

// list draws a page of members: in ring order, or the newest first, or those that a search
// finds.
func (r *reader) list(path, category string, query *fasthttp.Args) *content.Content {
	kind, page, words := text(query, "kind"), text(query, "page"), strings.TrimSpace(text(query, "q"))
	newest := text(query, "sort") == newestFirst
	filter := url.Values{}
	for name, value := range map[string]string{"category": category, "kind": kind} {
		if value != "" {
			filter.Set(name, value)
		}
	}
	var some listDocument
	var board boardDocument
	v, ok := r.survey()
	if !ok || category != "" && !r.document(categoryInUse(category), &struct{}{}) || !r.document(standings, &board) {
		return nil
	}
	state := templates.Searched
	if words == "" {
		if !r.part(filter, page, newest, &some) {
			return nil
		}
	} else {
		// The core finds nothing, but it says whether the other parameters are right.
		filter.Set("limit", "1")
		if page != "" {
			filter.Set("page", page)
		}
		if !r.document("/api/ring?"+filter.Encode(), &listDocument{}) {
			return nil
		}
		some, state = r.search(words, kind, category, page, newest)
	}
	title, description := "The ring", "All members of the ring, in the order of joining."
	if newest {
		description = "All members of the ring, the newest first."
	}
	if category != "" {
		title, description = "Category "+category, "The members of the ring in the category "+category+"."
	}
	if words != "" {
		title, description = "Search: "+words, "A search in the names, hosts and slugs of the ring's members."
	}
	view := templates.Ring{
		Page: frame(&v.about, path, title+" – "+v.about.Name, description),
		Kind: kind, Category: category, Query: words, Newest: newest, Search: state,
		Members: some.Total, Categories: v.categories, Picture: v.picture(&board),
	}
	for i := range some.Members {
		view.Rows = append(view.Rows, row(&some.Members[i]))
	}
	number := some.Offset/listRows + 1
	if newest {
		number, _ = strconv.Atoi(page)
		number = max(number, 1)
		slices.Reverse(view.Rows)
	}
	if some.Count > 0 {
		view.From = (number-1)*listRows + 1
		view.To = view.From + some.Count - 1
		if filter.Get("category") == "" && kind == "" && words == "" {
			view.Picture.From, view.Picture.To = some.Offset+1, some.Offset+some.Count
		}
	}
	last := (some.Total + listRows - 1) / listRows
	at := func(number int) string { return pageAddress(path, query, number) }
	if number > 1 && last > 0 {
		view.Prev = at(min(number-1, last))
	}
	if number < last {
		view.Next = at(number + 1)
	}
	return drawn(view.HTML())
}

// part reads a page of the members that a filter selects.
func (r *reader) part(filter url.Values, page string, newest bool, some *listDocument) bool {
	if !newest {
		filter.Set("limit", strconv.Itoa(listRows))
		if page != "" {
			filter.Set("page", page)
		}
		return r.document("/api/ring?"+filter.Encode(), some)
	}
	// How many there are says where the page lies.
	var all listDocument
	filter.Set("limit", "1")
	first := filter.Encode()
	if page != "" {
		first += "&page=" + url.QueryEscape(page) // says whether it is one
	}
	if !r.document("/api/ring?"+first, &all) {
		return false
	}
	some.Total = all.Total
	offset, count := fromTheEnd(all.Total, page)
	if count == 0 {
		return true
	}
	filter.Set("offset", strconv.Itoa(offset))
	filter.Set("limit", strconv.Itoa(count))
	return r.document("/api/ring?"+filter.Encode(), some)
}

// The bounds of a search, which the origin has.
const (
	longestSearch = 100 // characters
	mostWords     = 8
)

// search reads a page of what a search finds. Only the origin searches.
func (r *reader) search(words, kind, category, page string, newest bool) (some listDocument, state templates.SearchState) {
	if utf8.RuneCountInString(words) > longestSearch || len(strings.Fields(words)) > mostWords ||
		!strings.ContainsFunc(words, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }) {
		return some, templates.SearchBad
	}
	part := pagePart(page)
	if newest {
		var all listDocument
		if !r.origin("/api/ring", listQuery(words, kind, category, "limit=1"), &all) {
			return some, templates.SearchAway
		}
		offset, count := fromTheEnd(all.Total, page)
		if count == 0 {
			some.Total = all.Total
			return some, templates.Searched
		}
		part = "limit=" + strconv.Itoa(count) + "&offset=" + strconv.Itoa(offset)
	}
	if !r.origin("/api/ring", listQuery(words, kind, category, part), &some) {
		return listDocument{}, templates.SearchAway
	}
	return some, templates.Searched
}

// pageAddress is the address of a page of a list, relative to its other pages.
func pageAddress(path string, query *fasthttp.Args, number int) string {
	values := url.Values{}
	for _, name := range [...]string{"q", "kind", "category", "sort"} {
		if v := text(query, name); v != "" {
			values.Set(name, v)
		}
	}
	values.Set("page", strconv.Itoa(number))
	return path[strings.LastIndexByte(path, '/')+1:] + "?" + values.Encode()
}

// categoryInUse is the target of a read that is refused if no member is in a category.
// The page of a category asks it first: otherwise it would show any words in its path
// as a heading.
func categoryInUse(category string) string {
	return "/api/ring/next?category=" + url.QueryEscape(category)
}

// fromTheEnd gives the part of so many members that a page shows when the newest come first.
// page is its number as somebody gave it, "" for the first.
func fromTheEnd(total int, page string) (offset, count int) {
	number, err := strconv.Atoi(page)
	if page == "" {
		number, err = 1, nil
	}
	if err != nil || number < 1 || number > total/listRows+1 {
		return 0, 0
	}
	end := total - (number-1)*listRows
	return max(end-listRows, 0), min(end, listRows)
}

// listQuery is the query of a list of members, and of a search with words, in the order in
// which all nodes spell it. part says which part of the list, and comes last. The others are
// "" for no such choice.
func listQuery(words, kind, category, part string) (query string) {
	for _, p := range [...][2]string{{"q", words}, {"kind", kind}, {"category", category}} {
		if p[1] != "" {
			query += p[0] + "=" + url.QueryEscape(p[1]) + "&"
		}
	}
	return query + part
}

// pagePart is the part of a list that a page in its order shows.
func pagePart(page string) string {
	part := "limit=" + strconv.Itoa(listRows)
	if page != "" {
		part += "&page=" + url.QueryEscape(page)
	}
	return part
}
