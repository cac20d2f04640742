package main

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestInterfaceDirectory holds GET /api.
func TestInterfaceDirectory(t *testing.T) {
	t.Parallel()
	o := start(t, append(freely, "--name", "The “Ring”")...)
	doc := o.read("/api")
	names(t, doc, "name description openapi llms payments validation endpoints")
	for name, want := range map[string]string{"name": "The “Ring”", "openapi": o.base + "/openapi.json", "llms": o.base + "/llms.txt"} {
		if doc[name] != want {
			t.Errorf("%s = %v, want %s", name, doc[name], want)
		}
	}
	if s, _ := doc["description"].(string); s == "" {
		t.Error("no description")
	}
	payments := at(t, doc, "payments")
	names(t, payments, "protocol how networks offers registration_fee_usd min_bid_usd")
	if at(t, payments, "registration_fee_usd") != "1.00" || at(t, payments, "min_bid_usd") != "1.00" {
		t.Errorf("fee and minimum: %v", payments)
	}
	names(t, at(t, doc, "validation"), "service rule")
	if rule := at(t, doc, "validation", "rule").(string); !strings.Contains(rule, "40") {
		t.Errorf("the rule does not say 40: %s", rule)
	}
	endpoints := at(t, doc, "endpoints").(map[string]any)
	ours := []string{"PATCH /api/ring/{slug}", "DELETE /api/ring/{slug}", "POST /api/ring/{slug}/claim", "POST /api/ring/{slug}/visit", "POST /api/ring/{slug}/return",
		"GET /api/hops", "GET /api/ring/{slug}/hops", "GET /api/events", "GET /api/ring/{slug}/events", "POST /api/check"}
	for _, e := range slices.Concat(interfaceEndpoints, ours, []string{"GET /widget.js", "GET /openapi.json", "GET /llms.txt", "POST /mcp"}) {
		if s, _ := endpoints[e].(string); s == "" {
			t.Errorf("%s is not described", e)
		}
		delete(endpoints, e)
	}
	if len(endpoints) > 0 {
		t.Errorf("endpoints that neither the interface nor this ring has: %v", endpoints)
	}
}

// interfaceEndpoints are the rows of the endpoint tables.
var interfaceEndpoints = []string{"GET /api", "GET /api/ring", "GET /api/ring/next", "GET /api/ring/prev", "GET /api/ring/random",
	"GET /api/ring/{slug}", "GET /api/categories", "GET /api/widget", "GET /api/leaderboard", "GET /next", "GET /prev", "GET /random",
	"POST /api/register", "POST /api/bid"}

