package local

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"webring/server/sites/fetch"
	"webring/server/sites/markup"
)

func pass(format string, a ...any) finding {
	return finding{passed: true, evidence: fmt.Sprintf(format, a...)}
}
func fail(format string, a ...any) finding { return finding{evidence: fmt.Sprintf(format, a...)} }

// noAnswer says in our own words why an answer is not the one that is needed.
func noAnswer(a answer) string {
	switch {
	case errors.Is(a.err, fetch.ErrTooSlow):
		return "There was no answer in time."
	case errors.Is(a.err, fetch.ErrRedirect):
		return "The redirect was not followed: it leads to another site, from https to http, or on and on."
	case errors.Is(a.err, fetch.ErrTarget):
		return "The address is none that is fetched."
	case a.err != nil || a.Response == nil:
		return "There was no answer."
	}
	return fmt.Sprintf("Status %d.", a.Status)
}

func (s *site) checkHome() finding {
	switch {
	case !s.home.ok():
		return fail("%s", noAnswer(s.home))
	case s.home.URL.Scheme != "https":
		return fail("Status 200, but over http.")
	}
	return pass("Status 200 after %d redirects.", s.home.Redirects)
}

// sameFor holds that an agent gets the page that a browser gets: status, title,
// and four fifths of the text at least.
func sameFor(agent string) func(*site) finding {
	return func(s *site) finding {
		seen := s.byAgent[agent]
		switch {
		case !s.home.ok():
			return fail("There is no page to compare with.")
		case !seen.ok():
			return fail("%s", noAnswer(seen.answer))
		case seen.page.title != s.page.title:
			return fail("The page has another title for this agent.")
		case seen.page.text*5 < s.page.text*4:
			return fail("The page has %d characters of text for this agent, and %d for others.", seen.page.text, s.page.text)
		}
		return pass("Status 200 and the same page.")
	}
}

func (s *site) checkNotFound() finding {
	if s.missing.err == nil && (s.missing.Status == http.StatusNotFound || s.missing.Status == http.StatusGone) {
		return pass("Status %d for a path that does not exist.", s.missing.Status)
	}
	return fail("%s A path that does not exist was asked for.", noAnswer(s.missing))
}

// checkNotFoundHelp looks at the words, whatever the status says.
func (s *site) checkNotFoundHelp() finding {
	if s.missing.err != nil {
		return fail("%s", noAnswer(s.missing))
	}
	if markup.MediaType(s.missing.Header.Get("Content-Type")) == "application/problem+json" {
		return s.readProblem(s.missing.text())
	}
	p := s.missing.page()
	switch {
	case s.home.ok() && bytes.Equal(s.missing.Body, s.home.Body):
		return fail("The answer for a missing page is the page itself.")
	case p.text < 20:
		return fail("The answer has %d characters of text.", p.text)
	case !slices.ContainsFunc(p.links, func(href string) bool { return s.own(href) != "" }):
		return fail("The answer has no link back to the site.")
	}
	return pass("The answer has %d characters of text and links on.", p.text)
}

// readProblem looks at a problem document (RFC 9457), which says to programs what a page
// says to people.
func (s *site) readProblem(body []byte) finding {
	var p struct {
		Type, Detail string
		Links        map[string]any
	}
	if manyValues(body) || json.Unmarshal(body, &p) != nil {
		return fail("The problem document cannot be read.")
	}
	leads := strings.Contains(p.Type, "/") && s.own(p.Type) != ""
	for _, link := range p.Links {
		href, _ := link.(string)
		leads = leads || href != "" && s.own(href) != ""
	}
	switch {
	case len(p.Detail) < 20:
		return fail("The problem document does not say in its detail what happened.")
	case !leads:
		return fail("The problem document leads nowhere on the site, by its type or by links.")
	}
	return pass("A problem document says what happened and leads on.")
}

func (s *site) checkRobots() finding {
	switch {
	case !s.robots.ok():
		return fail("%s", noAnswer(s.robots))
	case s.rules == nil:
		return fail("What is served as robots.txt is HTML.")
	case s.rules.Groups() == 0:
		return fail("It has no group: it says nothing about anybody.")
	case s.rules.Strange > 0:
		return fail("%d lines are neither a comment nor a name with a value.", s.rules.Strange)
	}
	path := s.base().RequestURI()
	for _, agent := range agents {
		if !s.rules.Allowed(agent.name, path) {
			return fail("It does not let %s read the page.", agent.name)
		}
	}
	return pass("It is valid and lets all four agents read the page.")
}

const leastText = 500 // characters

func (s *site) checkText() finding {
	switch {
	case !s.page.mainHeading:
		f := fail("There is no h1 with text; %d characters of text.", s.page.text)
		if s.page.text >= leastText {
			f.fix = headingFix
		}
		return f
	case s.page.text < leastText:
		return fail("There is an h1, but only %d characters of text.", s.page.text)
	}
	return pass("An h1 and %d characters of text.", s.page.text)
}

