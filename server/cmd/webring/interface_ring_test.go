package main

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"webring/core"
)

// TestInterfaceEmptyRing holds what a ring of nobody answers: 404 empty_ring
// from every traversal, redirects included, and 200 from everything else.
func TestInterfaceEmptyRing(t *testing.T) {
	t.Parallel()
	o := start(t, freely...)
	for _, path := range []string{"/api/ring/next", "/api/ring/prev", "/api/ring/random", "/next", "/prev", "/random",
		"/api/ring/next?format=redirect", "/api/ring/prev?format=redirect", "/api/ring/random?format=redirect",
		"/api/ring/next?kind=agent", "/api/ring/random?from=nobody", "/random?from=nobody", "/next?from=nobody", "/prev?from=nobody"} {
		t.Run("404 empty_ring "+path, func(t *testing.T) { o := o.in(t); o.refused(o.get(path), 404, "empty_ring") })
	}
	t.Run("empty_ring everywhere, whatever from says", func(t *testing.T) {
		o := o.in(t)
		o.refused(o.get("/api/ring/next?from=nobody"), 404, "empty_ring")
	})
	t.Run("GET /api/ring/{slug}: 404 unknown_member", func(t *testing.T) {
		o := o.in(t)
		o.refused(o.get("/api/ring/nobody"), 404, "unknown_member")
	})
	t.Run("GET /api/ring: an empty list", func(t *testing.T) {
		doc := o.in(t).read("/api/ring")
		if doc["total"] != 0.0 || doc["count"] != 0.0 || len(doc["members"].([]any)) != 0 || at(t, doc, "links", "next") != nil || at(t, doc, "links", "prev") != nil {
			t.Errorf("%v", doc)
		}
	})
	t.Run("GET /api/categories: none in use", func(t *testing.T) {
		if doc := o.in(t).read("/api/categories"); doc["count"] != 0.0 || len(doc["categories"].([]any)) != 0 {
			t.Errorf("%v", doc)
		}
	})
	t.Run("GET /api/leaderboard: join_at_first_bid_usd 0.00", func(t *testing.T) {
		doc := o.in(t).read("/api/leaderboard")
		if doc["total"] != 0.0 || len(doc["leaderboard"].([]any)) != 0 || at(t, doc, "rules", "join_at_first_bid_usd") != "0.00" {
			t.Errorf("%v", doc)
		}
	})
	t.Run("GET /api/widget: 200 with all three null", func(t *testing.T) {
		o := o.in(t)
		doc := o.read("/api/widget")
		for _, name := range []string{"member", "prev", "next"} {
			if v, has := doc[name]; v != nil || !has {
				t.Errorf("%s = %v", name, v)
			}
		}
		if at(t, doc, "ring", "count") != 0.0 {
			t.Errorf("ring.count = %v", at(t, doc, "ring", "count"))
		}
		o.fields(o.get("/api/widget?from=nobody"), "Webring-From", "unknown")
	})
}

// TestInterfaceSmallRings holds "One member: both are itself", and wrapping
// around a ring of two.
func TestInterfaceSmallRings(t *testing.T) {
	t.Parallel()
	one := founded(t, func(f *founding) { f.join(manyMembers(1)...) }, freely...)
	two := founded(t, func(f *founding) { f.join(manyMembers(2)...) }, freely...)
	for _, c := range []struct {
		o          *origin
		path, want string
	}{
		{one, "/api/ring/next", "m0000"}, {one, "/api/ring/prev", "m0000"}, {one, "/api/ring/random", "m0000"},
		{one, "/api/ring/next?from=m0000", "m0000"}, {one, "/api/ring/prev?from=m0000", "m0000"}, {one, "/api/ring/random?from=m0000", "m0000"},
		{two, "/api/ring/next", "m0000"}, {two, "/api/ring/prev", "m0001"},
		{two, "/api/ring/next?from=m0000", "m0001"}, {two, "/api/ring/next?from=m0001", "m0000"},
		{two, "/api/ring/prev?from=m0000", "m0001"}, {two, "/api/ring/prev?from=m0001", "m0000"},
		{two, "/api/ring/random?from=m0001", "m0000"},
	} {
		doc := c.o.read(c.path)
		if got := at(t, doc, "member", "slug"); got != c.want {
			t.Errorf("a ring of %v: %s leads to %v, want %s", at(t, c.o.read("/api/ring"), "total"), c.path, got, c.want)
		}
	}
	doc := one.read("/api/widget?from=m0000")
	if slugOrNull(t, doc["prev"]) != "m0000" || slugOrNull(t, doc["next"]) != "m0000" {
		t.Errorf("the widget of the only member: %v", doc)
	}
}

