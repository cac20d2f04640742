package describe

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"webring/core/api"
)

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
		all = append(all, entry{"news/" + slug + "/" + strconv.FormatUint(n.ID, 10), title, text, n.At, m})
	}
	return all
}

// title says what happened to a member of this name.
func (n *news) title(name string) string {
	rank := ""
	if n.Rank != 0 && n.Rank != n.WasRank {
		rank = fmt.Sprintf(", rank %d", n.Rank)
	}
	if rank != "" && n.WasRank != 0 {
		rank += fmt.Sprintf(" after %d", n.WasRank)
	}
	switch n.Type {
	case "joined":
		return name + " joined" + rank
	case "bid":
		return name + " got a bid of $" + n.Amount + rank
	case "credited":
		return name + " was credited $" + n.Amount + rank
	case "outbid":
		if n.By == "" {
			return name + " was outbid" + rank
		}
		return name + " was outbid by " + n.By + rank
	case "rank":
		return name + " has another rank" + rank
	case "fading":
		return name + " starts fading"
	case "asleep":
		return name + " is asleep: its site does not answer"
	case "awake":
		return name + " is awake again"
	case "changed":
		return name + " was changed by its owner"
	case "moved":
		return name + " moved to another address"
	case "claimed":
		return name + " was claimed by its site (" + n.Proof + ")"
	case "verified":
		return name + " was verified (" + n.Proof + ")"
	case "unverified":
		return name + " is no longer verified"
	case "returned":
		return name + " returned to the ring"
	}
	return name + ": " + n.Type
}
