package main

import (
	"regexp"
	"strings"
	"testing"
)

// The names of a Member, with and without what the passing of time changes.
const (
	memberNames      = "slug name url kind category agentic_score agentic_report ring_position joined_at bid_total_usd last_bid_at links verified health"
	timedMemberNames = memberNames + " paid_total_usd effective_bid_usd"
)

// TestInterfaceMember holds the table of Member, and where it shows what.
func TestInterfaceMember(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, freely...)
	detail := func(t *testing.T, slug string) any {
		t.Helper()
		doc := o.in(t).read("/api/ring/" + slug)
		names(t, doc, "member")
		return doc["member"]
	}
	t.Run("MemberDetail: leaderboard_rank, paid_total_usd, effective_bid_usd", func(t *testing.T) {
		names(t, detail(t, "alpha"), timedMemberNames+" description leaderboard_rank full_until gone_at to_pass forecast owner claimed")
	})
	t.Run("description is left out when there is none", func(t *testing.T) {
		names(t, detail(t, "beta"), timedMemberNames+" leaderboard_rank full_until gone_at to_pass forecast owner claimed")
	})
	t.Run("every field has its value", func(t *testing.T) {
		for name, want := range map[string]any{"slug": "alpha", "name": "Alpha", "url": "https://alpha.dev/", "kind": "agent", "category": "tools",
			"description": "The first.", "agentic_score": 64.0, "agentic_report": "https://reports.dev/alpha", "ring_position": 1.0,
			"bid_total_usd": "0.00", "paid_total_usd": "1.00", "effective_bid_usd": "1.00", "last_bid_at": nil, "leaderboard_rank": 4.0} {
			if got := at(t, detail(t, "alpha"), name); got != want {
				t.Errorf("%s = %v, want %v", name, got, want)
			}
		}
	})
	t.Run("agentic_score and agentic_report are null when there are none", func(t *testing.T) {
		if m := detail(t, "gamma"); at(t, m, "agentic_score") != nil || at(t, m, "agentic_report") != nil {
			t.Errorf("%v", m)
		}
	})
	t.Run("Member.url keeps scheme, www. and the path's slash", func(t *testing.T) {
		for slug, want := range map[string]string{"beta": "https://www.beta.dev/app/", "zeta": "http://zeta.dev/?page=1"} {
			if got := at(t, detail(t, slug), "url"); got != want {
				t.Errorf("%v, want %s", got, want)
			}
		}
	})
	t.Run("links: self, next, prev, site", func(t *testing.T) {
		links := at(t, detail(t, "beta"), "links")
		names(t, links, "self next prev site")
		for rel, want := range map[string]string{"self": o.base + "/api/ring/beta", "next": o.base + "/api/ring/next?from=beta",
			"prev": o.base + "/api/ring/prev?from=beta", "site": "https://www.beta.dev/app/"} {
			if got := at(t, links, rel); got != want {
				t.Errorf("links.%s = %v, want %s", rel, got, want)
			}
		}
	})
	t.Run("ring_position is dense in join order; removal closes the gap", func(t *testing.T) {
		for i, slug := range referenceOrder {
			if got := at(t, detail(t, slug), "ring_position"); got != float64(i+1) {
				t.Errorf("%s is at %v", slug, got)
			}
		}
	})
	t.Run("traversal, ring and widget leave out what depends on time", func(t *testing.T) {
		o := o.in(t)
		for path, steps := range map[string][]any{"/api/ring": {"members", 1}, "/api/ring/next?from=alpha": {"member"}, "/api/ring/prev?from=gamma": {"member"},
			"/api/ring/random?kind=mcp": {"member"}, "/api/widget?from=beta": {"member"}, "/api/widget?from=alpha": {"next"}, "/api/widget?from=gamma": {"prev"}} {
			names(t, at(t, o.read(path), steps...), memberNames)
		}
	})
	t.Run("410 member_removed", func(t *testing.T) {
		o := o.in(t)
		o.refused(o.get("/api/ring/eta"), 410, "member_removed")
		if strings.Contains(string(o.get("/api/ring").Body), "//eta.dev") {
			t.Error("a removed member is in the ring")
		}
	})
	t.Run("404 unknown_member: a slug is exact", func(t *testing.T) {
		o := o.in(t)
		for _, slug := range []string{"nobody", "Beta", "beta.dev", "eta-2", "%20beta", strings.Repeat("x", 1000)} {
			o.refused(o.get("/api/ring/"+slug), 404, "unknown_member")
		}
	})
}

