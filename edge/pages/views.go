package pages

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/card"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/static"
	"webring/templates"
	"webring/wasm/module"
)

// topRows is how many members the front page lists.
const topRows = 10

const noSuchMember = "No member of the ring has this slug. GET /api/ring lists the members."

// drawHome draws the front page.
func drawHome(r *reader, path string, _ *fasthttp.Args) *content.Content {
	var board boardDocument
	v, ok := r.survey()
	if !ok || !r.document(standings, &board) {
		return nil
	}
	home := templates.Home{
		Page: frame(&v.about, path, v.about.Name, inWords(v.about.Fee)),
		Base: r.core.BaseURL(), Members: board.Total, Categories: v.categories,
		Fee: v.about.Fee, JoinAtFirst: board.Rules.JoinAtFirst,
	}
	home.Canonical, home.Feeds, home.Icons = home.Base+"/", feeds, r.pages.site.OriginData != nil
	home.Share = templates.Share{URL: home.Canonical, Image: home.Base + CardPath, Alt: v.about.Name + ": " + home.Description}
	var sent templates.Hops
	if r.origin("/api/hops", "", &sent) {
		home.Hops = &sent
	}
	shown := board
	shown.Leaderboard = board.Leaderboard[:min(len(board.Leaderboard), topRows)]
	if home.Board = r.board(v, &shown); len(home.Board.Rows) > 0 {
		home.Leader = &home.Board.Rows[0]
	}
	home.Picture = v.picture(&board)
	home.Picture.Kinds = v.kinds
	r.latest(&home, &board)
	home.Picture.Script, home.Picture.Seq = static.Ring.Path, r.seq
	return drawn(home.HTML())
}

const (
	// lookedThrough is how many of the latest news the front page looks through for those that it
	// shows, of which it shows newsShown. A bid has news of each member that it passes.
	lookedThrough = 100
	newsShown     = 5
)

// latest fills in what happened in the ring last, who joined, and whom bids lifted past whom; and where
// the least bid does most.
func (r *reader) latest(home *templates.Home, board *boardDocument) {
	type event struct {
		At               time.Time
		Type, Member, By string
		Was              int `json:"was_rank"`
		Rank             int
		Amount           string `json:"amount_usd"`
		Seq              uint64
	}
	var doc struct {
		Events []event
		Best   struct{ Member string } `json:"best_bid"`
	}
	if !r.origin("/api/events", "limit="+strconv.Itoa(lookedThrough), &doc) {
		return
	}
	slugs := []string{doc.Best.Member}
	passed := map[uint64]event{} // by the number of the bid: the member that it passed which ranked highest
	for _, e := range slices.Backward(doc.Events) {
		switch {
		case e.Type == "outbid" && (passed[e.Seq].Member == "" || e.Was < passed[e.Seq].Was):
			passed[e.Seq] = e
		case e.Type == "joined" || e.Type == "bid":
			n := templates.News{Joined: e.Type == "joined", Amount: e.Amount, Rank: e.Rank, Was: e.Was, At: r.ago(e.At)}
			n.Member.Slug = e.Member
			if p := passed[e.Seq]; p.By == e.Member {
				n.Passed.Slug = p.Member
			}
			home.News, slugs = append(home.News, n), append(slugs, n.Member.Slug, n.Passed.Slug)
		}
		if len(home.News) == newsShown {
			break
		}
	}
	known := r.named(slugs, board.Leaderboard)
	for i := range home.News {
		n := &home.News[i]
		n.Member, n.Passed = known[n.Member.Slug], known[n.Passed.Slug]
	}
	home.News = slices.DeleteFunc(home.News, func(n templates.News) bool { return n.Member.Slug == "" })
	if m, is := known[doc.Best.Member]; is && m.ToPass.Amount == board.Rules.MinBid {
		best := r.standing(&m, board.Rules.MinBid, cents(board.Forecast[0].Standing))
		home.Dollar = &best
	}
}

