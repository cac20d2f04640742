package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"webring/core"
	"webring/server/paid/form"
	"webring/server/sites/fetch"
	"webring/templates"
)

// An address alone is enough: the site says the rest, and its host what it does not say. What was
// typed stays.
func TestASiteFillsInADraft(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := func(head string) {
			fmt.Fprint(w, "<!doctype html><html><head>"+head+"</head><body><svg><title>A drawing</title></svg>")
		}
		switch host, _, _ := strings.Cut(r.Host, ":"); {
		case host == "agent.dev" && r.URL.Path == "/.well-known/agent-card.json":
			fmt.Fprint(w, `{"name":"Quill","description":"Writes letters."}`)
		case r.URL.Path == "/mcp" && r.Method == "POST":
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`)
		case r.URL.Path == "/mcp":
			http.Error(w, "POST only", http.StatusMethodNotAllowed)
		case r.URL.Path != "/":
			http.NotFound(w, r)
		case host == "agent.dev":
			page("<title>Welcome</title>")
		case host == "www.knits.dev":
			page("<meta property='og:site_name' content='Knits &amp; Purls'><title>Home | Other words</title><meta name=description content='Of \u202ewool\u0001 and\n needles.'><meta name=keywords content='Home &amp; Garden, wool'>")
		case host == "title.dev":
			page("<title>A <b>title</b> – of the site</title><meta property='og:description' content='" + strings.Repeat("word ", 100) + "'>")
		case host == "fans.dev":
			page("<title>The webring fans</title>")
		case host == "silent.dev":
			page("")
		}
	}))
	defer site.Close()
	at := netip.MustParseAddrPort(site.Listener.Addr().String())
	sites := fetch.New(fetch.Config{Map: map[string]netip.AddrPort{"*.dev": at}, Limits: fetch.Limits{PerMinute: -1, PerAddress: -1}})
	defer sites.Close()
	refused := func(name string) error { return form.NamePolicy{}.In("Webring")("name", name) }
	for typed, want := range map[string]templates.Draft{
		" www.knits.dev":        {Name: "Knits & Purls", URL: "http://www.knits.dev", Kind: "website", Category: "home-garden", Description: "Of wool and needles."},
		"http://title.dev/":     {Name: "A <b>title</b>", URL: "http://title.dev/", Kind: "website", Description: strings.TrimSpace(strings.Repeat("word ", 59)) + "…"},
		"http://agent.dev/":     {Name: "Quill", URL: "http://agent.dev/", Kind: "agent", Description: "Writes letters."},
		"http://tools.dev/mcp":  {Name: "tools.dev", URL: "http://tools.dev/mcp", Kind: "mcp"},
		"http://www.silent.dev": {Name: "silent.dev", URL: "http://www.silent.dev", Kind: "website"},
		"http://nowhere.test/":  {Name: "nowhere.test", URL: "http://nowhere.test/", Kind: "website"},
		"http://fans.dev/":      {Name: "fans.dev", URL: "http://fans.dev/", Kind: "website"},
		"http://a.webring.dev/": {Name: "a", URL: "http://a.webring.dev/", Kind: "website"},
		"http://webring.a.dev/": {Name: "a.dev", URL: "http://webring.a.dev/", Kind: "website"},
		"http://web-ring/":      {URL: "http://web-ring/", Kind: "website"},
		"::":                    {URL: "https://::"},
		"nowhere.test:80":       {Name: "nowhere.test", URL: "https://nowhere.test:80", Kind: "website"},
		"http:/knit.dev":        {URL: "http:/knit.dev"},
		"mailto:a@knit.dev":     {URL: "mailto:a@knit.dev"},
		"anna@knit.dev":         {URL: "anna@knit.dev"},
		"":                      {},
	} {
		draft, guessed := addressed(templates.Draft{URL: typed})
		if got := introduced(t.Context(), sites, "198.51.100.1", draft, guessed, refused); got != want {
			t.Errorf("%q: %+v, want %+v", typed, got, want)
		}
	}
	own := templates.Draft{Name: "Mine", URL: "http://agent.dev/", Kind: "website"}
	if got := introduced(t.Context(), sites, "198.51.100.1", own, false, refused); got != own {
		t.Errorf("a draft with a name and a kind became %+v", got)
	}
	own = templates.Draft{URL: "http://agent.dev/", Kind: "mcp", Category: "letters", Description: "Mine."}
	if got := introduced(t.Context(), sites, "198.51.100.1", own, false, refused); got.Kind != "mcp" || got.Category != "letters" || got.Description != "Mine." || got.Name != "Quill" {
		t.Errorf("what was typed became %+v", got)
	}
}

func TestCategoriesAreSlugified(t *testing.T) {
	for typed, want := range map[string]string{"": "", "Home & Garden": "home-garden", " --x--Y2 ": "x-y2", "日本": "", strings.Repeat("ab ", 30): "ab-ab-ab-ab-ab-ab-ab-ab-ab-ab-ab"} {
		if got := slugified(typed); got != want {
			t.Errorf("%q is %q, want %q", typed, got, want)
		}
	}
}

// An address that is none is answered in words about what was typed.
func TestAddressesThatAreNoneAreExplained(t *testing.T) {
	for typed, want := range map[string]string{
		"http:/knit.dev": "with two slashes", "https:knit.dev": "with two slashes", "HTTP:": "with two slashes",
		"mailto:anna@knit.dev": "An e-mail address is no site.", "anna@knit.dev": "An e-mail address is no site.", "anna@x": "An e-mail address is no site.",
		"https://anna:secret@knit.dev/": "leave out the user name and password", "https://@knit.dev/": "leave out the user name and password",
		"ftp://knit.dev/": "must begin with https:// or http://.", "ftp:knit.dev": "must begin with https:// or http://.",
		"https:///x": "has no host name", "knit.dev:0": "port",
	} {
		draft, _ := addressed(templates.Draft{URL: typed})
		_, err := core.AppendURL(nil, []byte(draft.URL))
		if err == nil {
			t.Errorf("%q is an address", draft.URL)
			continue
		}
		if got := aboutAddress(draft.URL, sentence("url", err.Error())); !strings.Contains(got, want) {
			t.Errorf("%q: %s", typed, got)
		}
	}
}