// TestInterfaceTraversal holds order, wrapping, the edges without from, and
// that filters select targets and never the starting point.
func TestInterfaceTraversal(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, freely...)
	for _, c := range []struct{ rule, query, next, prev string }{
		{"without from: the edges", "", "alpha", "zeta"},
		{"an empty from is none", "from=", "alpha", "zeta"},
		{"in the middle", "from=beta", "gamma", "alpha"},
		{"wraps at the end", "from=zeta", "alpha", "epsilon"},
		{"wraps at the start", "from=alpha", "beta", "zeta"},
		{"a removed member leaves no gap", "from=epsilon", "zeta", "delta"},
		{"kind selects targets, and wraps", "from=epsilon&kind=website", "gamma", "gamma"},
		{"from is located in the whole ring", "from=beta&kind=website", "gamma", "epsilon"},
		{"kind without from: its own edges", "kind=website", "gamma", "epsilon"},
		{"category without from: its own edges", "category=tools", "alpha", "zeta"},
		{"category from a member of it", "from=gamma&category=tools", "zeta", "alpha"},
		{"kind and category together", "from=gamma&kind=agent&category=tools", "zeta", "alpha"},
		{"itself when it alone matches", "from=beta&kind=mcp", "beta", "beta"},
		{"not itself when it does not match", "from=alpha&kind=mcp", "beta", "beta"},
		{"nobody matches", "from=alpha&kind=mcp&category=tools", "", ""},
		{"a category outside the pattern matches nothing", "from=alpha&category=%2A", "", ""},
	} {
		for direction, want := range map[string]string{"next": c.next, "prev": c.prev} {
			t.Run(direction+": "+c.rule, func(t *testing.T) {
				o := o.in(t)
				path := "/api/ring/" + direction + "?" + c.query
				if want == "" {
					o.refused(o.get(path), 404, "empty_ring")
					o.refused(o.get("/"+direction+"?"+c.query), 404, "empty_ring")
					return
				}
				doc := o.read(path)
				names(t, doc, "direction member")
				if doc["direction"] != direction || at(t, doc, "member", "slug") != want {
					t.Errorf("%v to %v, want %s", doc["direction"], at(t, doc, "member", "slug"), want)
				}
				site := at(t, doc, "member", "url").(string)
				for _, redirect := range []string{path + "&format=redirect", "/" + direction + "?" + c.query} {
					o.redirects(redirect, site)
				}
			})
		}
	}
}

// redirects holds a 302 to its form.
func (o *origin) redirects(path, site string) reply {
	o.t.Helper()
	r := o.get(path)
	if r.Status != 302 {
		o.t.Errorf("GET %s: status %d: %s", path, r.Status, r.Body)
	}
	o.fields(r, "Location", site, "Cache-Control", "no-store", "Content-Type", "text/html; charset=utf-8")
	if !strings.Contains(string(r.Body), `href="`+site+`"`) {
		o.t.Errorf("GET %s: no link in the body: %s", path, r.Body)
	}
	o.everyAnswer(r)
	return r
}

