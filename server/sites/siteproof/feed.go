package siteproof

import (
	"iter"
	"net/url"
	"slices"
	"strings"

	"webring/core"
	"webring/server/sites/fetch"
	"webring/server/sites/markup"
)

// feedTypes are the media types of feeds.
var feedTypes = []string{"application/rss+xml", "application/atom+xml", "application/feed+json"}

// Feed gives the address of the first feed that the head of a page links to, "" if there is none:
// <link rel="alternate"> with a type of feeds. Addresses that the ring would not take from a
// member are passed over. The feed is not fetched.
func Feed(page []byte, contentType string, at *url.URL) string {
	for base, link := range headLinks(page, contentType, at) {
		if alternate(link["rel"]) && slices.Contains(feedTypes, markup.MediaType(link["type"])) {
			if feed := linkAt(base, link["href"], at.Hostname()); feed != "" {
				return feed
			}
		}
	}
	return ""
}

// headLinks gives the attributes of the <link> elements in the head of a page that have an address,
// with what it is relative to.
func headLinks(page []byte, contentType string, at *url.URL) iter.Seq2[*url.URL, map[string]string] {
	return func(yield func(*url.URL, map[string]string) bool) {
		base, based, templates := at, false, 0
		for t := range head(page, contentType) {
			href := strings.TrimSpace(t.Attributes["href"])
			switch {
			case t.Name == "template" && t.Kind == markup.Start:
				templates++
			case t.Name == "template" && t.Kind == markup.End:
				templates--
			case t.Kind != markup.Start || templates > 0 || href == "":
			case t.Name == "base" && !based: // the first counts
				if u, err := at.Parse(href); err == nil {
					base = u
				}
				based = true
			case t.Name == "link":
				t.Attributes["href"] = href
				if !yield(base, t.Attributes) {
					return
				}
			}
		}
	}
}

// alternate says whether a link leads to the same content in another form.
func alternate(rel string) bool {
	all := strings.Fields(strings.ToLower(rel))
	return slices.Contains(all, "alternate") && !slices.Contains(all, "stylesheet")
}

// linkAt gives an address as the ring spells it, "" if the ring does not take it. Its host is the page's, which
// was reached, or a public name.
func linkAt(base *url.URL, href, reached string) string {
	u, err := base.Parse(href)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return ""
	}
	spelled, err := core.AppendURL(nil, []byte(u.String()))
	if err != nil {
		return ""
	}
	if u, err = url.Parse(string(spelled)); err != nil {
		return ""
	}
	host := u.Hostname()
	if host != reached && (fetch.EndsInNumber(host) || !fetch.PublicHost(host)) {
		return ""
	}
	return string(spelled)
}

// head gives the tokens of the head of a page. What readers write on a page is in its body.
func head(page []byte, contentType string) iter.Seq[markup.Token] {
	return func(yield func(markup.Token) bool) {
		left := maxElements
		for t := range markup.Tokens(page, contentType) {
			if left--; left < 0 || t.Kind == markup.End && t.Name == "head" || t.Kind == markup.Start && !inHead[t.Name] || !yield(t) {
				return
			}
		}
	}
}
