package templates

import (
	"cmp"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/a-h/templ"
)

// Share is what a link to a page shows in feeds. Its addresses are absolute. It is empty for
// pages that have no card.
type Share struct {
	URL   string // of the page
	Image string // of its card, a PNG of 1200 × 630
	Alt   string // what the card says
}

// ShareMember is that of the page of a member, in a ring of so many.
func ShareMember(base, ring string, r Row, members int) Share {
	return Share{URL: base + "/members/" + r.Slug, Image: base + "/cards/" + r.Slug + ".png",
		Alt: withHost(r) + " has rank " + grouped(r.Rank) + " of " + grouped(members) + " in " + ring + "."}
}

// withHost is a member's name, and in brackets where its site lies.
func withHost(r Row) string { return r.Name + " (" + Where(r.URL) + ")" }

// words are those that an owner may post with a link to the member's page.
func (v Member) words() string {
	return withHost(v.Row) + " has rank " + grouped(v.Row.Rank) + " of " + grouped(v.Members) + " in " + v.name() + ": " + v.Base + "/members/" + v.Row.Slug
}

// Badge is a small picture that a member shows: it names the ring and the member's number in
// it, which is no rank. Its colours are literal, as no style sheet reaches it.
type Badge struct {
	Ring     string
	Name     string
	Position int
	Look     Look
}

// accent is the ring's colour on light paper.
func (v Badge) accent() string { return cmp.Or(v.Look.Accent, "#a8321a") }

// longestRing is the most characters of a ring's name on a badge.
const longestRing = 28

// inXML replaces characters that XML cannot write. With one of them in it, nothing of
// a document would be shown.
func inXML(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\ufffe' || r == '\uffff' {
			return utf8.RuneError
		}
		return r
	}, s)
}

func (v Badge) text() string {
	name := []rune(v.Ring)
	if len(name) > longestRing {
		name = append(name[:longestRing-1], '…')
	}
	return string(name) + " · No. " + grouped(v.Position)
}

// length sets the width at which the text is drawn, because its natural width is not
// known here.
func (v Badge) length() string { return strconv.Itoa(7 * utf8.RuneCountInString(v.text())) }

func (v Badge) width() string { return strconv.Itoa(37 + 7*utf8.RuneCountInString(v.text()) + 10) }

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
const reservedHeights = `webring-online { display: block; min-block-size: 4.75rem }
webring-online[compact] { min-block-size: 1.5rem }
.narrow-column webring-online { min-block-size: 8.25rem }`

// list is the relative address of the same list for another kind.
func (v Ring) list(kind string) string { return v.address(kind, v.Category, v.Newest) }

// order is what a caption says of an order that is not the ring's.
func (v Ring) order() string {
	if v.Newest {
		return ", the newest first"
	}
	return ""
}

// filed says a member's category where the list has several.
func (v Ring) filed(r Row) string {
	if v.InAll > 0 {
		return ""
	}
	return ", " + r.Category
}

// sorted is the relative address of the same list in the other order.
func (v Ring) sorted() string { return v.address(v.Kind, v.Category, !v.Newest) }

// counted says how many members the list has, and in which order.
func (v Ring) counted() string {
	switch {
	case v.Members == 1:
		return "One member."
	case v.Newest:
		return grouped(v.Members) + " members" + v.order() + "."
	}
	return grouped(v.Members) + " members, in the order of joining."
}

// everywhere is the relative address of the same search in all kinds and categories.
func (v Ring) everywhere() string { return v.address("", "", v.Newest) }

// address is the relative address of the first page of a list. One category without a
// search has a page of its own.
func (v Ring) address(kind, category string, newest bool) string {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	path := v.under("/ring")
	if category != "" && v.Query == "" {
		path = v.under("/categories/" + category)
	} else {
		set("category", category)
	}
	set("q", v.Query)
	set("kind", kind)
	if newest {
		set("sort", "newest")
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

// otherCategory says whether the category of the list is none of those that are listed.
func (v Ring) otherCategory() bool {
	return v.Category != "" && !slices.ContainsFunc(v.Categories, func(c Category) bool { return c.Name == v.Category })
}

// report is where the member is reported: the operator's address with the slug in the
// subject of a letter, or in the parameter member.
func (v Member) report() string {
	u, err := url.Parse(v.Policies.Report)
	if err != nil {
		return v.Policies.Report
	}
	query := u.Query()
	if u.Scheme == "mailto" {
		query.Set("subject", "Report of the member "+v.Row.Slug)
	} else {
		query.Set("member", v.Row.Slug)
	}
	// Mail programs take a plus sign as it is.
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	return u.String()
}

// from are the attributes of a widget: the member, and form, which is compact, a theme,
// or "".
func (v Embed) from(form string) templ.Attributes {
	attributes := templ.Attributes{}
	if v.Member != nil {
		attributes["from"] = v.Member.Slug
	}
	switch form {
	case "compact":
		attributes["compact"] = true
	case "light", "dark":
		attributes["theme"] = form
	}
	return attributes
}
