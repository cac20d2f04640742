package templates

import (
	"html"
	"net/url"
	"slices"
	"strings"

	"github.com/a-h/templ"
)

// list is the relative address of the same list for another kind.
func (v Ring) list(kind string) string { return v.address(kind, v.Category, v.Newest) }

// order is what a caption says of an order that is not the ring's.
func (v Ring) order() string {
	if v.Newest {
		return ", the newest first"
	}
	return ""
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

// slug names the member in snippets, or is "".
func (v Embed) slug() string {
	if v.Member == nil {
		return ""
	}
	return v.Member.Slug
}

func (v Embed) query() string {
	if v.Member == nil {
		return ""
	}
	return "?from=" + v.Member.Slug
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

// reservedHeights is what a page states so that nothing on it moves when the widget loads.
const reservedHeights = `webring-online { display: block; min-block-size: 4rem }
webring-online[compact] { min-block-size: 1.5rem }
.narrow-column webring-online { min-block-size: 7.5rem }`

// The snippets. Slugs have no characters that markup reads, and the base URL is
// the operator's; the ring's name is escaped.

// element is the widget with an attribute more, or "".
func (v Embed) element(attribute string) string {
	if attribute != "" {
		attribute = " " + attribute
	}
	if v.Member != nil {
		attribute += ` from="` + v.Member.Slug + `"`
	}
	return "<webring-online" + attribute + ">\n" + v.anchors() + "</webring-online>\n"
}

func (v Embed) anchors() string {
	base, query := html.EscapeString(v.Base), v.query()
	return `  <a href="` + base + "/prev" + query + "\">Previous</a>\n" +
		`  <a href="` + base + "/random" + query + "\">Random</a>\n" +
		`  <a href="` + base + "/next" + query + "\">Next</a>\n"
}

func (v Embed) widgetSnippet(attribute string) string {
	return v.element(attribute) + `<script src="` + html.EscapeString(v.Base) + `/widget.js" async></script>`
}

func (v Embed) pinnedSnippet() string {
	return v.element("") + `<script src="` + html.EscapeString(v.Base) + v.Widget + "\"\n  integrity=\"" + v.Integrity + "\"\n  crossorigin=\"anonymous\" async></script>"
}

func (v Embed) plainSnippet() string {
	return `<nav aria-label="` + html.EscapeString(v.name()) + "\">\n" + v.anchors() + "</nav>"
}

func (v Embed) lineSnippet() string {
	return v.name() + ": " + v.Base + "/prev" + v.query() + " · " + v.Base + "/random" + v.query() + " · " + v.Base + "/next" + v.query()
}

func (v Embed) badgeSnippet() string {
	base := html.EscapeString(v.Base)
	return `<a href="` + base + "/members/" + v.slug() + "\">\n  <img src=\"" + base + "/badge/" + v.slug() + ".svg\" height=\"28\" alt=\"Member of " +
		html.EscapeString(v.name()) + "\">\n</a>"
}

func (v Embed) directives() string {
	origin := v.Base
	if u, err := url.Parse(v.Base); err == nil {
		origin = u.Scheme + "://" + u.Host
	}
	return "script-src 'self' " + origin + "; connect-src 'self' " + origin
}
