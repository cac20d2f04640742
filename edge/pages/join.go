package pages

import (
	"encoding/json"
	"sort"
	"strconv"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/templates"
)

// JoinPath is where the join page is, and where its form is sent.
const JoinPath = "/join"

// tenth is the rank besides the first that opening bids are offered for.
const tenth = 10

// drawJoin draws the page on which a draft can be checked. Links to it may choose an opening
// bid, and name the site.
func drawJoin(r *reader, path string, query *fasthttp.Args) *content.Content {
	view, ok := r.join(path)
	if !ok {
		return nil
	}
	switch text(query, "opening") {
	case openFirst:
		if view.JoinAtFirst != "0.00" {
			view.Draft.Bid = view.JoinAtFirst
		}
	case openPast:
		view.Draft.Bid = view.JoinAtTen
	}
	view.Draft.URL = text(query, "url")
	return drawn(view.HTML())
}

// join fills that page, without a draft.
func (r *reader) join(path string) (templates.Join, bool) {
	var board, ten boardDocument
	v, ok := r.survey()
	if !ok || !r.document("/api/leaderboard?limit=1", &board) || !r.document("/api/leaderboard?limit=1&offset="+strconv.Itoa(tenth-1), &ten) {
		return templates.Join{}, false
	}
	atTen := ""
	if len(ten.Leaderboard) > 0 {
		atTen = above(&ten.Leaderboard[0], cents(v.about.Fee), cents(board.Rules.MinBid))
	}
	return templates.Join{
		Page: frame(&v.about, path, "Join "+v.about.Name, "How to join the ring, with a free check of your site."),
		Fee:  v.about.Fee, MinBid: board.Rules.MinBid, JoinAtFirst: board.Rules.JoinAtFirst, JoinAtTen: atTen,
		Rule: v.about.Validation.Rule, Payments: len(v.about.Networks) > 0, Wallet: wallet(&v.about, r.core.BaseURL()), Categories: v.categories,
	}, true
}

// above gives the opening bid with which a new member would now rank above m, "" if
// the fee alone does that.
func above(m *describe.Member, fee, least int64) string {
	bid := cents(m.Standing) + 1 - fee
	if bid <= 0 {
		return ""
	}
	return string(api.AppendUSD(nil, max(bid, least)))
}

// Join gives the join page with a draft in it, and what was found of that.
func (s *Pages) Join(c Core, draft templates.Draft, checked templates.Checked) ([]byte, *api.Response) {
	r := newReader(s, c)
	var view templates.Join
	r.complete(func() { view, _ = r.join(JoinPath) })
	if r.failed != nil {
		return nil, r.failed
	}
	if checked.Command != "" {
		checked.Rank = rankOf(c, cents(checked.Price))
	}
	view.Draft, view.Checked = draft, &checked
	return view.HTML(), nil
}

// ForeignJoin returns the join page for a visitor that another site has sent with a draft. The
// page shows nothing of that draft. It is nil if the page cannot be drawn.
func (s *Pages) ForeignJoin(c Core) []byte {
	r := newReader(s, c)
	var view templates.Join
	r.complete(func() { view, _ = r.join(JoinPath) })
	if r.failed != nil {
		return nil
	}
	view.Foreign = true
	return view.HTML()
}

// rankOf gives the rank at which a new member with this standing, in cents, would join:
// after all members with the same standing, as the earlier join wins ties. It is a binary
// search in the leaderboard, with one read a step, and an estimate: the ring may change
// between the steps.
func rankOf(c Core, standing int64) int {
	var a api.Response
	row := func(i int) (board boardDocument, ok bool) {
		c.Ask([]byte("/api/leaderboard?limit=1&offset="+strconv.Itoa(i)), &a)
		return board, a.Status == fasthttp.StatusOK && json.Unmarshal(a.Body, &board) == nil
	}
	board, ok := row(0)
	if !ok {
		return 0
	}
	return 1 + sort.Search(board.Total, func(i int) bool {
		one, ok := row(i)
		return !ok || len(one.Leaderboard) == 0 || cents(one.Leaderboard[0].Standing) < standing
	})
}
