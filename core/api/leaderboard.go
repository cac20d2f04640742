package api

import (
	"webring/core"
	"webring/core/flat"
)

// leaderboard writes a Leaderboard: the members by rank, the rules that rank them, and what
// the first place costs and will cost.
func (a *answer) leaderboard() {
	a.timed(a.st)
	from, count := a.page("/api/leaderboard", a.st.Len())
	a.Body = append(a.Body, `,"rules":`...)
	a.leaderboardRules()
	a.forecast()
	a.Body = append(a.Body, `,"leaderboard":[`...)
	above := core.Ordinal(0)
	if from > 0 && count > 0 {
		above = a.st.AppendRanked(a.found[:0], from-1, 1)[0]
	}
	a.found = a.st.AppendRanked(a.found[:0], from, count)
	a.st.Prefetch(a.found)
	body, l := a.Body, a.links.of(a.st)
	for i, o := range a.found {
		body = appendRanked(body, a.st, o, from+i+1, above, l)
		above = o
	}
	if count > 0 {
		body = body[:len(body)-1] // a comma
	}
	a.Body = append(body, "]}"...)
}

// appendRanked appends the member at a rank, and a comma. above is the one at the rank before.
func appendRanked(dst []byte, st *core.State, o core.Ordinal, rank int, above core.Ordinal, l *links) []byte {
	row := st.Row(o)
	dst = room(dst, memberRoom(row, l)+prospectRoom+escaped*st.Row(above).Size())
	w := member(flat.Write(dst), st, o, row, true, l)
	w = w.Lit8(`,"rank":`).Decimal(flat.Digits(uint64(rank))).Lit32(`,"to_take_first_usd":`)
	if cents, ok := st.ToTakeFirst(o); ok {
		w = usd(w.Byte('"'), cents).Byte('"')
	} else {
		w = w.Lit8(`null`)
	}
	return prospect(w, st, o, rank, above).Byte('}').Byte(',').Bytes(dst)
}

// leaderboardRules writes the object of strings that says how ranks come
// about, so that anyone can check the order from the numbers shown.
func (a *answer) leaderboardRules() {
	b := append(a.Body, `{"minimum_bid_usd":"`...)
	b = AppendUSD(b, a.rules.MinBid)
	b = append(b, `","registration_fee_usd":"`...)
	b = AppendUSD(b, a.rules.Fee)
	b = append(b, `","ranking":"The higher effective_bid_usd ranks first; the earlier join wins ties. `+
		`It is paid_total_usd (the registration fee and every bid) for grace_period after last_bid_at, `+
		`then falls in a straight line to 0.00 over decay_span; any new bid restores the full total. `+
		`A member without bids keeps its fee as its standing; from its first bid on, the fee fades with the rest.","join_at_first_bid_usd":"`...)
	b = AppendUSD(b, a.st.JoinAtFirst())
	b = append(b, `","bid":"POST `...)
	b = appendEscaped(b, a.rules.BaseURL)
	b = append(b, `/api/bid with member (a member's slug or URL) and amount (USD as a string, at most two decimals, at least `...)
	b = AppendUSD(b, a.rules.MinBid)
	b = append(b, `, no increments). Anyone may fund any member; bids add up. `+
		`to_take_first_usd is the single payment that puts a member at rank 1 now; `+
		`join_at_first_bid_usd is the opening bid that lets a new member join there, and 0.00 says that the fee alone does.",`+
		`"grace_period":"`...)
	b = appendDuration(b, a.rules.Grace)
	b = append(b, `","decay_span":"`...)
	b = appendDuration(b, a.rules.Decay)
	a.Body = append(b, `"}`...)
}
