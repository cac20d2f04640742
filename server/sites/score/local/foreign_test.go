package local

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding/unicode"

	"webring/server/sites/score/exemplar"
)

// rewritten is an exemplary site of which one answer is written anew.
func rewritten(path, contentType string, rewrite func(body string) string, others map[string]string) http.HandlerFunc {
	site := &exemplar.Site{Name: "Example", About: "A site to be read."}
	return func(w http.ResponseWriter, r *http.Request) {
		if body, is := others[r.URL.Path]; is {
			_, _ = w.Write([]byte(body))
			return
		}
		if r.URL.Path != path || path == "/" && strings.Contains(r.Header.Get("Accept"), "text/markdown") {
			site.ServeHTTP(w, r)
			return
		}
		got := httptest.NewRecorder()
		site.ServeHTTP(got, r)
		for name, values := range got.Header() {
			w.Header()[name] = values
		}
		if coding, is := strings.CutPrefix(contentType, "coding "); is {
			w.Header().Set("Content-Encoding", coding)
		} else if contentType != "" {
			w.Header().Set("Content-Type", contentType)
		}
		w.WriteHeader(got.Code)
		_, _ = w.Write([]byte(rewrite(got.Body.String())))
	}
}

func packed(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(s))
	_ = z.Close()
	return b.String()
}

func utf16(s string) string {
	s, _ = unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(s)
	return s
}

// asXHTML gives the page of the exemplary site as XHTML, with what a reader of HTML takes for
// something else.
func asXHTML(page string) string {
	return strings.NewReplacer("<!DOCTYPE html>", `<?xml version="1.0" encoding="UTF-8"?>`, `<html lang="en">`, `<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en">`,
		"<meta charset=utf-8>", `<script src="/a.js"/>`, "</head><body>", "</head><body><iframe src='/frame'/><p><![CDATA[< no tag]]></p>",
		`content="A site to be read.">`, `content="A site to be read."/>`, `content="Example">`, `content="Example"/>`, `content="website">`, `content="website"/>`,
		`href="https://site.dev/">`, `href="https://site.dev/"/>`, "</a>", "</a></li>").Replace(page)
}

func linked(data string) func(string) string {
	return func(page string) string {
		return strings.Replace(page, `{"@context":"https://schema.org","@type":"WebSite","name":"Site"}`, data, 1)
	}
}

