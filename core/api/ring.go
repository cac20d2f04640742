package api

import (
	"strconv"

	"webring/core"
	"webring/core/flat"
)

// direction is a way around the ring, spelled as documents do.
type direction string

const (
	next     direction = "next"
	prev     direction = "prev"
	anywhere direction = "random"
)

// manner says what an unknown from does to a traversal: it is refused, or the
// traversal goes on without it and says so.
type manner bool

const (
	strict  manner = false
	lenient manner = true
)

// traverse answers with one member: a Traversal document, or a redirect.
//
// from is located in the whole ring, and filters select among the others only
// then: a member keeps its place in every filtered ring.
func (a *answer) traverse(to direction, how manner) {
	from, known := a.locate()
	if a.Unknown && how == strict {
		a.Unknown = false
		if a.st.Len() == 0 {
			a.problem(EmptyRing, "The ring has no members at present.")
			return
		}
		a.problem(UnknownMember, "from names no member. It may be a member's slug, a member's URL or the bare host name of one.")
		return
	}
	a.Drawn = to == anywhere
	w := a.st.Walk(a.q.kind, a.q.category)
	o, ok := pick(&w, to, from, known, a.random)
	if !ok {
		a.problem(EmptyRing, "No member of the ring matches.")
		return
	}
	if a.q.redirect {
		redirect(a.Response, a.st, o)
		if known {
			a.From = uint32(from) + 1
		}
	} else {
		traversal(a.Response, a.st, to, o)
	}
}

// traversal writes a Traversal document that leads to o.
func traversal(r *Response, st *core.State, to direction, o core.Ordinal) {
	r.document()
	if to == anywhere {
		r.Validity = Never
	}
	row, l := st.Row(o), r.links.of(st)
	r.Body = room(r.Body, memberRoom(row, l))
	w := flat.Write(r.Body).Lit16(`{"direction":"`).Copy(string(to)).Lit16(`","member":`)
	r.Body = member(w, st, o, row, false, l).Byte('}').Byte('}').Bytes(r.Body)
}

// locate finds the member that from names. An unknown one is noted in the
// Response; no from at all is not unknown.
func (a *answer) locate() (o core.Ordinal, known bool) {
	if len(a.q.from) == 0 {
		return 0, false
	}
	if a.plain && len(a.q.from) == a.unnamed {
		// As long and from the same place: these bytes are known to be no slug.
		o, known = a.st.ResolveAddress(a.q.from, &a.key)
	} else {
		o, known = a.st.Resolve(a.q.from, &a.key)
	}
	a.Unknown = !known
	return o, known
}

// pick takes the member in the given direction. Without a from, next enters
// the ring at its first member and prev at its last.
func pick(w *core.Walk, to direction, from core.Ordinal, known bool, random uint64) (core.Ordinal, bool) {
	switch {
	case w.Len() == 0:
		return 0, false
	case to == anywhere && known:
		return w.RandomOther(random, from)
	case to == anywhere:
		return w.Random(random)
	case to == next && known:
		return w.After(from)
	case to == next:
		return w.At(0), true
	case known:
		return w.Before(from)
	}
	return w.At(w.Len() - 1), true
}

// redirect sends the visitor to a member's site, with a page for the clients
// that do not follow. The caller sets From.
func redirect(r *Response, st *core.State, o core.Ordinal) {
	row := st.Row(o)
	_, f := row.Fields().Text()
	_, f = f.Skip(1).Text()
	name, f := f.Text()
	url, _ := f.Text()
	r.begin(302, HTML, Never)
	r.To = uint32(o) + 1
	r.Body = room(r.Body, 256+htmlEscaped*(url.Len()+name.Len()))
	w := flat.Write(r.Body).Lit32(`<!doctype html><html lang="en"><`).Lit32(`meta charset="utf-8"><title>`)
	w = w.Lit32(`Found</title><p>Go on to `).Lit32(`<a rel="sponsored noopener" `).Lit8(`href="`)
	if row.Verbatim() {
		begin := len(w.Bytes(r.Body))
		end := begin + url.Len()
		r.Body = w.Line(url).Byte('"').Byte('>').Line(name).Lit32("</a>.</p></html>\n").Bytes(r.Body)
		r.Location = r.Body[begin:end:end]
		return
	}
	w = html(html(w, url.String()).Byte('"').Byte('>'), name.String())
	r.Body = w.Lit32("</a>.</p></html>\n").Bytes(r.Body)
	r.site = append(r.site[:0], url.String()...)
	r.Location = r.site
}