// TestInterfaceQueryParameters holds the parameter tables, "Limits", and that
// values out of range, of the wrong type, or unknown are 400 invalid_parameter.
func TestInterfaceQueryParameters(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, freely...)
	pages := []string{"/api/ring", "/api/leaderboard"}
	traversals := []string{"/api/ring/next", "/api/ring/prev", "/api/ring/random"}
	redirects := []string{"/next", "/prev", "/random"}
	for _, c := range []struct {
		rule      string
		paths     []string
		query     string
		parameter string // that is refused; "" for 200, or 302 where that is the answer
	}{
		{"limit 0 is below 1", pages, "limit=0", "limit"},
		{"limit 1 is the least", pages, "limit=1", ""},
		{"limit 500 is the most", pages, "limit=500", ""},
		{"limit 501 is above 500", pages, "limit=501", "limit"},
		{"limit -1 is below 1", pages, "limit=-1", "limit"},
		{"limit is an integer: x", pages, "limit=x", "limit"},
		{"limit is an integer: 1.5", pages, "limit=1.5", "limit"},
		{"limit is an integer: 1e2", pages, "limit=1e2", "limit"},
		{"offset 0 is the least", pages, "offset=0", ""},
		{"offset -1 is below 0", pages, "offset=-1", "offset"},
		{"offset is an integer", pages, "offset=ten", "offset"},
		{"offset beyond the end is an empty page", pages, "offset=9007199254740992", ""},
		{"offset is at most 2^53", pages, "offset=9007199254740993", "offset"},
		{"page 0 is below 1", pages, "page=0", "page"},
		{"page 1 is the least", pages, "page=1", ""},
		{"page is an integer", pages, "page=first", "page"},
		{"page beyond the end is an empty page", pages, "page=18014398509482", ""},
		{"page whose offset is beyond 2^53", pages, "page=99999999999999999999", "page"},
		{"page is ignored when offset is present", pages, "page=0&offset=0", ""},
		{"kind agent, mcp, website", []string{"/api/ring", "/api/ring/next", "/api/ring/prev", "/api/ring/random"}, "kind=mcp", ""},
		{"kind of another name", slices.Concat([]string{"/api/ring"}, traversals, redirects), "kind=robot", "kind"},
		{"kind in capitals", slices.Concat([]string{"/api/ring"}, traversals, redirects), "kind=Agent", "kind"},
		{"format only redirect", traversals, "format=json", "format"},
		{"format in capitals", traversals, "format=Redirect", "format"},
		{"a parameter without a value is absent", slices.Concat(pages, traversals, []string{"/api/widget"}), "from=&kind=&category=&format=&limit=&offset=&page=", ""},
		{"a parameter without a value is absent, also without =", slices.Concat(pages, traversals, []string{"/api/widget"}), "from&kind&category&format&limit&offset&page", ""},
		{"unknown parameters are ignored", slices.Concat(pages, traversals, []string{"/api", "/api/categories", "/api/widget", "/api/ring/beta"}),
			"colour=red&limit%00=0", ""},
		{"a category outside the pattern is no error", []string{"/api/ring"}, "category=" + url.QueryEscape("No Such!"), ""},
	} {
		for _, path := range c.paths {
			t.Run(c.rule+" "+path, func(t *testing.T) {
				o := o.in(t)
				r := o.get(path + "?" + c.query)
				if c.parameter == "" {
					if r.Status != 200 {
						t.Errorf("status %d: %s", r.Status, r.Body)
					}
					return
				}
				if doc := o.refused(r, 400, "invalid_parameter"); doc["parameter"] != c.parameter {
					t.Errorf("it names the parameter %v, want %s", doc["parameter"], c.parameter)
				}
			})
		}
	}
}

// TestInterfacePages holds "Pagination envelope", in all three forms, and that
// links lead through the list.
func TestInterfacePages(t *testing.T) {
	t.Parallel()
	o := founded(t, func(f *founding) { f.join(manyMembers(1030)...) }, freely...)
	for path, list := range map[string]string{"/api/ring": "members", "/api/leaderboard": "leaderboard"} {
		for _, c := range []struct {
			rule, query          string
			count, limit, offset int
			next, prev           string
		}{
			{"limit 100 and offset 0 by default", "", 100, 100, 0, "limit=100&offset=100", ""},
			{"a page of 500", "limit=500", 500, 500, 0, "limit=500&offset=500", ""},
			{"a page of 1", "limit=1&offset=7", 1, 1, 7, "limit=1&offset=8", "limit=1&offset=6"},
			{"page is 1-based", "page=1&limit=10", 10, 10, 0, "limit=10&offset=10", ""},
			{"page counts in limits", "page=3&limit=10", 10, 10, 20, "limit=10&offset=30", "limit=10&offset=10"},
			{"offset wins over page", "page=3&limit=10&offset=5", 10, 10, 5, "limit=10&offset=15", "limit=10&offset=0"},
			{"the last page has no next", "limit=10&offset=1020", 10, 10, 1020, "", "limit=10&offset=1010"},
			{"the last page may be short", "limit=500&offset=1000", 30, 500, 1000, "", "limit=500&offset=500"},
			{"a page beyond the end is empty", "page=104&limit=10", 0, 10, 1030, "", "limit=10&offset=1020"},
		} {
			t.Run(c.rule+" "+path, func(t *testing.T) {
				o := o.in(t)
				doc := o.read(path + "?" + c.query)
				got := fmt.Sprint(at(t, doc, "total"), at(t, doc, "count"), at(t, doc, "limit"), at(t, doc, "offset"), len(at(t, doc, list).([]any)))
				if want := fmt.Sprint(1030, c.count, c.limit, c.offset, c.count); got != want {
					t.Errorf("total, count, limit, offset, items = %s, want %s", got, want)
				}
				names(t, at(t, doc, "links"), "next prev")
				for rel, query := range map[string]string{"next": c.next, "prev": c.prev} {
					var want any
					if query != "" {
						want = o.base + path + "?" + query
					}
					if link := at(t, doc, "links", rel); link != want {
						t.Errorf("links.%s = %v, want %v", rel, link, want)
					}
				}
			})
		}
	}

	t.Run("links lead through the whole list once, in ring order", func(t *testing.T) {
		o := o.in(t)
		var seen []string
		for path := "/api/ring?limit=400&kind=agent"; path != ""; {
			doc := o.read(path)
			seen = append(seen, slugs(t, doc["members"])...)
			next, _ := at(t, doc, "links", "next").(string)
			path = strings.TrimPrefix(next, o.base)
		}
		var want []string
		for i, m := range manyMembers(1030) {
			if i%3 == 0 {
				want = append(want, m.slug)
			}
		}
		if !slices.Equal(seen, want) {
			t.Errorf("%d members, want %d", len(seen), len(want))
		}
	})
	t.Run("the Link field says the same", func(t *testing.T) {
		o := o.in(t)
		o.fields(o.get("/api/ring?limit=10&offset=10"), "Link",
			"<"+o.base+`/api/ring?limit=10&offset=20>; rel="next", <`+o.base+`/api/ring?limit=10&offset=0>; rel="prev"`)
	})
	t.Run("positions are dense from 1", func(t *testing.T) {
		o := o.in(t)
		for i, m := range at(t, o.read("/api/ring?limit=500&offset=500"), "members").([]any) {
			if at(t, m, "ring_position") != float64(501+i) {
				t.Fatalf("item %d has the position %v", i, at(t, m, "ring_position"))
			}
		}
	})
	t.Run("all 1030 categories in use are listed", func(t *testing.T) {
		o := o.in(t)
		if doc := o.read("/api/categories"); doc["count"] != 1030.0 || len(doc["categories"].([]any)) != 1030 {
			t.Errorf("count %v", doc["count"])
		}
	})
}