// inWords says what the ring is, for previews and cards.
func inWords(fee string) string {
	return "A ring of websites and AI agents, each leading to the next. Free to explore. " + templates.Dollars(fee) + ", once, to join."
}

// memberFeeds are what tells of one member.
func memberFeeds(slug string) []templates.Feed {
	return []templates.Feed{
		{Type: "application/atom+xml", Title: "News as Atom", Path: "/feeds/members/" + slug + ".atom"},
		{Type: "application/feed+json", Title: "News as JSON Feed", Path: "/feeds/members/" + slug + ".json"},
	}
}

// feeds are what readers can subscribe to.
var feeds = []templates.Feed{
	{Type: "application/atom+xml", Title: "Members as they join", Path: "/feeds/joins.atom"},
	{Type: "application/feed+json", Title: "Members as they join (JSON)", Path: "/feeds/joins.json"},
	{Type: "application/atom+xml", Title: "Who takes rank 1", Path: "/feeds/lead.atom"},
	{Type: "application/feed+json", Title: "Who takes rank 1 (JSON)", Path: "/feeds/lead.json"},
}

// drawMember draws the page of one member.
func drawMember(r *reader, path string, query *fasthttp.Args) *content.Content {
	slug := strings.TrimPrefix(path, membersPath)
	var detail struct{ Member describe.Member }
	var around widgetDocument
	var first boardDocument
	if !r.document("/api/ring/"+url.PathEscape(slug), &detail) {
		return nil
	}
	m := &detail.Member
	if m.Slug != slug { // the address is another document's, such as /api/ring/next
		return r.fail(api.UnknownMember, noSuchMember)
	}
	v, ok := r.survey()
	if !ok || !r.document("/api/widget?from="+url.QueryEscape(slug), &around) || !r.document(standings, &first) {
		return nil
	}
	var sent templates.Hops
	hops := r.origin("/api/ring/"+m.Slug+"/hops", "", &sent)
	view := templates.Member{
		Page: frame(&v.about, path, m.Name+" ("+templates.Where(m.URL)+") – "+v.about.Name, m.Description),
		Base: r.core.BaseURL(), Row: r.standing(m, first.Rules.MinBid, cents(first.Forecast[0].Standing)), Members: first.Total, MinBid: first.Rules.MinBid, Grace: days(first.Rules.Grace), Wallet: wallet(&v.about, r.core.BaseURL()), Picture: v.picture(&first),
	}
	view.Share = templates.ShareMember(view.Base, v.about.Name, view.Row, view.Members)
	if r.pages.site.OriginData != nil {
		view.Feeds, view.Icons, view.Hub = memberFeeds(m.Slug), true, r.pages.site.Hub != ""
	}
	here := mark(m, cents(v.about.Fee))
	view.Picture.Here = &here
	if around.Prev != nil && around.Next != nil {
		view.Prev, view.Next = row(around.Prev), row(around.Next)
	}
	if hops {
		view.Hops = &sent
	}
	view.Proofs, view.Lost = r.news(m.Slug)
	bid := bidAsked(query, &first)
	if bid == 0 {
		bid = cents(view.Row.Bid.Amount)
	}
	view.Buys = r.buys(bid, cents(m.Paid)+bid, m.Position, first.Total, m.LastBid.IsZero(), &first)
	return drawn(view.HTML())
}

// mostProofs is how many proofs a member's page offers.
const mostProofs = 3

// news gives the latest payments for a member, and the earlier owner that can take it back, if any.
func (r *reader) news(slug string) (latest []templates.Proof, lost *templates.Lost) {
	var news struct {
		TakeBack *struct {
			Account string
			Until   time.Time
		} `json:"take_back"`
		Events []struct {
			At      time.Time
			Type    string
			Amount  string `json:"amount_usd"`
			Seq     uint64
			Payment *struct{}
		}
	}
	r.origin("/api/ring/"+slug+"/events", "", &news)
	for _, e := range news.Events {
		if e.Payment != nil && e.Seq > 0 && len(latest) < mostProofs {
			latest = append(latest, templates.Proof{Index: e.Seq - 1, What: e.Type, Amount: e.Amount, At: r.date(e.At)})
		}
	}
	if t := news.TakeBack; t != nil {
		lost = &templates.Lost{Account: t.Account, Until: r.date(t.Until)}
	}
	return latest, lost
}

