package api

import (
	"webring/core"
	"webring/core/flat"
)

// AppendMember appends the Member object of o, which must be in the ring.
// With timed it includes the values that change with time: effective_bid_usd and
// paid_total_usd. st must then have been advanced since its last event. Without timed the
// object depends on the ledger position alone.
//
// Document: the service interface, "Member".
func AppendMember(dst []byte, st *core.State, o core.Ordinal, timed bool) []byte {
	var links links
	return appendMember(dst, st, o, timed, links.of(st))
}

// appendMember is AppendMember with the links of the ring.
func appendMember(dst []byte, st *core.State, o core.Ordinal, timed bool, l *links) []byte {
	row := st.Row(o)
	dst = room(dst, memberRoom(row, l))
	return member(flat.Write(dst), st, o, row, timed, l).Byte('}').Bytes(dst)
}

// memberRoom is at least the length of the Member object of a row, and of what
// a list adds to one.
func memberRoom(row core.Row, l *links) int {
	const around = 1280 // more than is around its texts
	return around + 2*escaped*row.Size() + 3*l.base.Len()
}

// links has the base URL of a ring as it is in JSON: each member has it three times.
type links struct {
	rules  *core.Rules // that the base URL is of; they never change
	base   flat.Text
	memory []byte // of base
}

// of gives the links of a state. They are valid until those of another are asked for.
func (l *links) of(st *core.State) *links {
	if rules := st.Rules(); l.rules != rules {
		l.memory = appendEscaped(l.memory[:0], rules.BaseURL)
		l.rules, l.base = rules, flat.Padded(l.memory)
	}
	return l
}

// member writes a Member, o with its row, and leaves the object open for further
// members. The pen needs the room of memberRoom.
//
// Most answers consist of members, and in WebAssembly their cost is memory accesses and
// jumps. Arguments lie in memory there, and so do variables that live across a call. So
// each function below is straight code without calls, except in rare cases, and reads the
// row again instead of taking arguments.
func member(w flat.Pen, st *core.State, o core.Ordinal, row core.Row, timed bool, l *links) flat.Pen {
	w = identity(w, row).Decimal(flat.Digits(uint64(st.Position(o))))
	w = instant(w.Lit16(`,"joined_at":"`), row.Joined())
	total, lastBid := st.Paid(o)
	bids := total - row.Fee()
	if timed {
		w = amounts(w, total, bids, st.Standing(o))
	} else {
		w = usd(w.Lit32(`","bid_total_usd":"`), bids)
	}
	if w = w.Lit32(`","last_bid_at":`); bids > 0 {
		w = instant(w.Byte('"'), lastBid).Byte('"')
	} else {
		w = w.Lit8(`null`)
	}
	if st.Quiet(o) {
		w = w.Lit16(`,"verified":null`).Lit32(`,"health":"awake"`)
	} else {
		w = condition(w, st, o)
	}
	return l.write(w, row)
}

// condition writes whether the site of o has proved itself and answers, and when its owner
// last changed it. It is not inlined: see member.
//
//go:noinline
func condition(w flat.Pen, st *core.State, o core.Ordinal) flat.Pen {
	if how, at := st.Verified(o); how == 0 {
		w = w.Lit16(`,"verified":null`)
	} else {
		w = w.Lit16(`,"verified":"`).Copy(how.String())
		w = instant(w.Lit32(`","verified_at":"`), at).Byte('"')
	}
	asleep, since := st.Asleep(o)
	if asleep {
		w = w.Lit32(`,"health":"asleep"`)
	} else {
		w = w.Lit32(`,"health":"awake"`)
	}
	if since > 0 {
		w = instant(w.Lit32(`,"health_since":"`), since).Byte('"')
	}
	if changed := st.Changed(o); changed > 0 {
		w = instant(w.Lit16(`,"changed_at":"`), changed).Byte('"')
	}
	return w
}

