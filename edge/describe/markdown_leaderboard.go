package describe

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Prospect is what documents say of how a member's standing goes on.
type Prospect struct {
	FullUntil time.Time `json:"full_until"` // zero without bids: it never fades
	GoneAt    time.Time `json:"gone_at"`    // zero likewise, or when it is too far ahead
	ToPass    *struct {
		Amount string `json:"amount_usd"`
		Takes  int    `json:"takes_rank"`
	} `json:"to_pass"` // nil at rank 1
	Forecast []Forecast // on the member's own document
}

// Forecast is what first place costs at one time if nobody bids.
type Forecast struct {
	Days      int
	JoinFirst string  `json:"join_at_first_bid_usd"` // on the leaderboard
	TakeFirst *string `json:"to_take_first_usd"`     // on a member's document, nil when it is first then
}

// markdownLeaderboard lists members by rank, as the page for people at the same query does.
func markdownLeaderboard(s *Source, query string) ([]byte, error) {
	ring, err := s.ring()
	if err != nil {
		return nil, err
	}
	asked, err := url.ParseQuery(query)
	if err != nil {
		asked = nil
	}
	filter := url.Values{"limit": {strconv.Itoa(ListRows)}}
	if page := asked.Get("page"); page != "" {
		filter.Set("page", page)
	}
	var doc struct {
		Total, Count, Offset int
		Rules                struct{ Ranking string }
		Forecast             []Forecast
		Leaderboard          []Member
	}
	if err := s.read("/api/leaderboard?"+filter.Encode(), &doc); err != nil {
		return nil, err
	}
	var b strings.Builder
	head(&b, &ring, inMarkdown(ring.Name)+": leaderboard")
	fmt.Fprintf(&b, "%d members. Ranks are paid placement. Anyone may bid on any member. %s\n\n", doc.Total, inMarkdown(doc.Rules.Ranking))
	if doc.Offset == 0 {
		for _, f := range doc.Forecast {
			switch f.Days {
			case 0:
				fmt.Fprintf(&b, "The opening bid that takes rank 1, beside the fee of %s USD: %s USD now", ring.Fee, f.JoinFirst)
			default:
				fmt.Fprintf(&b, "; %s in %d days if nobody bids", f.JoinFirst, f.Days)
			}
		}
		b.WriteString(".\n\n")
	}
	if doc.Count > 0 {
		ranks(&b, doc.Leaderboard)
	}
	if shown := doc.Offset + doc.Count; doc.Count > 0 && shown < doc.Total {
		fmt.Fprintf(&b, "\nNext page: <%s/leaderboard?page=%d>\n", ring.Base, shown/ListRows+1)
	}
	if doc.Offset == 0 {
		holders(&b, s)
	}
	fmt.Fprintf(&b, "\nAs JSON: <%s/api/leaderboard>\n", ring.Base)
	return []byte(b.String()), nil
}

// ranks is a table of members by rank.
func ranks(b *strings.Builder, list []Member) {
	b.WriteString("| Rank | Member | Kind | Standing, USD | Paid, USD | Ages | Last bid | Next bid, USD | Takes rank | To take first, USD | Site |\n" +
		"| ---: | --- | --- | ---: | ---: | --- | --- | ---: | ---: | ---: | --- |\n")
	for i := range list {
		m := &list[i]
		first, next, takes, last := "leads", "", "", ""
		if m.TakeFirst != nil {
			first = *m.TakeFirst
		}
		if m.ToPass != nil {
			next, takes = m.ToPass.Amount, strconv.Itoa(m.ToPass.Takes)
		}
		if !m.LastBid.IsZero() {
			last = day(m.LastBid)
		}
		fmt.Fprintf(b, "| %d | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n",
			m.Rank, inMarkdown(m.Name), m.Kind, m.Standing, m.Paid, m.ages(), last, next, takes, first, address(m.URL))
	}
}

// ages says how the standing goes on if nobody bids.
func (m *Member) ages() string {
	switch {
	case m.FullUntil.IsZero():
		return "never fades"
	case m.Standing == m.Paid:
		return "full until " + day(m.FullUntil)
	case m.Standing == "0.00":
		return "faded away"
	case m.GoneAt.IsZero():
		return "fading"
	}
	return "fading, gone by " + day(m.GoneAt)
}

// standing says of a member at a rank how its standing goes on, and what bids do.
func (m *Member) standing(b *strings.Builder, rank int) {
	fmt.Fprintf(b, "- Its standing: %s\n", m.ages())
	if !m.LastBid.IsZero() {
		fmt.Fprintf(b, "- Last bid: %s\n", day(m.LastBid))
	}
	if m.ToPass != nil {
		fmt.Fprintf(b, "- A bid of %s USD takes it from rank %d to rank %d", m.ToPass.Amount, rank, m.ToPass.Takes)
		if m.Standing != m.Paid {
			b.WriteString(", as it brings back all that was paid")
		}
		b.WriteByte('\n')
	}
	for i, f := range m.Forecast {
		switch {
		case i == 0:
			b.WriteString("- First place costs it")
		default:
			b.WriteString(";")
		}
		switch {
		case f.TakeFirst == nil:
			b.WriteString(" nothing more")
		default:
			fmt.Fprintf(b, " %s USD", *f.TakeFirst)
		}
		if f.Days == 0 {
			b.WriteString(" now")
		} else {
			fmt.Fprintf(b, " in %d days if nobody bids", f.Days)
		}
	}
	if len(m.Forecast) > 0 {
		b.WriteByte('\n')
	}
}

// holders lists who has held rank 1, the present holder first.
func holders(b *strings.Builder, s *Source) {
	var doc struct {
		Leads []struct {
			Member, Name string
			From, Until  time.Time
		}
	}
	if !s.beside("/api/events?limit=1", &doc) || len(doc.Leads) == 0 {
		return
	}
	b.WriteString("\n## Who held rank 1\n\n")
	for _, l := range doc.Leads {
		fmt.Fprintf(b, "- %s (`%s`) ", inMarkdown(l.Name), l.Member)
		if l.Until.IsZero() {
			fmt.Fprintf(b, "since %s\n", l.From.UTC().Format(time.RFC3339))
		} else {
			fmt.Fprintf(b, "from %s until %s\n", l.From.UTC().Format(time.RFC3339), l.Until.UTC().Format(time.RFC3339))
		}
	}
}
