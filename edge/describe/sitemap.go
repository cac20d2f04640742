package describe

import (
	"encoding/xml"
	"net/url"
	"strconv"
	"strings"
)

const (
	xmlMedia = "application/xml; charset=utf-8"

	// sitemapSize is how many members one sitemap has: a tenth of what
	// may, so that one is made in a few milliseconds. With the largest capacity
	// the index has a fifth of the entries that it may have.
	sitemapSize = 5000
	// readSize is how many members one read gives.
	readSize = 500
)

// locations is a sitemap, or an index of sitemaps: a list of items that are one address each.
func locations(list, item string, addresses []string) []byte {
	b := []byte(xml.Header + "<" + list + ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
	for _, a := range addresses {
		b = append(append(append(b, "<"+item+"><loc>"...), inXML(a)...), "</loc></"+item+">"...)
	}
	return append(b, "</"+list+">"...)
}

// sitemapIndex leads to the sitemap of pages and to those of members.
func sitemapIndex(s *Source) []byte {
	ring := s.ring()
	all := []string{ring.Base + "/sitemaps/pages.xml"}
	if s.has("/members/x") {
		_, total := s.members(0, 1)
		for n := range parts(total, sitemapSize) {
			if total > 0 {
				all = append(all, ring.Base+"/sitemaps/members-"+strconv.Itoa(n+1)+".xml")
			}
		}
	}
	return locations("sitemapindex", "sitemap", all)
}

// sitemapPages lists the pages that are not a member's.
func sitemapPages(s *Source) []byte {
	ring := s.ring()
	var all []string
	for _, p := range pagesOf(s) {
		all = append(all, ring.Base+p.Path)
	}
	if s.has("/categories/x") {
		var list struct{ Categories []struct{ Category string } }
		s.read("/api/categories", &list)
		for _, c := range list.Categories {
			all = append(all, ring.Base+"/categories/"+url.PathEscape(c.Category))
		}
	}
	return locations("urlset", "url", all)
}

// sitemapMembers gives the n-th sitemap of members, or nil if there is none.
func sitemapMembers(s *Source, n int) []byte {
	ring, list := s.ring(), s.part(n, sitemapSize)
	if len(list) == 0 || !s.has("/members/x") {
		return nil
	}
	all := make([]string, 0, len(list))
	for _, m := range list {
		all = append(all, ring.Base+"/members/"+m.Slug)
	}
	return locations("urlset", "url", all)
}

// part reads the n-th part of the ring, in pieces that one read gives.
func (s *Source) part(n, size int) (list []Member) {
	for at := (n - 1) * size; at < n*size; at += readSize {
		piece, total := s.members(at, min(readSize, n*size-at))
		list = append(list, piece...)
		if at+readSize >= total {
			break
		}
	}
	return list
}

// partReads are the targets that part reads.
func partReads(n, size int) (targets []string) {
	for at := (n - 1) * size; at < n*size; at += readSize {
		targets = append(targets, membersTarget(at, min(readSize, n*size-at)))
	}
	return targets
}

// maxPart bounds the number in the path of a part; no ring has so many.
const maxPart = 100_000

// Part gives the document at one of the paths of which there are as many as the
// ring needs, /sitemaps/{name}, /opml/{name}, /ai-catalogs/{name} and
// /feeds/members/{name}, or at that of a skill. ok is false when there is none of that
// name, which for numbers beyond the end only its Build finds: it gives no bytes then.
func Part(path string) (d Document, ok bool) {
	if d, ok = memberCatalog(path); ok {
		return d, true
	}
	for _, k := range skills {
		if k.path() == path {
			return Document{Path: path, Media: "text/markdown; charset=utf-8", MaxAge: settledAge, make: k.document}, true
		}
	}
	d = Document{Path: path, Media: xmlMedia, MaxAge: settledAge}
	if path == "/sitemaps/pages.xml" {
		d.make = sitemapPages
		return d, true
	}
	if name, is := strings.CutPrefix(path, "/sitemaps/members-"); is {
		name, is = strings.CutSuffix(name, ".xml")
		n, number := partNumber(name)
		if is = is && number && n <= maxPart; is {
			d.Reads = partReads(n, sitemapSize)
		}
		d.make = func(s *Source) []byte { return sitemapMembers(s, n) }
		return d, is
	}
	if strings.HasPrefix(path, memberFeedPath) {
		d.MaxAge = movingAge
		return memberFeed(d, path)
	}
	name, is := strings.CutPrefix(path, "/opml/")
	if !is {
		return d, false
	}
	name, is = strings.CutSuffix(name, ".opml")
	n, number := partNumber(name)
	d.Media, d.MaxAge = opmlMedia, movingAge
	if is = is && number && n <= maxPart; is {
		d.Reads = partReads(n, opmlSize)
	}
	d.make = func(s *Source) []byte { return opmlPart(s, n) }
	return d, is
}
