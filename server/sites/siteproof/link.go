package siteproof

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"webring/server/sites/markup"
)

// Ring is what links of a member's page are compared with.
type Ring struct {
	Base string // the base URL of the ring
	Slug string // of the member
	// Names says whether a reference, such as a from, names the member.
	Names func(from string) bool
}

// maxElements bounds the elements of a page that are looked at.
const maxElements = 20_000

// LinksBack says whether a page, of this type and at this address, links back to the ring as
// the member: by the widget, by links from the member to its neighbours or to its own page in
// the ring, or by its badge. A link to the ring alone does not say that its author is the
// member. What the page marks as not its own does not count: by rel="ugc", by "nofollow",
// which most places where strangers write put on their links, or by "sponsored".
func LinksBack(page []byte, contentType string, at *url.URL, r Ring) bool {
	ring, err := url.Parse(r.Base)
	if err != nil {
		return false
	}
	p := &links{Ring: r, ring: ring, at: at}
	left := maxElements
	for t := range markup.Tokens(page, contentType) {
		if left--; left < 0 {
			break
		}
		switch t.Kind {
		case markup.End:
			switch t.Name {
			case "template":
				p.templates--
			case "a":
				p.strange = false
			}
		case markup.Start:
			p.element(t)
		}
	}
	return p.found()
}

// links is a page that is being read.
type links struct {
	Ring
	ring *url.URL
	at   *url.URL // what addresses in the page are relative to

	templates              int  // that are open; what they hold is not shown
	strange                bool // within a link that the page marks as not its own
	script, widget, linked bool
}

// found says whether the page links back. A widget without its script shows nothing, and
// either may come first.
func (p *links) found() bool { return p.linked || p.widget && p.script }

func (p *links) element(t markup.Token) {
	tag, attributes := t.Name, t.Attributes
	for name, value := range attributes {
		attributes[name] = strings.TrimSpace(value)
	}
	switch {
	case tag == "template":
		p.templates++
	case p.templates > 0:
	case tag == "base" && attributes["href"] != "":
		if base, err := p.at.Parse(attributes["href"]); err == nil {
			p.at = base
		}
	case tag == "script":
		below, ok := p.below(attributes["src"])
		p.script = p.script || ok && (below.Path == "/widget.js" || strings.HasPrefix(below.Path, "/widget-") && path.Ext(below.Path) == ".js")
	case tag == "webring-online":
		p.widget = p.widget || attributes["from"] != "" && p.Names(attributes["from"])
	case tag == "img":
		below, ok := p.below(attributes["src"])
		p.linked = p.linked || ok && !p.strange && p.badges(below.Path)
	case tag == "a" || tag == "area":
		strange := slices.ContainsFunc(strings.Fields(strings.ToLower(attributes["rel"])), func(rel string) bool {
			return rel == "ugc" || rel == "nofollow" || rel == "sponsored"
		})
		p.linked = p.linked || !strange && p.leadsBack(attributes["href"])
		if tag == "a" {
			p.strange = strange
		}
	}
}

// badges says whether a picture at a path is the member's badge or button.
func (p *links) badges(path string) bool {
	name, ok := strings.CutPrefix(path, "/badge/"+p.Slug)
	return ok && (name == ".svg" || name == ".png" || name == "@2x.png")
}

// leadsBack says whether a link is one of the member's.
func (p *links) leadsBack(href string) bool {
	below, ok := p.below(href)
	if !ok {
		return false
	}
	switch below.Path {
	case "/next", "/prev", "/random", "/api/ring/next", "/api/ring/prev", "/api/ring/random":
		from := below.Query().Get("from")
		return from != "" && p.Names(from)
	case "/members/" + p.Slug, "/api/ring/" + p.Slug:
		return true
	}
	return false
}

// below gives an address with its path below the ring's base URL, whichever of http and
// https it begins with.
func (p *links) below(address string) (*url.URL, bool) {
	if address == "" {
		return nil, false
	}
	u, err := p.at.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || !strings.EqualFold(u.Host, p.ring.Host) || u.User != nil {
		return nil, false
	}
	rest, ok := strings.CutPrefix(u.Path, p.ring.Path)
	if !ok || !strings.HasPrefix(rest, "/") {
		return nil, false
	}
	cut := *u
	cut.Path = rest
	return &cut, true
}
