package pages

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"webring/edge/content"
	"webring/edge/describe"
	"webring/static"
	"webring/templates"
)

// listRows is how many members a page of the ring, of a category or of the leaderboard lists.
const listRows = 50

// drawRing draws a page of the ring, of one category of it, or of a search.
func drawRing(r *reader, path string, query *fasthttp.Args) *content.Content {
	if at := text(query, "at"); at != "" {
		return r.moment(path, at)
	}
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
	var board boardDocument
	v, ok := r.survey()
	if !ok || category != "" && !r.document(categoryInUse(category), &struct{}{}) || !r.document(standings, &board) {
		return nil
	}
	fromCore := func(part string, into *listDocument) bool {
		return r.document("/api/ring?"+listQuery("", kind, category, part), into)
	}
	fromOrigin := func(part string, into *listDocument) bool {
		return r.origin("/api/ring", listQuery(words, kind, category, part), into)
	}
	var some listDocument
	state := templates.Searched
	switch {
	case words == "":
		if some, ok = pageOf(fromCore, page, newest); !ok {
			return nil
		}
	// The core finds nothing, but it says whether the other parameters are right.
	case !fromCore(pagePart(1, page), &listDocument{}):
		return nil
	case !searchable(words):
		state = templates.SearchBad
	default:
		if some, ok = pageOf(fromOrigin, page, newest); !ok {
			some, state = listDocument{}, templates.SearchAway
		}
	}
	title, description := "The ring", subjects["ring"].words
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
	view.Icons = r.pages.site.OriginData != nil
	if category == "" && words == "" {
		view.Picture.Script, view.Picture.Seq = static.Ring.Path, r.seq
		view.Picture.Replays = r.pages.site.OriginData != nil && v.members > 0 && r.seq <= describe.MostReplayed
	}
	if category != "" && words == "" && !r.about(&view, v, &board) {
		return nil
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
		if category == "" && kind == "" && words == "" {
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

// about fills in what the page of a category says of it: the members that rank highest, as far as
// they are among the first of the ring, what it costs to pass them, and where its members are.
func (r *reader) about(view *templates.Ring, v *survey, board *boardDocument) bool {
	all, ok := r.spread("category=" + url.QueryEscape(view.Category) + "&")
	if !ok {
		return false
	}
	view.InAll, view.Fee = v.members, v.about.Fee
	best := within(board, view.Category)
	for i := range best[:min(len(best), bestShown)] {
		view.Best = append(view.Best, row(&best[i]))
	}
	if len(best) > 0 {
		view.Lead = usd(cents(v.about.Fee) + cents(cmp.Or(above(&best[0], cents(v.about.Fee), cents(board.Rules.MinBid)), "0.00")))
	}
	view.Picture.Category, view.Picture.Matching, view.Picture.Marks = view.Category, all.Total, nil
	view.Picture.Top = slices.DeleteFunc(view.Picture.Top, func(m templates.Mark) bool {
		return !slices.ContainsFunc(best, func(b describe.Member) bool { return b.Slug == m.Slug })
	})
	for i := range all.Members {
		m := mark(&all.Members[i], 0)
		m.Total = 0 // what of it counts is not known here
		view.Picture.Marks = append(view.Picture.Marks, m)
	}
	return true
}

// bestShown is how many of its highest members the page of a category names.
const bestShown = 3

// within are the members of a category among the first of the ring, the highest first.
func within(board *boardDocument, category string) (all []describe.Member) {
	for _, m := range board.Leaderboard {
		if category != "" && m.Category == category {
			all = append(all, m)
		}
	}
	return all
}

// pageOf reads a page of a list, of which read reads a part.
func pageOf(read func(part string, into *listDocument) bool, page string, newest bool) (some listDocument, ok bool) {
	if !newest {
		ok = read(pagePart(listRows, page), &some)
		return some, ok
	}
	// How many there are says where the page lies.
	if !read(pagePart(1, page), &some) {
		return some, false
	}
	offset, count := fromTheEnd(some.Total, page)
	some = listDocument{Total: some.Total}
	ok = count == 0 || read("limit="+strconv.Itoa(count)+"&offset="+strconv.Itoa(offset), &some)
	return some, ok
}

// pagePart is the part of a list that a page of so many rows in its order shows.
func pagePart(rows int, page string) string {
	part := "limit=" + strconv.Itoa(rows)
	if page != "" {
		part += "&page=" + url.QueryEscape(page)
	}
	return part
}

// The bounds of a search, which the origin has.
const (
	longestSearch = 100 // characters
	mostWords     = 8
)

// searchable says whether the origin, which alone searches, takes these words.
func searchable(words string) bool {
	return utf8.RuneCountInString(words) <= longestSearch && len(strings.Fields(words)) <= mostWords &&
		strings.ContainsFunc(words, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) })
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

// leaderboardPath is where the leaderboard for people is.
const leaderboardPath = "/leaderboard"

// leadsDocument lists the holders of rank 1, the current one first.
type leadsDocument struct {
	Leads []struct {
		Member string
		From   time.Time
		Until  *time.Time
	}
}

// drawLeaderboard draws a page of the leaderboard.
func drawLeaderboard(r *reader, path string, query *fasthttp.Args) *content.Content {
	filter := url.Values{"limit": {strconv.Itoa(listRows)}}
	if page := query.Peek("page"); len(page) > 0 {
		filter.Set("page", string(page))
	}
	var doc boardDocument
	v, ok := r.survey()
	if !ok || !r.document("/api/leaderboard?"+filter.Encode(), &doc) {
		return nil
	}
	first := doc.Offset == 0
	var leads leadsDocument
	var holders map[string]describe.Member
	if first && r.origin("/api/events", "limit=1", &leads) {
		var slugs []string
		for _, lead := range leads.Leads {
			slugs = append(slugs, lead.Member)
		}
		holders = r.named(slugs, doc.Leaderboard)
	}
	view := templates.Leaderboard{Page: frame(&v.about, path, "Leaderboard – "+v.about.Name, subjects["leaderboard"].words)}
	view.Feeds, view.Icons, view.Wallet = feeds, r.pages.site.OriginData != nil, wallet(&v.about, r.core.BaseURL())
	view.Board = r.board(v, &doc)
	if first {
		view.Reigns = r.reigns(&leads, holders)
	}
	view.Pages = pagesOf(path, doc.Offset, doc.Total)
	return drawn(view.HTML())
}

// pagesOf leads from the page of a list that begins behind so many rows to its others.
func pagesOf(path string, offset, total int) (p templates.Pages) {
	last := max((total+listRows-1)/listRows, 1)
	here := offset/listRows + 1
	to := func(number int) templates.PageLink {
		link := templates.PageLink{From: (number-1)*listRows + 1, To: min(number*listRows, total), Here: number == here}
		if link.Address = pageAddress(path, &noQuery, number); number == 1 {
			link.Address = path[1:]
		}
		return link
	}
	if here > 1 {
		p.First, p.Prev = to(1), to(min(here-1, last))
	}
	if here < last {
		p.Next, p.Last = to(here+1), to(last)
	}
	// The page, two on each side, and the ends.
	for number := max(1, min(here, last)-2); number <= min(last, here+2); number++ {
		p.Near = append(p.Near, to(number))
	}
	return p
}

// board is a part of the leaderboard as pages show it.
func (r *reader) board(v *survey, doc *boardDocument) templates.Board {
	b := templates.Board{Members: doc.Total, Fee: v.about.Fee, MinBid: doc.Rules.MinBid,
		Grace: days(doc.Rules.Grace), Decay: days(doc.Rules.Decay), First: doc.Forecast}
	for i := range doc.Leaderboard {
		b.Rows = append(b.Rows, r.standing(&doc.Leaderboard[i], doc.Rules.MinBid, cents(doc.Forecast[0].Standing)))
	}
	if n := len(b.Rows); n > 0 {
		b.From, b.To = b.Rows[0].Rank, b.Rows[n-1].Rank
	}
	if n := tenth - doc.Offset; n >= 1 && n <= len(doc.Leaderboard) {
		if bid := above(&doc.Leaderboard[n-1], cents(b.Fee), cents(b.MinBid)); bid != doc.Rules.JoinAtFirst {
			b.AtTen = bid
		}
	}
	return b
}

// named gives the members with these slugs that are in the ring, by their slugs. rows are some that
// have been read.
func (r *reader) named(slugs []string, rows []describe.Member) map[string]describe.Member {
	all := map[string]describe.Member{}
	for i := range rows {
		all[rows[i].Slug] = rows[i]
	}
	for _, slug := range slugs {
		if _, known := all[slug]; known || slug == "" {
			continue
		}
		if a := r.answerTo("/api/ring/" + url.PathEscape(slug)); a.Status == fasthttp.StatusOK {
			var detail struct{ Member describe.Member }
			if err := json.Unmarshal(a.Body, &detail); err != nil {
				panic(err) // a document of the core that does not have its form
			}
			all[slug] = detail.Member
		}
	}
	return all
}

// reigns lists the holders of rank 1 and for how long they held it, the current one first.
func (r *reader) reigns(doc *leadsDocument, holders map[string]describe.Member) (list []templates.Reign) {
	for _, lead := range doc.Leads {
		m := holders[lead.Member] // the zero value if it has left
		reign := templates.Reign{Slug: m.Slug, Name: m.Name, URL: m.URL, From: r.date(lead.From)}
		var took time.Duration
		if lead.Until == nil {
			reign.For, took = r.lasting(lead.From)
		} else {
			reign.Until, took = r.date(*lead.Until), max(lead.Until.Sub(lead.From), 0)
			reign.For = lasted(took)
		}
		reign.Seconds = int64(took / time.Second)
		list = append(list, reign)
	}
	return list
}