// ownership writes the account that owns a member, and whether its site has named it.
func ownership(w flat.Pen, st *core.State, o core.Ordinal) flat.Pen {
	owner := st.Owner(o)
	if owner == (core.Account{}) {
		return w.Lit32(`,"owner":null,"claimed":false`)
	}
	w = w.Lit16(`,"owner":"`)
	w = w.Skip(len(owner.Append(w.Room(2 + 2*len(owner)))))
	if st.Claimed(o) {
		return w.Lit16(`","claimed":true`)
	}
	return w.Lit32(`","claimed":false`)
}

// kinds are the kinds of members as they stand in JSON, up to the second quote.
var kinds = [...]string{core.Agent: `agent"`, core.MCP: `mcp"`, core.Website: `website"`}

// identity writes what a member says of itself, up to its ring_position. A canonical
// URL needs no escapes in JSON, nor does what has the form of a slug.
func identity(w flat.Pen, row core.Row) flat.Pen {
	plain := row.Plain()
	slug, f := row.Fields().Text()
	w = w.Lit16(`{"slug":"`).Word(slug).Lit16(`","name":"`)
	kind := f
	category, f := f.Skip(1).Text()
	name, f := f.Text()
	if plain {
		w = w.Word(name)
	} else {
		w = text(w, name.String())
	}
	url, f := f.Text()
	w = w.Lit16(`","url":"`).Line(url).Lit16(`","kind":"`).Lit8(kinds[kind.Byte()])
	w = w.Lit16(`,"category":"`).Word(category)
	description, f := f.Text()
	if description.Len() > 0 {
		if w = w.Lit32(`","description":"`); plain {
			w = w.Passage(description)
		} else {
			w = text(w, description.String())
		}
	}
	report, f := f.Text()
	if w = w.Lit32(`","agentic_score":`); f.Byte() != 0 {
		w = w.Decimal(flat.Digits(uint64(f.Skip(1).Byte())))
	} else {
		w = w.Lit8(`null`)
	}
	if w = w.Lit32(`,"agentic_report":`); report.Len() == 0 {
		w = w.Lit8(`null`)
	} else if w = w.Byte('"'); plain {
		w = w.Passage(report).Byte('"')
	} else {
		w = text(w, report.String()).Byte('"')
	}
	return w.Lit32(`,"ring_position":`)
}

// amounts writes what a member has paid and what it is worth. The total is the
// most of it.
func amounts(w flat.Pen, total, bids, standing int64) flat.Pen {
	if total >= manyCents {
		w = usd(w.Lit32(`","paid_total_usd":"`), total)
		w = usd(w.Lit32(`","bid_total_usd":"`), bids)
		return usd(w.Lit32(`","effective_bid_usd":"`), standing)
	}
	w = w.Lit32(`","paid_total_usd":"`).Cents(flat.Digits(uint64(total)))
	w = w.Lit32(`","bid_total_usd":"`).Cents(flat.Digits(uint64(bids)))
	return w.Lit32(`","effective_bid_usd":"`).Cents(flat.Digits(uint64(standing)))
}

// write writes the links of a member, and closes their object.
func (l *links) write(w flat.Pen, row core.Row) flat.Pen {
	base := l.base
	slug, f := row.Fields().Text()
	_, f = f.Skip(1).Text()
	_, f = f.Text()
	url, _ := f.Text()
	if base.Len() > 32 || slug.Len() > 16 || url.Len() > 48 {
		return longLinks(w, base, slug, url)
	}
	w = w.Lit32(`,"links":{"self":"`).UpTo32(base).Lit16(`/api/ring/`).UpTo16(slug)
	w = w.Lit16(`","next":"`).UpTo32(base).Lit32(`/api/ring/next?from=`).UpTo16(slug)
	w = w.Lit16(`","prev":"`).UpTo32(base).Lit32(`/api/ring/prev?from=`).UpTo16(slug)
	return w.Lit16(`","site":"`).UpTo48(url).Byte('"').Byte('}')
}

// longLinks is write for any lengths. It is apart because of its calls: with them in write,
// even if they are rare, variables lie in memory, and a page of members takes WebAssembly a
// tenth more.
func longLinks(w flat.Pen, base, slug, url flat.Text) flat.Pen {
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
