package pages

import (
	"strconv"
	"strings"
	"time"

	"webring/core/api"
	"webring/edge/describe"
	"webring/templates"
)

// Pages are filled from the same documents that agents read (the service
// interface, "Resources and their fields"); these are the parts that they show.

type listDocument struct {
	Total, Count, Offset int
	Members              []describe.Member
}

type boardDocument struct {
	Total, Offset int
	Rules         struct {
		MinBid      string `json:"minimum_bid_usd"`
		JoinAtFirst string `json:"join_at_first_bid_usd"`
		Grace       string `json:"grace_period"`
		Decay       string `json:"decay_span"`
	}
	Forecast    []describe.Forecast
	Leaderboard []describe.Member
}

type widgetDocument struct {
	Ring               struct{ Count int }
	Member, Prev, Next *describe.Member
}

// row is a member as pages show it.
func row(m *describe.Member) templates.Row {
	r := templates.Row{Member: *m}
	r.Rank = max(m.Rank, m.BoardRank)
	if r.HealthSince.IsZero() {
		r.HealthSince = m.Joined
	}
	return r
}

// cents reads an amount of a document: digits with two decimals.
func cents(usd string) int64 {
	n, err := strconv.ParseInt(strings.Replace(usd, ".", "", 1), 10, 64)
	if err != nil {
		panic(err) // a document of the core that does not have its form
	}
	return n
}

// span reads a duration of the rules: PnD or PTnS.
func span(iso string) time.Duration {
	digits, unit := strings.TrimSuffix(strings.TrimPrefix(iso, "P"), "D"), day
	if seconds, ok := strings.CutPrefix(iso, "PT"); ok {
		digits, unit = strings.TrimSuffix(seconds, "S"), time.Second
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		panic(err) // a document of the core that does not have its form
	}
	return time.Duration(n) * unit
}

// standing is a member as documents show it that show standings. minBid is the least bid.
func (r *reader) standing(m *describe.Member, minBid string) templates.Row {
	row := row(m)
	row.Fresh = r.freshness(m)
	if !m.LastBid.IsZero() {
		row.LastBid = r.ago(m.LastBid)
	}
	standing, paid := cents(m.Standing), cents(m.Paid)
	row.Percent = percent(standing, paid)
	if standing < paid {
		row.Faded = usd(paid - standing)
	}
	bid := templates.Bid{Amount: minBid, Rank: row.Rank}
	if p := m.ToPass; p.Amount != "" {
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
func (r *reader) freshness(m *describe.Member) templates.Freshness {
	switch {
	case m.FullUntil.IsZero():
		return templates.Freshness{State: templates.FeeOnly}
	case r.now().Before(m.FullUntil):
		return templates.Freshness{State: templates.Fresh, Until: r.left(m.FullUntil)}
	}
	r.from(m.FullUntil)
	f := templates.Freshness{State: templates.Fading}
	if cents(m.Standing) == 0 {
		f.State = templates.Faded
	}
	if !m.GoneAt.IsZero() {
		f.Until = r.date(m.GoneAt)
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
