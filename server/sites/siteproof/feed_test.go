package siteproof

import (
	"net/url"
	"strings"
	"testing"

	"webring/core"
)

func TestFeedsOfPages(t *testing.T) {
	const rss = `<link rel="alternate" type="application/rss+xml" `
	for _, c := range []struct{ about, page, want string }{
		{"RSS", rss + `href="https://blog.dev/rss.xml">`, "https://blog.dev/rss.xml"},
		{"Atom", `<link rel=alternate type=application/atom+xml href=https://blog.dev/atom.xml>`, "https://blog.dev/atom.xml"},
		{"JSON Feed", `<link href="/feed.json" type="application/feed+json" rel="alternate">`, "https://blog.dev/feed.json"},
		{"in capitals, with a parameter", `<LINK REL="Home ALTERNATE" TYPE="Application/RSS+XML; charset=utf-8" HREF=" /x ">`, "https://blog.dev/x"},
		{"the first of several", `<link rel="alternate" hreflang="de" href="/de">` + rss + `href="/1">` + rss + `href="/2">`, "https://blog.dev/1"},
		{"the first that can be one", rss + `href="ftp://blog.dev/1">` + rss + `>` + rss + `href="">` + rss + `href="/2">`, "https://blog.dev/2"},
		{"relative to the page", rss + `href="feed?a=1&amp;b=2#top">`, "https://blog.dev/about/feed?a=1&b=2"},
		{"without a scheme", rss + `href="//feeds.dev/x">`, "https://feeds.dev/x"},
		{"relative to a base", `<base href="/a/"><base href="/b/">` + rss + `href="feed">`, "https://blog.dev/a/feed"},
		{"a base without an address", `<base target="_top"><base href="https://www.blog.dev/">` + rss + `href="feed">`, "https://www.blog.dev/feed"},
		{"a base that is none", `<base href="http://[">` + rss + `href="feed">`, "https://blog.dev/about/feed"},
		{"a base of another scheme", `<base href="data:text/html,">` + rss + `href="feed">`, ""},
		{"on http", rss + `href="http://blog.dev/feed">`, "http://blog.dev/feed"},
		{"a script's address", rss + `href="javascript:alert(1)">`, ""},
		{"data", rss + `href="data:application/rss+xml,x">`, ""},
		{"feed:", rss + `href="feed://blog.dev/x">`, ""},
		{"a user name", rss + `href="https://a:b@blog.dev/feed">`, ""},
		{"an address", rss + `href="http://127.0.0.1/feed">`, ""},
		{"another form of one", rss + `href="http://0x7f.1/feed">`, ""},
		{"IPv6", rss + `href="http://[::1]/feed">`, ""},
		{"a host that is not public", rss + `href="http://localhost/feed">`, ""},
		{"one in a network", rss + `href="http://router.internal/feed">`, ""},
		{"no host", rss + `href="https:///feed">`, ""},
		{"quotes and brackets", rss + `href='/"><script>x</script>'>`, "https://blog.dev/%22%3E%3Cscript%3Ex%3C/script%3E"},
		{"a line break", rss + "href='/a&#10;b'>", ""},
		{"as long as may be", rss + `href="/` + strings.Repeat("x", core.MaxURL-len("https://blog.dev/")) + `">`, "https://blog.dev/" + strings.Repeat("x", core.MaxURL-len("https://blog.dev/"))},
		{"longer", rss + `href="/` + strings.Repeat("x", core.MaxURL) + `">`, ""},
		{"in a comment", `<!-- ` + rss + `href="/1"> -->`, ""},
		{"behind one", `<!-- -->` + rss + `href="/1">`, "https://blog.dev/1"},
		{"in a script", `<script>"` + rss + `href='/1'>"</script>`, ""},
		{"in a title", `<title>` + rss + `href="/1"></title>`, ""},
		{"in a template", `<template>` + rss + `href="/1"></template>`, ""},
		{"behind one", `<template></template>` + rss + `href="/1">`, "https://blog.dev/1"},
		{"in the body", `</head><body>` + rss + `href="/1">`, ""},
		{"in a body that is not said", `<p>` + rss + `href="/1">`, ""},
		{"a style sheet", `<link rel="alternate stylesheet" type="application/rss+xml" href="/1">`, ""},
		{"no alternate", `<link rel="self" type="application/rss+xml" href="/1">`, ""},
		{"another type", `<link rel="alternate" type="application/json" href="/1"><link rel="alternate" href="/2">`, ""},
		{"the second of an attribute", `<link rel="alternate" type="application/rss+xml" href="/1" href="/2">`, "https://blog.dev/1"},
		{"beyond what is looked at", strings.Repeat("<meta>", maxElements) + rss + `href="/1">`, ""},
		{"nothing", "", ""},
	} {
		at, _ := url.Parse("https://blog.dev/about/me")
		if got := Feed([]byte("<html><head>"+c.page), "text/html", at); got != c.want {
			t.Errorf("%s: %q, want %q", c.about, got, c.want)
		}
	}
	at, _ := url.Parse("https://blog.example/")
	page := `<html xmlns="http://www.w3.org/1999/xhtml"><head><link rel="alternate" type="application/atom+xml" href="/a.xml"/></head></html>`
	if got := Feed([]byte(page), "application/xhtml+xml", at); got != "https://blog.example/a.xml" {
		t.Errorf("in XHTML, on a host that was reached: %q", got)
	}
}

func FuzzFeed(f *testing.F) {
	f.Add([]byte(`<base href="/x/"><link rel=alternate type=application/rss+xml href="feed">`))
	f.Add([]byte(`<template><link rel=alternate type="application/atom+xml" href="http://[::1]/">`))
	at, _ := url.Parse("https://blog.dev/")
	f.Fuzz(func(t *testing.T, page []byte) {
		feed := Feed(page, "text/html", at)
		if feed == "" {
			return
		}
		if again, err := core.AppendURL(nil, []byte(feed)); err != nil || string(again) != feed {
			t.Errorf("%q: %q %v", feed, again, err)
		}
	})
}
