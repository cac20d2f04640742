package describe

import (
	"encoding/xml"
	"slices"
	"strconv"
	"time"
)

const (
	atomMedia = "application/atom+xml; charset=utf-8"
	feedMedia = "application/feed+json; charset=utf-8"
	opmlMedia = "text/x-opml; charset=utf-8"

	// feedSize is how many entries a feed of joins has.
	feedSize = 50
	// opmlSize is how many members one OPML document has; a larger ring
	// has several, and the first one includes them.
	opmlSize = 1000
)

// feed is what happens in the ring, one kind of it.
type feed struct {
	path, title string
	entries     func(*Source) []entry // the newest first
	slug        string                // the member that it is about, "" for the ring
}

// about gives a feed with what it is called, and the page that it is about.
func (f feed) about(s *Source, ring Ring, entries []entry) (title, page string) {
	if f.slug == "" {
		return ring.Name + ": " + f.title, ring.Base + "/"
	}
	name := f.slug
	if len(entries) > 0 {
		name = entries[0].member.Name
	}
	return ring.Name + ": news of " + name, memberPage(s, ring.Base, f.slug)
}

// entry is something that happened.
type entry struct {
	key    string // with the host, names the entry for ever
	title  string
	text   string
	at     time.Time
	member Member
}

var (
	joins = feed{"/feeds/joins", "who joined", joined, ""}
	lead  = feed{"/feeds/lead", "who holds rank 1", leads, ""}
)

// joined gives the members that joined last.
func joined(s *Source) []entry {
	_, total := s.members(0, 1)
	list, _ := s.members(max(0, total-feedSize), feedSize)
	var all []entry
	for _, m := range list {
		text := m.Name + " (" + m.Kind + ", " + m.Category + ") joined the ring: " + m.URL
		if m.Description != "" {
			text += "\n\n" + m.Description
		}
		// Slugs are never given twice.
		all = append(all, entry{"join/" + m.Slug, m.Name + " joined", text, m.Joined, m})
	}
	slices.Reverse(all)
	return all
}

// leads gives the member at rank 1 now. The state does not hold earlier leaders, and
// decay changes the lead without an event, so the feed has one entry; feed readers keep
// earlier ones. The id of the entry changes with the leader and with the leader's last
// payment. If a member leads again because another's standing decayed, its entry has the
// id that it had before.
func leads(s *Source) []entry {
	list := s.leader()
	if len(list) == 0 {
		return nil
	}
	m := list[0]
	at := m.Joined
	if m.LastBid.After(at) {
		at = m.LastBid
	}
	text := m.Name + " holds rank 1 with $" + m.Paid + " paid in total: " + m.URL
	return []entry{{"lead/" + m.Slug + "/" + strconv.FormatInt(at.UnixMilli(), 10), m.Name + " leads", text, at, m}}
}

// tag is a permanent identifier (RFC 4151) under the ring's host.
func tag(base, key string) string {
	return "tag:" + hostOf(base) + ",2026:" + key
}

// memberPage is the member's page, or its document where nodes show no pages.
func memberPage(s *Source, base, slug string) string {
	if s.has("/members/x") {
		return base + "/members/" + slug
	}
	return base + "/api/ring/" + slug
}

type atomLink struct {
	Rel  string `xml:"rel,attr"`
	Type string `xml:"type,attr,omitempty"`
	Href string `xml:"href,attr"`
}

type atomText struct {
	Type string `xml:"type,attr"`
	Text string `xml:",chardata"`
}

type atomEntry struct {
	ID        string     `xml:"id"`
	Title     atomText   `xml:"title"`
	Updated   string     `xml:"updated"`
	Published string     `xml:"published"`
	Links     []atomLink `xml:"link"`
	Summary   atomText   `xml:"summary"`
}

type atomFeed struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	ID      string      `xml:"id"`
	Title   atomText    `xml:"title"`
	Updated string      `xml:"updated"`
	Author  string      `xml:"author>name"`
	Links   []atomLink  `xml:"link"`
	Entries []atomEntry `xml:"entry"`
}

