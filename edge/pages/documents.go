package pages

import (
	"math"
	"sort"
	"strconv"
	"strings"

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

// standing is a member as documents show it that show standings. minBid is the least bid, and
// leading the standing at rank 1 in cents.
func (r *reader) standing(m *describe.Member, minBid string, leading int64) templates.Row {
	row := row(m)
	row.Fresh = r.freshness(m)
	if !m.LastBid.IsZero() {
		row.LastBid = r.ago(m.LastBid)
	}
	standing, paid := cents(m.Standing), cents(m.Paid)
	row.Bar, row.Tail = bar(standing, paid, leading)
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

// bar gives the length of a member's bar in percent of the standing at rank 1, rounded down, and
// that of its tail, which has faded: as much of it as there is room for. Where all has faded,
// bars are tails.
func bar(standing, paid, leading int64) (length, tail int) {
	length, most := percent(standing, leading), 100
	if leading == 0 {
		leading = paid
	}
	return length, min(percent(paid-standing, leading), most-length)
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

// rankWith gives the rank that a total paid now would have: that of the member at a position, or
// of one that is yet to join, whose position is after all. Of the first it needs no further
// reads, and a search in the ranking otherwise. It gives 0 as [reader.document] reports false.
func (r *reader) rankWith(total int64, position int, first *boardDocument) int {
	behind := func(m *describe.Member) bool {
		standing := cents(m.Standing)
		return standing < total || standing == total && m.Position >= position
	}
	read := len(first.Leaderboard)
	if n := sort.Search(read, func(i int) bool { return behind(&first.Leaderboard[i]) }); n < read {
		return n + 1
	}
	failed := false
	more := sort.Search(first.Total-read, func(i int) bool {
		var one boardDocument
		failed = failed || !r.document("/api/leaderboard?limit=1&offset="+strconv.Itoa(read+i), &one) || len(one.Leaderboard) == 0
		return failed || behind(&one.Leaderboard[0])
	})
	if failed {
		return 0
	}
	return read + more + 1
}

// afterAll is a position after that of every member.
const afterAll = math.MaxInt

// buys says what an amount does that brings a member at a position to a total, among so many
// members then. first is whether it is the first bid on a member that has joined without one.
func (r *reader) buys(amount, total int64, position, members int, first bool, board *boardDocument) templates.Buys {
	b := templates.Buys{Amount: usd(amount), Total: usd(total), Rank: r.rankWith(total, position, board), Members: members, First: first, For: days(board.Rules.Grace)}
	if amount > 0 {
		grace := describe.Span(board.Rules.Grace)
		b.Fades, b.Gone = r.in(grace), r.in(grace+describe.Span(board.Rules.Decay))
	}
	return b
}

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
func days(iso string) string { return lasted(describe.Span(iso)) }
