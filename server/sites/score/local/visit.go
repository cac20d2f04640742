package local

import (
	"context"
	"errors"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"webring/server/sites/fetch"
	"webring/server/sites/markup"
)

// atOnce is how many requests of one scan are under way at a time.
const atOnce = 4

// Bodies are read up to these many bytes.
const (
	maxSitemap = 5 << 20
	maxPresent = 64 << 10 // of what only has to be there
)

// agents are the crawlers that a site must admit, with their User-Agent fields.
var agents = []struct{ name, field string }{
	{"GPTBot", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)"},
	{"ClaudeBot", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)"},
	{"ChatGPT-User", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ChatGPT-User/1.0; +https://openai.com/bot)"},
	{"PerplexityBot", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; PerplexityBot/1.0; +https://perplexity.ai/perplexitybot)"},
}

// answer is what one request brought. err is one of package fetch.
type answer struct {
	*fetch.Response
	err error
}

// drop lets go of the body, which has been read.
func (a answer) drop() {
	if a.Response != nil {
		a.Body = nil
	}
}

// text is the body in UTF-8.
func (a answer) text() []byte { return markup.Text(a.Body, a.Header.Get("Content-Type")) }

// page reads the body as a page.
func (a answer) page() *page { return readPage(a.Body, a.Header.Get("Content-Type")) }

// ok says whether there is an answer with status 200.
func (a answer) ok() bool { return a.err == nil && a.Response != nil && a.Status == 200 }

// site is what a scan saw. Answers are written once each, by different
// goroutines, and read when all have ended.
type site struct {
	asked string
	cache *cache
	sent  atomic.Int64 // with the redirects that led somewhere

	home     answer
	page     *page // of home; empty when there is none
	byAgent  map[string]*sighting
	missing  answer
	robots   answer
	rules    *robots // nil without a robots.txt
	markdown answer
	sitemap  finding
	llms     answer
	linked   map[string]*answer // by word: about, contact, privacy
	mailto   bool
	found    map[string]*document // by id of kind
	mcp      *mcpServer
	skill    *skill

	turns *turns // to read what was sent

	mu    sync.Mutex
	spent time.Duration // reading
	busy  *fetch.Busy   // a limit of our own cut the scan short
	fault any           // what a reader panicked with
}

// sighting is what an agent gets in the place of the page.
type sighting struct {
	answer
	page *page
}

// entry is the address at which the home page of the site is fetched. It has no query: a
// client can invent any number of queries, and a site answers each of them.
func (s *site) entry() string {
	page, _, _ := strings.Cut(s.asked, "?")
	return page
}

func (s *site) requests() int { return int(s.sent.Load()) }

// get gives the answer to one request, unless the scan is of no use any more.
func (s *site) get(ctx context.Context, r fetch.Request) answer {
	if busy := s.limit(); busy != nil {
		return answer{err: busy}
	}
	a, sent := s.cache.get(ctx, r)
	if busy, ok := errors.AsType[*fetch.Busy](a.err); ok {
		s.limited(busy)
	}
	if sent {
		s.sent.Add(1)
		if a.err == nil {
			s.sent.Add(int64(a.Redirects))
		}
	}
	return a
}

func (s *site) limited(busy *fetch.Busy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = busy
}

// limit is what cut the scan short, or nil.
func (s *site) limit() *fetch.Busy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}

// read calls f, which reads what the site sent, when it is its turn.
func (s *site) read(ctx context.Context, f func()) {
	// The time of the scan is the site's, and this is ours.
	waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), TurnTime)
	defer cancel()
	if s.limit() != nil {
		return
	}
	s.mu.Lock()
	spent := s.spent
	s.mu.Unlock()
	if !s.turns.take(waiting, spent) {
		s.limited(&fetch.Busy{RetryAfter: busyRetry})
		return
	}
	defer s.turns.pass()
	began := time.Now()
	f()
	s.mu.Lock()
	s.spent += time.Since(began)
	s.mu.Unlock()
}

const acceptHTML = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"

// begin reads the page itself, on which the rest depends.
func begin(ctx context.Context, cache *cache, turns *turns, address string) *site {
	s := &site{asked: address, cache: cache, turns: turns, page: &page{}, byAgent: map[string]*sighting{},
		linked: map[string]*answer{}, found: map[string]*document{}}
	s.home = s.get(ctx, fetch.Request{URL: s.entry(), Accept: acceptHTML})
	if s.home.ok() {
		s.read(ctx, func() { s.page = s.home.page() })
	}
	return s
}

// base is the URL that the page has after redirects.
func (s *site) base() *url.URL {
	if s.home.err == nil {
		return s.home.URL
	}
	u, err := url.Parse(s.entry())
	if err != nil {
		panic(err) // it was fetched
	}
	return u
}

// at is the address of a path on the site.
func (s *site) at(path string) string { return s.base().Scheme + "://" + s.base().Host + path }

