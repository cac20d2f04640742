package edge

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/edge/front"
	"webring/edge/pages"
	"webring/static"
	"webring/templates"
)

// immutable is the Cache-Control of a file with its hash in its name, and briefly that of a
// file with a fixed name.
const (
	immutable = "public, max-age=31536000, immutable"
	briefly   = "public, max-age=300, stale-while-revalidate=86400, stale-if-error=604800"
)

// people adds the pages for people, and the files that these load, to the table of paths.
func (s *Shell) people(get func(path string, h fasthttp.RequestHandler)) {
	for _, r := range pages.Routes() {
		s.negotiated(get, r)
	}
	get(livePath, s.readLive)
	get(pages.CardPath, s.card)
	get(pages.CardsPath+"{slug:*}", s.card)
	get(pages.PreviewsPath+"{name:*}", s.card)
	get(static.LookFolder+"{name:*}", s.look)
	for _, asset := range static.Assets() {
		get(asset.Path, serveAsset(asset, immutable))
	}
	if core, ok := pages.Module(); ok {
		get(core.Path, serveAsset(core, immutable))
	}
	for _, icon := range static.Icons {
		get(icon.Path, serveAsset(icon, briefly))
	}
	get("/widget.js", serveAsset(static.Widget, briefly))
}

// page serves a page. form begins its name in the cache: a page may have several forms.
func (s *Shell) page(v pages.View, form string) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		g := s.core.enter()
		defer g.leave()
		sent, _ := front.Target(&ctx.Request.Header)
		target, path, query := pages.Target(sent)
		if !s.pages.Has(g, form+target) {
			end, ok := s.turn(ctx, s.drawing)
			if !ok {
				return
			}
			defer end()
		}
		p, failed := s.pages.Get(g, v, form+target, path, query)
		s.sendPage(ctx, g, p, failed)
	}
}

// card serves a card. When too many are being drawn, the ring's own stands for a member's.
func (s *Shell) card(ctx *fasthttp.RequestCtx) {
	g := s.core.enter()
	defer g.leave()
	sent, _ := front.Target(&ctx.Request.Header)
	_, path, query := pages.Target(sent)
	p, busy, failed := s.pages.Card(g, path, string(query.Peek("at")))
	if busy {
		ctx.SetStatusCode(fasthttp.StatusFound)
		setHeader(ctx, "Location", g.BaseURL()+pages.CardPath)
		setHeader(ctx, "Cache-Control", "no-store")
		return
	}
	s.sendPage(ctx, g, p, failed)
}

// look serves a file that is drawn for the look of the ring.
func (s *Shell) look(ctx *fasthttp.RequestCtx) {
	g := s.core.enter()
	defer g.leave()
	sent, _ := front.Target(&ctx.Request.Header)
	p, failed := s.pages.Look(g, string(front.DecodePath(front.Path(sent))))
	s.sendPage(ctx, g, p, failed)
}

// sendPage answers with a page, or with what the core said instead of a document.
func (s *Shell) sendPage(ctx *fasthttp.RequestCtx, g *generation, p *pages.Page, failed *api.Response) {
	if failed != nil {
		s.write(ctx, g, failed)
		return
	}
	var room [1024]byte
	lines, status, body := p.AppendAnswer(room[:0], &ctx.Request.Header, g)
	setFields(ctx, lines)
	ctx.SetStatusCode(status)
	ctx.Response.SetBodyRaw(body)
}

func serveAsset(a static.Asset, cache string) fasthttp.RequestHandler {
	c := content.New(a.Type, a.Body)
	c.Shared = a.Shared
	return func(ctx *fasthttp.RequestCtx) {
		var room [512]byte
		lines, status, body, _ := c.AppendAnswer(room[:0], &ctx.Request.Header, cache)
		setFields(ctx, lines)
		ctx.SetStatusCode(status)
		ctx.Response.SetBodyRaw(body)
	}
}

