package pages

import (
	"encoding/json"
	"sort"
	"strconv"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/content"
	"webring/templates"
)

// JoinPath is where the join page is, and where its form is sent.
const JoinPath = "/join"

// drawJoin draws the page on which a draft can be checked.
func drawJoin(r *reader, path string, _ *fasthttp.Args) *content.Content {
	view, ok := r.join(path)
	if !ok {
		return nil
	}
	return drawn(view.HTML())
}

// join fills that page, without a draft.
func (r *reader) join(path string) (templates.Join, bool) {
	var board boardDocument
	v, ok := r.survey()
	if !every(ok, r.document("/api/leaderboard?limit=1", &board)) {
		return templates.Join{}, false
	}
	return templates.Join{
		Page: v.about.frame(path, "Join "+v.about.Name, "What it takes to join the ring, and a free check of your site."),
		Fee:  v.about.Payments.Fee, MinBid: board.Rules.MinBid, JoinAtFirst: board.Rules.JoinAtFirst,
		Rule: v.about.Validation.Rule, Payments: len(v.about.Payments.Networks) > 0, Wallet: v.about.wallet(r.core.BaseURL()), Categories: v.categories,
	}, true
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
