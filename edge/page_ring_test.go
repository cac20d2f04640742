package edge

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"webring/core/api"
)

// A search is drawn from what the origin finds, and says what became of it. Without words
// the page is drawn from the node's own copy.
func TestTheRingIsSearchedAndSorted(t *testing.T) {
	var asked string
	beside := func(_ context.Context, path, query string) api.Document {
		if path != "/api/ring" {
			return api.Document{Status: 503}
		}
		asked = query
		given, err := url.ParseQuery(query)
		if err != nil || given.Get("q") == "away" {
			return api.Refusal(base, api.OriginUnavailable, "Later.", "")
		}
		if given.Get("q") == "nobody" {
			return api.Document{Status: 200, Media: "application/json", MaxAge: 10, Body: []byte(`{"total":0,"count":0,"offset":0,"members":[]}`)}
		}
		return api.Document{Status: 200, Media: "application/json", MaxAge: 10, Body: []byte(`{"total":120,"count":2,"offset":50,"members":[` +
			`{"slug":"beta","name":"Found <first>","url":"https://beta.example/","kind":"mcp","category":"general","ring_position":2,"joined_at":"2026-11-24T10:00:00Z","bid_total_usd":"0.00"},` +
			`{"slug":"gamma","name":"Found second","url":"https://gamma.example/","kind":"mcp","category":"general","ring_position":3,"joined_at":"2026-11-24T10:00:00Z","bid_total_usd":"0.00"}]}`)}
	}
	s := serve(t, Config{Core: newRing(t), OriginData: beside})
	for target, want := range map[string][]string{
		"/ring?q=caf%C3%A9+%3Cb%3E&kind=mcp&page=2": {"Found &lt;first&gt;", "Members 51 to 52 of 120", "<bdi>café &lt;b&gt;</bdi>",
			`href="ring?kind=mcp&amp;page=3&amp;q=caf%C3%A9+%3Cb%3E"`, `href="ring?kind=agent&amp;q=caf%C3%A9+%3Cb%3E"`, `name="kind" value="mcp"`},
		"/ring?q=nobody":               {"No members found.", `href="random"`, `href="join"`},
		"/ring?q=nobody&kind=mcp":      {`href="ring?q=nobody"`},
		"/ring?q=away":                 {"Search is unavailable right now", `href="ring"`, `value="away"`},
		"/ring?q=%3F%3F":               {"at least one letter or digit"},
		"/ring?sort=newest":            {"Members 1 to 3 of 3, the newest first", `<option value="newest" selected`},
		"/ring?category=general":       {"Members 1 to 3 of 3", "Category general"},
		"/categories/general":          {`<option value="general" selected`, `action="../ring"`},
		"/ring?sort=newest&page=2":     {"No more members", `href="ring?page=1&amp;sort=newest"`},
		"/ring?q=nobody&category=none": nil,
	} {
		r := s.Get(target, "Accept", "text/html")
		if want == nil && r.Status != 404 || want != nil && r.Status != 200 {
			t.Errorf("%s: status %d", target, r.Status)
		}
		for _, w := range want {
			if !strings.Contains(r.Body, w) {
				t.Errorf("%s: no %s in %s", target, w, r.Body)
			}
		}
	}
	s.Get("/ring?page=2&x=1&kind=mcp&q=word")
	if asked != "q=word&kind=mcp&limit=50&page=2" {
		t.Errorf("asked for %s", asked)
	}
	newest := s.Get("/ring?sort=newest").Body
	if first, last := strings.Index(newest, ">Gamma<"), strings.LastIndex(newest, ">Alpha &amp; Co<"); first < 0 || last < first {
		t.Errorf("the newest at %d, the first to join at %d", first, last)
	}
	// As Markdown, it has the same members in the same order.
	for _, target := range []string{"/ring?sort=newest", "/ring?sort=newest&kind=agent", "/categories/general?sort=newest", "/ring?sort=newest&q=word"} {
		asked = ""
		var places [2][3]int
		for i, accept := range []string{"text/html", "text/markdown"} {
			body := s.Get(target, "Accept", accept).Body
			if _, rows, is := strings.Cut(body, "<tbody>"); is {
				body = rows
			} else if _, rows, is = strings.Cut(body, "| Place |"); is {
				body = rows
			}
			for n, name := range []string{"alpha.example", "beta.example", "gamma.example"} {
				places[i][n] = strings.Index(body, name)
			}
		}
		html, markdown := places[0], places[1]
		for n := range html {
			for m := range html {
				if (html[n] < html[m]) != (markdown[n] < markdown[m]) || (html[n] < 0) != (markdown[n] < 0) {
					t.Errorf("%s: members at %v, as Markdown at %v", target, html, markdown)
				}
			}
		}
		if html[1] >= 0 && html[2] > html[1] || asked != "" && asked != "q=word&limit=50&offset=70" {
			t.Errorf("%s: members at %v, asked for %s", target, html, asked)
		}
	}
	if body := s.Get("/ring?q=away", "Accept", "text/markdown").Body; !strings.Contains(body, "Search is unavailable right now") {
		t.Errorf("%s", body)
	}
	if body := s.Get("/ring?q=word", "Accept", "text/markdown").Body; !strings.Contains(body, "120 members have") || !strings.Contains(body, "q=word") {
		t.Errorf("%s", body)
	}
	wantProblem(t, s.Get("/ring?q=word&kind=robot"), api.InvalidParameter)
}