// negotiated adds a page to the table of paths, as Markdown for clients that ask for it. A
// badge has no Markdown.
func (s *Shell) negotiated(get func(path string, h fasthttp.RequestHandler), r pages.Route) {
	page := s.page(r.View, "")
	if r.Picture {
		get(r.Pattern, page)
		return
	}
	markdown := s.page(r.View.Markdown(), "markdown ")
	get(r.Pattern, func(ctx *fasthttp.RequestCtx) {
		if r.Pattern == pages.JoinPath && s.drafts != nil {
			if _, has := draftAsked(ctx); has {
				s.drafts(ctx)
				return
			}
		}
		if pages.PrefersMarkdown(content.List(&ctx.Request.Header, "Accept")) {
			markdown(ctx)
		} else {
			page(ctx)
		}
		ctx.Response.Header.Add("Vary", "Accept")
	})
}

// documents adds what is published for programs to the table of paths.
func (s *Shell) documents(get func(path string, h fasthttp.RequestHandler)) {
	for _, d := range describe.Documents() {
		if d.Path == describe.ServersPath {
			get(d.Path, s.servers)
			continue
		}
		get(d.Path, func(ctx *fasthttp.RequestCtx) { s.publish(ctx, d.Path, d) })
	}
	get(describe.ServersPath+"/{name:*}", s.servers)
	// The parts of documents that a large ring has several of, and the skills.
	folders := []string{"/sitemaps/{name:*}", "/opml/{name:*}", "/openwebring/{name:*}", "/ai-catalogs/{name:*}", "/.well-known/agent-skills/{name:*}"}
	if s.originData != nil {
		folders = append(folders, "/feeds/members/{name:*}")
	}
	for _, folder := range folders {
		get(folder, func(ctx *fasthttp.RequestCtx) {
			target, _ := front.Target(&ctx.Request.Header)
			path := string(front.DecodePath(front.Path(target)))
			d, ok := describe.Part(path)
			if !ok {
				s.problem(ctx, noSuchPath)
				return
			}
			s.publish(ctx, path, d)
		})
	}
}

// describedSite is what documents depend on besides the ring.
func (s *Shell) describedSite(cfg *Config) describe.Site {
	return describe.Site{
		Has:        func(path string) bool { return s.lookup(nil, fasthttp.MethodGet, []byte(path)) != nil },
		Contact:    cfg.Contact,
		Hub:        cfg.Hub,
		Version:    cfg.Version,
		Example:    cfg.ExampleSite,
		Deprecated: s.deprecated,
		OriginData: cfg.OriginData,
		Witnessed:  cfg.Witnessed,
	}
}

// publish sends a document. key is its name in the cache.
func (s *Shell) publish(ctx *fasthttp.RequestCtx, key string, d describe.Document) {
	g := s.core.enter()
	defer g.leave()
	p, failed := s.pages.Document(g, key, d)
	if failed == nil && d.Link != "" {
		setHeader(ctx, "Link", d.Link)
	}
	s.sendPage(ctx, g, p, failed)
}

// servers answers for the registry of MCP servers.
func (s *Shell) servers(ctx *fasthttp.RequestCtx) {
	if s.tooLong(ctx, describe.ServersParameters, pages.MaxParameter) {
		return
	}
	g := s.core.enter()
	defer g.leave()
	sent, _ := front.Target(&ctx.Request.Header)
	p, failed := s.pages.Servers(g, sent)
	s.sendPage(ctx, g, p, failed)
}

var notForm = refusal{api.InvalidRequest, "The body must be a form, sent as application/x-www-form-urlencoded.",
	`,"errors":[{"pointer":"","detail":"Content-Type must be application/x-www-form-urlencoded."}]`}

// foreignForm refuses a form that a page of another site has sent: what it holds would stand
// on a page of this ring, in the words of a stranger.
var foreignForm = refusal{api.OriginNotAllowed, "The form was filled in by a page of another site. It was not looked at.", ""}

// isForeign says whether a browser sends a request for a page of another site: by
// Sec-Fetch-Site (Fetch Metadata), or by Origin where a browser sends no such field, as it is
// old or the ring is without TLS. Programs send neither. What an edge passes on, it has looked
// at, and a trusted proxy may write a Host of its own: neither is looked at by Origin. Of a link,
// which has no Origin, Referer says it.
func (s *Shell) isForeign(ctx *fasthttp.RequestCtx) bool {
	h := &ctx.Request.Header
	if from := h.Peek("Sec-Fetch-Site"); len(from) > 0 {
		return bytes.EqualFold(from, []byte("cross-site")) || bytes.EqualFold(from, []byte("same-site"))
	}
	origin := h.Peek("Origin")
	if len(origin) == 0 && !h.IsPost() {
		origin = h.Referer()
	}
	if len(origin) == 0 || ctx.UserValue(senderKey{}) != nil || s.proxies.Trusts(front.Peer(ctx.RemoteAddr())) {
		return false
	}
	from, err := url.Parse(string(origin))
	if err != nil || from.Host == "" {
		return true
	}
	base, err := url.Parse(s.core.BaseURL())
	return !strings.EqualFold(from.Host, string(h.Host())) && (err != nil || !strings.EqualFold(from.Host, base.Host))
}

