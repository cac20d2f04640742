package edge

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"webring/core"
	"webring/core/api"
	"webring/edge/pages"
	"webring/templates"
)

const formType = "application/x-www-form-urlencoded"

func TestADraftIsCheckedOnTheJoinPage(t *testing.T) {
	var got templates.Draft
	found := templates.Checked{Wrong: map[string]string{"url": "No <b>good."}}
	cfg := Config{Core: newRing(t), Check: func(_ context.Context, client string, d templates.Draft) templates.Checked {
		if client == "" {
			t.Error("nobody asks")
		}
		got = d
		return found
	}}
	s := serve(t, cfg)
	r := s.draft("name=%3Cb%3E+x%FF&url=u&kind=agent&bid=2.00&unknown=1&name=second", "Content-Type", formType+"; charset=utf-8")
	if want := (templates.Draft{Name: "<b> x\ufffd", URL: "u", Kind: "agent", Bid: "2.00"}); got != want {
		t.Errorf("the draft is %+v, want %+v", got, want)
	}
	for _, want := range []string{`value="&lt;b&gt; x`, "No &lt;b&gt;good.", `aria-invalid="true"`, `aria-describedby="url-hint url-wrong"`, "One thing to correct", "<title>Error: Join ",
		`action="join#result"`, `id="result" tabindex="-1"`, `href="#url"`} {
		if r.Status != 200 || !strings.Contains(r.Body, want) {
			t.Errorf("status %d, no %s in %s", r.Status, want, r.Body)
		}
	}
	wantFields(t, r, "Cache-Control", "no-store", "Content-Type", pages.Media, "Content-Security-Policy", templates.Policy, "ETag", "")
	wantCommon(t, r)

	found = templates.Checked{Price: "1.00", Slug: "x", Command: "pay"}
	for price, rank := range map[string]string{"1.00": "4", "1.01": "2", "51.00": "2", "51.01": "1"} {
		found.Price = price
		if r := s.draft("", "Content-Type", formType); !strings.Contains(r.Body, "Your rank</dt><dd>"+rank+" <small>of 4<") {
			t.Errorf("a standing of %s: no rank %s in %s", price, rank, r.Body)
		}
	}
	// A bid that is offered counts, whatever was typed.
	for form, bid := range map[string]string{"bid=5&opening=own": "5", "bid=5&opening=none": "", "bid=5&opening=51.01": "51.01", "bid=5": "5", "bid=5&opening=": "5"} {
		if s.Do("POST", "/join", form, "Content-Type", formType); got.Bid != bid {
			t.Errorf("%s: a bid of %q", form, got.Bid)
		}
	}
	if r := s.Get("/join"); r.Status != 200 || strings.Contains(r.Body, "aria-invalid") {
		t.Errorf("the page remembers: %s", r.Body)
	}
}

// A node that is at one time the origin and at another not checks drafts, or passes them on.
func TestADraftIsCheckedWhereItCanBe(t *testing.T) {
	check := func(context.Context, string, templates.Draft) templates.Checked {
		return templates.Checked{Command: "pay", Price: "1.00"}
	}
	passOn := map[string]Handler{"POST /join": func(ctx *fasthttp.RequestCtx, _ string, _ bool) { ctx.SetBodyString("elsewhere") }}
	here := true
	s := serve(t, Config{Core: newRing(t), Check: check, Checks: func() bool { return here }, Others: passOn})
	for _, here = range []bool{true, false, true} {
		for _, r := range []reply{s.draft("name=x", "Content-Type", formType), s.Get("/" + templates.DraftAddress(`{"name":"x"}`))} {
			if r.Status != 200 || here == (r.Body == "elsewhere") {
				t.Errorf("checked here: %t; status %d, %s", here, r.Status, r.Body)
			}
		}
	}
	recheck := func(templates.Draft) (templates.Checked, bool) { return templates.Checked{}, false }
	for what, cfg := range map[string]Config{
		"drafts can be passed on to nobody": {Check: check, Recheck: recheck, Checks: func() bool { return true }},
		"what was found is not known":       {Check: check},
		"nothing is found":                  {Recheck: recheck},
	} {
		cfg.Core = newRing(t)
		if _, err := New(cfg); err == nil {
			t.Error(what)
		}
	}
}

