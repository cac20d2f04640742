package describe

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"webring/core/api"
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

// entry is something that happened.
type entry struct {
	key    string // with the host, names the entry for ever
	Title  string
	Text   string
	at     time.Time
	member Member

	ID, Page, URL, At string // as documents have them
}

// feedDocument is what a feed says, in either form.
type feedDocument struct {
	ID, Title, Author string
	Hub               string // of WebSub, or ""
	Page, Self        string // the page that the feed is about, and the feed without the end of its address
	Updated           string
	Entries           []entry
}

// read gives what a feed says.
func (f feed) read(s *Source) feedDocument {
	ring, entries := s.ring(), f.entries(s)
	// A tag is a permanent identifier (RFC 4151) under the ring's host.
	tag := func(key string) string { return "tag:" + hostOf(ring.Base) + ",2026:" + key }
	doc := feedDocument{ID: tag(f.path), Title: ring.Name + ": " + f.title, Author: ring.Name, Page: ring.Base + "/", Self: ring.Base + f.path, Hub: s.Hub,
		Updated: "1970-01-01T00:00:00Z", Entries: entries}
	if f.slug != "" {
		doc.Title, doc.Page = ring.Name+": news of "+f.slug, memberPage(s, ring.Base, f.slug)
	}
	for i := range entries {
		e := &entries[i]
		e.ID, e.Page, e.URL, e.At = tag(e.key), memberPage(s, ring.Base, e.member.Slug), e.member.URL, e.at.UTC().Format(time.RFC3339Nano)
		if i == 0 {
			doc.Updated = e.At
			if f.slug != "" {
				doc.Title = ring.Name + ": news of " + e.member.Name
			}
		}
	}
	return doc
}

func (f feed) atom(s *Source) []byte { return []byte(text("atom", f.read(s))) }

func (f feed) json(s *Source) []byte {
	doc, items := f.read(s), []node{}
	for _, e := range doc.Entries {
		items = append(items, node{"id": e.ID, "url": e.Page, "external_url": e.URL, "title": e.Title, "content_text": e.Text, "date_published": e.At})
	}
	all := node{"version": "https://jsonfeed.org/version/1.1", "title": doc.Title, "home_page_url": doc.Page,
		"feed_url": doc.Self + ".json", "language": "en", "authors": []node{{"name": doc.Author}}, "items": items}
	if doc.Hub != "" {
		all["hubs"] = []node{{"type": "WebSub", "url": doc.Hub}}
	}
	return s.json(all)
}

// memberPage is the member's page, or its document where nodes show no pages.
func memberPage(s *Source, base, slug string) string {
	if s.has("/members/x") {
		return base + "/members/" + slug
	}
	return base + "/api/ring/" + slug
}

var (
	joins = feed{"/feeds/joins", "who joined", joined, ""}
	lead  = feed{"/feeds/lead", "who holds rank 1", leads, ""}
)

