package edge

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/wasm/host"
)

func TestDocumentsArePublished(t *testing.T) {
	clock := newClock()
	s := serve(t, Config{Core: newRing(t), Contact: "mailto:security@ring.example", Now: clock.Now})
	for _, d := range describe.Documents() {
		r := s.Get(d.Path)
		if r.Status != 200 || r.Body == "" {
			t.Errorf("%s: status %d: %.200s", d.Path, r.Status, r.Body)
		}
		wantCommon(t, r)
		wantFields(t, r, "Content-Type", d.Media, "Webring-Seq", "4", "Vary", "Accept-Encoding", "Link", d.Link)
		if age := r.Header.Get("Cache-Control"); d.MaxAge > content.MaxAge && age != "public, max-age=300" || d.MaxAge <= content.MaxAge && !strings.HasPrefix(age, "public, max-age=5,") {
			t.Errorf("%s: %s", d.Path, age)
		}
		switch {
		case strings.Contains(d.Media, "json"):
			if !json.Valid([]byte(r.Body)) {
				t.Errorf("%s is no JSON", d.Path)
			}
		case strings.Contains(d.Media, "xml") || strings.Contains(d.Media, "opml"):
			for decoder := xml.NewDecoder(strings.NewReader(r.Body)); ; {
				if _, err := decoder.Token(); err == io.EOF {
					break
				} else if err != nil {
					t.Errorf("%s: %v", d.Path, err)
					break
				}
			}
		}
		again := s.Get(d.Path, "If-None-Match", r.Header.Get("ETag"))
		if again.Status != 304 || again.Body != "" {
			t.Errorf("%s: status %d for its own tag", d.Path, again.Status)
		}
		if packed := s.Get(d.Path, "Accept-Encoding", "gzip"); len(packed.Body) > len(r.Body) || packed.Header.Get("Content-Encoding") == "gzip" && packed.Header.Get("ETag") == r.Header.Get("ETag") {
			t.Errorf("%s: packed to %d of %d bytes", d.Path, len(packed.Body), len(r.Body))
		}
		wantProblem(t, s.Do("DELETE", d.Path, ""), api.MethodNotAllowed)
	}
	for _, path := range []string{"/sitemaps/pages.xml", "/sitemaps/members-1.xml", "/opml/1.opml", "/openwebring/1.json", "/ai-catalogs/mcp-1.json", "/.well-known/agent-skills/bid-in-webring/SKILL.md",
		"/v0.1/servers?limit=1&version=latest", "/v0.1/servers/example.ring%2Fbeta/versions", "/v0.1/servers/example.ring%2fbeta/versions/latest", "/v0.1/servers/example.ring/beta/versions/0.0.0"} {
		if r := s.Get(path); r.Status != 200 {
			t.Errorf("%s: status %d", path, r.Status)
		}
	}
	for _, path := range []string{"/sitemaps/", "/sitemaps/members-2.xml", "/opml/2.opml", "/opml/x", "/openwebring/2.json", "/openwebring/01.json", "/ai-catalogs/mcp-2.json", "/ai-catalogs/website-1.json", "/.well-known/agent-skills/", "/feeds/", "/feeds//"} {
		wantProblem(t, s.Get(path), api.NotFound)
	}
	wantProblem(t, s.Get("/v0.1/servers/example.ring%2Fbeta"), api.NotFound)
	wantProblem(t, s.Get("/v0.1/servers/x%2F"), api.NotFound)
	wantProblem(t, s.Get("/v0.1/servers/example.ring%2Fnobody/versions"), api.UnknownMember)
	wantProblem(t, s.Get("/v0.1/servers?limit=0"), api.InvalidParameter)
	for _, name := range describe.ServersParameters {
		wantProblem(t, s.Get("/v0.1/servers?version=&"+name+"=&"+name+"="+strings.Repeat("1", 301)), api.InvalidParameter)
	}
	wantProblem(t, s.Get("/v0.1/servers?search=x"), api.OriginUnavailable) // this node has no origin
	wantProblem(t, s.Get("/opml%2F1.opml"), api.NotFound)
	wantProblem(t, serve(t, Config{Core: newRing(t)}).Get("/.well-known/security.txt"), api.NotFound)
}

func TestDocumentsAreMadeAnewWhenTheyNoLongerHold(t *testing.T) {
	ring := openedRing(t)
	clock := newClock()
	s := serve(t, Config{Core: ring, Contact: "https://ring.example/contact", Now: clock.Now})
	read := func(path string) string { return s.Get(path).Body }
	paths := []string{"/openapi.json", "/feeds/joins.atom", "/ring.opml", "/llms.txt", "/sitemap.xml"}
	before := map[string]string{}
	for _, p := range paths {
		before[p] = read(p)
	}
	join(t, ring, 1000, "ada", core.Joined{Slug: "ada", Kind: core.Website})
	for _, p := range paths {
		if read(p) == before[p] {
			t.Errorf("%s is that of before somebody joined", p)
		}
	}
	security := read("/.well-known/security.txt")
	clock.Move(48 * time.Hour)
	ring.Tick(clock.Now())
	if read("/.well-known/security.txt") == security {
		t.Error("security.txt expires when it did two days ago")
	}
	// Nobody keeps it beyond the day that it was made for.
	now := clock.Now().UTC()
	clock.Move(now.Truncate(24 * time.Hour).Add(24*time.Hour - time.Minute).Sub(now))
	ring.Tick(clock.Now())
	wantFields(t, s.Get("/.well-known/security.txt"), "Cache-Control", "public, max-age=59")
	wantFields(t, s.Get("/llms.txt"), "Cache-Control", "public, max-age=300")
}