func (s *site) checkHeadings() finding {
	if len(s.page.headings) == 0 {
		return fail("There are no headings.")
	}
	for i, level := range s.page.headings[1:] {
		if before := s.page.headings[i]; level > before+1 {
			return fail("An h%d follows an h%d.", level, before)
		}
	}
	return pass("%d headings, none of which skips a level.", len(s.page.headings))
}

// stated is a check that the page says something.
func stated(what string, says func(*site) bool) func(*site) finding {
	return func(s *site) finding {
		if says(s) {
			return pass("%s is there.", what)
		}
		return fail("%s is missing.", what)
	}
}

func (s *site) checkJSONLD() finding {
	broken, bySchema := 0, 0
	for _, text := range s.page.jsonLD {
		isJSON, says := linkedData(text)
		if !isJSON {
			broken++
		}
		if says {
			bySchema++
		}
	}
	switch all := len(s.page.jsonLD); {
	case all == 0:
		return fail("There is none.")
	case bySchema == 0 && broken > 0:
		return fail("%d of %d blocks are not JSON.", broken, all)
	case bySchema == 0:
		return fail("No block says anything by schema.org.")
	default:
		return pass("%d of %d blocks say something by schema.org.", bySchema, all)
	}
}

func (s *site) checkMarkdown() finding {
	switch {
	case !s.markdown.ok():
		return fail("%s", noAnswer(s.markdown))
	case markup.MediaType(s.markdown.Header.Get("Content-Type")) != "text/markdown":
		return fail("Who asks for Markdown gets something else.")
	case len(bytes.TrimSpace(s.markdown.Body)) == 0 || startsAsHTML(s.markdown.text()):
		return fail("What is called Markdown is empty or HTML.")
	}
	return pass("Who asks for Markdown gets it.")
}

func (s *site) checkVary() finding {
	if !s.home.ok() {
		return fail("%s", noAnswer(s.home))
	}
	for _, field := range s.home.Header.Values("Vary") {
		for name := range strings.SplitSeq(field, ",") {
			if name = strings.TrimSpace(name); name == "*" || strings.EqualFold(name, "Accept") {
				return pass("The Vary field names Accept.")
			}
		}
	}
	return fail("The Vary field does not name Accept.")
}

// judgeSitemap reads a sitemap in one of the forms of sitemaps.org: XML, a feed, or a list in
// plain text, each of which may be a gzip file.
func (s *site) judgeSitemap(a answer) finding {
	body, contentType := a.Body, a.Header.Get("Content-Type")
	cut := a.Truncated
	if fetch.IsGzip(body) {
		body = fetch.Gunzip(body, maxSitemap)
		cut = cut || len(body) == maxSitemap
	}
	n, err := s.readSitemap(body, contentType)
	if text := markup.Text(body, contentType); err != nil && !bytes.HasPrefix(bytes.TrimSpace(text), []byte("<")) {
		n, err = s.readSitemapList(text), nil
	}
	switch {
	case err != nil && !cut:
		return fail("It is not valid XML of a sitemap.")
	case n == 0:
		return fail("It lists no page of this site.")
	case n == maxLocations:
		return pass("It lists %d pages or sitemaps of this site, and maybe more.", n)
	}
	return pass("It lists %d pages or sitemaps of this site.", n)
}

const (
	// maxLocations is how many pages of a sitemap are counted: more say no more.
	maxLocations = 1000
	// maxMarkup is how many tags and texts of a sitemap are read for them.
	maxMarkup = 100 * maxLocations
	// maxLocation is how long one of them may be, in bytes.
	maxLocation = 2048
)

var errSitemap = errors.New("local: not a sitemap")

// locations says, by the root of a document, where it has addresses: in the text of these
// elements, at this depth.
var locations = map[string]struct {
	name  string
	depth int
}{"urlset": {"loc", 3}, "sitemapindex": {"loc", 3}, "rss": {"link", 4}, "feed": {"link", 3}}

// readSitemap counts the locations on this site, up to [maxLocations].
func (s *site) readSitemap(body []byte, contentType string) (n int, err error) {
	d := markup.XML(body, contentType)
	var (
		depth int
		in    = locations[""]
		loc   []byte // the location that is open
	)
	count := func(address []byte) {
		if address = bytes.TrimSpace(address); len(address) <= maxLocation && s.own(string(address)) != "" && len(address) > 0 {
			n++
		}
	}
	for range maxMarkup {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) && depth == 0 && in.depth > 0 {
			return n, nil
		}
		if err != nil {
			return n, errSitemap
		}
		switch t := token.(type) {
		case xml.StartElement:
			if depth == 0 {
				if in = locations[t.Name.Local]; in.depth == 0 {
					return 0, errSitemap
				}
			}
			depth++
			loc = nil
			if depth == in.depth && t.Name.Local == in.name {
				loc = []byte{}
				for _, a := range t.Attr { // of a feed in Atom
					if a.Name.Local == "href" {
						count([]byte(a.Value))
					}
				}
			}
		case xml.EndElement:
			depth--
			if loc != nil {
				count(loc)
				loc = nil
			}
		case xml.CharData:
			if loc != nil && len(loc) <= maxLocation {
				loc = append(loc, t[:min(len(t), maxLocation+1)]...)
			}
		}
		if n == maxLocations {
			return n, nil
		}
	}
	return n, nil
}

