package server

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"webring/edge/share"
	"webring/server/sites/fetch"
	"webring/server/sites/markup"
	"webring/templates"
)

// introduceTime bounds how long a site may take to introduce itself.
const introduceTime = 8 * time.Second

// The most characters of a name and of a description.
const longestName, longestDescription = 80, 300

// addressed is a draft with its address and category as the ring takes them from a form: people
// write example.com, and Home & Garden. guessed says that the scheme is not theirs. A scheme or an
// e-mail address that somebody typed stays, so that the answer is about what was typed.
func addressed(d templates.Draft) (_ templates.Draft, guessed bool) {
	d.URL, d.Category = strings.TrimSpace(d.URL), slugified(d.Category)
	if guessed = d.URL != "" && !strings.Contains(d.URL, "://") && !scheme.MatchString(d.URL) && !email.MatchString(d.URL); guessed {
		d.URL = "https://" + d.URL
	}
	return d, guessed
}

// scheme begins an address such as http:/knit.dev. A host with a port, such as localhost:8080, has none.
var scheme = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+-]*:(\D|$)`)

// email is an e-mail address, which people type in place of a site's.
var email = regexp.MustCompile(`^((?i)mailto:)?[^\s/:@]+@[^\s/@]*$`)

// slugified is a category in the form of one: small letters, digits and single hyphens.
func slugified(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s), func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') })
	all := strings.Join(words, "-")
	return strings.Trim(all[:min(len(all), 32)], "-")
}

// introduced is a draft without a name or a kind whose empty fields the site has filled in, as far as it introduces
// itself: an MCP server by its protocol, an agent by its card, and others by their page. client
// is whoever asks. refused says why a member may not have a name. With a guessed scheme a site
// that has no page over https is asked over http.
func introduced(ctx context.Context, sites *fetch.Client, client string, d templates.Draft, guessed bool, refused func(name string) error) templates.Draft {
	at, err := url.Parse(d.URL)
	if d.Name != "" && d.Kind != "" || err != nil || at.Hostname() == "" {
		return d
	}
	ctx, cancel := context.WithTimeout(share.NewContext(ctx, share.AskerOf(client)), introduceTime)
	defer cancel()
	kind, said := "website", words{}
	page, err := sites.Get(ctx, fetch.Request{URL: d.URL, Accept: "text/html"})
	if plain := "http://" + strings.TrimPrefix(d.URL, "https://"); err != nil && guessed {
		if page, err = sites.Get(ctx, fetch.Request{URL: plain, Accept: "text/html"}); err == nil {
			d.URL, at.Scheme = plain, "http"
		}
	}
	if err == nil && page.Status == 200 && markup.MediaType(page.Header.Get("Content-Type")) != "application/json" {
		said = wordsOf(page)
	}
	var card struct{ Name, Description string }
	switch {
	case speaksMCP(ctx, sites, at, page):
		kind = "mcp"
	case document(ctx, sites, at.Scheme+"://"+at.Host+"/.well-known/agent-card.json", &card) && card.Name != "":
		kind, said.name, said.description = "agent", card.Name, card.Description
	}
	fill := func(field *string, with string, most int) {
		if *field == "" {
			*field = clip(plain(with), most)
		}
	}
	for _, name := range append([]string{said.name}, hostNames(at.Hostname())...) {
		if name = clip(plain(name), longestName); d.Name == "" && name != "" && refused(name) == nil {
			d.Name = name
		}
	}
	fill(&d.Kind, kind, len(kind))
	fill(&d.Description, said.description, longestDescription)
	fill(&d.Category, slugified(said.keyword), longestName)
	return d
}

// hostNames are the names that a host can give its site: the whole host, its first labels, and its last,
// the longer ones first.
func hostNames(host string) (all []string) {
	labels := strings.Split(strings.TrimPrefix(host, "www."), ".")
	for n := len(labels); n > 0; n-- {
		all = append(all, strings.Join(labels[:n], "."))
	}
	for n := range labels[1:] {
		all = append(all, strings.Join(labels[n+1:], "."))
	}
	return all
}

// speaksMCP says whether there is an MCP server at an address whose path or host names one, or
// that has no page.
func speaksMCP(ctx context.Context, sites *fetch.Client, at *url.URL, page *fetch.Response) bool {
	if page != nil && page.Status == 200 && !strings.Contains(at.Path, "mcp") && !strings.HasPrefix(at.Host, "mcp.") {
		return false
	}
	for _, ask := range []*fetch.Exchange{fetch.Initialize, fetch.Discover} {
		r, err := sites.Get(ctx, fetch.Request{URL: at.String(), Accept: fetch.AcceptMCP, MaxBody: fetch.MaxMCP, Exchange: ask})
		if err != nil {
			return false
		}
		if i, whole := fetch.ReadMCP(r.Body); whole && i.Introduced {
			return true
		}
	}
	return false
}

// document reads a JSON document of a site.
func document(ctx context.Context, sites *fetch.Client, at string, into any) bool {
	r, err := sites.Get(ctx, fetch.Request{URL: at, Accept: "application/json", MaxBody: 64 << 10})
	return err == nil && r.Status == 200 && json.Unmarshal(markup.Text(r.Body, r.Header.Get("Content-Type")), into) == nil
}

// words are those by which a page introduces its site.
type words struct{ name, description, keyword string }

// wordsOf reads a page. The site's own name counts before the title of the page, of which the
// first part is most often the name.
func wordsOf(page *fetch.Response) (w words) {
	title, inTitle, named := "", false, ""
	for t := range markup.Tokens(page.Body, page.Header.Get("Content-Type")) {
		switch {
		case t.Kind == markup.Words && inTitle && len(title) < 1000:
			title += string(t.Text)
		case t.Name != "title" && t.Name != "meta" || t.Foreign:
		case t.Name == "title":
			inTitle = t.Kind == markup.Start && title == ""
		case t.Kind == markup.Start:
			content := t.Attributes["content"]
			switch strings.ToLower(t.Attributes["name"] + t.Attributes["property"]) {
			case "og:site_name", "application-name":
				named = content
			case "description":
				w.description = content
			case "og:description":
				if w.description == "" {
					w.description = content
				}
			case "keywords":
				w.keyword, _, _ = strings.Cut(content, ",")
			}
		}
	}
	w.name = title
	for _, between := range []string{" | ", " – ", " — ", " - ", " · "} {
		w.name, _, _ = strings.Cut(w.name, between)
	}
	if strings.TrimSpace(named) != "" {
		w.name = named
	}
	return w
}

// plain is text of a stranger in one line, without characters that cannot be seen.
func plain(s string) string {
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.IsSpace(c) {
			return ' '
		}
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, strings.ToValidUTF8(s, ""))
	return strings.Join(strings.Fields(s), " ")
}

// clip cuts text at a word, to so many characters at most.
func clip(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	cut := string([]rune(s)[:most-1])
	if i := strings.LastIndexByte(cut, ' '); i > most/2 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " .,;:-") + "…"
}
