package pages

import (
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/card"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/static"
	"webring/templates"
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
	home.Canonical, home.Feeds = home.Base+"/", feeds
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
	return drawn(home.HTML())
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
		Base: r.core.BaseURL(), Row: r.standing(m, first.Rules.MinBid), Members: first.Total, MinBid: first.Rules.MinBid, Wallet: wallet(&v.about, r.core.BaseURL()), Picture: v.picture(&first),
	}
	view.Share = templates.ShareMember(view.Base, v.about.Name, view.Row, view.Members)
	if r.pages.site.OriginData != nil {
		view.Feeds = memberFeeds(m.Slug)
	}
	here := mark(m, cents(v.about.Fee))
	view.Picture.Here = &here
	if around.Prev != nil && around.Next != nil {
		view.Prev, view.Next = row(around.Prev), row(around.Next)
	}
	if hops {
		view.Hops = &sent
	}
	view.Bid = bidAsked(query, &first)
	if view.Bid == "" {
		view.Bid = view.Row.Bid.Amount
	}
	view.Then = usd(cents(m.Paid) + cents(view.Bid))
	return drawn(view.HTML())
}

// bidAsked returns the amount in the query of a member's page, or "" if it is not a valid bid.
func bidAsked(query *fasthttp.Args, rules *boardDocument) string {
	amount, ok := readUSD(string(query.Peek("amount")))
	if !ok || amount < cents(rules.Rules.MinBid) || amount > maxBid {
		return ""
	}
	return usd(amount)
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
		Page: frame(&v.about, path, "Embed "+v.about.Name, "Widget, badge and links for the pages of members."),
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
	return drawn(templates.About{Page: frame(about, path, "About "+about.Name, "What the ring is, what a place costs, and which sites are in it."),
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
		c := content.New("image/png", (&card.Button{Ring: about.Name, Position: m.Position, Members: around.Ring.Count}).PNG(scale))
		c.Shared, c.Plain = true, true
		return c
	}
	c := content.New("image/svg+xml", templates.Badge{Ring: about.Name, Name: m.Name, Position: m.Position, Members: around.Ring.Count}.SVG())
	c.Shared = true
	return c
}