// joined gives the members that joined last.
func joined(s *Source) []entry {
	_, total := s.members("", 0, 1)
	list, _ := s.members("", max(0, total-feedSize), feedSize)
	var all []entry
	for _, m := range list {
		text := m.Name + " (" + m.Kind + ", " + m.Category + ") joined the ring: " + m.URL
		if m.Description != "" {
			text += "\n\n" + m.Description
		}
		// Slugs are never given twice.
		all = append(all, entry{key: "join/" + m.Slug, Title: m.Name + " joined", Text: text, at: m.Joined, member: m})
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
	return []entry{{key: "lead/" + m.Slug + "/" + strconv.FormatInt(at.UnixMilli(), 10), Title: m.Name + " leads", Text: text, at: at, member: m}}
}

// outline is a line of an OPML document: a member's site, another document, or words alone.
type outline struct{ Text, Type, URL, Category string }

// opml lists the members' sites in ring order; of a ring with more than one
// document holds, it includes the parts.
func opml(s *Source) []byte {
	_, total := s.members("", 0, 1)
	if total <= opmlSize {
		return opmlPart(s, 1)
	}
	var lines []outline
	for n := range parts(total, opmlSize) {
		part := strconv.Itoa(n + 1)
		lines = append(lines, outline{Text: "Part " + part, Type: "include", URL: s.ring().Base + "/opml/" + part + ".opml"})
	}
	return s.opml(lines)
}

// opmlPart gives the n-th document, or nil if there is none.
func opmlPart(s *Source, n int) []byte {
	var lines []outline
	for _, m := range s.part("", n, opmlSize) {
		lines = append(lines, outline{m.Name, "link", m.URL, m.Category})
	}
	if len(lines) == 0 && n > 1 {
		return nil
	}
	if len(lines) == 0 { // OPML has no document without an outline
		lines = []outline{{Text: "The ring is empty."}}
	}
	return s.opml(lines)
}

func (s *Source) opml(lines []outline) []byte {
	return []byte(text("opml", map[string]any{"Title": s.ring().Name, "Lines": lines}))
}

// FeedsPath is that of the list of the feeds of members' own sites, as OPML, which only the origin makes.
const FeedsPath = "/feeds.opml"

// MomentsPath is that of the ring as it was at moments from its first event on, which only the origin
// makes.
const MomentsPath = "/ring/moments"

// MostReplayed is of how many events the origin makes moments, at most. It takes a second.
const MostReplayed = 1 << 16

// memberFeedPath is what the paths of the feeds of members begin with.
const memberFeedPath = "/feeds/members/"

// news is what happened to a member, as the origin tells it.
type news struct {
	ID      uint64
	At      time.Time
	Type    string
	By      string // slug
	WasRank int    `json:"was_rank"`
	Rank    int
	Amount  string `json:"amount_usd"`
	Proof   string
}

// memberFeed gives the document at a path below /feeds/members/.
func memberFeed(d Document, path string) (Document, bool) {
	name := strings.TrimPrefix(path, memberFeedPath)
	slug, atom := strings.CutSuffix(name, ".atom")
	if !atom {
		var is bool
		if slug, is = strings.CutSuffix(name, ".json"); !is {
			return d, false
		}
	}
	if slug == "" || strings.Contains(slug, "/") {
		return d, false
	}
	d.Reads = []string{"/api", memberTarget(slug)}
	f := feed{path: memberFeedPath + url.PathEscape(slug), entries: func(s *Source) []entry { return newsOf(s, slug) }, slug: slug}
	if d.Media, d.make = feedMedia, f.json; atom {
		d.Media, d.make = atomMedia, f.atom
	}
	return d, true
}

func memberTarget(slug string) string { return "/api/ring/" + url.PathEscape(slug) }

// newsOf gives the entries of a member's feed.
func newsOf(s *Source, slug string) (all []entry) {
	ring := s.ring()
	var detail struct{ Member Member }
	s.read(memberTarget(slug), &detail)
	m := detail.Member
	if m.Slug != slug { // another document, such as /api/ring/next
		s.fail(&Problem{http.StatusNotFound, api.AppendProblem(nil, ring.Base, api.UnknownMember, "No member has this slug.", nil)})
		return nil
	}
	var doc struct{ Events []news }
	if !s.origin(memberTarget(slug)+"/events", &doc) {
		s.fail(&Problem{http.StatusServiceUnavailable, api.AppendProblem(nil, ring.Base, api.OriginUnavailable,
			"Only the ring's origin has the news of members, and it has not answered yet. Try again.", nil)})
		return nil
	}
	for _, n := range doc.Events {
		title := n.title(m.Name)
		text := title + ": " + memberPage(s, ring.Base, slug)
		if n.Type == "outbid" || n.Type == "fading" {
			text += "\n\nCurrent prices: " + ring.Base + "/leaderboard"
		}
		if n.Type == "claimed" {
			text += "\n\nWas it yours? You can take it back for seven days: " + ring.Base + "/docs#owners"
		}
		all = append(all, entry{key: "news/" + slug + "/" + strconv.FormatUint(n.ID, 10), Title: title, Text: text, at: n.At, member: m})
	}
	return all
}

// happened says what each type of news is, behind the member's name.
var happened = map[string]string{
	"joined":     " joined{rank}",
	"bid":        " got a bid of ${amount}{rank}",
	"credited":   " was credited ${amount}{rank}",
	"outbid":     " was outbid{by}{rank}",
	"rank":       " has another rank{rank}",
	"fading":     " starts fading",
	"asleep":     " is asleep: its site does not answer",
	"awake":      " is awake again",
	"changed":    " was changed by its owner",
	"moved":      " moved to another address",
	"claimed":    " was claimed by its site ({proof})",
	"taken_back": " was taken back by an earlier owner",
	"verified":   " was verified ({proof})",
	"unverified": " is no longer verified",
	"returned":   " returned to the ring",
}

// title says what happened to a member of this name.
func (n *news) title(name string) string {
	words, known := happened[n.Type]
	if !known {
		return name + ": " + n.Type
	}
	rank, by := "", ""
	if n.Rank != 0 && n.Rank != n.WasRank {
		if rank = fmt.Sprintf(", rank %d", n.Rank); n.WasRank != 0 {
			rank += fmt.Sprintf(" after %d", n.WasRank)
		}
	}
	if n.By != "" {
		by = " by " + n.By
	}
	return name + strings.NewReplacer("{rank}", rank, "{amount}", n.Amount, "{by}", by, "{proof}", n.Proof).Replace(words)
}