// TestInterfaceRandom holds that random is uniform over what matches, leaves
// from out when another matches, and takes from, kind and category everywhere.
func TestInterfaceRandom(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, freely...)
	for _, c := range []struct{ rule, query, among string }{
		{"uniform over the ring", "", "alpha beta gamma delta epsilon zeta"},
		{"not from, when another matches", "?from=beta", "alpha gamma delta epsilon zeta"},
		{"kind", "?kind=agent", "alpha delta zeta"},
		{"category", "?category=tools", "alpha gamma zeta"},
		{"from, kind and category", "?from=alpha&kind=agent&category=tools", "zeta"},
		{"from itself when it alone matches", "?from=beta&kind=mcp", "beta"},
		{"a from that does not match", "?from=alpha&kind=website", "gamma epsilon"},
		{"an unknown from is left aside", "?from=nobody&kind=website", "gamma epsilon"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			o := o.in(t)
			among := strings.Fields(c.among)
			const each = 100
			seen := map[string]int{}
			for range each * len(among) {
				doc := o.get("/api/ring/random" + c.query).document(t)
				if doc["direction"] != "random" {
					t.Fatalf("%v", doc)
				}
				seen[at(t, doc, "member", "slug").(string)]++
			}
			for _, slug := range among {
				// Six standard deviations, at most ten each: it does not fail by chance.
				if n := seen[slug]; n < each-60 || n > each+60 {
					t.Errorf("%s was drawn %d times of %d, want about %d", slug, n, each*len(among), each)
				}
				delete(seen, slug)
			}
			if len(seen) > 0 {
				t.Errorf("drawn although they do not match: %v", seen)
			}
			var sites []string
			for _, slug := range among {
				sites = append(sites, at(t, o.read("/api/ring/"+slug), "member", "url").(string))
			}
			amp := "?"
			if c.query != "" {
				amp = c.query + "&"
			}
			for _, path := range []string{"/random" + c.query, "/api/ring/random" + amp + "format=redirect"} {
				if r := o.get(path); r.Status != 302 || !slices.Contains(sites, r.Header.Get("Location")) {
					t.Errorf("GET %s: %d to %s", path, r.Status, r.Header.Get("Location"))
				}
			}
		})
	}
	t.Run("no match: 404 empty_ring", func(t *testing.T) {
		o := o.in(t)
		o.refused(o.get("/random?kind=mcp&category=art"), 404, "empty_ring")
		o.refused(o.get("/api/ring/random?kind=mcp&category=art"), 404, "empty_ring")
	})
}

