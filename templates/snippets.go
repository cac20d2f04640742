package templates

import (
	"html"
	"net/url"
)

// snippets are what a site shows of the ring, for one member or for any: markup and lines of
// text. Slugs have no characters that markup reads; the base URL is the operator's, and the
// ring's name is escaped.
type snippets struct{ base, slug, ring string }

// snippets are those of the member that the page is for, if any.
func (v Embed) snippets() snippets {
	s := snippets{base: v.Base, ring: v.name()}
	if v.Member != nil {
		s.slug = v.Member.Slug
	}
	return s
}

func (v Member) snippets() snippets { return snippets{v.Base, v.Row.Slug, v.name()} }

// query names the member in links, or is "".
func (s snippets) query() string {
	if s.slug == "" {
		return ""
	}
	return "?from=" + s.slug
}

// widget is the widget with an attribute more, or "".
func (s snippets) widget(attribute string) string {
	return s.element(attribute) + `<script src="` + html.EscapeString(s.base) + `/widget.js" async></script>`
}

// pinned is the widget with a script of one version, at a path.
func (s snippets) pinned(path, integrity string) string {
	return s.element("") + `<script src="` + html.EscapeString(s.base) + path + "\"\n  integrity=\"" + integrity + "\"\n  crossorigin=\"anonymous\" async></script>"
}

func (s snippets) element(attribute string) string {
	if attribute != "" {
		attribute = " " + attribute
	}
	if s.slug != "" {
		attribute += ` from="` + s.slug + `"`
	}
	return "<webring-online" + attribute + ">\n" + s.anchors() + "</webring-online>\n"
}

func (s snippets) anchors() string {
	base, query := html.EscapeString(s.base), s.query()
	return `  <a href="` + base + "/prev" + query + "\">Previous</a>\n" +
		`  <a href="` + base + "/random" + query + "\">Random</a>\n" +
		`  <a href="` + base + "/next" + query + "\">Next</a>\n"
}

// plain are links alone.
func (s snippets) plain() string {
	return `<nav aria-label="` + html.EscapeString(s.ring) + "\">\n" + s.anchors() + "</nav>"
}

// line is a line of text.
func (s snippets) line() string {
	return s.ring + ": " + s.base + "/prev" + s.query() + " · " + s.base + "/random" + s.query() + " · " + s.base + "/next" + s.query()
}

// badge is the member's badge, and button its button of 88 × 31 pixels.
func (s snippets) badge() string { return s.pictured(`.svg" height="28"`) }

func (s snippets) button() string {
	return s.pictured(`.png" srcset="` + html.EscapeString(s.base) + "/badge/" + s.slug + "@2x.png 2x\"\n    width=\"88\" height=\"31\"")
}

// pictured is a picture of the member with a link to its page. rest begins with the end of
// the picture's address.
func (s snippets) pictured(rest string) string {
	base := html.EscapeString(s.base)
	return `<a href="` + base + "/members/" + s.slug + "\">\n  <img src=\"" + base + "/badge/" + s.slug + rest + ` alt="Member of ` + html.EscapeString(s.ring) + "\">\n</a>"
}

// directives are what a Content-Security-Policy needs for the widget.
func (s snippets) directives() string {
	origin := s.base
	if u, err := url.Parse(s.base); err == nil {
		origin = u.Scheme + "://" + u.Host
	}
	return "script-src 'self' " + origin + "; connect-src 'self' " + origin
}

// reservedHeights is what a page states so that nothing on it moves when the widget loads.
const reservedHeights = `webring-online { display: block; min-block-size: 4rem }
webring-online[compact] { min-block-size: 1.5rem }
.narrow-column webring-online { min-block-size: 7.5rem }`