func TestOnlyFormsAreChecked(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Check: func(context.Context, string, templates.Draft) templates.Checked { panic("asked") }})
	for _, media := range []string{"application/json", "text/plain", "", "multipart/form-data; boundary=x"} {
		wantProblem(t, s.Do("POST", "/join", "name=x", "Content-Type", media), api.InvalidRequest)
	}
	wantFields(t, s.Do("OPTIONS", "/join", ""), "Allow", "GET, HEAD, OPTIONS, POST")
	wantProblem(t, serve(t, Config{Core: newRing(t)}).Do("POST", "/join", "", "Content-Type", formType), api.MethodNotAllowed)
	check := func(context.Context, string, templates.Draft) templates.Checked { return templates.Checked{} }
	recheck := func(templates.Draft) (templates.Checked, bool) { return templates.Checked{}, false }
	if _, err := New(Config{Core: newRing(t), Check: check, Recheck: recheck, Others: map[string]Handler{"POST /join": nil}}); err == nil {
		t.Error("a form with two handlers")
	}
}

// draft sends the form of the join page, and follows to what it leads to, as browsers do.
func (s *site) draft(form string, header ...string) reply {
	r := s.Do("POST", "/join", form, header...)
	if at := r.Header.Get("Location"); r.Status == 303 && strings.HasPrefix(at, "join?draft=") {
		return s.Get("/"+at, "Accept", browsers)
	}
	return r
}

// The form leads to an address of its own, which gives back the draft and what was found as often as
// somebody comes back, and has nothing checked. A draft that is not known is in the form again.
func TestACheckedDraftHasAnAddress(t *testing.T) {
	asked, known := 0, true
	check := func(_ context.Context, _ string, d templates.Draft) templates.Checked {
		asked++
		d.Category = "letters" // as the site says
		return templates.Checked{Draft: d, Command: "pay", Price: "1.00"}
	}
	recheck := func(d templates.Draft) (templates.Checked, bool) {
		return templates.Checked{Draft: d, Command: "pay", Price: "1.00"}, known && d.Category == "letters"
	}
	s := serve(t, Config{Core: newRing(t), Check: check, Recheck: recheck})
	const form = "name=%E5%90%8D+%3Cb%3E&url=https%3A%2F%2Fx.dev&kind=mcp"
	sent := s.Do("POST", "/join", form, "Content-Type", formType)
	at := sent.Header.Get("Location")
	wantFields(t, sent, "Cache-Control", "no-store")
	if sent.Status != 303 || !strings.HasPrefix(at, "join?draft=") || strings.Contains(at, "#") || asked != 1 {
		t.Fatalf("%d to %q after %d checks: %s", sent.Status, at, asked, sent.Body)
	}
	const filled = `name="name" type="text" maxlength="160" autocomplete="off" dir="auto" value="名 &lt;b&gt;"`
	for range 2 {
		r := s.Get("/"+at, "Accept", browsers)
		if r.Status != 200 || !strings.Contains(r.Body, "You're eligible") || !strings.Contains(r.Body, filled) || !strings.Contains(r.Body, `value="letters"`) {
			t.Errorf("%d %s", r.Status, r.Body)
		}
		wantFields(t, r, "Cache-Control", "no-store", "Content-Type", pages.Media, "Content-Security-Policy", templates.Policy)
	}
	if r := s.Do("HEAD", "/"+at, ""); r.Status != 200 || r.Body != "" {
		t.Errorf("HEAD: %d %s", r.Status, r.Body)
	}
	known = false
	if r := s.Get("/"+at, "Accept", browsers); r.Status != 200 || !strings.Contains(r.Body, filled) || !strings.Contains(r.Body, "<title>Not checked: ") || !strings.Contains(r.Body, "Check again") || strings.Contains(r.Body, "eligible") {
		t.Errorf("of a draft that is not known: %d %s", r.Status, r.Body)
	}
	// What is no draft leads to the page as it is.
	plain := s.Get("/join").Body
	for _, text := range []string{"", "%22", "e30=", "W10", "bnVsbA%3D%3D", "!"} {
		if r := s.Get("/join?draft=" + text); r.Status != 200 || r.Body != plain {
			t.Errorf("%q: %d %s", text, r.Status, r.Body)
		}
	}
	for _, by := range [][2]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Referer", "https://evil.example/x"}} {
		r := s.Get("/"+at, "Accept", browsers, by[0], by[1])
		if r.Status != 403 || !strings.Contains(r.Body, "Another site filled in this form") || strings.Contains(r.Body, "名") {
			t.Errorf("%s: %d %s", by, r.Status, r.Body)
		}
		wantProblem(t, s.Get("/"+at, by[0], by[1]), api.OriginNotAllowed)
	}
	if r := s.Get("/"+at, "Accept", browsers, "Referer", base+"/join"); r.Status != 200 {
		t.Errorf("from a page of the ring: %d", r.Status)
	}
	if asked != 1 {
		t.Errorf("%d checks", asked)
	}
	// An address can be too long for what stands before a node.
	if r := s.Do("POST", "/join", "description="+strings.Repeat("x", 8<<10), "Content-Type", formType); r.Status != 200 || !strings.Contains(r.Body, "You're eligible") {
		t.Errorf("a long draft: %d %.200s", r.Status, r.Body)
	}
}