// bidAsked returns the amount in the query of a page in cents, or 0 if it is not a valid bid.
func bidAsked(query *fasthttp.Args, rules *boardDocument) int64 {
	amount, ok := readUSD(string(query.Peek("amount")))
	if !ok || amount < cents(rules.Rules.MinBid) || amount > maxBid {
		return 0
	}
	return amount
}

// drawEmbed draws the page of snippets, for a member when from names one.
func drawEmbed(r *reader, path string, query *fasthttp.Args) *content.Content {
	from := strings.ToValidUTF8(string(query.Peek("from")), "\ufffd")
	var around widgetDocument
	v, ok := r.survey()
	if !ok || !r.document("/api/widget?from="+url.QueryEscape(from), &around) {
		return nil
	}
	view := templates.Embed{
		Page: frame(&v.about, path, "Embed "+v.about.Name, subjects["embed"].words),
		Base: r.core.BaseURL(), From: from, Widget: static.Widget.Path, Integrity: static.Widget.Integrity(),
	}
	if around.Member != nil {
		member := row(around.Member)
		view.Member, view.Prev, view.Next = &member, row(around.Prev), row(around.Next)
	}
	return drawn(view.HTML())
}

// drawAbout draws the page about the ring.
func drawAbout(r *reader, path string, _ *fasthttp.Args) *content.Content {
	v, ok := r.survey()
	if !ok {
		return nil
	}
	about := &v.about
	return drawn(templates.About{Page: frame(about, path, "About "+about.Name, subjects["about"].words),
		Words: about.Description, Fee: about.Fee, MinBid: about.MinBid, Rule: about.Validation.Rule}.HTML())
}

// drawBadge draws the badge of a member, or its button.
func drawBadge(r *reader, path string, _ *fasthttp.Args) *content.Content {
	name := strings.TrimPrefix(path, badgesPath)
	slug, isBadge := strings.CutSuffix(name, ".svg")
	scale := 1
	if !isBadge {
		var isButton bool
		if slug, isButton = strings.CutSuffix(name, ".png"); !isButton {
			return r.fail(api.NotFound, noSuchPath)
		}
		if large, ok := strings.CutSuffix(slug, "@2x"); ok {
			slug, scale = large, 2
		}
	}
	var around widgetDocument
	var about describe.Ring
	if !r.document("/api", &about) || !r.document("/api/widget?from="+url.QueryEscape(slug), &around) {
		return nil
	}
	m := around.Member
	if m == nil || m.Slug != slug {
		return r.fail(api.UnknownMember, noSuchMember)
	}
	if !isBadge {
		c := content.New("image/png", (&card.Button{Site: onCards(&about), Position: m.Position}).PNG(scale))
		c.Shared, c.Plain = true, true
		return c
	}
	c := content.New("image/svg+xml", templates.Badge{Ring: about.Name, Name: m.Name, Position: m.Position, Look: about.Look}.SVG())
	c.Shared = true
	return c
}

// JoinPath is where the join page is, and where its form is sent.
const JoinPath = "/join"

// tenth is the rank besides the first that opening bids are offered for.
const tenth = 10

