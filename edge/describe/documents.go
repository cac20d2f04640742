package describe

import (
	"encoding/xml"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Document is one published document.
type Document struct {
	Path  string
	Media string // Content-Type
	About string
	// MaxAge is for how many seconds it may be kept unasked, if its facts hold
	// as long.
	MaxAge int
	// Reads are targets that Build reads one after the other, if there are several: a
	// host may read them in one call.
	Reads []string
	// Link is what the answer says in its Link field, or "".
	Link string

	make func(*Source) []byte
	id   string // in OpenAPI
}

// Build makes the bytes of the document from the facts that it reads. Without bytes and without
// an error there is nothing to publish. If the read surface refuses a read, the error is a
// *[Problem].
func (d Document) Build(s *Source) ([]byte, error) {
	b := d.make(s)
	if s.err != nil {
		return nil, s.err
	}
	return b, nil
}

const (
	// settledAge is for documents that change with the rules of the ring, or name a
	// member only as an example.
	settledAge = 300
	// movingAge is for documents that list members, as in the reads.
	movingAge = 5
)

// Documents lists what a node publishes at fixed paths. The caller owns the
// list.
//
// Documents: the service interface, "Other published resources"; RFC 9116,
// RFC 9309, RFC 9727, RFC 4287, the OPML, JSON Feed and Sitemaps specifications,
// and SEP-2127 of the Model Context Protocol.
func Documents() []Document {
	return []Document{
		{Path: "/openapi.json", Media: jsonMedia, MaxAge: settledAge, make: openAPI, About: "This service as an OpenAPI document."},
		{Path: "/llms.txt", Media: plainMedia, MaxAge: settledAge, make: llms, About: "This service in a page of plain text."},
		{Path: "/robots.txt", Media: plainMedia, MaxAge: settledAge, make: robots, About: "Rules for crawlers.", id: "getRobots"},
		{Path: "/sitemap.xml", Media: xmlMedia, MaxAge: settledAge, make: sitemapIndex, About: "Index of the sitemaps.", id: "getSitemapIndex"},
		{Path: apiCatalogPath, Media: linksetMedia, MaxAge: settledAge, make: apiCatalog, About: "API catalog (RFC 9727).", id: "getCatalog",
			Link: `<` + apiCatalogPath + `>; rel="api-catalog"`},
		{Path: aiCatalogPath, Media: aiCatalogMedia, MaxAge: settledAge, make: aiCatalog, About: "What agents can use here, and the members that are agents or MCP servers (AI Catalog).", id: "getAICatalog",
			Link: `<` + aiCatalogPath + `>; rel="ai-catalog"`, Reads: []string{"/api", membersTarget("mcp", 0, 1), membersTarget("agent", 0, 1)}},
		{Path: skillsPath, Media: jsonMedia, MaxAge: settledAge, make: skillIndex, About: "Skills for agents: join, bid, change a listing.", id: "getSkills"},
		{Path: "/.well-known/mcp/server-card.json", Media: jsonMedia, MaxAge: settledAge, make: serverCard, About: "Card of the MCP server.", id: "getServerCard"},
		{Path: "/mcp/server-card", Media: cardMedia, MaxAge: settledAge, make: serverCard, About: "Card of the MCP server.", id: "getServerCardBeside"},
		{Path: agentCardPath, Media: jsonMedia, MaxAge: settledAge, make: agentCard, About: "Card of the A2A agent, which reads the ring.", id: "getAgentCard"},
		{Path: openWebringPath, Media: jsonMedia, MaxAge: settledAge, make: openWebring, About: "The ring for directories of webrings (OpenWebring).", id: "getOpenWebring"},
		{Path: securityPath, Media: plainMedia, MaxAge: settledAge, make: security, About: "Security contact (RFC 9116).", id: "getSecurity"},
		{Path: "/feeds/joins.atom", Media: atomMedia, MaxAge: movingAge, make: joins.atom, About: "New members, as Atom.", id: "getJoinsAtom"},
		{Path: "/feeds/joins.json", Media: feedMedia, MaxAge: movingAge, make: joins.json, About: "New members, as JSON Feed.", id: "getJoinsFeed"},
		{Path: "/feeds/lead.atom", Media: atomMedia, MaxAge: movingAge, make: lead.atom, About: "The leader, as Atom.", id: "getLeadAtom"},
		{Path: "/feeds/lead.json", Media: feedMedia, MaxAge: movingAge, make: lead.json, About: "The leader, as JSON Feed.", id: "getLeadFeed"},
		{Path: ServersPath, Media: jsonMedia, MaxAge: movingAge, make: func(s *Source) []byte { return servers(s, func(string) string { return "" }) },
			About: "The MCP servers in the ring, as an MCP registry (API v0.1).", id: "getServers"},
		{Path: "/ring.opml", Media: opmlMedia, MaxAge: movingAge, make: opml, About: "The members' sites as OPML.", id: "getOPML"},
	}
}

// securityPath is the path of the one document that may be missing.
const securityPath = "/.well-known/security.txt"

// page is something that other documents may lead to.
type page struct {
	Path, Title, About string
	Gone               bool // it leads nowhere now
}

// pagesOf are the pages for people.
func pagesOf(s *Source) []page {
	return slices.DeleteFunc([]page{
		{Path: "/", Title: "Home", About: "What the ring is, who is first, and the top ranks."},
		{Path: "/leaderboard", Title: "Leaderboard", About: "All members by rank, what a bid on each would do, the price of first place, and past leaders."},
		{Path: "/ring", Title: "Ring", About: "All members in ring order."},
		{Path: "/join", Title: "Join", About: "How to join, with a free check."},
		{Path: "/embed", Title: "Embed", About: "The widget, the badge and the links of a member."},
		{Path: "/docs", Title: "API", About: "The API: every request with parameters, an answer and errors."},
		{Path: "/problems", Title: "Problems", About: "What each error means, and what to do."},
		{Path: "/verify", Title: "Verify", About: "How to recompute the leaderboard from the signed ledger."},
		{Path: "/about", Title: "About", About: "What the ring is, what a place costs, and which sites are in it."},
	}, func(p page) bool { return !s.has(p.Path) })
}

// securityLife is how far ahead security.txt expires; the document changes
// each day.
const securityLife = 180 * 24 * time.Hour

// security gives nothing where the operator named no contact.
func security(s *Source) []byte {
	if s.Contact == "" {
		return nil
	}
	ring := s.ring()
	day := s.now.Truncate(24 * time.Hour)
	s.until = day.Add(24 * time.Hour)
	return fmt.Appendf(nil, "Contact: %s\nExpires: %s\nPreferred-Languages: en\nCanonical: %s%s\n",
		s.Contact, day.Add(securityLife).Format(time.RFC3339), ring.Base, securityPath)
}

// parts says in how many parts of size a list of total is cut, at least one.
func parts(total, size int) int { return max(1, (total+size-1)/size) }

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
		_, total := s.members("", 0, 1)
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
	ring, list := s.ring(), s.part("", n, sitemapSize)
	if len(list) == 0 || !s.has("/members/x") {
		return nil
	}
	all := make([]string, 0, len(list))
	for _, m := range list {
		all = append(all, ring.Base+"/members/"+m.Slug)
	}
	return locations("urlset", "url", all)
}

