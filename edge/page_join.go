package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"sort"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/templates"
)

const joinPath = "/join"

// checkTime bounds how long somebody waits for the check of a draft: a scorer
// reads a whole site for it.
const checkTime = 25 * time.Second

var notForm = refusal{api.InvalidRequest, "The body must be a form, sent as application/x-www-form-urlencoded.",
	`,"errors":[{"pointer":"","detail":"Content-Type must be application/x-www-form-urlencoded."}]`}

// drawJoin draws the page on which a draft can be checked.
func drawJoin(r *reader, path string, _ *fasthttp.Args) *content {
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
		Rule: v.about.Validation.Rule, Payments: len(v.about.Payments.Networks) > 0, Categories: v.categories,
	}, true
}

// check answers the form of the join page with the page, the draft in it, and
// what was found.
func (s *Shell) check(check func(context.Context, string, templates.Draft) templates.Checked) Handler {
	return func(ctx *fasthttp.RequestCtx, client string, _ bool) {
		media, _, _ := bytes.Cut(ctx.Request.Header.ContentType(), []byte(";"))
		if string(bytes.ToLower(trim(media))) != "application/x-www-form-urlencoded" {
			s.problem(ctx, notForm)
			return
		}
		var form fasthttp.Args
		form.ParseBytes(Body(ctx))
		field := func(name string) string { return string(bytes.ToValidUTF8(form.Peek(name), []byte("\ufffd"))) }
		draft := templates.Draft{Name: field("name"), URL: field("url"), Kind: field("kind"),
			Category: field("category"), Description: field("description"), Bid: field("bid")}
		within, cancel := context.WithTimeout(context.Background(), checkTime)
		defer cancel()
		checked := check(within, client, draft)

		t := s.core.enter()
		defer t.leave()
		r := newReader(s, t)
		var view templates.Join
		r.complete(func() { view, _ = r.join(joinPath) })
		if r.failed != nil {
			s.write(ctx, t, r.failed)
			return
		}
		if checked.Command != "" {
			checked.Rank = t.rankOf(cents(checked.Price))
		}
		view.Draft, view.Checked = draft, &checked
		setFields(ctx, []byte(pageFields))
		ctx.Response.Header.SetContentType(pageMedia)
		ctx.Response.SetBodyRaw(view.HTML())
	}
}

// rankOf gives the rank at which a new member with this standing, in cents, would
// join: after all who stand as high, as the earlier join wins ties. It is found by
// halving, as the leaderboard is sorted by standing. It is an estimate: the ring may
// move meanwhile.
func (t *tenure) rankOf(standing int64) int {
	var a api.Response
	row := func(i int) (board boardDocument, ok bool) {
		t.ask([]byte("/api/leaderboard?limit=1&offset="+strconv.Itoa(i)), &a)
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
