package pages

import (
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"webring/edge/content"
	"webring/edge/describe"
	"webring/templates"
)

// leaderboardPath is where the leaderboard for people is.
const leaderboardPath = "/leaderboard"

// leadsDocument lists the holders of rank 1, the current one first.
type leadsDocument struct {
	Leads []struct {
		Member string
		From   time.Time
		Until  *time.Time
	}
}

// drawLeaderboard draws a page of the leaderboard.
func drawLeaderboard(r *reader, path string, query *fasthttp.Args) *content.Content {
	filter := url.Values{"limit": {strconv.Itoa(listRows)}}
	if page := query.Peek("page"); len(page) > 0 {
		filter.Set("page", string(page))
	}
	var doc boardDocument
	v, ok := r.survey()
	if !ok || !r.document("/api/leaderboard?"+filter.Encode(), &doc) {
		return nil
	}
	first := doc.Offset == 0
	var leads leadsDocument
	var holders map[string]describe.Member
	if first && r.origin("/api/events", "limit=1", &leads) {
		holders = r.holders(&leads, doc.Leaderboard)
	}
	view := templates.Leaderboard{Page: frame(&v.about, path, "Leaderboard – "+v.about.Name, "All members by rank, what a bid on each would do, and the price of first place.")}
	view.Feeds, view.Wallet = feeds, wallet(&v.about, r.core.BaseURL())
	view.Board = r.board(v, &doc)
	if first {
		view.Reigns = r.reigns(&leads, holders)
	}
	view.Pages = pagesOf(path, doc.Offset, doc.Total)
	return drawn(view.HTML())
}

// pagesOf leads from the page of a list that begins behind so many rows to its others.
func pagesOf(path string, offset, total int) (p templates.Pages) {
	last := max((total+listRows-1)/listRows, 1)
	here := offset/listRows + 1
	to := func(number int) templates.PageLink {
		link := templates.PageLink{From: (number-1)*listRows + 1, To: min(number*listRows, total), Here: number == here}
		if link.Address = pageAddress(path, &noQuery, number); number == 1 {
			link.Address = path[1:]
		}
		return link
	}
	if here > 1 {
		p.First, p.Prev = to(1), to(min(here-1, last))
	}
	if here < last {
		p.Next, p.Last = to(here+1), to(last)
	}
	// The page, two on each side, and the ends.
	for number := max(1, min(here, last)-2); number <= min(last, here+2); number++ {
		p.Near = append(p.Near, to(number))
	}
	return p
}

// board is a part of the leaderboard as pages show it.
func (r *reader) board(v *survey, doc *boardDocument) templates.Board {
	b := templates.Board{Members: doc.Total, Fee: v.about.Fee, MinBid: doc.Rules.MinBid,
		Grace: days(doc.Rules.Grace), Decay: days(doc.Rules.Decay), First: doc.Forecast}
	for i := range doc.Leaderboard {
		b.Rows = append(b.Rows, r.standing(&doc.Leaderboard[i], doc.Rules.MinBid))
	}
	if n := len(b.Rows); n > 0 {
		b.From, b.To = b.Rows[0].Rank, b.Rows[n-1].Rank
	}
	if n := tenth - doc.Offset; n >= 1 && n <= len(doc.Leaderboard) {
		if bid := above(&doc.Leaderboard[n-1], cents(b.Fee), cents(b.MinBid)); bid != doc.Rules.JoinAtFirst {
			b.AtTen = bid
		}
	}
	return b
}

// holders gives the members who have held rank 1 and are still in the ring, by their slugs.
func (r *reader) holders(doc *leadsDocument, rows []describe.Member) map[string]describe.Member {
	all := map[string]describe.Member{}
	for i := range rows {
		all[rows[i].Slug] = rows[i]
	}
	for _, lead := range doc.Leads {
		if _, known := all[lead.Member]; known {
			continue
		}
		if a := r.answerTo("/api/ring/" + url.PathEscape(lead.Member)); a.Status == fasthttp.StatusOK {
			var detail struct{ Member describe.Member }
			if err := json.Unmarshal(a.Body, &detail); err != nil {
				panic(err) // a document of the core that does not have its form
			}
			all[lead.Member] = detail.Member
		}
	}
	return all
}

// reigns lists the holders of rank 1 and for how long they held it, the current one first.
func (r *reader) reigns(doc *leadsDocument, holders map[string]describe.Member) (list []templates.Reign) {
	now := r.now()
	for _, lead := range doc.Leads {
		m := holders[lead.Member] // the zero value if it has left
		reign := templates.Reign{Slug: m.Slug, Name: m.Name, URL: m.URL, From: r.date(lead.From)}
		until := now
		if lead.Until != nil {
			until = *lead.Until
			reign.Until = r.date(until)
		}
		took := max(until.Sub(lead.From), 0)
		reign.Seconds, reign.For = int64(took/time.Second), lasted(took)
		if lead.Until == nil {
			reign.For = r.lasting(lead.From)
		}
		list = append(list, reign)
	}
	return list
}