// part reads the n-th part of the members of a kind, in pieces that one read gives.
func (s *Source) part(kind string, n, size int) (list []Member) {
	for at := (n - 1) * size; at < n*size; at += readSize {
		piece, total := s.members(kind, at, min(readSize, n*size-at))
		list = append(list, piece...)
		if at+readSize >= total {
			break
		}
	}
	return list
}

// Part gives the document at one of the paths of which there are as many as the
// ring needs, /sitemaps/{name}, /opml/{name}, /openwebring/{name}, /ai-catalogs/{name} and
// /feeds/members/{name}, or at that of a skill. ok is false when there is none of that
// name, which for numbers beyond the end only its Build finds: it gives no bytes then.
func Part(path string) (d Document, ok bool) {
	d = Document{Path: path, Media: xmlMedia, MaxAge: settledAge}
	// numbered is the n-th part of the members, if the path is that of one.
	numbered := func(prefix, suffix, kind string, size int, build func(*Source, int) []byte) bool {
		name, is := strings.CutPrefix(path, prefix)
		name, ends := strings.CutSuffix(name, suffix)
		n, err := strconv.Atoi(name)
		if !is || !ends || err != nil || n < 1 || n > maxPart || strconv.Itoa(n) != name {
			return false
		}
		for at := (n - 1) * size; at < n*size; at += readSize {
			d.Reads = append(d.Reads, membersTarget(kind, at, min(readSize, n*size-at)))
		}
		d.make = func(s *Source) []byte { return build(s, n) }
		return true
	}
	for _, k := range skills {
		if k.path() == path {
			d.Media, d.make = "text/markdown; charset=utf-8", k.document
			return d, true
		}
	}
	for _, c := range catalogued {
		if numbered(memberCatalogs+c.kind+"-", ".json", c.kind, catalogSize, func(s *Source, n int) []byte { return catalogPart(s, c.kind, n) }) {
			d.Media = aiCatalogMedia
			return d, true
		}
	}
	if numbered("/opml/", ".opml", "", opmlSize, opmlPart) {
		d.Media, d.MaxAge = opmlMedia, movingAge
		return d, true
	}
	if numbered(openWebrings, ".json", "", opmlSize, openWebringPart) {
		d.Media, d.MaxAge = jsonMedia, movingAge
		return d, true
	}
	if path == "/sitemaps/pages.xml" {
		d.make = sitemapPages
		return d, true
	}
	if strings.HasPrefix(path, memberFeedPath) {
		d.MaxAge = movingAge
		return memberFeed(d, path)
	}
	return d, numbered("/sitemaps/members-", ".xml", "", sitemapSize, sitemapMembers)
}

// maxPart bounds the number in the path of a part; no ring has so many.
const maxPart = 100_000