// readSitemapList counts the locations of a sitemap in plain text, one in a line; 0 if a line is
// something else.
func (s *site) readSitemapList(text []byte) (n int) {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if !bytes.HasPrefix(line, []byte("http://")) && !bytes.HasPrefix(line, []byte("https://")) || len(line) > maxLocation {
			return 0
		}
		if s.own(string(line)) != "" {
			if n++; n == maxLocations {
				return n
			}
		}
	}
	return n
}

func (s *site) checkLLMs() finding {
	if !s.llms.ok() {
		return fail("%s", noAnswer(s.llms))
	}
	text := bytes.TrimSpace(s.llms.text())
	links := len(markdownLink.FindAll(text, maxLinks))
	switch {
	case looksLikeHTML(s.llms):
		return fail("What is served as llms.txt is HTML.")
	case !markdownTitle.Match(text):
		return fail("It does not begin with a heading.")
	case links == 0:
		return fail("It has no links.")
	}
	return pass("It begins with a heading and has %d links.", links)
}

// The forms of CommonMark: a title after "#" or above a line of "="; an inline link, the
// definition of a reference, and an address between angle brackets.
var (
	markdownTitle = regexp.MustCompile(`^(#[ \t]+\S|([^\s#<>*+-]|[*_]\S)[^\r\n]*((\r\n|\r|\n)[^\r\n]+){0,3}?(\r\n|\r|\n) {0,3}=+[ \t]*([\r\n]|$))`)
	markdownLink  = regexp.MustCompile(`\]\(|(^|[\r\n]) {0,3}\[[^\]\r\n]+\]:[ \t]*\S|<https?://[^\s<>]+>`)
)

func (s *site) checkLinks() finding {
	switch {
	case s.home.ok() && s.linkHeader(machineRelations...) != "":
		return pass("A Link field names what machines read.")
	case s.page.markdown:
		return pass("The page names its Markdown.")
	}
	return fail("Neither a Link field nor an alternate as Markdown.")
}

// machineRelations are link relations that lead agents on. Others, such as
// preload, are for browsers.
var machineRelations = []string{"alternate", "api-catalog", "describedby", "service-desc", "service-doc", "service-meta", "linkset", "mcp", "llms-txt", "llms", "payment"}

func (s *site) checkSignal() finding {
	if s.rules == nil {
		return fail("There is no robots.txt to look in.")
	}
	for _, value := range s.rules.Signals {
		// A path may stand before the signals.
		if strings.HasPrefix(value, "/") {
			_, value, _ = strings.Cut(value, " ")
		}
		if validSignal(value) {
			return pass("robots.txt says what agents may do.")
		}
	}
	return fail("%d lines of it in robots.txt, none of them valid.", len(s.rules.Signals))
}

// validSignal reads "search=yes, ai-train=no".
func validSignal(value string) bool {
	for pair := range strings.SplitSeq(value, ",") {
		name, answer, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if !slices.Contains([]string{"search", "ai-input", "ai-train"}, strings.TrimSpace(name)) || !slices.Contains([]string{"yes", "no"}, strings.TrimSpace(answer)) {
			return false
		}
	}
	return true
}

func pageFor(word string) func(*site) finding {
	return func(s *site) finding {
		a, linked := s.linked[word]
		switch {
		case linked && a.ok():
			return pass("The page links to it, and it is there.")
		case word == "contact" && s.mailto:
			return pass("The page links to a mail address.")
		case !linked:
			return fail("The page has no link to one.")
		}
		return fail("The page links to it. %s", noAnswer(*a))
	}
}

func documentFor(id string) func(*site) finding {
	return func(s *site) finding { return s.found[id].finding() }
}

// agentsOnly is a check of what a site that is or sends no agent has no use for.
func agentsOnly(id string) func(*site) finding {
	return func(s *site) finding {
		f := s.found[id].finding()
		if !f.passed {
			f.evidence += " A site without agents needs none."
		}
		return f
	}
}

func (s *site) checkPayments() finding {
	if s.found["x402"].formed {
		return pass("x402 resources are listed.")
	}
	if s.found["openapi"].priced {
		return pass("The OpenAPI description says what operations cost.")
	}
	return fail("Neither x402 resources nor x-payment-info in an OpenAPI description.")
}

// hasPaymentInfo looks for x-payment-info on an operation.
func hasPaymentInfo(description any) bool {
	root, _ := description.(map[string]any)
	paths, _ := root["paths"].(map[string]any)
	for _, item := range paths {
		operations, _ := item.(map[string]any)
		for _, operation := range operations {
			o, _ := operation.(map[string]any)
			if _, has := o["x-payment-info"]; has {
				return true
			}
		}
	}
	return false
}
