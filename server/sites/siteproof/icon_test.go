package siteproof

import (
	"net/url"
	"testing"
)

func TestIconsOfPages(t *testing.T) {
	for _, c := range []struct{ about, page, want string }{
		{"an icon", `<link rel="icon" href="/i.png">`, "https://blog.dev/i.png"},
		{"as it was written before", `<LINK REL="Shortcut ICON" HREF=" i.ico ">`, "https://blog.dev/about/i.ico"},
		{"relative to a base", `<base href="/a/"><link rel="icon" href="i.png">`, "https://blog.dev/a/i.png"},
		{"on another host", `<link rel="icon" href="//cdn.dev/i.png?v=1">`, "https://cdn.dev/i.png?v=1"},
		{"the closest from above", `<link rel="icon" sizes="16x16" href="/16"><link rel="icon" sizes="192x192" href="/192"><link rel="icon" sizes="48x48" href="/48"><link rel="icon" sizes="512x512" href="/512">`, "https://blog.dev/48"},
		{"one of several sizes", `<link rel="icon" sizes="192x192" href="/192"><link rel="icon" sizes="16x16 32X32" href="/ico">`, "https://blog.dev/ico"},
		{"the first of two alike", `<link rel="icon" href="/1"><link rel="icon" href="/2">`, "https://blog.dev/1"},
		{"one of no size before a small one", `<link rel="icon" sizes="16x16" href="/16"><link rel="icon" href="/x">`, "https://blog.dev/x"},
		{"of small ones the largest", `<link rel="icon" sizes="16x16" href="/16"><link rel="icon" sizes="24x24" href="/24">`, "https://blog.dev/24"},
		{"none too large", `<link rel="icon" sizes="1024x1024" href="/1024"><link rel="icon" sizes="16x16" href="/16">`, "https://blog.dev/16"},
		{"no SVG", `<link rel="icon" type="image/svg+xml" sizes="any" href="/i"><link rel="icon" href="/i.SVG?x"><link rel="apple-touch-icon" href="/a.png">`, "https://blog.dev/a.png"},
		{"a phone's after an icon", `<link rel="apple-touch-icon" sizes="180x180" href="/a.png"><link rel="icon" sizes="any" href="/i.ico">`, "https://blog.dev/i.ico"},
		{"a mask", `<link rel="mask-icon" href="/m.png">`, ""},
		{"another link", `<link rel="preload" as="image" href="/p.png">`, ""},
		{"data", `<link rel="icon" href="data:image/png;base64,AA==">`, ""},
		{"an address", `<link rel="icon" href="http://169.254.169.254/i.png"><link rel="icon" href="https://[::1]/">`, ""},
		{"a host that is not public", `<link rel="icon" sizes="32x32" href="http://localhost/i.png"><link rel="icon" href="/i.png">`, "https://blog.dev/i.png"},
		{"no address", `<link rel="icon" href=""><link rel="icon">`, ""},
		{"a size that is none", `<link rel="icon" sizes="-5x 99999999999999999999x1" href="/i.png">`, "https://blog.dev/i.png"},
		{"in the body", `</head><link rel="icon" href="/i.png">`, ""},
	} {
		at, _ := url.Parse("https://blog.dev/about/me")
		if got := Icon([]byte("<html><head>"+c.page), "text/html", at, 32, 512); got != c.want {
			t.Errorf("%s: %q, want %q", c.about, got, c.want)
		}
	}
}
