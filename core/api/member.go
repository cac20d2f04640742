package api

import (
	"webring/core"
	"webring/core/flat"
)

// AppendMember appends the Member object of o, which must be in the ring.
// With timed it shows what the passing of time changes too, paid_total_usd
// beside effective_bid_usd, and st must have been advanced since its last
// event; without, the object depends on the ledger position alone.
//
// Document: the service interface, "Member".
func AppendMember(dst []byte, st *core.State, o core.Ordinal, timed bool) []byte {
	var m core.Member
	st.Read(o, &m)
	dst = room(dst, memberRoom(st, &m))
	return member(flat.Write(dst), st, o, &m, timed).Byte('}').Bytes(dst)
}

// memberRoom is at least the length of the Member object of m, and of what a
// list adds to one.
func memberRoom(st *core.State, m *core.Member) int {
	const around = 1024 // more than stands around its texts
	return around + escaped*(len(m.Name)+2*len(m.URL)+len(m.Description)+len(m.Report)+3*len(st.Rules().BaseURL))
}

// member writes a Member, m of o, and leaves the object open for further
// members. The pen needs the room of memberRoom.
//
// It is one long function because most answers are made of it: in WebAssembly
// a call costs more than what most of these lines do. A canonical URL needs no
// escapes in JSON, nor does what has the form of a slug.
func member(w flat.Pen, st *core.State, o core.Ordinal, m *core.Member, timed bool) flat.Pen {
	base, n := st.Rules().BaseURL, 0
	w = w.Lit16(`{"slug":"`).Copy(m.Slug).Lit16(`","name":"`)
	if w, n = w.JSON(m.Name); n < len(m.Name) {
		w = slowText(w, m.Name[n:])
	}
	w = w.Lit16(`","url":"`).Copy(m.URL).Lit16(`","kind":"`)
	switch m.Kind {
	case core.Agent:
		w = w.Lit8(`agent`)
	case core.MCP:
		w = w.Copy(`mcp`)
	default:
		w = w.Lit8(`website`)
	}
	w = w.Lit16(`","category":"`).Copy(m.Category)
	if m.Description != "" {
		if w, n = w.Lit32(`","description":"`).JSON(m.Description); n < len(m.Description) {
			w = slowText(w, m.Description[n:])
		}
	}
	w = w.Lit32(`","agentic_score":`)
	if m.Score.Given {
		w = w.Number(uint64(m.Score.Value))
	} else {
		w = w.Lit8(`null`)
	}
	if w = w.Lit32(`,"agentic_report":`); m.Report != "" {
		w = text(w.Byte('"'), m.Report).Byte('"')
	} else {
		w = w.Lit8(`null`)
	}
	w = w.Lit32(`,"ring_position":`).Number(uint64(st.Position(o)))
	w = instant(w.Lit16(`,"joined_at":"`), m.Joined)
	if timed {
		w = usd(w.Lit32(`","paid_total_usd":"`), m.Total())
	}
	w = usd(w.Lit32(`","bid_total_usd":"`), m.Bids)
	if timed {
		w = usd(w.Lit32(`","effective_bid_usd":"`), st.Standing(o))
	}
	w = w.Lit32(`","last_bid_at":`)
	if m.Bids > 0 {
		w = instant(w.Byte('"'), m.LastBid).Byte('"')
	} else {
		w = w.Lit8(`null`)
	}
	w = text(w.Lit32(`,"links":{"self":"`), base).Lit16(`/api/ring/`).Copy(m.Slug)
	w = text(w.Lit16(`","next":"`), base).Lit32(`/api/ring/next?from=`).Copy(m.Slug)
	w = text(w.Lit16(`","prev":"`), base).Lit32(`/api/ring/prev?from=`).Copy(m.Slug)
	return w.Lit16(`","site":"`).Copy(m.URL).Byte('"').Byte('}')
}

// appendLink appends a JSON string: an address under base. path and tail are
// in characters that neither JSON nor a URI escapes.
func appendLink(dst []byte, base, path, tail string) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, base)
	dst = append(dst, path...)
	dst = append(dst, tail...)
	return append(dst, '"')
}