// htmlEscaped is how many bytes one byte of a text can become in HTML.
const htmlEscaped = len("&#34;")

// html writes text for an element or a quoted attribute, which takes up to
// htmlEscaped times its length.
func html(w flat.Pen, s string) flat.Pen {
	n := flat.PlainHTML(s)
	w = w.Copy(s[:n])
	for ; n < len(s); n++ {
		switch c := s[n]; c {
		case '&':
			w = w.Lit8("&amp;")
		case '<':
			w = w.Lit8("&lt;")
		case '>':
			w = w.Lit8("&gt;")
		case '"':
			w = w.Lit8("&#34;")
		case '\'':
			w = w.Lit8("&#39;")
		default:
			w = w.Byte(c)
		}
	}
	return w
}

// members writes a MemberList.
func (a *answer) members() {
	if len(a.q.words) > 0 {
		a.problem(OriginUnavailable, "Only the origin of this ring finds members by their words, and it cannot be asked here. Without q the list is served.")
		return
	}
	a.document()
	list := a.st.Select(a.q.kind, a.q.category)
	offset, count := a.page("/api/ring", list.Len())
	a.found = list.Append(a.found[:0], offset, count)
	if len(a.q.category) > 0 {
		a.st.Prefetch(a.found) // otherwise they lie close together
	}
	a.memberList(a.found)
}

// memberList ends a MemberList with its members.
func (a *answer) memberList(list []core.Ordinal) {
	l := a.links.of(a.st)
	a.Body = append(a.Body, `,"members":[`...)
	for i, o := range list {
		a.Body = appendMember(comma(a.Body, i), a.st, o, false, l)
	}
	a.Body = append(a.Body, "]}"...)
}

// page begins a list document with its pagination envelope, and gives the part
// of a list of so many that the query asks for. The object is left open.
func (a *answer) page(path string, length int) (from, count int) {
	limit, offset, total := a.q.limit, a.q.offset, int64(length)
	from, count = int(min(offset, total)), int(min(limit, max(0, total-offset)))
	if offset+limit < total {
		a.Next = a.appendPage(a.Next, path, offset+limit)
	}
	switch {
	case offset >= total && total > 0:
		a.Prev = a.appendPage(a.Prev, path, (total-1)/limit*limit)
	case offset > 0 && total > 0:
		a.Prev = a.appendPage(a.Prev, path, max(0, offset-limit))
	}
	a.Body = append(a.Body, `{"total":`...)
	a.Body = strconv.AppendInt(a.Body, total, 10)
	a.Body = append(a.Body, `,"count":`...)
	a.Body = strconv.AppendInt(a.Body, int64(count), 10)
	a.Body = append(a.Body, `,"limit":`...)
	a.Body = strconv.AppendInt(a.Body, limit, 10)
	a.Body = append(a.Body, `,"offset":`...)
	a.Body = strconv.AppendInt(a.Body, offset, 10)
	a.Body = append(a.Body, `,"links":{"next":`...)
	a.Body = appendOrNull(a.Body, a.Next)
	a.Body = append(a.Body, `,"prev":`...)
	a.Body = appendOrNull(a.Body, a.Prev)
	a.Body = append(a.Body, '}')
	return from, count
}

