package describe

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Page gives the Markdown of a page for people, as it lies at a path with its
// query. ok is false when this package has none for the path. Build refuses
// with a *[Problem] where the read surface does.
func Page(path, query string) (d Document, ok bool) {
	d = Document{Path: path, Media: "text/markdown; charset=utf-8", MaxAge: movingAge}
	section, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case path == "/":
		d.Build = markdownHome
	case path == "/leaderboard":
		d.Build = func(s *Source) ([]byte, error) { return markdownLeaderboard(s, query) }
	case path == "/about":
		d.Build, d.MaxAge = markdownAbout, settledAge
	case path == "/verify":
		d.Build, d.MaxAge = markdownVerify, settledAge
	case path == "/ring":
		d.Build = func(s *Source) ([]byte, error) { return markdownList(s, path, "", query) }
	case path == "/join":
		d.Build = markdownJoin
	case path == "/embed":
		d.Build = func(s *Source) ([]byte, error) { return markdownEmbed(s, query) }
	case path == "/docs":
		d.Build, d.MaxAge = markdownDocs, settledAge
	case section == "members" && rest != "":
		d.Build = func(s *Source) ([]byte, error) { return markdownMember(s, rest) }
	case section == "categories" && rest != "":
		d.Build = func(s *Source) ([]byte, error) { return markdownList(s, path, rest, query) }
	default:
		return d, false
	}
	return d, true
}

// CategoryInUse is the target of a read that is refused if no member is in a category.
// The page of a category asks it first: otherwise it would show any words in its path
// as a heading.
func CategoryInUse(category string) string {
	return "/api/ring/next?category=" + url.QueryEscape(category)
}

