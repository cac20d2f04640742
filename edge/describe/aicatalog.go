package describe

import (
	"net/url"
	"strconv"
	"strings"
)

const (
	aiCatalogPath    = "/.well-known/ai-catalog.json"
	aiCatalogMedia   = "application/ai-catalog+json"
	skillMedia       = "application/agent-skills+md"
	memberCatalogs   = "/ai-catalogs/"
	aiCatalogVersion = "1.0"   // the version of the specification
	unknownVersion   = "0.0.0" // of a server that only says its own when it is asked
)

// catalogSize is how many members one nested catalogue has.
const catalogSize = 1000

// catalogued are the kinds of members that are entries of the catalogue.
var catalogued = []struct{ kind, title string }{{"mcp", "MCP servers"}, {"agent", "Agents"}}

// entryOf is an entry of a catalogue. Its name is unique among those of a kind.
func entryOf(base, name, kind, title, media, about string) node {
	return node{"identifier": "urn:air:" + hostOf(base) + ":" + name + ":" + kind, "displayName": title, "type": media, "description": about}
}

// hostOf is the domain that a ring publishes under.
func hostOf(base string) string {
	if u, err := url.Parse(base); err == nil && u.Hostname() != "" {
		return strings.ReplaceAll(u.Hostname(), ":", "-") // an IPv6 address has colons
	}
	return "localhost"
}

// aiCatalog lists what the ring offers to agents: its MCP server, its skills, and a nested
// catalogue for each part of its members that are agents or MCP servers.
//
// Document: the AI Catalog specification of the Agent Card working group, with identifiers of
// the form urn:air:{publisher}:{name}:{kind}.
func aiCatalog(s *Source) []byte {
	ring := s.ring()
	server := entryOf(ring.Base, "webring", "mcp", ring.Name, cardMedia, serverAbout)
	server["url"] = ring.Base + "/mcp/server-card"
	entries := []node{server}
	for _, k := range skills() {
		skill := entryOf(ring.Base, k.name, "skill", k.title, skillMedia, k.about)
		skill["url"] = ring.Base + k.path()
		entries = append(entries, skill)
	}
	for _, c := range catalogued {
		_, total := s.kind(c.kind, 0, 1)
		for n := range parts(total, catalogSize) {
			if total == 0 {
				break
			}
			name := c.kind + "-" + strconv.Itoa(n+1)
			nested := entryOf(ring.Base, "members/"+name, "catalog", c.title+" of the ring, part "+strconv.Itoa(n+1), aiCatalogMedia, "Members of the ring, in ring order, as they describe themselves.")
			nested["url"] = ring.Base + memberCatalogs + name + ".json"
			entries = append(entries, nested)
		}
	}
	return s.json(catalogue(s, &ring, entries))
}

// catalogue is a document with entries.
func catalogue(s *Source, ring *Ring, entries []node) node {
	guide := "/llms.txt"
	if s.has("/docs") {
		guide = "/docs"
	}
	return node{"specVersion": aiCatalogVersion, "entries": entries,
		"host": node{"displayName": ring.Name, "identifier": hostOf(ring.Base), "documentationUrl": ring.Base + guide}}
}

// kind reads a part of the members of a kind, in ring order.
func (s *Source) kind(kind string, offset, limit int) (list []Member, total int) {
	var doc struct {
		Total   int
		Members []Member
	}
	s.read(kindTarget(kind, offset, limit), &doc)
	return doc.Members, doc.Total
}

func kindTarget(kind string, offset, limit int) string {
	return membersTarget(offset, limit) + "&kind=" + kind
}

// catalogPart gives the n-th nested catalogue of a kind, or nil if there is none.
func catalogPart(s *Source, kind string, n int) []byte {
	ring := s.ring()
	var entries []node
	for at := (n - 1) * catalogSize; at < n*catalogSize; at += readSize {
		list, total := s.kind(kind, at, readSize)
		for i := range list {
			entries = append(entries, memberEntry(s, &ring, &list[i]))
		}
		if at+readSize >= total {
			break
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return s.json(catalogue(s, &ring, entries))
}

// memberEntry is a member as an entry. For an MCP server the ring makes a card from what the
// member says, under the ring's own name: a client that connects learns the server's own name
// and version. For an agent the entry is the ring's document about it, since the ring does not
// know which card the agent publishes.
func memberEntry(s *Source, ring *Ring, m *Member) node {
	about := m.Description
	if about == "" {
		about = "A member of " + ring.Name + "."
	}
	e := entryOf(ring.Base, m.Slug, m.Kind, m.Name, "application/json", about)
	e["tags"] = []string{m.Kind, m.Category, m.Health}
	if m.Verified != "" { // the site has proved that it is in the ring
		if u, err := url.Parse(m.URL); err == nil {
			e["publisher"] = node{"identifier": u.Hostname(), "identityType": "dns", "displayName": m.Name}
		}
	}
	if m.Kind != "mcp" {
		e["url"] = ring.Base + "/api/ring/" + m.Slug
		return e
	}
	e["type"] = cardMedia
	server := Server{Name: reverseHost(ring.Base) + "/" + m.Slug, Version: unknownVersion, Title: m.Name, URL: memberPage(s, ring.Base, m.Slug)}
	e["data"] = server.entry(cardSchema, shortened(about, cardAbout), m.URL)
	return e
}

// cardAbout is how many characters the description of a card may have.
const cardAbout = 100

// shortened cuts a text to so many characters, at a space where there is one.
func shortened(s string, most int) string {
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	cut := string(runes[:most-1])
	if i := strings.LastIndexByte(cut, ' '); i > most/2 {
		cut = cut[:i]
	}
	return cut + "…"
}

// memberCatalog gives the nested catalogue at a path, as [Part] does.
func memberCatalog(path string) (d Document, ok bool) {
	name, is := strings.CutPrefix(path, memberCatalogs)
	name, isJSON := strings.CutSuffix(name, ".json")
	kind, number, cut := strings.Cut(name, "-")
	n, counts := partNumber(number)
	if !is || !isJSON || !cut || !counts || n > maxPart {
		return d, false
	}
	for _, c := range catalogued {
		if c.kind != kind {
			continue
		}
		d = Document{Path: path, Media: aiCatalogMedia, MaxAge: settledAge, make: func(s *Source) []byte { return catalogPart(s, kind, n) }}
		for at := (n - 1) * catalogSize; at < n*catalogSize; at += readSize {
			d.Reads = append(d.Reads, kindTarget(kind, at, readSize))
		}
		return d, true
	}
	return d, false
}
