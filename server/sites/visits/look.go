package visits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"webring/core"
	"webring/server/ledger"
	"webring/server/sites/fetch"
	"webring/server/sites/icon"
	"webring/server/sites/markup"
	"webring/server/sites/siteproof"
)

// Outcome is what a visit has found.
type Outcome string

// The outcomes.
const (
	Answered Outcome = "answered"
	Gated    Outcome = "gated"
	Failed   Outcome = "failed"
	PutOff   Outcome = "put_off"
)

// Outcomes are all of them.
func Outcomes() []Outcome { return []Outcome{Answered, Gated, Failed, PutOff} }

// sight is what a visit has found.
type sight struct {
	target
	outcome Outcome
	why     string // it failed
	at      time.Time

	read, linked bool       // a page was read, and it links back
	looked       bool       // for a token that names the owner, which the site shows there or not at all
	token        core.Proof // where it shows one

	fed  bool   // the site was asked for a feed
	feed string // the address of its feed, "" if it has none

	iconAt string   // the address of its icon, "" if no page names one
	icon   *iconRow // what its icon is now, nil if that is not known
}

// alive says whether the site is there.
func (s *sight) alive() bool { return s.outcome == Answered || s.outcome == Gated }

const (
	pageTypes = "text/html, application/xhtml+xml;q=0.9, */*;q=0.5"
	cardPath  = "/.well-known/agent-card.json"
	// agentWords is followed by the address of a page that explains visits.
	agentWords = "webring/1 (visits the members of a ring once a day; +%s)"
)

// targetOf gives a member as a target, unless it is not visited.
func targetOf(st *core.State, o core.Ordinal) (target, bool) {
	if st.Hidden(o) || st.Rank(o) == 0 {
		return target{}, false
	}
	t := target{Member: st.Member(o), o: o}
	u, err := url.Parse(t.URL)
	if err != nil {
		return target{}, false
	}
	t.slug, t.site = t.Slug, fetch.Site(u.Hostname())
	if rules := st.Rules(); rules != nil {
		t.ring = rules.BaseURL
	}
	return t, true
}

// request gives a request to a site of a member.
func (m *target) request(at, accept string) fetch.Request {
	return fetch.Request{URL: at, Accept: accept, UserAgent: m.agent()}
}

// agent is what a visit calls itself.
func (m *target) agent() string { return fmt.Sprintf(agentWords, m.ring+"/docs#visits") }

// below gives the address of a path on the member's host.
func (m *target) below(path string) string {
	u, err := url.Parse(m.URL)
	if err != nil {
		return m.URL
	}
	return u.Scheme + "://" + u.Host + path
}

// look visits a member.
func (v *Visitor) look(ctx context.Context, m target) sight {
	s := sight{target: m}
	home := "" // a page to look for a link at, if there is none where the member is
	switch m.Kind {
	case core.MCP:
		mcp, spoken := v.initialize(ctx, m)
		if s.outcome, s.why = mcp.outcome, mcp.why; !spoken {
			v.lookAtPage(ctx, &s, m.URL)
		}
		if root := m.below("/"); spoken || root != m.URL {
			home = root
		}
	case core.Agent:
		if answers := v.lookAtPage(ctx, &s, m.URL); answers && s.outcome == Failed {
			v.lookAtCard(ctx, &s)
		}
	default:
		v.lookAtPage(ctx, &s, m.URL)
	}
	if s.outcome != Answered {
		return s
	}
	if at, err := siteproof.PlaceOf(m.URL); err == nil && m.wantsToken() {
		s.token, s.looked = siteproof.Names(ctx, v.cfg.Fetch, at, m.Owner, m.agent())
	}
	if home != "" && !s.linked && s.token == 0 {
		page, err := v.cfg.Fetch.Get(ctx, m.request(home, pageTypes))
		if err == nil && page.Status/100 == 2 {
			v.findLink(&s, page)
		}
	}
	v.lookAtIcon(ctx, &s)
	return s
}