// TestInterfaceWidget holds the Widget document.
func TestInterfaceWidget(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, append(freely, "--name", "Ring & Co")...)
	for _, c := range []struct{ rule, query, member, prev, next, from string }{
		{"of a member", "?from=beta", "beta", "alpha", "gamma", "?from=beta"},
		{"by host name, links by slug", "?from=www.beta.dev", "beta", "alpha", "gamma", "?from=beta"},
		{"by URL", "?from=https://zeta.dev/?page=1", "zeta", "epsilon", "alpha", "?from=zeta"},
		{"without from: the edges", "", "null", "zeta", "alpha", ""},
		{"with an unknown from: the edges", "?from=nobody", "null", "zeta", "alpha", ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			o := o.in(t)
			doc := o.read("/api/widget" + c.query)
			names(t, doc, "ring member prev next links")
			names(t, doc["ring"], "name url count")
			if at(t, doc, "ring", "name") != "Ring & Co" || at(t, doc, "ring", "url") != o.base+"/" || at(t, doc, "ring", "count") != 6.0 {
				t.Errorf("ring: %v", doc["ring"])
			}
			if got := [3]string{slugOrNull(t, doc["member"]), slugOrNull(t, doc["prev"]), slugOrNull(t, doc["next"])}; got != [3]string{c.member, c.prev, c.next} {
				t.Errorf("member, prev, next = %v", got)
			}
			links := doc["links"]
			names(t, links, "next prev random ring leaderboard")
			for rel, want := range map[string]string{"next": "/next" + c.from, "prev": "/prev" + c.from, "random": "/random" + c.from,
				"ring": "/", "leaderboard": "/api/leaderboard"} {
				if got := at(t, links, rel); got != o.base+want {
					t.Errorf("links.%s = %v, want %s", rel, got, o.base+want)
				}
			}
		})
	}
	t.Run("from is the only parameter", func(t *testing.T) {
		doc := o.in(t).read("/api/widget?from=alpha&kind=robot&category=art")
		if slugOrNull(t, doc["next"]) != "beta" || at(t, doc, "ring", "count") != 6.0 {
			t.Errorf("%v", doc)
		}
	})
}

var (
	moneyForm = regexp.MustCompile(`^(0|[1-9][0-9]*)\.[0-9]{2}$`)
	timeForm  = regexp.MustCompile(`^20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z$`)
)

// TestInterfaceFormats holds, on every document, that money is a string with
// two decimals, that instants are RFC 3339 UTC with milliseconds, and that
// links are absolute.
func TestInterfaceFormats(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, freely...)
	money, instants, links := 0, 0, 0
	var walk func(where string, v any)
	walk = func(where string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				at := where + "." + name
				text, isText := inner.(string)
				switch {
				case strings.HasSuffix(name, "_usd") && (inner != nil || name != "to_take_first_usd"):
					if money++; !moneyForm.MatchString(text) {
						t.Errorf("%s = %v", at, inner)
					}
				case strings.HasSuffix(name, "_at") && (inner != nil || name != "last_bid_at" && name != "gone_at"):
					if instants++; !timeForm.MatchString(text) {
						t.Errorf("%s = %v", at, inner)
					}
				case isText && (name == "url" || strings.HasSuffix(where, ".links")):
					if links++; !strings.HasPrefix(text, "http") {
						t.Errorf("%s = %v", at, inner)
					}
				}
				walk(at, inner)
			}
		case []any:
			for _, inner := range v {
				walk(where, inner)
			}
		}
	}
	for _, path := range []string{"/api", "/api/ring", "/api/ring/beta", "/api/ring/next", "/api/categories", "/api/widget?from=beta", "/api/leaderboard"} {
		walk(path, o.read(path))
	}
	if money < 30 || instants < 20 || links < 60 {
		t.Errorf("only %d amounts, %d instants and %d links were seen", money, instants, links)
	}
}
