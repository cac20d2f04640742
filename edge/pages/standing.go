package pages

import (
	"strconv"
	"strings"
	"time"

	"webring/core/api"
	"webring/templates"
)

// standingDocument is what documents that show standings say of one member's.
type standingDocument struct {
	FullUntil *time.Time `json:"full_until"` // nil without bids: for ever
	GoneAt    *time.Time `json:"gone_at"`    // nil also when it is too far ahead
	ToPass    *struct {
		Amount string `json:"amount_usd"`
		Rank   int    // of the member directly above
		Takes  int    `json:"takes_rank"` // that the bid gives
	} `json:"to_pass"`
}

// standing is a member as documents show it that show standings. minBid is the least bid.
func (r *reader) standing(m *memberDocument, minBid string) templates.Row {
	row := m.row()
	row.Fresh = r.freshness(m)
	if m.LastBid != nil {
		row.LastBid = r.ago(*m.LastBid)
	}
	standing, paid := cents(m.Standing), cents(m.Paid)
	row.Percent = percent(standing, paid)
	if standing < paid {
		row.Faded = usd(paid - standing)
	}
	bid := templates.Bid{Amount: minBid, Rank: row.Rank}
	if p := m.ToPass; p != nil {
		bid = templates.Bid{Amount: p.Amount, Rank: p.Takes, Above: p.Rank}
	}
	bid.Then = usd(paid + cents(bid.Amount))
	row.Bid = bid
	return row
}

// percent is how much still counts of what was paid, rounded down.
func percent(standing, paid int64) int {
	if paid <= 0 {
		return 0
	}
	return int(100 * standing / paid)
}

// freshness says how the standing of a member ages.
func (r *reader) freshness(m *memberDocument) templates.Freshness {
	full, gone := m.FullUntil, m.GoneAt
	switch {
	case full == nil:
		return templates.Freshness{State: templates.FeeOnly}
	case r.now().Before(*full):
		return templates.Freshness{State: templates.Fresh, Until: r.left(*full)}
	}
	r.from(*full)
	f := templates.Freshness{State: templates.Fading}
	if cents(m.Standing) == 0 {
		f.State = templates.Faded
	}
	if gone != nil {
		f.Until = r.date(*gone)
	}
	return f
}

// usd spells an amount in cents as documents do.
func usd(cents int64) string { return string(api.AppendUSD(nil, cents)) }

// maxBid is the highest amount in cents (the service interface, "Amounts").
const maxBid = 100_000_000

// readUSD reads an amount as somebody may spell it in an address: digits, and at most two
// decimals.
func readUSD(s string) (cents int64, ok bool) {
	whole, part, _ := strings.Cut(s, ".")
	if whole == "" || len(whole) > 7 || len(part) > 2 || strings.HasSuffix(s, ".") {
		return 0, false
	}
	n, err := strconv.ParseUint(whole+(part + "00")[:2], 10, 63)
	return int64(n), err == nil
}

// days is a duration of the rules in words.
func days(iso string) string { return lasted(span(iso)) }