// Nobody fills the form in again because it could not be checked.
func TestADraftThatCannotBeCheckedStaysOnThePage(t *testing.T) {
	away := func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
		ctx.SetStatusCode(503)
		ctx.SetContentType("application/problem+json")
		ctx.Response.Header.Set("Retry-After", "2")
		ctx.SetBody(api.AppendProblem(nil, base, api.OriginUnavailable, "Nobody answers.", nil))
	}
	s := serve(t, Config{Core: newRing(t), Others: map[string]Handler{"POST /join": away}})
	const form = "name=%3Cb%3E+x&url=https%3A%2F%2Fx.dev&kind=mcp"
	r := s.Do("POST", "/join", form, "Content-Type", formType, "Accept", browsers)
	for _, want := range []string{`name="name" value="&lt;b&gt; x"`, `id="kind-mcp" value="mcp" checked`, "The check is unavailable right now", "Check again", "<title>Not now: "} {
		if r.Status != 503 || !strings.Contains(r.Body, want) {
			t.Errorf("status %d, no %s in %s", r.Status, want, r.Body)
		}
	}
	wantFields(t, r, "Content-Type", pages.Media, "Cache-Control", "no-store", "Vary", "Accept", "Retry-After", "2", "Content-Security-Policy", templates.Policy)
	wantProblem(t, s.Do("POST", "/join", form, "Content-Type", formType), api.OriginUnavailable)
	at := "/" + templates.DraftAddress(`{"name":"<b> x","url":"https://x.dev","kind":"mcp"}`)
	if r := s.Get(at, "Accept", browsers); r.Status != 503 || !strings.Contains(r.Body, `name="name" value="&lt;b&gt; x"`) || !strings.Contains(r.Body, "The check is unavailable right now") {
		t.Errorf("an address: %d %s", r.Status, r.Body)
	}
}

// Nothing that another site has filled in stands on a page of the ring, or is looked at: not in
// a form that it sends, and of an address no more than the site.
func TestAnotherSiteFillsInNothing(t *testing.T) {
	asked := 0
	check := func(context.Context, string, templates.Draft) templates.Checked {
		asked++
		return templates.Checked{Command: "pay", Price: "1.00"}
	}
	passOn := map[string]Handler{"POST /join": func(*fasthttp.RequestCtx, string, bool) { asked++ }}
	const form = "name=Strange+words&url=https%3A%2F%2Fevil.example%2F&kind=mcp&bid=99"
	for _, s := range []*site{serve(t, Config{Core: newRing(t), Check: check}), serve(t, Config{Core: newRing(t), Others: passOn})} {
		for _, by := range [][2]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "Cross-Site"},
			{"Origin", "https://evil.example"}, {"Origin", "null"},
		} {
			from := by[0] + ": " + by[1]
			wantProblem(t, s.Do("POST", "/join", form, "Content-Type", formType, by[0], by[1]), api.OriginNotAllowed)
			r := s.Do("POST", "/join", form, "Content-Type", formType, "Accept", browsers, by[0], by[1])
			for _, want := range []string{"Another site filled in this form", "<title>Not checked: Join ", `name="name" type="text" maxlength="160" autocomplete="off" dir="auto" value=""`} {
				if r.Status != 403 || !strings.Contains(r.Body, want) {
					t.Errorf("%s: status %d, no %s in %s", from, r.Status, want, r.Body)
				}
			}
			for _, strange := range []string{"Strange", "evil", `value="99"`, "Check again"} {
				if strings.Contains(r.Body, strange) {
					t.Errorf("%s: the page shows %s: %s", from, strange, r.Body)
				}
			}
		}
		if asked != 0 {
			t.Errorf("%d drafts of another site were looked at", asked)
		}
		for _, by := range [][2]string{{"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", ""}, {"Origin", base}, {"Origin", "http://" + s.Addr}} {
			if r := s.draft(form, "Content-Type", formType, by[0], by[1]); r.Status != 200 || asked == 0 {
				t.Errorf("%s: status %d", by, r.Status)
			}
			asked = 0
		}
		// A link may name the site, as those of reports do, and nothing else.
		if r := s.Get("/join?" + form + "&opening=99"); r.Status != 200 || r.Body != s.Get("/join?url=https%3A%2F%2Fevil.example%2F").Body {
			t.Errorf("an address fills the form in: %s", r.Body)
		}
	}
}