// TestInterfaceFromResolution holds the four ways in which from names a member,
// in their order, and what names nobody. The widget shows whom it found.
func TestInterfaceFromResolution(t *testing.T) {
	t.Parallel()
	o := founded(t, func(f *founding) {
		reference(f)
		f.join(founder{slug: "port", url: "https://ports.dev:80/", category: "general", kind: core.Agent})
	}, freely...)
	for from, want := range map[string]string{
		// An exact slug.
		"beta": "beta", "Beta": "null", "bet": "null", "beta ": "null", "beta/": "null",
		// A canonical URL, however it is spelled.
		"https://www.beta.dev/app/":             "beta",
		"http://beta.dev/app":                   "beta",
		"HTTPS://BETA.DEV/%61pp/":               "beta",
		"https://beta.dev:443/app/index.html":   "beta",
		"http://beta.dev:80/x/../app/#fragment": "beta",
		"https://alpha.dev":                     "alpha",
		"https://zeta.dev/?page=1":              "zeta",
		// The longest member URL that is a path-segment prefix on the same host.
		"https://shared.dev/foo/bar/baz?x=1":      "delta",
		"https://shared.dev/foo/bar":              "delta",
		"https://shared.dev/foo/barely":           "gamma",
		"https://shared.dev/foo?x=1":              "gamma",
		"https://shared.dev/foobar":               "null",
		"https://shared.dev/FOO":                  "null",
		"https://shared.dev/":                     "null",
		"https://shared.dev":                      "null",
		"https://alpha.dev/deep/page.html":        "alpha",
		"https://www.alpha.dev/deep":              "alpha",
		"https://sub.alpha.dev/":                  "null",
		"https://alpha.dev:8443/":                 "null",
		"https://beta.dev/":                       "null",
		"https://a.dev/":                          "null",
		"https://metadata.dev/":                   "null",
		"https://data.dev.evil.dev/":              "null",
		"https://evil.dev/https://alpha.dev/":     "null",
		"https://evil.dev/?next=alpha.dev":        "null",
		"https://alpha.dev@evil.dev/":             "null",
		"https://ports.dev:80/below":              "port",
		"https://ports.dev/":                      "null",
		"ftp://alpha.dev/":                        "null",
		"//alpha.dev/":                            "null",
		"https://" + strings.Repeat("a", 2000):    "null",
		"https://alpha.dev/" + "\x00":             "null",
		"https://älpha.dev/":                      "null", // hosts in from are A-labels
		"https://zeta.dev/?page=2":                "null", // another query is another page
		"https://zeta.dev/":                       "null",
		"https://data.dev/%zz":                    "null",
		"javascript:alert(1)//https://alpha.dev/": "null",
		// A bare host, only for input without scheme, port and path.
		"shared.dev": "gamma", "WWW.Shared.dev": "gamma", "data.dev": "epsilon", "beta.dev": "beta", "ports.dev": "port", "shared.dev.": "gamma",
		"shared.dev:443": "null", "shared.dev/": "null", "ta.dev": "null", "dev": "null", "www.sub.alpha.dev": "null",
		// A host and a path mean that page.
		"shared.dev/foo": "gamma", "www.shared.dev/foo/bar/x": "delta", "shared.dev/foobar": "null", "alpha.dev/deep/page.html": "alpha", "beta.dev:443/app/": "beta", "x@alpha.dev/": "null",
		// Removed members count as unknown.
		"eta": "null", "https://eta.dev/": "null", "eta.dev": "null",
	} {
		t.Run("from="+from[:min(len(from), 60)], func(t *testing.T) {
			o := o.in(t)
			query := "?from=" + url.QueryEscape(from)
			r := o.get("/api/widget" + query)
			if r.Status != 200 {
				t.Fatalf("status %d: %s", r.Status, r.Body)
			}
			doc := r.document(t)
			if got := slugOrNull(t, doc["member"]); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if want != "null" {
				o.fields(r, "Webring-From", "")
				return
			}
			// An unknown from, path by path.
			o.fields(r, "Webring-From", "unknown")
			if slugOrNull(t, doc["next"]) != "alpha" || slugOrNull(t, doc["prev"]) != "port" {
				t.Errorf("the widget does not enter the ring at its edges")
			}
			for _, path := range []string{"/api/ring/next", "/api/ring/prev"} {
				o.refused(o.get(path+query), 404, "unknown_member")
				o.refused(o.get(path+query+"&format=redirect"), 404, "unknown_member")
			}
			o.fields(o.redirects("/next"+query, "https://alpha.dev/"), "Webring-From", "unknown")
			o.fields(o.redirects("/prev"+query, "https://ports.dev:80/"), "Webring-From", "unknown")
			for path, status := range map[string]int{"/random": 302, "/api/ring/random": 200} {
				r := o.get(path + query)
				if r.Status != status {
					t.Errorf("%s: status %d, want %d", path, r.Status, status)
				}
				o.fields(r, "Webring-From", "unknown")
			}
		})
	}
	t.Run("from that is no percent-encoded UTF-8 is unknown", func(t *testing.T) {
		o := o.in(t)
		for _, from := range []string{"%zz", "%FF", "%"} {
			o.refused(o.get("/api/ring/next?from="+from), 404, "unknown_member")
			for path, status := range map[string]int{"/api/widget": 200, "/next": 302, "/prev": 302, "/random": 302} {
				r := o.get(path + "?from=" + from)
				if r.Status != status {
					t.Errorf("%s: status %d, want %d", path, r.Status, status)
				}
				o.fields(r, "Webring-From", "unknown")
			}
		}
	})
}