// appendPage appends the address of a page with the filters and the limit of
// this one. There is one only where members match, so the category is in the
// pattern of categories and needs no escapes.
func (a *answer) appendPage(dst []byte, path string, offset int64) []byte {
	dst = append(dst, a.rules.BaseURL...)
	dst = append(dst, path...)
	dst = append(dst, '?')
	if len(a.q.words) > 0 {
		dst = appendEncoded(append(dst, "q="...), a.q.words)
		dst = append(dst, '&')
	}
	if a.q.kind != 0 {
		dst = append(dst, "kind="...)
		dst = append(dst, a.q.kind.String()...)
		dst = append(dst, '&')
	}
	if len(a.q.category) > 0 {
		dst = append(dst, "category="...)
		dst = append(dst, a.q.category...)
		dst = append(dst, '&')
	}
	dst = append(dst, "limit="...)
	dst = strconv.AppendInt(dst, a.q.limit, 10)
	dst = append(dst, "&offset="...)
	return strconv.AppendInt(dst, offset, 10)
}

func appendOrNull(dst, address []byte) []byte {
	if len(address) == 0 {
		return append(dst, "null"...)
	}
	return AppendString(dst, address)
}

// comma separates the elements of an array.
func comma(dst []byte, i int) []byte {
	if i == 0 {
		return dst
	}
	return append(dst, ',')
}

// details answers with a MemberDetail. A slug is looked up as it is: a reference
// that needs resolving is a from, not a path.
func (a *answer) details(slug []byte) {
	o, ok := a.st.BySlug(slug)
	if !ok {
		a.problem(UnknownMember, "No member has this slug. GET /api/ring lists the members.")
		return
	}
	if a.st.Hidden(o) {
		// Nothing more is said of it: it may come back.
		a.problem(UnknownMember, "No member has this slug. GET /api/ring lists the members.")
		return
	}
	if until, departed := a.st.Departed(o); departed {
		a.problem(MemberRemoved, Departure(until))
		return
	}
	if a.st.Rank(o) == 0 {
		a.problem(MemberRemoved, "This member was removed from the ring. Its slug is not given again.")
		return
	}
	detail(a.Response, a.st, o)
}

// Departure says in a problem's detail that a member has departed, and until when its owner can
// take that back.
func Departure(until int64) string {
	var buf [24]byte
	return "This member's owner took it out of the ring, and can put it back until " +
		string(instant(flat.Write(buf[:0]), until).Bytes(buf[:])) + ", free: POST /api/ring/{slug}/return."
}

// detail writes the MemberDetail of a member in the ring.
func detail(r *Response, st *core.State, o core.Ordinal) {
	r.timed(st)
	row, l := st.Row(o), r.links.of(st)
	rank, above := st.Rank(o), o
	if rank > 1 {
		r.found = st.AppendRanked(r.found[:0], rank-2, 1)
		above = r.found[0]
	}
	r.Body = room(r.Body, memberRoom(row, l)+prospectRoom+escaped*st.Row(above).Size()+forecastRoom)
	w := member(flat.Write(r.Body).Lit16(`{"member":`), st, o, row, true, l)
	w = w.Lit32(`,"leaderboard_rank":`).Number(uint64(rank))
	w = memberForecast(prospect(w, st, o, rank, above), st, o)
	w = ownership(w, st, o).Byte('}').Byte('}')
	r.Body = w.Bytes(r.Body)
}

// categories writes a CategoryList of the categories in use, in the order of
// their names.
func (a *answer) categories() {
	a.document()
	list := a.st.Categories()
	a.Body = append(a.Body, `{"count":`...)
	a.Body = strconv.AppendInt(a.Body, int64(len(list)), 10)
	a.Body = append(a.Body, `,"categories":[`...)
	for i, category := range list {
		a.Body = comma(a.Body, i)
		a.Body = append(a.Body, `{"category":"`...)
		a.Body = append(a.Body, category...)
		a.Body = append(a.Body, `","members":`...)
		// The copy is of at most 32 bytes and stays on the stack.
		a.Body = strconv.AppendInt(a.Body, int64(a.st.Select(0, []byte(category)).Len()), 10)
		a.Body = append(a.Body, `,"links":{"members":`...)
		a.Body = appendLink(a.Body, a.rules.BaseURL, "/api/ring?category=", category)
		a.Body = append(a.Body, "}}"...)
	}
	a.Body = append(a.Body, "]}"...)
}