// The page offers the bids that pass the member at rank 10 and the first, in a ring that has
// so many.
func TestTheJoinPageOffersBids(t *testing.T) {
	ring := newRing(t)
	s := serve(t, Config{Core: ring})
	const ten = "Pass number 10"
	if r := s.Get("/join"); strings.Contains(r.Body, ten) || !strings.Contains(r.Body, `id="opening-first" value="50.01"`) {
		t.Errorf("in a ring of three: %s", r.Body)
	}
	for i := range 9 {
		name := "more-" + string(rune('a'+i))
		join(t, ring, 3000+int64(i), name, core.Joined{Slug: name, Bid: 300})
	}
	// Nine with 4.00 and one with 51.00 come before two with the fee alone. Links choose one of the
	// bids, and name the site.
	const site = `autocomplete="url" autocapitalize="none" spellcheck="false" value="`
	for target, want := range map[string][]string{
		"/join":                                         {`id="opening-ten" value="3.01"`, `id="opening-none" value="none" checked`, "$51.01 in total takes first place.", site + `"`},
		"/join?opening=lead&category=general":           {`value="50.01" checked`, `list="categories" value="general"`, "with the opening bid below takes first place"},
		"/join?opening=lead&category=none":              {`id="opening-none" value="none" checked`, `list="categories" value="none"`},
		"/join?category=A%20B":                          {`list="categories" value=""`},
		"/join?opening=first":                           {`id="opening-first" value="50.01" checked`, "$51.01 with the opening bid below takes first place"},
		"/join?opening=pass&url=https%3A%2F%2Fa.dev":    {`id="opening-ten" value="3.01" checked`, "$4.01 with the opening bid below passes number 10", site + `https://a.dev"`},
		"/join?opening=9.00&url=javascript:x":           {`id="opening-none" value="none" checked`, site + `"`},
		"/join?url=http://%22%3E%FF":                    {site + "http://&#34;&gt;\ufffd\""},
		"/join?url=https://" + strings.Repeat("a", 300): {site + `"`},
		"/leaderboard":                                  {`href="join?opening=first"`, `href="join?opening=pass">or pass number 10 for $4.01<`},
		"/":                                             {`href="join?opening=first"`},
	} {
		r := s.Get(target)
		for _, w := range want {
			if !strings.Contains(r.Body, w) {
				t.Errorf("%s: no %s in %s", target, w, r.Body)
			}
		}
	}
}

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
		"/ring?q=nobody":          {"No members found.", `href="random"`, `href="join"`},
		"/ring?q=nobody&kind=mcp": {`href="ring?q=nobody"`},
		"/ring?q=away":            {"Search is unavailable right now", `href="ring"`, `value="away"`},
		"/ring?q=%3F%3F":          {"at least one letter or digit"},
		"/ring?sort=newest":       {"Members 1 to 3 of 3, the newest first", `<option value="newest" selected`},
		"/ring?category=general":  {"Members 1 to 3 of 3", "Category general"},
		"/categories/general": {`action="../ring"`, `<input type="hidden" name="category" value="general">`, `href="../members/alpha"><bdi>Alpha &amp; Co</bdi></a> <span>rank 1 · $51</span>`,
			`href="../join?category=general">Join for $1</a>`, `href="../join?category=general&amp;opening=lead">Lead general for $51.01</a>`, `href="../next?category=general"`, `of 3 members`},
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