// ownForm has h answer the forms that pages of this ring send, or a person by hand.
func (s *Shell) ownForm(h Handler) Handler {
	return func(ctx *fasthttp.RequestCtx, client string, secure bool) {
		if s.isForeign(ctx) {
			s.problem(ctx, foreignForm)
			return
		}
		h(ctx, client, secure)
	}
}

// longestAddress is the longest address of a draft: proxies take no longer ones.
const longestAddress = 7 << 10

// check has the draft of the join page's form checked, and leads to the address at which the page
// shows what was found. A browser comes back to that without sending the form again.
func (s *Shell) check(check func(context.Context, string, templates.Draft) templates.Checked) Handler {
	return func(ctx *fasthttp.RequestCtx, client string, _ bool) {
		draft, ok := readDraft(ctx)
		if !ok {
			s.problem(ctx, notForm)
			return
		}
		checked := check(context.Background(), client, draft)
		if checked.Draft == (templates.Draft{}) {
			checked.Draft = draft
		}
		address := templates.DraftAddress(string(checked.Draft.JSON()))
		if len(address) > longestAddress {
			s.showDraft(ctx, checked)
			return
		}
		ctx.SetStatusCode(fasthttp.StatusSeeOther)
		setHeader(ctx, "Location", address)
	}
}

// found answers an address with a draft: with the page, the draft in it, and what was found when it
// was checked. It has nothing checked, so following a link makes no site be visited.
func (s *Shell) found(recheck func(templates.Draft) (templates.Checked, bool)) Handler {
	return func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
		draft, _ := draftAsked(ctx)
		checked, known := recheck(draft)
		if !known {
			checked = templates.Checked{Unknown: true}
		}
		if checked.Draft == (templates.Draft{}) {
			checked.Draft = draft
		}
		s.showDraft(ctx, checked)
	}
}

// showDraft answers with the join page, a draft in it, and what was found about that.
func (s *Shell) showDraft(ctx *fasthttp.RequestCtx, checked templates.Checked) {
	g := s.core.enter()
	defer g.leave()
	body, failed := s.pages.Join(g, checked)
	if failed != nil {
		s.write(ctx, g, failed)
		return
	}
	setFields(ctx, []byte(pages.Fields))
	ctx.Response.Header.SetContentType(pages.Media)
	ctx.Response.SetBodyRaw(body)
}

// draftAsked reads the draft in an address of the join page.
func draftAsked(ctx *fasthttp.RequestCtx) (d templates.Draft, ok bool) {
	text := ctx.QueryArgs().Peek("draft")
	if ctx.IsPost() || len(text) == 0 {
		return d, false
	}
	plain, err := base64.RawURLEncoding.DecodeString(string(text))
	if err != nil || json.Unmarshal(plain, &d) != nil {
		return d, false
	}
	d.OnlyIfRank = 0 // the page says which it would be
	return d, true
}

// readDraft reads the form of the join page.
func readDraft(ctx *fasthttp.RequestCtx) (d templates.Draft, ok bool) {
	media, _, _ := bytes.Cut(ctx.Request.Header.ContentType(), []byte(";"))
	if string(bytes.ToLower(trim(media))) != "application/x-www-form-urlencoded" {
		return d, false
	}
	var form fasthttp.Args
	form.ParseBytes(Body(ctx))
	field := func(name string) string { return string(bytes.ToValidUTF8(form.Peek(name), []byte("\ufffd"))) }
	d = templates.Draft{Name: field("name"), URL: field("url"), Kind: field("kind"),
		Category: field("category"), Description: field("description"), Bid: field("bid")}
	// One of the bids that the page offers counts, whatever was typed before.
	switch chosen := field("opening"); chosen {
	case "", templates.Own:
	case templates.NoBid:
		d.Bid = ""
	default:
		d.Bid = chosen
	}
	return d, true
}