// TestInterfaceFilters holds kind and category on GET /api/ring.
func TestInterfaceFilters(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, freely...)
	for query, want := range map[string]string{
		"":                             "alpha beta gamma delta epsilon zeta",
		"kind=agent":                   "alpha delta zeta",
		"kind=mcp":                     "beta",
		"kind=website":                 "gamma epsilon",
		"category=tools":               "alpha gamma zeta",
		"category=general":             "beta delta",
		"kind=agent&category=tools":    "alpha zeta",
		"kind=mcp&category=tools":      "",
		"category=unused":              "",
		"category=":                    "alpha beta gamma delta epsilon zeta",
		"category=TOOLS":               "",
		"category=gone":                "", // its only member was removed
		"category=tools%20":            "",
		"category=%74ools":             "alpha gamma zeta",
		"limit=1&offset=1&kind=agent":  "delta",
		"page=2&limit=2&kind=agent":    "zeta",
		"kind=agent&limit=3&offset=99": "",
	} {
		t.Run("GET /api/ring?"+query, func(t *testing.T) {
			o := o.in(t)
			doc := o.read("/api/ring?" + query)
			names(t, doc, "total count limit offset links members")
			if got := strings.Join(slugs(t, doc["members"]), " "); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if !strings.Contains(query, "limit") && doc["total"] != float64(len(strings.Fields(want))) {
				t.Errorf("total %v counts what the filter leaves out", doc["total"])
			}
		})
	}
	t.Run("page links keep the filters", func(t *testing.T) {
		want := o.base + "/api/ring?kind=agent&category=tools&limit=1&offset=1"
		if link := at(t, o.in(t).read("/api/ring?limit=1&category=tools&kind=agent"), "links", "next"); link != want {
			t.Errorf("%v, want %s", link, want)
		}
	})
}

// TestInterfaceCategories holds CategoryList: only categories in use.
func TestInterfaceCategories(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, freely...)
	doc := o.read("/api/categories")
	names(t, doc, "count categories")
	var got []string
	for _, c := range doc["categories"].([]any) {
		names(t, c, "category members links")
		names(t, at(t, c, "links"), "members")
		name := at(t, c, "category").(string)
		if link := at(t, c, "links", "members"); link != o.base+"/api/ring?category="+name {
			t.Errorf("links.members = %v", link)
		}
		got = append(got, name+" "+strconv.FormatFloat(at(t, c, "members").(float64), 'f', -1, 64))
	}
	if want := []string{"art 1", "general 2", "tools 3"}; !slices.Equal(got, want) || doc["count"] != 3.0 {
		t.Errorf("count %v: %v, want %v", doc["count"], got, want)
	}
}
