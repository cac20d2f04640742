package api

import (
	"strconv"

	"webring/core"
)

// AppendMember appends the Member object of o, which must be in the ring.
// With timed it shows what the passing of time changes too, paid_total_usd
// beside effective_bid_usd, and st must have been advanced since its last
// event; without, the object depends on the ledger position alone.
//
// Document: the service interface, "Member".
func AppendMember(dst []byte, st *core.State, o core.Ordinal, timed bool) []byte {
	return append(appendMember(dst, st, o, timed), '}')
}

// appendMember leaves the object open for further members.
func appendMember(dst []byte, st *core.State, o core.Ordinal, timed bool) []byte {
	m, base := st.Member(o), st.Rules().BaseURL
	dst = append(dst, `{"slug":"`...)
	dst = append(dst, m.Slug...)
	dst = append(dst, `","name":`...)
	dst = AppendString(dst, m.Name)
	dst = append(dst, `,"url":`...)
	dst = AppendString(dst, m.URL)
	dst = append(dst, `,"kind":"`...)
	dst = append(dst, m.Kind.String()...)
	dst = append(dst, `","category":"`...)
	dst = append(dst, m.Category...)
	dst = append(dst, '"')
	if m.Description != "" {
		dst = append(dst, `,"description":`...)
		dst = AppendString(dst, m.Description)
	}
	dst = append(dst, `,"agentic_score":`...)
	if m.Score.Given {
		dst = strconv.AppendUint(dst, uint64(m.Score.Value), 10)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"agentic_report":`...)
	if m.Report != "" {
		dst = AppendString(dst, m.Report)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"ring_position":`...)
	dst = strconv.AppendInt(dst, int64(st.Position(o)), 10)
	dst = append(dst, `,"joined_at":"`...)
	dst = AppendTime(dst, m.Joined)
	if timed {
		dst = append(dst, `","paid_total_usd":"`...)
		dst = AppendUSD(dst, m.Total())
	}
	dst = append(dst, `","bid_total_usd":"`...)
	dst = AppendUSD(dst, m.Bids)
	if timed {
		dst = append(dst, `","effective_bid_usd":"`...)
		dst = AppendUSD(dst, st.Standing(o))
	}
	dst = append(dst, `","last_bid_at":`...)
	if m.Bids > 0 {
		dst = append(dst, '"')
		dst = AppendTime(dst, m.LastBid)
		dst = append(dst, '"')
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"links":{"self":`...)
	dst = appendLink(dst, base, "/api/ring/", m.Slug)
	dst = append(dst, `,"next":`...)
	dst = appendLink(dst, base, "/api/ring/next?from=", m.Slug)
	dst = append(dst, `,"prev":`...)
	dst = appendLink(dst, base, "/api/ring/prev?from=", m.Slug)
	dst = append(dst, `,"site":`...)
	dst = AppendString(dst, m.URL)
	return append(dst, '}')
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