// initialize asks a member whether it is an MCP server. spoken says that the answer settles
// the visit; otherwise the member's page may still answer.
func (v *Visitor) initialize(ctx context.Context, m target) (s sight, spoken bool) {
	r := m.request(m.URL, fetch.AcceptMCP)
	r.MaxBody, r.Exchange = fetch.MaxMCP, fetch.Initialize
	a, err := v.cfg.Fetch.Get(ctx, r)
	s.outcome, s.why = judge(a, err)
	if err != nil || s.outcome == Gated || a.Status >= 500 {
		return s, true
	}
	if _, answered := fetch.ReadMCP(a.Body); !answered {
		return s, false
	}
	s.outcome, s.why = Answered, ""
	if session := a.Header.Get(fetch.SessionField); session != "" && a.Status/100 == 2 {
		r = m.request(m.URL, "")
		r.MaxBody, r.Exchange = 1, fetch.EndSession(session)
		_, _ = v.cfg.Fetch.Get(ctx, r)
	}
	return s, true
}

// judge says what an answer to a visit means.
func judge(r *fetch.Response, err error) (Outcome, string) {
	switch {
	case errors.As(err, new(*fetch.Busy)):
		return PutOff, ""
	case err != nil:
		return Failed, strings.TrimPrefix(err.Error(), "fetch: ")
	}
	switch r.Status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusTooManyRequests:
		return Gated, ""
	}
	if r.Status/100 != 2 {
		return Failed, fmt.Sprintf("the site answers %d", r.Status)
	}
	return Answered, ""
}

// lookAtPage looks at a page, and reports whether anything has answered.
func (v *Visitor) lookAtPage(ctx context.Context, s *sight, at string) (answers bool) {
	r := s.request(at, pageTypes)
	r.Exchange = &fetch.Exchange{Enough: firstEvent}
	page, err := v.cfg.Fetch.Get(ctx, r)
	if s.outcome, s.why = judge(page, err); s.outcome != Answered {
		return err == nil
	}
	if isHTML(page) && parked(page.Body, page.Header.Get("Content-Type")) {
		s.outcome, s.why = Failed, "the domain is parked or for sale"
		return true
	}
	v.findLink(s, page)
	return true
}

// firstEvent ends the reading of a stream of events, which need not end.
func firstEvent(header http.Header, body []byte) bool {
	return mediaType(header) == "text/event-stream" && len(body) > 0
}

// lookAtCard looks at an agent's card.
func (v *Visitor) lookAtCard(ctx context.Context, s *sight) {
	card, err := v.cfg.Fetch.Get(ctx, s.request(s.below(cardPath), "application/json"))
	outcome, _ := judge(card, err)
	var object map[string]json.RawMessage
	switch {
	case outcome == Answered && json.Unmarshal(markup.Text(card.Body, ""), &object) == nil && object["name"] != nil:
		s.outcome, s.why = Answered, ""
	case outcome == Gated, outcome == PutOff:
		s.outcome, s.why = outcome, ""
	}
}

// byToken says whether a token has verified the member.
func (m *target) byToken() bool { return m.Proof == core.ByFile || m.Proof == core.ByDNS }

// wantsToken says whether a token that names the owner tells anything of a member: one that has
// verified it, or can do so again.
func (m *target) wantsToken() bool { return m.byToken() || m.Proof == 0 && m.Claimed }

// findLink looks for a link back, a feed and an icon in a page.
func (v *Visitor) findLink(s *sight, page *fetch.Response) {
	if !isHTML(page) {
		return
	}
	var scratch []byte
	s.read = true
	s.linked = siteproof.LinksBack(page.Body, page.Header.Get("Content-Type"), page.URL, siteproof.Ring{Base: s.ring, Slug: s.slug, Names: func(from string) (is bool) {
		v.cfg.Ledger.View(func(view *ledger.View) {
			o, known := view.State().Resolve([]byte(from), &scratch)
			is = known && o == s.o
		})
		return is
	}})
	if s.feed == "" { // of the first page that has one
		s.feed = siteproof.Feed(page.Body, page.Header.Get("Content-Type"), page.URL)
		s.fed = s.feed != "" || !page.Truncated
	}
	if s.iconAt == "" {
		s.iconAt = siteproof.Icon(page.Body, page.Header.Get("Content-Type"), page.URL, icon.Side, icon.MaxSide)
	}
	if page.Truncated && !s.linked {
		s.read = false // the link may be in the rest
	}
}

func isHTML(r *fetch.Response) bool {
	switch mediaType(r.Header) {
	case "text/html", "application/xhtml+xml":
		return true
	}
	return false
}

func mediaType(h http.Header) string {
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return media
}