func TestPagesAreMarkdownForThoseWhoAsk(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for accept, markdown := range map[string]bool{
		"":                                     false,
		"*/*":                                  false,
		"text/html":                            false,
		"text/markdown":                        true,
		"text/markdown, text/html":             true,
		"text/html, text/markdown":             true,
		"TEXT/Markdown ; q=0.5":                true,
		"text/markdown;q=0.5, text/html":       false,
		"text/markdown;q=0.5, text/html;q=0.4": true,
		"text/markdown;q=0":                    false,
		"text/markdown;q=0.000, */*":           false,
		"text/markdown;q=x":                    false,
		"text/markdown;q=1.001":                true,
		"text/markdown;q=2":                    false,
		"text/html;q=0.9, text/markdown;charset=utf-8;q=1": true,
		"application/markdown":                             false,
		"text/markdownish":                                 false,
		"text/markdown, text/html, */*":                    true,
		"text/markdown;q=0.5, */*":                         false,
		"text/markdown;q=0.9, text/*":                      false,
		"*/*;q=0.1, text/markdown;q=0.5":                   true,
		"text/html;q=0.2, text/*, text/markdown;q=0.5":     true,
		"text/*;q=0.9, */*;q=0.1, text/markdown;q=0.5":     false,
	} {
		media := "text/html; charset=utf-8"
		if markdown {
			media = "text/markdown; charset=utf-8"
		}
		var fields []string
		if accept != "" {
			fields = []string{"Accept", accept}
		}
		r := s.Get("/", fields...)
		wantFields(t, r, "Content-Type", media, "Vary", "Accept-Encoding | Accept")
	}
	for path, want := range map[string]string{"/": "[Test &lt;Ring&gt;](https://ring.example/)", "/leaderboard": "| 1 | [Alpha \\& Co](https://alpha.example/) alpha.example", "/leaderboard?page=2": "# Leaderboard", "/ring": "| 1 | [Alpha \\& Co](", "/ring?page=2&kind=mcp": "No more members", "/members/beta": "# [Beta](https://beta.example/)",
		"/categories/general": "| 3 | [Gamma](", "/join": "POST", "/embed": "<webring-online>", "/docs": "/openapi.json", "/about": "# About Test", "/verify": "webring edge --origin", "/problems/empty_ring": "# No member matches\n"} {
		r := s.Get(path, "Accept", "text/markdown")
		if r.Status != 200 || !strings.Contains(r.Body, want) {
			t.Errorf("%s: status %d: %s", path, r.Status, r.Body)
		}
		if html := s.Get(path); html.Status != 200 || html.Header.Get("ETag") == r.Header.Get("ETag") {
			t.Errorf("%s: HTML has the status %d and the tag %s", path, html.Status, html.Header.Get("ETag"))
		}
	}
	// Field lines of one name are one list (RFC 9110, 5.3).
	wantFields(t, s.Get("/", "Accept", "application/json", "Accept", "text/markdown"), "Content-Type", "text/markdown; charset=utf-8")
	wantProblem(t, s.Get("/members/nobody", "Accept", "text/markdown"), api.UnknownMember)
	wantProblem(t, s.Get("/ring?kind=robot", "Accept", "text/markdown"), api.InvalidParameter)
	wantProblem(t, s.Get("/problems/nothing", "Accept", "text/markdown"), api.NotFound)
	// A file has one form.
	wantFields(t, s.Get("/llms.txt", "Accept", "text/markdown"), "Vary", "Accept-Encoding")
}

// What reads nothing of the ring is of the position at hand in each form, and is kept
// for as long as that lasts, before the ring is open, too.
func TestWhatReadsNothingIsOfThisPosition(t *testing.T) {
	for seq, core := range map[string]*host.Native{"0": host.NewNative(10), "4": newRing(t)} {
		s := serve(t, Config{Core: core})
		for key, accept := range map[string]string{"/problems/empty_ring": "text/html", "markdown /problems/empty_ring": "text/markdown"} {
			r := s.Get("/problems/empty_ring", "Accept", accept)
			wantFields(t, r, "Content-Type", accept+"; charset=utf-8", "Webring-Seq", seq)
			if age := r.Header.Get("Cache-Control"); !strings.HasPrefix(age, "public, max-age=") {
				t.Errorf("%s at %s: %s", accept, seq, age)
			}
			kept := s.core.current.Load().cache.Get(s.core.current.Load().cache.Key([]byte(key)))
			s.Get("/problems/empty_ring", "Accept", accept)
			if kept == nil || s.core.current.Load().cache.Get(s.core.current.Load().cache.Key([]byte(key))) != kept {
				t.Errorf("%s at %s is drawn again", accept, seq)
			}
		}
	}
}

// A page is one in both forms: what is not there as HTML is not there as Markdown,
// and words that a stranger puts in a path never become a heading.
func TestCategoriesThatNobodyIsInAreNotThere(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for _, path := range []string{"/categories/call-this-number", "/categories/Call%20this%20number", "/categories/call?kind=mcp", "/categories/call?page=2"} {
		for _, accept := range []string{"text/html", "text/markdown"} {
			r := s.Get(path, "Accept", accept)
			if accept == "text/markdown" {
				wantProblem(t, r, api.EmptyRing)
			}
			if r.Status != 404 || strings.Contains(strings.ToLower(r.Body), "call") {
				t.Errorf("%s as %s repeats its path: %s", path, accept, r.Body)
			}
		}
	}
	if r := s.Get("/categories/general?kind=mcp"); r.Status != 200 {
		t.Errorf("a category in use without an MCP server: status %d", r.Status)
	}
}