// inMarkdown escapes members' words, so that nothing in them is markup, a link, or the
// end of a line.
func inMarkdown(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	var b strings.Builder
	for i, r := range s {
		switch {
		case strings.ContainsRune("\\`*_{}[]<>#!|~&@", r),
			r == ':' && strings.HasPrefix(s[i:], "://"),
			r == '.' && i >= 3 && strings.EqualFold(s[i-3:i], "www"),
			// What would begin a list or a heading at the start of a line.
			i == 0 && strings.ContainsRune("+-=", r),
			(r == '.' || r == ')') && strings.Trim(s[:i], "0123456789") == "":
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// address is a member's URL as an autolink, in a table too: canonical URLs have no
// '<', '>', '|' or space in them. What else had would not be shown as a link.
func address(u string) string {
	if strings.ContainsAny(u, "<>| \n") {
		return inMarkdown(u)
	}
	return "<" + u + ">"
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02") }

func markdownHome(s *Source) ([]byte, error) {
	ring, err := s.ring()
	if err != nil {
		return nil, err
	}
	list, total, joinAtFirst, err := s.leaders(25)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	head(&b, &ring, inMarkdown(ring.Name))
	fmt.Fprintf(&b, "%s\n\n%d members. Joining costs %s USD", ring.Description, total, ring.Fee)
	if joinAtFirst != "0.00" {
		fmt.Fprintf(&b, "; with an opening bid of %s USD a new member joins at rank 1", joinAtFirst)
	}
	fmt.Fprintf(&b, ". How: <%s/llms.txt>\n\n## Leaderboard\n\n", ring.Base)
	b.WriteString("Ranks are paid placement.\n\n")
	if total == 0 {
		b.WriteString("Nobody is in the ring at present.\n")
	} else {
		ranks(&b, list)
	}
	if total > len(list) && s.has("/leaderboard") {
		fmt.Fprintf(&b, "\nThe whole leaderboard: <%s/leaderboard>\n", ring.Base)
	}
	return []byte(b.String()), nil
}

func head(b *strings.Builder, ring *Ring, title string) {
	fmt.Fprintf(b, "# %s\n\n", title)
	if ring.Synthetic {
		b.WriteString("This ring is synthetic: it was made for measurement, and nobody paid to be in it.\n\n")
	}
}

// markdownList lists members in ring order, those of a category when one is
// given, as the page for people at the same path and query does.
func markdownList(s *Source, path, category, query string) ([]byte, error) {
	ring, err := s.ring()
	if err != nil {
		return nil, err
	}
	asked, err := url.ParseQuery(query)
	if err != nil {
		asked = nil
	}
	l := memberList{page: asked.Get("page"), kind: asked.Get("kind"), category: category, newest: asked.Get("sort") == "newest"}
	title := "The ring"
	if category == "" {
		l.category, l.words = asked.Get("category"), asked.Get("q")
	}
	if l.category != "" {
		if err := s.read(CategoryInUse(l.category), &struct{}{}); err != nil {
			return nil, err
		}
		title = "Category " + l.category
	}
	doc, found, err := l.read(s)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	head(&b, &ring, inMarkdown(ring.Name)+": "+inMarkdown(title))
	if !found {
		b.WriteString("The search does not answer at present, or these words cannot be searched for: at most eight, of 100 characters.\n")
		return []byte(b.String()), nil
	}
	if l.words != "" {
		fmt.Fprintf(&b, "Found with the words %s: ", inMarkdown(l.words))
	}
	fmt.Fprintf(&b, "%d members", doc.Total)
	if l.newest {
		b.WriteString(", the newest first")
	}
	if doc.Count > 0 {
		fmt.Fprintf(&b, ", these from number %d on", doc.Offset+1)
	}
	fmt.Fprintf(&b, ". All as JSON: <%s/api/ring>\n\n", ring.Base)
	for _, m := range doc.Members {
		number := strconv.Itoa(m.Position) + "."
		if l.newest { // numbers of a list of Markdown do not fall
			number = "- Number " + strconv.Itoa(m.Position) + ":"
		}
		fmt.Fprintf(&b, "%s %s (%s, %s) %s", number, inMarkdown(m.Name), m.Kind, inMarkdown(m.Category), address(m.URL))
		if m.Health == "asleep" {
			b.WriteString(" (asleep since " + day(m.HealthSince) + ")")
		}
		if m.Description != "" {
			b.WriteString(": " + inMarkdown(m.Description))
		}
		b.WriteByte('\n')
	}
	if shown := doc.Offset + doc.Count; doc.Count > 0 && shown < doc.Total {
		next := url.Values{"page": {strconv.Itoa(shown/ListRows + 1)}}
		for _, name := range []string{"q", "kind", "category", "sort"} {
			if v := asked.Get(name); v != "" {
				next.Set(name, v)
			}
		}
		fmt.Fprintf(&b, "\nNext page: <%s%s?%s>\n", ring.Base, path, next.Encode())
	}
	return []byte(b.String()), nil
}

func markdownMember(s *Source, slug string) ([]byte, error) {
	ring, err := s.ring()
	if err != nil {
		return nil, err
	}
	var doc struct{ Member Member }
	if err := s.read("/api/ring/"+url.PathEscape(slug), &doc); err != nil {
		return nil, err
	}
	m := doc.Member
	if m.Slug != slug { // the path of another read, such as /api/ring/next
		return nil, nil
	}
	var b strings.Builder
	head(&b, &ring, inMarkdown(m.Name))
	if m.Description != "" {
		fmt.Fprintf(&b, "%s\n\n", inMarkdown(m.Description))
	}
	fmt.Fprintf(&b, "- Site: %s\n- Kind: %s\n- Category: %s\n- Joined: %s, number %d in the ring\n- Rank: %d, with a standing of %s USD of %s USD paid in all\n",
		address(m.URL), m.Kind, inMarkdown(m.Category), day(m.Joined), m.Position, m.DetailRank, m.Standing, m.Paid)
	m.standing(&b, m.DetailRank)
	if m.Score != nil {
		b.WriteString("- Agent-readiness score when joining: " + strconv.Itoa(*m.Score) + "\n")
	}
	if m.Report != "" {
		fmt.Fprintf(&b, "- Report: %s\n", address(m.Report))
	}
	condition(&b, &ring, &m)
	var hops struct{ Total struct{ From, To uint64 } }
	if s.beside("/api/ring/"+m.Slug+"/hops", &hops) {
		fmt.Fprintf(&b, "- Visitors in 30 days: %d sent here from other members, %d sent on; by day: <%s/api/ring/%s/hops>\n", hops.Total.To, hops.Total.From, ring.Base, m.Slug)
	}
	if s.has(memberFeedPath + m.Slug + ".atom") {
		fmt.Fprintf(&b, "- News, as that it is outbid: <%[1]s/api/ring/%[2]s/events>; as a feed: <%[1]s%[3]s%[2]s.atom>\n", ring.Base, m.Slug, memberFeedPath)
	}
	for _, to := range []string{"next", "prev"} {
		fmt.Fprintf(&b, "- %s: <%s/%s?from=%s>\n", to, ring.Base, to, m.Slug)
	}
	fmt.Fprintf(&b, "- As JSON: <%s/api/ring/%s>\n", ring.Base, m.Slug)
	b.WriteString(ring.Policies.lines())
	return []byte(b.String()), nil
}

// condition says what is known of a member's site, and whose the member is.
func condition(b *strings.Builder, ring *Ring, m *Member) {
	since := m.HealthSince
	if since.IsZero() {
		since = m.Joined
	}
	fmt.Fprintf(b, "- Health: %s since %s\n", m.Health, day(since))
	if m.Verified == "" {
		b.WriteString("- Site: not verified\n")
	} else {
		fmt.Fprintf(b, "- Site: verified by %s on %s\n", m.Verified, day(m.VerifiedAt))
	}
	if !m.Changed.IsZero() {
		fmt.Fprintf(b, "- Changed: %s\n", day(m.Changed))
	}
	switch {
	case m.Owner == "":
		b.WriteString("- Owner: unknown until the site names one\n")
	case m.Claimed:
		fmt.Fprintf(b, "- Owner: %s, which its site has named\n", m.Owner)
	default:
		fmt.Fprintf(b, "- Owner: %s, which paid for it\n", m.Owner)
	}
	fmt.Fprintf(b, "- Owners change it by PATCH, and leave by DELETE: <%[1]s/api/ring/%[2]s>, which they can undo for seven days by POST: <%[1]s/api/ring/%[2]s/return>; sites name owners by POST: <%[1]s/api/ring/%[2]s/claim>\n", ring.Base, m.Slug)
}
