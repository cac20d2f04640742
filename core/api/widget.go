package api

import (
	"webring/core"
	"webring/core/flat"
)

// widget writes the Widget document of a member in the ring, or of the edges of
// the ring when none is known.
func widget(r *Response, st *core.State, o core.Ordinal, known bool) {
	r.document(Position)
	rules, slug := st.Rules(), ""
	base, links := rules.BaseURL, r.links.of(st)
	r.Body = room(r.Body, 256+escaped*(len(rules.Name)+len(base)))
	w := text(flat.Write(r.Body).Lit32(`{"ring":{"name":"`), rules.Name)
	w = text(w.Lit16(`","url":"`), base).Lit16(`/","count":`).Number(uint64(st.Len()))
	if r.Body = w.Lit16(`},"member":`).Bytes(r.Body); known {
		slug = st.Slug(o)
		r.Body = appendMember(r.Body, st, o, false, links)
		r.Body = append(r.Body, `,"prev":`...)
		r.Body = appendMember(r.Body, st, st.Prev(o), false, links)
		r.Body = append(r.Body, `,"next":`...)
		r.Body = appendMember(r.Body, st, st.Next(o), false, links)
	} else if ring := st.Select(0, nil); ring.Len() > 0 {
		r.Body = append(r.Body, `null,"prev":`...)
		r.Body = appendMember(r.Body, st, ring.At(ring.Len()-1), false, links)
		r.Body = append(r.Body, `,"next":`...)
		r.Body = appendMember(r.Body, st, ring.At(0), false, links)
	} else {
		r.Body = append(r.Body, `null,"prev":null,"next":null`...)
	}

	r.Body = room(r.Body, 256+escaped*5*len(base)+3*len(slug))
	query := ""
	if known {
		query = "?from="
	}
	w = text(flat.Write(r.Body).Lit32(`,"links":{"next":"`), base).Lit8(`/next`).Copy(query).Copy(slug)
	w = text(w.Lit16(`","prev":"`), base).Lit8(`/prev`).Copy(query).Copy(slug)
	w = text(w.Lit16(`","random":"`), base).Lit8(`/random`).Copy(query).Copy(slug)
	w = text(w.Lit16(`","ring":"`), base).Lit32(`/","leaderboard":"`)
	r.Body = text(w, base).Lit32(`/api/leaderboard"}}`).Bytes(r.Body)
}
