package templates

import (
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