func (f feed) atom(s *Source) []byte {
	ring, entries := s.ring(), f.entries(s)
	title, page := f.about(s, ring, entries)
	doc := atomFeed{
		ID:      tag(ring.Base, f.path),
		Title:   atomText{"text", title},
		Updated: time.Unix(0, 0).UTC().Format(time.RFC3339),
		Author:  ring.Name,
		Links: []atomLink{
			{"self", "application/atom+xml", ring.Base + f.path + ".atom"},
			{"alternate", "text/html", page},
		},
	}
	for i, e := range entries {
		at := e.at.UTC().Format(time.RFC3339Nano)
		if i == 0 {
			doc.Updated = at
		}
		doc.Entries = append(doc.Entries, atomEntry{
			ID: tag(ring.Base, e.key), Title: atomText{"text", e.title}, Updated: at, Published: at,
			Links:   []atomLink{{"alternate", "", memberPage(s, ring.Base, e.member.Slug)}, {"related", "", e.member.URL}},
			Summary: atomText{"text", e.text},
		})
	}
	return s.xml(doc)
}

func (f feed) json(s *Source) []byte {
	ring, entries := s.ring(), f.entries(s)
	title, page := f.about(s, ring, entries)
	items := []node{}
	for _, e := range entries {
		items = append(items, node{
			"id": tag(ring.Base, e.key), "url": memberPage(s, ring.Base, e.member.Slug), "external_url": e.member.URL,
			"title": e.title, "content_text": e.text, "date_published": e.at.UTC().Format(time.RFC3339Nano),
		})
	}
	return s.json(node{
		"version": "https://jsonfeed.org/version/1.1", "title": title, "home_page_url": page,
		"feed_url": ring.Base + f.path + ".json", "language": "en", "authors": []node{{"name": ring.Name}}, "items": items,
	})
}

type opmlOutline struct {
	Text     string `xml:"text,attr"`
	Type     string `xml:"type,attr,omitempty"`
	URL      string `xml:"url,attr,omitempty"`
	Category string `xml:"category,attr,omitempty"`
}

type opmlDocument struct {
	XMLName xml.Name `xml:"opml"`
	Version string   `xml:"version,attr"`
	Title   string   `xml:"head>title"`
	Docs    string   `xml:"head>docs"`
	Body    opmlBody `xml:"body"`
}

type opmlBody struct {
	Outlines []opmlOutline `xml:"outline"`
}

// opml lists the members' sites in ring order; of a ring with more than one
// document holds, it includes the parts.
func opml(s *Source) []byte {
	ring := s.ring()
	_, total := s.members(0, 1)
	if total <= opmlSize {
		return opmlPart(s, 1)
	}
	doc := newOPML(ring)
	for n := range parts(total, opmlSize) {
		part := strconv.Itoa(n + 1)
		doc.Body.Outlines = append(doc.Body.Outlines, opmlOutline{Text: "Part " + part, Type: "include", URL: ring.Base + "/opml/" + part + ".opml"})
	}
	return s.xml(doc)
}

// opmlPart gives the n-th document, or nil if there is none.
func opmlPart(s *Source, n int) []byte {
	ring := s.ring()
	list := s.part(n, opmlSize)
	if len(list) == 0 && n > 1 {
		return nil
	}
	doc := newOPML(ring)
	if len(list) == 0 { // OPML has no document without an outline
		doc.Body.Outlines = append(doc.Body.Outlines, opmlOutline{Text: "The ring is empty."})
	}
	for _, m := range list {
		doc.Body.Outlines = append(doc.Body.Outlines, opmlOutline{m.Name, "link", m.URL, m.Category})
	}
	return s.xml(doc)
}

func newOPML(ring Ring) opmlDocument {
	return opmlDocument{Version: "2.0", Title: ring.Name, Docs: "https://opml.org/spec2.opml"}
}