// drawJoin draws the page on which a draft can be checked. Links to it may choose an opening
// bid, and name the site.
func drawJoin(r *reader, path string, query *fasthttp.Args) *content.Content {
	view, board, ok := r.join(path)
	if !ok {
		return nil
	}
	switch text(query, "opening") {
	case openFirst:
		if view.JoinAtFirst != "0.00" && templates.Payable(view.JoinAtFirst) {
			view.Draft.Bid = view.JoinAtFirst
		}
	case openPast:
		if templates.Payable(view.JoinAtTen) {
			view.Draft.Bid = view.JoinAtTen
		}
	case openLead:
		if best := within(board, text(query, "category")); len(best) > 0 {
			view.Draft.Bid = above(&best[0], cents(view.Fee), cents(view.MinBid))
		}
	}
	if category := text(query, "category"); strings.Trim(category, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && len(category) <= 32 {
		view.Draft.Category = category
	}
	view.Draft.URL = text(query, "url")
	// The script asks for what is typed, by an amount that fills in nothing.
	opening := bidAsked(query, board)
	if opening == 0 && view.Draft.Bid != "" {
		opening = cents(view.Draft.Bid)
	}
	view.Buys = r.opening(&view, opening, board)
	return drawn(view.HTML())
}

// opening says what an opening bid does for a new member.
func (r *reader) opening(v *templates.Join, bid int64, board *boardDocument) templates.Buys {
	return r.buys(bid, cents(v.Fee)+bid, afterAll, board.Total+1, true, board)
}

// join fills that page, without a draft, and gives the first of the leaderboard.
func (r *reader) join(path string) (templates.Join, *boardDocument, bool) {
	var board boardDocument
	v, ok := r.survey()
	if !ok || !r.document(standings, &board) {
		return templates.Join{}, nil, false
	}
	atTen := ""
	if len(board.Leaderboard) >= tenth {
		atTen = above(&board.Leaderboard[tenth-1], cents(v.about.Fee), cents(board.Rules.MinBid))
	}
	return templates.Join{
		Page: frame(&v.about, path, "Join "+v.about.Name, subjects["join"].words),
		Fee:  v.about.Fee, MinBid: board.Rules.MinBid, JoinAtFirst: board.Rules.JoinAtFirst, JoinAtTen: atTen,
		Rule: v.about.Validation.Rule, Payments: len(v.about.Networks) > 0, Wallet: wallet(&v.about, r.core.BaseURL()), Categories: v.categories,
	}, &board, true
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

// Join gives the join page with the draft that was checked in it, and what was found of that.
func (s *Pages) Join(c Core, checked templates.Checked) ([]byte, *api.Response) {
	r := newReader(s, c)
	var view templates.Join
	r.complete(func() {
		var board *boardDocument
		var ok bool
		if view, board, ok = r.join(JoinPath); !ok {
			return
		}
		bid, _ := readUSD(checked.Draft.Bid)
		if checked.Command != "" {
			bid = cents(checked.Price) - cents(view.Fee)
		}
		view.Buys = r.opening(&view, min(bid, maxBid), board)
	})
	if r.failed != nil {
		return nil, r.failed
	}
	if checked.Command != "" && checked.Rank == 0 {
		checked.Rank = view.Buys.Rank
	}
	view.Draft, view.Checked = checked.Draft, &checked
	return templates.Render(view.HTML()), nil
}

// ForeignJoin returns the join page for a visitor that another site has sent with a draft. The
// page shows nothing of that draft. It is nil if the page cannot be drawn.
func (s *Pages) ForeignJoin(c Core) []byte {
	r := newReader(s, c)
	var view templates.Join
	r.complete(func() {
		var board *boardDocument
		var ok bool
		if view, board, ok = r.join(JoinPath); ok {
			view.Buys = r.opening(&view, 0, board)
		}
	})
	if r.failed != nil {
		return nil
	}
	view.Foreign = true
	return templates.Render(view.HTML())
}

// drawDocs draws the page about the API. The answers on it are those of this ring.
func drawDocs(r *reader, path string, _ *fasthttp.Args) *content.Content {
	v, ok := r.survey()
	if !ok {
		return nil
	}
	view := templates.Docs{About: v.about, Documents: describe.Published(r.pages.site), Feeds: r.pages.site.OriginData != nil, Hub: r.pages.site.Hub != "",
		Page: frame(&v.about, path, "API – "+v.about.Name, subjects["docs"].words)}
	if len(v.marks) > 0 {
		view.Member = v.marks[0].Slug
	}
	view.About.Base = r.core.BaseURL()
	view.Answers = r.examples(describe.References(view.About, view.Member))
	return drawn(view.HTML())
}

// examples gives the answers to the examples of operations, by the ids of the operations.
func (r *reader) examples(all []describe.Reference) map[string]string {
	answers := map[string]string{}
	var reads []string
	for _, op := range all {
		if op.Example != "" && !isOrigins(op.Path) {
			reads = append(reads, op.Example)
		}
	}
	r.prefetch(reads...)
	for _, target := range []bool{false, true} { // data of the origin comes last
		for _, op := range all {
			if op.Example == "" || isOrigins(op.Path) != target {
				continue
			}
			path, query, _ := strings.Cut(op.Example, "?")
			var body json.RawMessage
			if target && r.origin(path, query, &body) {
				answers[op.ID] = describe.Answer(body)
			} else if !target {
				if a := r.answerTo(op.Example); a.Status == fasthttp.StatusOK {
					answers[op.ID] = describe.Answer(a.Body)
				}
			}
		}
	}
	return answers
}

// isOrigins says whether the origin, not the core, has the document at a path.
func isOrigins(path string) bool {
	return strings.HasSuffix(path, "/hops") || strings.HasSuffix(path, "/events")
}

// frameOr gives what every page has, with the ring's name in its title, also before the ring is
// open.
func (r *reader) frameOr(path, title, description string) templates.Page {
	about := &describe.Ring{}
	if v, ok := r.survey(); ok {
		about = &v.about
	} else {
		r.failed = nil
	}
	if about.Name != "" {
		title += " – " + about.Name
	}
	return frame(about, path, title, description)
}

// drawProblem draws the page that says what a problem code means. It is there
// before the ring is open.
func drawProblem(r *reader, path string, _ *fasthttp.Args) *content.Content {
	problem := templates.Explain(api.Code(path[strings.LastIndexByte(path, '/')+1:]))[0]
	problem.Page = r.frameOr(path, problem.Summary, problem.Meaning)
	return drawn(problem.HTML())
}

// drawProblems draws the page of all problem codes.
func drawProblems(r *reader, path string, _ *fasthttp.Args) *content.Content {
	return drawn(templates.Problems{Page: r.frameOr(path, "Problems", subjects["problems"].words), All: templates.Explain(api.Codes()...)}.HTML())
}

// VerifyPath is where a reader's browser recomputes the leaderboard.
const VerifyPath = "/verify"

// seenAgain is after how many seconds the page is drawn again to show what witnesses have cosigned.
const seenAgain = 10

// VerifyFields are what the page at VerifyPath carries in place of [Fields].
var VerifyFields = "Content-Security-Policy: " + templates.VerifyPolicy + "\r\nReferrer-Policy: strict-origin-when-cross-origin\r\n"

// Module gives the core as a file for browsers, and false if the binary was built without it.
var Module = sync.OnceValues(func() (static.Asset, bool) {
	b, err := module.Core()
	if err != nil {
		return static.Asset{}, false
	}
	return static.Core(b), true
})

// drawVerify draws the page on which a reader recomputes the leaderboard.
func drawVerify(r *reader, path string, _ *fasthttp.Args) *content.Content {
	v, ok := r.survey()
	if !ok {
		return nil
	}
	core, _ := Module()
	view := templates.Verify{
		Page: frame(&v.about, path, "Verify – "+v.about.Name, subjects["verify"].words),
		Base: r.core.BaseURL(), Verifier: static.Verify.Path, Module: core.Path,
	}
	if witnessed := r.pages.site.Witnessed; witnessed != nil {
		size, at := witnessed()
		if view.Policy, view.Witnessed = true, size; size > 0 {
			view.WitnessedAt = r.soonAgo(at)
		}
		r.until = min(r.until, r.pages.now().Unix()+seenAgain)
	}
	return drawn(view.HTML())
}