// TestWhatBrowsersAndParsersReadCounts has sites that send what is valid in another form than
// most: each has all points.
func TestWhatBrowsersAndParsersReadCounts(t *testing.T) {
	t.Parallel()
	const list = "https://site.dev/\r\nhttps://site.dev/about\r\n"
	const urlset = `<urlset><url><loc>https://site.dev/</loc></url></urlset>`
	same := func(s string) string { return s }
	becomes := func(text string) func(string) string { return func(string) string { return text } }
	marked := func(s string) string { return "\ufeff" + s }
	robots := func(lines string) map[string]string {
		return map[string]string{"/robots.txt": "User-agent: *\nAllow: /\nContent-Signal: search=yes\n" + lines, "/two.xml": urlset, "/list.txt": list,
			"/sitemap.xml.gz": packed(urlset), "/not.xml": "<html>no sitemap"}
	}
	schema := func(data string) func(string) string { return linked(data) }
	for _, c := range []struct {
		about, path, contentType string
		rewrite                  func(string) string
		others                   map[string]string
	}{
		{"XHTML", "/", "application/xhtml+xml", asXHTML, nil},
		{"a page in UTF-16", "/", "text/html", utf16, nil},
		{"an h1 of a picture with a text", "/", "", func(s string) string {
			return strings.Replace(s, "<h1>Example</h1>", `<h1><img src="/logo.svg" alt="Example"></h1>`, 1)
		}, nil},
		{"of a drawing with a title", "/", "", func(s string) string {
			return strings.Replace(s, "<h1>Example</h1>", `<h1><svg role="img"><title>Example</title><path d=""/></svg></h1>`, 1)
		}, nil},
		{"a picture before the title", "/", "", func(s string) string {
			return strings.Replace(s, "<body>", `<body><svg><style/><title>Menu</title></svg>`, 1)
		}, nil},
		{"a page called gzip", "/", "coding gzip", same, nil},
		{"called x-gzip", "/", "coding x-gzip", same, nil},
		{"in x-gzip", "/", "coding X-GZIP", packed, nil},

		{"a sitemap in gzip", "/none", "", same, robots("Sitemap: https://site.dev/sitemap.xml.gz\n")},
		{"its coding is gzip, too", "/sitemap.xml", "coding gzip", func(s string) string { return packed(packed(s)) }, nil},
		{"the second sitemap of two", "/none", "", same, robots("Sitemap: https://site.dev/gone.xml\nSitemap: https://site.dev/two.xml\n")},
		{"the second of two that are there", "/none", "", same, robots("Sitemap: https://site.dev/not.xml\nSitemap: /two.xml\n")},
		{"a list as sitemap", "/none", "", same, robots("Sitemap: https://site.dev/list.txt\n")},
		{"a sitemap in UTF-16", "/sitemap.xml", "", func(s string) string { return utf16(strings.Replace(s, "UTF-8", "UTF-16", 1)) }, nil},
		{"that only says so", "/sitemap.xml", "", func(s string) string { return strings.Replace(s, "UTF-8", "UTF-16", 1) }, nil},
		{"utf8", "/sitemap.xml", "", func(s string) string { return strings.Replace(s, "UTF-8", "utf8", 1) }, nil},
		{"US-ASCII", "/sitemap.xml", "", func(s string) string { return strings.Replace(s, "UTF-8", "US-ASCII", 1) }, nil},
		{"ISO-8859-1", "/sitemap.xml", "", func(s string) string {
			return strings.Replace(strings.Replace(s, "UTF-8", "ISO-8859-1", 1), "about", "\xfcber", 1)
		}, nil},
		{"XML 1.1", "/sitemap.xml", "", func(s string) string { return strings.Replace(s, "1.0", "1.1", 1) }, nil},
		{"a long comment", "/sitemap.xml", "", func(s string) string {
			return strings.Replace(s, "<url>", "<!--"+strings.Repeat(" a generator's words", 5000)+"--><url>", 1)
		}, nil},
		{"CDATA in a location", "/sitemap.xml", "", becomes("<urlset><url><loc> <![CDATA[https://site.dev/?a&b]]> </loc></url></urlset>"), nil},
		{"a feed as sitemap", "/sitemap.xml", "", becomes(`<rss version="2.0"><channel><link>https://site.dev/</link><item><link>https://site.dev/a</link></item></channel></rss>`), nil},
		{"in Atom", "/sitemap.xml", "", becomes(`<feed xmlns="http://www.w3.org/2005/Atom"><entry><link rel="alternate" href="https://site.dev/a"/></entry></feed>`), nil},

		{"OpenAPI with a mark", "/openapi.json", "", marked, nil},
		{"an agent card", "/.well-known/agent-card.json", "", marked, nil},
		{"the catalog", "/.well-known/ai-catalog.json", "", marked, nil},
		{"a server's introduction", "/mcp", "", marked, nil},
		{"robots.txt", "/robots.txt", "", marked, nil},
		{"robots.txt in UTF-16", "/robots.txt", "", utf16, nil},

		{"llms.txt with a mark", "/llms.txt", "", marked, nil},
		{"a title above a line", "/llms.txt", "", becomes("Example\n=======\n\n- [About](/about)\n"), nil},
		{"of two lines", "/llms.txt", "", becomes("*Example*\r\nand more\r\n==\r\n\r\n- [About](/about)\r\n"), nil},
		{"a tab", "/llms.txt", "", becomes("#\tExample\n\n- [About](/about)\n"), nil},
		{"reference links", "/llms.txt", "", becomes("# Example\n\nRead [about us][a].\n\n[a]: /about\n"), nil},
		{"addresses", "/llms.txt", "", becomes("# Example\n\n<https://site.dev/about>\n"), nil},

		{"a context within the graph", "/", "", schema(`{"@graph":[{"@context":"https://schema.org","@type":"WebSite"}]}`), nil},
		{"an alias of @type", "/", "", schema(`{"@context":["https://schema.org",{"type":"@type"}],"type":"WebSite"}`), nil},
		{"its long form", "/", "", schema(`{"@context":[{"@vocab":"http://schema.org/","kind":{"@id":"@type"}}],"@graph":[{"kind":"WebSite"}]}`), nil},
		{"no context", "/", "", schema(`[{"@type":["https://schema.org/WebSite"],"https://schema.org/name":[{"@value":"Site"}]}]`), nil},
		{"two vocabularies", "/", "", schema(`{"@context":"https://www.w3.org/ns/activitystreams","type":"Note"}</script><script type="application/ld+json">{"@context":"https://schema.org","@type":"WebSite"}`), nil},
		{"a stranger's broken block", "/", "", schema(`{"@context":</script><script type="application/ld+json">{"@context":"https://schema.org","@type":"WebSite"}`), nil},
	} {
		r := scan(t, serve(t, rewritten(c.path, c.contentType, c.rewrite, c.others)), "https://site.dev/")
		if lost := failed(r); r.Score != 100 || len(lost) != 0 {
			t.Errorf("%s: %d, without %v", c.about, r.Score, lost)
		}
	}
}