// explore sends the other requests. Each answer has a place of its own, so they need no lock.
func (s *site) explore(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(atOnce)
	do := func(f func()) {
		group.Go(func() error {
			// A panic of this goroutine would end the process, and with it
			// the payments: it goes on in the caller's, which holds it.
			defer func() {
				if p := recover(); p != nil {
					s.mu.Lock()
					s.fault = p
					s.mu.Unlock()
				}
			}()
			f()
			return nil
		})
	}
	do(func() {
		s.robots = s.get(ctx, fetch.Request{URL: s.at("/robots.txt"), MaxBody: maxRobots})
		if s.robots.ok() && !looksLikeHTML(s.robots) {
			s.read(ctx, func() { s.rules = parseRobots(s.robots.text()) })
		}
		s.findSitemap(ctx)
	})
	catalog, index := &document{}, &document{}
	s.found[aiCatalog.id], s.found[skillsIndex.id] = catalog, index
	do(func() {
		*catalog = *s.findDocument(ctx, aiCatalog)
		s.mcp = s.findServer(ctx, catalog)
	})
	do(func() {
		*index = *s.findDocument(ctx, skillsIndex)
		s.skill = s.findSkill(ctx, index)
	})
	for _, agent := range agents {
		seen := &sighting{page: &page{}}
		s.byAgent[agent.name] = seen
		do(func() {
			seen.answer = s.get(ctx, fetch.Request{URL: s.entry(), Accept: acceptHTML, UserAgent: agent.field})
			if seen.ok() {
				s.read(ctx, func() { seen.page = seen.answer.page() })
				seen.Body, seen.page.jsonLD = nil, nil // most of what a scan would hold
			}
		})
	}
	do(func() {
		// A path that no site has, and that no cache of its own has seen.
		s.missing = s.get(ctx, fetch.Request{URL: s.cache.missing(s.at("/")), Accept: acceptHTML})
	})
	do(func() {
		s.markdown = s.get(ctx, fetch.Request{URL: s.entry(), Accept: "text/markdown", MaxBody: maxPresent})
	})
	do(func() { s.llms = s.get(ctx, fetch.Request{URL: s.at("/llms.txt"), Accept: "text/plain,text/markdown"}) })
	for _, kind := range alone {
		d := &document{}
		s.found[kind.id] = d
		do(func() { *d = *s.findDocument(ctx, kind) })
	}
	for _, word := range []string{"about", "contact", "privacy"} {
		address := s.linkWith(word)
		if address == "" {
			continue
		}
		a := &answer{}
		s.linked[word] = a
		do(func() { *a = s.get(ctx, fetch.Request{URL: address, Accept: acceptHTML, MaxBody: maxPresent}) })
	}
	s.mailto = slices.ContainsFunc(s.page.links, func(href string) bool {
		address, found := strings.CutPrefix(strings.ToLower(href), "mailto:")
		return found && strings.Contains(address, "@")
	})
	_ = group.Wait() // none of them fails: what went wrong is in the answers
	if s.fault != nil {
		panic(s.fault)
	}
}

// maxSitemaps is how many sitemaps are asked for at most.
const maxSitemaps = 2

// findSitemap asks for the sitemaps that robots.txt names on this site, and for the one at the
// usual place, until one is there.
func (s *site) findSitemap(ctx context.Context) {
	var addresses []string
	if s.rules != nil {
		for _, address := range s.rules.Sitemaps {
			if own := s.own(address); own != "" && len(addresses) < maxSitemaps && !slices.Contains(addresses, own) {
				addresses = append(addresses, own)
			}
		}
	}
	if usual := s.at("/sitemap.xml"); len(addresses) < maxSitemaps && !slices.Contains(addresses, usual) {
		addresses = append(addresses, usual)
	}
	for _, address := range addresses {
		a := s.get(ctx, fetch.Request{URL: address, MaxBody: maxSitemap})
		f := finding{evidence: noAnswer(a)}
		if a.ok() {
			s.read(ctx, func() { f = s.judgeSitemap(a) })
		}
		a.drop()
		if s.sitemap = f; f.passed {
			return
		}
	}
}

// own resolves a reference of the page, and gives it if it is on this site.
func (s *site) own(href string) string {
	ref, err := url.Parse(href)
	if err != nil {
		return ""
	}
	u := s.base().ResolveReference(ref)
	if (u.Scheme != "https" && u.Scheme != "http") || fetch.Site(u.Hostname()) != fetch.Site(s.base().Hostname()) {
		return ""
	}
	return u.String()
}

// linkWith returns the first link of the page to this site with a word in its path.
func (s *site) linkWith(word string) string {
	for _, href := range s.page.links {
		own := s.own(href)
		if own == "" {
			continue
		}
		if u, err := url.Parse(own); err == nil && strings.Contains(strings.ToLower(path.Clean(u.Path)), word) {
			return own
		}
	}
	return ""
}

// looksLikeHTML recognises the page that some sites send for every path.
func looksLikeHTML(a answer) bool {
	switch markup.MediaType(a.Header.Get("Content-Type")) {
	case "text/html", "application/xhtml+xml":
		return true
	}
	return startsAsHTML(a.text())
}

// startsAsHTML recognises a whole document in HTML. Markdown may begin with an
// element, but not with this.
func startsAsHTML(text []byte) bool {
	start := strings.ToLower(strings.TrimSpace(string(text[:min(len(text), 256)])))
	return strings.HasPrefix(start, "<!doctype") || strings.HasPrefix(start, "<html")
}
