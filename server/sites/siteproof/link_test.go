package siteproof

import (
	"net/url"
	"strings"
	"testing"
)

func TestPagesThatLinkBack(t *testing.T) {
	const widget, script = `<webring-online from="beta"></webring-online>`, `<script src="https://ring.dev/widget.js" async></script>`
	for _, c := range []struct {
		about, page string
		want        bool
	}{
		{"the widget", script + widget, true},
		{"the widget before its script", widget + script, true},
		{"a pinned script", widget + `<script src="https://ring.dev/widget-0a1b.js" integrity="x"></script>`, true},
		{"without its script", widget, false},
		{"another ring's script", widget + `<script src="https://other.dev/widget.js"></script>`, false},
		{"another member's widget", script + `<webring-online from="alpha"></webring-online>`, false},
		{"a widget of nobody", script + `<webring-online></webring-online>`, false},
		{"by its address", script + `<WEBRING-ONLINE FROM=https://beta.dev/></WEBRING-ONLINE>`, true},
		{"a link to the next", `<a href="https://ring.dev/next?from=beta">Next</a>`, true},
		{"over http", `<a href="http://RING.dev/prev?from=beta">Next</a>`, true},
		{"with more in its query", `<a href="https://ring.dev/random?kind=mcp&amp;from=https%3A%2F%2Fbeta.dev%2F">Random</a>`, true},
		{"an area of a picture", `<map><area href="https://ring.dev/next?from=beta"></map>`, true},
		{"the member's page", `<a href=https://ring.dev/members/beta>In the ring</a>`, true},
		{"a link to the ring", `<a href="https://ring.dev/">The ring</a>`, false},
		{"a link of no member", `<a href="https://ring.dev/next">Next</a>`, false},
		{"a link of another member", `<a href="https://ring.dev/next?from=alpha">Next</a>`, false},
		{"another host", `<a href="https://ring.dev.evil.dev/next?from=beta">Next</a>`, false},
		{"another path", `<a href="https://ring.dev/x/next?from=beta">Next</a>`, false},
		{"a user name", `<a href="https://beta@ring.dev/next?from=beta">Next</a>`, false},
		{"another scheme", `<a href="ftp://ring.dev/next?from=beta">Next</a>`, false},
		{"no address", `<a href="https://ring.dev:x/next?from=beta">Next</a><a>x</a>`, false},
		{"written by a user of the page", `<a rel="UGC" href="https://ring.dev/next?from=beta">Next</a>`, false},
		{"by one of a page that only says nofollow", `<a rel="noopener nofollow" href="https://ring.dev/next?from=beta">Next</a>`, false},
		{"paid for", `<area rel=sponsored href="https://ring.dev/members/beta">`, false},
		{"a badge in a user's link", `<a rel=nofollow href="https://ring.dev/members/beta"><img src="https://ring.dev/badge/beta.svg"></a>`, false},
		{"a badge after one", `<a rel=nofollow href="https://x.dev">x</a><img src="https://ring.dev/badge/beta.svg">`, true},
		{"as embedded", `<a rel="noopener" href="https://ring.dev/members/beta"><img src="https://ring.dev/badge/beta.svg"></a>`, true},
		{"the badge", `<img src="//ring.dev/badge/beta.svg" alt="">`, true},
		{"another's badge", `<img src="https://ring.dev/badge/alpha.svg" alt="">`, false},
		{"relative to a base", `<base href="https://ring.dev/x/"><a href="../next?from=beta">Next</a>`, true},
		{"relative to the page", `<a href="/next?from=beta">Next</a>`, false},
		{"in a comment", `<!-- <a href="https://ring.dev/next?from=beta">Next</a> -->`, false},
		{"in a script", `<script>"<a href='https://ring.dev/next?from=beta'>"</script>`, false},
		{"in a text", `<textarea><a href="https://ring.dev/next?from=beta"></textarea>`, false},
		{"in a template", `<template><a href="https://ring.dev/next?from=beta"></a></template>`, false},
		{"after a template", `<template><p></template><a href="https://ring.dev/next?from=beta">`, true},
		{"beyond what is looked at", strings.Repeat("<p>", maxElements) + `<a href="https://ring.dev/next?from=beta">`, false},
		{"nothing", "", false},
	} {
		at, _ := url.Parse("https://beta.dev/")
		r := Ring{Base: "https://ring.dev", Slug: "beta", Names: func(from string) bool { return from == "beta" || from == "https://beta.dev/" }}
		if got := LinksBack([]byte(c.page), "text/html", at, r); got != c.want {
			t.Errorf("%s: %v", c.about, got)
		}
		// The same under a path.
		r.Base += "/the/ring"
		page := strings.NewReplacer("ing.dev/", "ing.dev/the/ring/", "ING.dev/", "ING.dev/the/ring/").Replace(c.page)
		if got := LinksBack([]byte(page), "text/html", at, r); got != c.want {
			t.Errorf("%s, under a path: %v", c.about, got)
		}
		if c.want && LinksBack([]byte(c.page), "text/html", at, r) {
			t.Errorf("%s: a link to another ring on the host counts", c.about)
		}
	}
}

func TestPagesInXHTMLThatLinkBack(t *testing.T) {
	const link = `<a href="https://ring.dev/next?from=beta">Next</a>`
	for about, c := range map[string]struct {
		page string
		want bool
	}{
		"a link behind a script that closes itself": {`<script src="/a.js"/>` + link, true},
		"behind a frame":         {`<iframe src="/a"/>` + link, true},
		"the widget":             {`<script src="https://ring.dev/widget.js" async="async"/><webring-online from="beta"/>`, true},
		"in CDATA":               {`<p><![CDATA[` + link + `]]></p>`, false},
		"in a comment":           {`<!-- ` + link + ` -->`, false},
		"behind the first fault": {`<p></div>` + link, false},
	} {
		at, _ := url.Parse("https://beta.dev/")
		r := Ring{Base: "https://ring.dev", Slug: "beta", Names: func(from string) bool { return from == "beta" }}
		page := `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body>` + c.page + `</body></html>`
		if got := LinksBack([]byte(page), "application/xhtml+xml", at, r); got != c.want {
			t.Errorf("%s: %v", about, got)
		}
	}
}

func FuzzLinksBack(f *testing.F) {
	f.Add([]byte(`<a href="https://ring.dev/next?from=beta">`))
	f.Add([]byte(`<base href="%zz"><template><script src=x><webring-online from`))
	at, _ := url.Parse("https://beta.dev/")
	f.Fuzz(func(t *testing.T, page []byte) {
		r := Ring{Base: "https://ring.dev", Slug: "beta", Names: func(from string) bool { return from == "beta" }}
		if LinksBack(page, "text/html", at, r) && !strings.Contains(string(page), "beta") && !strings.Contains(string(page), "&") && !strings.Contains(string(page), "%") {
			t.Errorf("found in %q", page)
		}
	})
}
