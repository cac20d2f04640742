package api

import (
	"webring/core"
	"webring/core/flat"
)

// Search answers a GET of /api/ring with a query that asks for words, q: with the
// MemberList of those in the ring that find gives for them, by the other parameters. find
// gives rows in ring order, and reports false for words that cannot be looked for.
//
// A core finds no member by words: it has no index of them, and [Serve] refuses q.
//
// Document: the service interface, "Ring reads", with the parameter q.
func Search(st *core.State, query []byte, find func(q []byte) (found []core.Ordinal, ok bool), r *Response) {
	r.Seq, r.lean = st.Seq(), false
	r.rest()
	r.begin(0, JSON, Never)
	a := answer{Response: r, st: st, rules: st.Rules()}
	if a.rules == nil {
		a.rules = &unopened
		a.problem(Internal, "This ring has not been opened.")
		return
	}
	if a.plain = !flat.Escapes(query); !a.plain {
		r.scratch = make([]byte, 0, len(query))
	}
	if !a.read(query, filterParams|pageParams|wordsParam) {
		return
	}
	all, ok := find(a.q.words)
	if !ok {
		a.invalid(wordsParam)
		return
	}
	found := all[:0]
	for _, o := range all {
		if st.Stands(o) && a.matches(st.Row(o)) {
			found = append(found, o)
		}
	}
	a.document()
	offset, count := a.page("/api/ring", len(found))
	a.memberList(found[offset : offset+count])
}

// matches says whether a row passes the filters.
func (a *answer) matches(row core.Row) bool {
	_, f := row.Fields().Text()
	kind := core.Kind(f.Byte())
	category, _ := f.Skip(1).Text()
	return (a.q.kind == 0 || kind == a.q.kind) && (len(a.q.category) == 0 || category.String() == string(a.q.category))
}

// appendEncoded appends a text as the value of a parameter.
func appendEncoded(dst, text []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range text {
		if '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || c == '.' || c == '_' || c == '~' {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return dst
}
