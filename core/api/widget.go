package api

import (
	"webring/core"
	"webring/core/flat"
)

// widget writes the Widget document of a member in the ring, or of the edges of
// the ring when none is known.
func widget(r *Response, st *core.State, o core.Ordinal, known bool) {
	r.document()
	name, l := st.Rules().Name, r.links.of(st)
	b := room(r.Body, 256+escaped*len(name)+l.base.Len())
	w := text(flat.Write(b).Lit32(`{"ring":{"name":"`), name)
	w = w.Lit16(`","url":"`).Line(l.base).Lit16(`/","count":`).Decimal(flat.Digits(uint64(st.Len())))
	b = w.Lit16(`},"member":`).Bytes(b)
	switch {
	case known:
		before, after := st.Prev(o), st.Next(o)
		st.Prefetch([]core.Ordinal{before, o, after})
		b = appendMember(b, st, o, false, l)
		b = appendNeighbour(b, `,"prev":`, st, before, l)
		b = appendNeighbour(b, `,"next":`, st, after, l)
	case st.Len() > 0:
		ring := st.Walk(0, nil)
		b = append(b, `null`...)
		b = appendNeighbour(b, `,"prev":`, st, ring.At(ring.Len()-1), l)
		b = appendNeighbour(b, `,"next":`, st, ring.At(0), l)
	default:
		b = append(b, `null,"prev":null,"next":null`...)
	}

	b = room(b, 256+5*l.base.Len()+3*core.MaxSlug)
	w = flat.Write(b).Lit32(`,"links":{"next":"`).Line(l.base)
	if known {
		slug, _ := st.Row(o).Fields().Text()
		w = w.Lit16(`/next?from=`).Word(slug).Lit16(`","prev":"`).Line(l.base).Lit16(`/prev?from=`).Word(slug)
		w = w.Lit16(`","random":"`).Line(l.base).Lit16(`/random?from=`).Word(slug)
	} else {
		w = w.Lit8(`/next`).Lit16(`","prev":"`).Line(l.base).Lit8(`/prev`).Lit16(`","random":"`).Line(l.base).Lit8(`/random`)
	}
	w = w.Lit16(`","ring":"`).Line(l.base).Lit32(`/","leaderboard":"`).Line(l.base).Lit32(`/api/leaderboard"}}`)
	r.Body = w.Bytes(b)
}

// appendNeighbour appends a literal of 8 bytes and a Member.
func appendNeighbour(dst []byte, before string, st *core.State, o core.Ordinal, l *links) []byte {
	row := st.Row(o)
	dst = room(dst, memberRoom(row, l))
	return member(flat.Write(dst).Lit8(before), st, o, row, false, l).Byte('}').Bytes(dst)
}
