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
	var links links
	return appendMember(dst, st, o, timed, links.of(st))
}

// appendMember is AppendMember with the base of links.
func appendMember(dst []byte, st *core.State, o core.Ordinal, timed bool, base string) []byte {
	row := st.Row(o)
	dst = room(dst, memberRoom(row, base))
	return member(flat.Write(dst), st, o, row, timed, base).Byte('}').Bytes(dst)
}

// memberRoom is at least the length of the Member object of a row, and of what
// a list adds to one. base is that of links.
func memberRoom(row core.Row, base string) int {
	const around = 1024 // more than stands around its texts
	return around + 2*escaped*row.Size + 3*len(base)
}

// links keeps the base URL of a ring as it stands in JSON, with [flat.Slack]
// behind it: each member has it three times.
type links struct {
	rules *core.Rules // whose it is; they never change
	base  []byte
}

// of gives the base of a state's links; it holds until that of another is asked
// for.
func (l *links) of(st *core.State) string {
	if rules := st.Rules(); l.rules != rules {
		l.rules, l.base = rules, appendEscaped(l.base[:0], rules.BaseURL)
	}
	return flat.View(l.base)
}

// kinds are the kinds of members as they stand in JSON, up to the second quote.
var kinds = [...]string{core.Agent: `agent"`, core.MCP: `mcp"`, core.Website: `website"`}

// member writes a Member, o with its row, and leaves the object open for further
// members. The pen needs the room of memberRoom; base is that of links.
//
// It is one long function, and straight, because most answers are made of it: in
// WebAssembly a call, or a jump from one branch to behind the other, costs more
// than what most of these lines do. A canonical URL needs no escapes in JSON, nor
// does what has the form of a slug.
func member(w flat.Pen, st *core.State, o core.Ordinal, row core.Row, timed bool, base string) flat.Pen {
	slug, f := row.Fields.Text()
	kind := kinds[f.Byte()]
	category, f := f.Skip(1).Text()
	name, f := f.Text()
	url, f := f.Text()
	description, f := f.Text()
	report, f := f.Text()
	w = text(w.Lit16(`{"slug":"`).Word(slug).Lit16(`","name":"`), name)
	w = w.Lit16(`","url":"`).Line(url).Lit16(`","kind":"`).Lit8(kind).Lit16(`,"category":"`).Word(category)
	if description != "" {
		w = text(w.Lit32(`","description":"`), description)
	}
	if w = w.Lit32(`","agentic_score":`); f.Byte() != 0 {
		w = w.Decimal(flat.Digits(uint64(f.Skip(1).Byte())))
	} else {
		w = w.Lit8(`null`)
	}
	if w = w.Lit32(`,"agentic_report":`); report != "" {
		w = text(w.Byte('"'), report).Byte('"')
	} else {
		w = w.Lit8(`null`)
	}
	w = w.Lit32(`,"ring_position":`).Decimal(flat.Digits(uint64(st.Position(o))))
	w = instant(w.Lit16(`,"joined_at":"`), row.Joined)
	total, lastBid := st.Paid(o)
	if timed {
		w = usd(w.Lit32(`","paid_total_usd":"`), total)
	}
	w = usd(w.Lit32(`","bid_total_usd":"`), total-row.Fee)
	if timed {
		w = usd(w.Lit32(`","effective_bid_usd":"`), st.Standing(o))
	}
	if w = w.Lit32(`","last_bid_at":`); total > row.Fee {
		w = instant(w.Byte('"'), lastBid).Byte('"')
	} else {
		w = w.Lit8(`null`)
	}
	w = w.Lit32(`,"links":{"self":"`).Line(base).Lit16(`/api/ring/`).Word(slug)
	w = w.Lit16(`","next":"`).Line(base).Lit32(`/api/ring/next?from=`).Word(slug)
	w = w.Lit16(`","prev":"`).Line(base).Lit32(`/api/ring/prev?from=`).Word(slug)
	return w.Lit16(`","site":"`).Line(url).Byte('"').Byte('}')
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