// TestWhatIsNotValidStillCosts has the neighbours of what counts.
func TestWhatIsNotValidStillCosts(t *testing.T) {
	t.Parallel()
	becomes := func(text string) func(string) string { return func(string) string { return text } }
	for _, c := range []struct {
		about, path, contentType string
		rewrite                  func(string) string
		want                     string
	}{
		{"a script that swallows the page, in HTML", "/", "", func(s string) string { return strings.Replace(s, "<h1>", `<script src="/a.js"/><h1>`, 1) }, "text"},
		{"an h1 of a picture without a text", "/", "", func(s string) string { return strings.Replace(s, "<h1>Example</h1>", `<h1><img alt=" "></h1>`, 1) }, "text"},
		{"another vocabulary", "/", "", linked(`{"@context":"https://www.w3.org/ns/activitystreams","type":"Note"}`), "json-ld"},
		{"a type of nothing", "/", "", linked(`{"@type":"WebSite"}`), "json-ld"},
		{"words of schema.org alone", "/", "", linked(`{"@context":"https://schema.org","name":"Site"}`), "json-ld"},
		{"broken JSON", "/", "", linked(`{"@context":`), "json-ld"},
		{"a list with something else", "/sitemap.xml", "text/plain", becomes("https://site.dev/\nand more\n"), "sitemap"},
		{"a list of another site", "/sitemap.xml", "text/plain", becomes("https://other.dev/\n"), "sitemap"},
		{"a page", "/sitemap.xml", "", becomes("<!doctype html><loc>https://site.dev/"), "sitemap"},
		{"nothing in gzip", "/sitemap.xml", "", becomes(packed("")), "sitemap"},
		{"broken gzip", "/sitemap.xml", "", becomes("\x1f\x8b"), "sitemap"},
		{"half a sitemap", "/sitemap.xml", "", becomes("<urlset><url><loc>https://site.dev/</loc></url>"), "sitemap"},
		{"a heading without its space", "/llms.txt", "", becomes("#Example\n[a](/a)"), "llms-txt"},
		{"a list above a line", "/llms.txt", "", becomes("- Example\n===\n[a](/a)"), "llms-txt"},
		{"a heading of nothing", "/llms.txt", "", becomes("# \n[a](/a)"), "llms-txt"},
		{"brackets that are no link", "/llms.txt", "", becomes("# Example\n[a] <b>"), "llms-txt"},
	} {
		r := scan(t, serve(t, rewritten(c.path, c.contentType, c.rewrite, nil)), "https://site.dev/")
		if lost := failed(r); !slices.Contains(lost, c.want) {
			t.Errorf("%s: without %v", c.about, lost)
		}
	}
}
