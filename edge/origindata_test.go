package edge

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"webring/core/api"
	"webring/edge/hops"
)

// Redirects are counted on both ways through the shell, and nothing else is.
func TestRedirectsAreCounted(t *testing.T) {
	counter := hops.NewCounter()
	s := serve(t, Config{Core: newRing(t), Hops: counter, TrustedProxies: proxies(t, "", "127.0.0.1")})
	c := s.Dial()
	r := bufio.NewReader(c)
	clients := 0
	said := func(method, target, fields string) string {
		t.Helper()
		for i := range 6 { // answers that are cached, too; each client asks twice and counts once
			if i%2 == 0 {
				clients++
			}
			if method == "HEAD" {
				s.RawHead("HEAD " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			} else {
				ask(t, s, c, r, "GET "+target+" HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2."+itoa(clients)+"\r\n"+fields+"\r\n")
			}
		}
		all := ""
		total := counter.Take(func(row uint32, from, to uint64) { all += fmt.Sprintf(" %d:%d,%d", row, from, to) })
		return fmt.Sprint(total, all)
	}
	for _, slow := range []string{"", unusual} {
		for _, q := range []struct{ method, target, fields, want string }{
			{"GET", "/next?from=alpha", "", "3 0:3,0 1:0,3"},
			{"GET", "/prev?from=https%3A%2F%2Falpha.example%2Fa", "User-Agent: Mozilla/5.0 (X11) Firefox/140.0\r\n", "3 0:3,0 2:0,3"},
			{"GET", "/next", "", "3 0:0,3"},
			{"GET", "/api/ring/next?from=gamma&format=redirect", "", "3 0:0,3 2:3,0"},
			{"GET", "/random?from=alpha&kind=mcp", "", "3 0:3,0 1:0,3"},
			{"GET", "/api/ring/next?from=gamma", "", "0"},
			{"GET", "/api/widget?from=gamma", "", "0"},
			{"GET", "/next?from=alpha&kind=x", "", "0"},
			{"HEAD", "/next?from=alpha", "", "0"},
			{"GET", "/next?from=alpha", "User-Agent: Googlebot/2.1 (+http://www.google.com/bot.html)\r\n", "0"},
			{"GET", "/next?from=alpha", "Sec-Purpose: prefetch\r\n", "0"},
			{"GET", "/next?from=alpha", "purpose: prefetch\r\n", "0"},
		} {
			if got := said(q.method, q.target, q.fields+slow); got != q.want {
				t.Errorf("%s %s with %q: %s, want %s", q.method, q.target, q.fields+slow, got, q.want)
			}
		}
	}
}

// Icons, of which a page shows many, leave a reader's requests alone, and are bounded as well.
func TestIconsAreCountedApart(t *testing.T) {
	icon := func(context.Context, string, string) api.Document {
		return api.Document{Status: 200, Media: "image/png", Body: []byte("\x89PNG")}
	}
	s := serve(t, Config{Core: newRing(t), RateLimit: 2, Now: newClock().Now, OriginData: icon})
	for i := range 20 {
		r := s.Get("/members/alpha/icon.png")
		if wantFields(t, r, "RateLimit-Limit", "20", "RateLimit-Remaining", itoa(19-i)); r.Status != 200 {
			t.Fatalf("icon %d: %d", i, r.Status)
		}
	}
	wantProblem(t, s.Get("/members/alpha/icon.png?again"), api.RateLimited)
	for _, path := range []string{"/next?from=alpha", "/members/alpha"} {
		if r := s.Get(path); r.Status >= 400 {
			t.Errorf("%s after icons: %d", path, r.Status)
		}
	}
	wantProblem(t, s.Get("/members/alpha/icon.gif"), api.RateLimited)
}

// What the origin keeps next to the ledger is served with validators. A node without it
// serves nothing.
func TestWhatLiesBesideTheLedgerIsServed(t *testing.T) {
	var asked []string
	beside := func(_ context.Context, path, query string) api.Document {
		asked = append(asked, path+"?"+query)
		switch path {
		case "/api/ring/alpha/events":
			return api.Document{Status: 200, Media: "application/json", MaxAge: 30, Body: []byte(`{"member":"alpha","events":[` +
				`{"id":1025,"at":"2026-11-24T10:00:00.000Z","type":"outbid","member":"alpha","by":"beta","was_rank":1,"rank":2,"seq":9},` +
				`{"id":1024,"at":"2026-11-24T10:00:00.000Z","type":"bid","member":"alpha","amount_usd":"7.25","seq":9,"payment":{"network":"tempo:1"}},` +
				`{"id":512,"at":"2026-11-24T09:00:00.000Z","type":"of a later version","member":"alpha"}]}`)}
		case "/api/ring/beta/events":
			return api.Refusal(base, api.OriginUnavailable, "Later.", "")
		case "/feeds.opml":
			return api.Document{Status: 200, Media: "text/x-opml; charset=utf-8", MaxAge: 60, Seq: 7, Body: []byte(`<opml version="2.0"/>`)}
		case "/members/alpha/icon.png":
			return api.Document{Status: 200, Media: "image/png", MaxAge: 3600, Seq: 7, Body: []byte(strings.Repeat("\x89PNG", 500))}
		case "/api/ring/nobody/hops":
			return api.Refusal(base, api.UnknownMember, "No.", "")
		case "/api/ring/beta/hops":
			return api.Refusal(base, api.OriginUnavailable, "Later.", "")
		}
		return api.Document{Status: 200, Media: "application/json", MaxAge: 60,
			Body: []byte(`{"member":"alpha","counted":"","total":{"from":7654,"to":3,"hops":98765},"days":[{"day":"2026-11-24","from":7654,"to":3,"hops":98765}]}`)}
	}
	s := serve(t, Config{Core: newRing(t), OriginData: beside})
	r := s.Get("/api/ring/alpha/hops?days=7&other=x&days=8")
	if r.Status != 200 || asked[0] != "/api/ring/alpha/hops?days=7" {
		t.Errorf("%d %s, asked for %v", r.Status, r.Body, asked)
	}
	wantCommon(t, r)
	wantFields(t, r, "Content-Type", "application/json", "Cache-Control", "public, max-age=60, stale-while-revalidate=60, stale-if-error=86400")
	if again := s.Get("/api/ring/alpha/hops", "If-None-Match", r.Header.Get("ETag")); again.Status != 304 {
		t.Errorf("status %d", again.Status)
	}
	wantProblem(t, s.Get("/api/ring/nobody/hops"), api.UnknownMember)
	r = s.Get("/api/ring/beta/hops")
	wantProblem(t, r, api.OriginUnavailable)
	wantFields(t, r, "Retry-After", "5", "Cache-Control", "no-store")
	wantProblem(t, s.Do("POST", "/api/hops", ""), api.MethodNotAllowed)
	s.Get("/api/events?since=7&limit=2&x=1")
	if last := asked[len(asked)-1]; last != "/api/events?since=7&limit=2" {
		t.Errorf("asked for %s", last)
	}
	r = s.Get("/feeds.opml?x=1")
	wantFields(t, r, "Content-Type", "text/x-opml; charset=utf-8", "Webring-Seq", "7", "Cache-Control", "public, max-age=60, stale-while-revalidate=60, stale-if-error=86400")
	if last := asked[len(asked)-1]; r.Status != 200 || last != "/feeds.opml?" || s.Get("/feeds.opml", "If-None-Match", r.Header.Get("ETag")).Status != 304 {
		t.Errorf("%d %s, asked for %s", r.Status, r.Body, last)
	}
	wantProblem(t, s.Do("POST", "/feeds.opml", ""), api.MethodNotAllowed)
	r = s.Get("/members/alpha/icon.png?x=1", "Accept-Encoding", "gzip")
	wantCommon(t, r)
	wantFields(t, r, "Content-Type", "image/png", "Webring-Seq", "7", "X-Content-Type-Options", "nosniff", "Content-Encoding", "", "Cache-Control", "public, max-age=3600, stale-while-revalidate=60, stale-if-error=86400")
	if last := asked[len(asked)-1]; r.Status != 200 || len(r.Body) != 2000 || last != "/members/alpha/icon.png?" || s.Get("/members/alpha/icon.png", "If-None-Match", r.Header.Get("ETag")).Status != 304 {
		t.Errorf("%d %q, asked for %s", r.Status, r.Body, last)
	}
	before := len(asked)
	for _, slug := range []string{"nobody", "alpha%3Fx", "%01", "%0d%0a", "Alpha%20"} {
		if r := s.Get("/members/" + slug + "/icon.png"); r.Status != 404 || len(asked) != before {
			t.Errorf("the icon of %s: %d, and the origin was asked about %q", slug, r.Status, asked[before:])
		}
	}
	wantProblem(t, s.Get("/members/nobody/icon.png"), api.UnknownMember)
	wantProblem(t, s.Do("POST", "/members/alpha/icon.png", ""), api.MethodNotAllowed)
	for _, path := range []string{"/members/a/b/icon.png", "/members//icon.png", "/members/alpha/icon.png/x", "/members/" + strings.Repeat("a", 99) + "/icon.png", "/members/alpha/other.png"} {
		wantProblem(t, s.Get(path), api.NotFound)
	}
	if home := s.Get("/").Body; strings.Count(home, "/icon.png") != 1 {
		t.Errorf("the front page has more than one icon: %s", home)
	}
	for _, path := range []string{"/", "/leaderboard", "/ring", "/members/alpha"} {
		icon := `<img class="favicon" src="` + strings.Repeat("../", strings.Count(path[1:], "/")) + `members/alpha/icon.png" width="16" height="16" alt="" loading="lazy">`
		if r := s.Get(path); !strings.Contains(r.Body, icon) {
			t.Errorf("%s shows no icon: %s", path, r.Body)
		}
		if r := s.Get(path, "Accept", "text/markdown"); r.Status != 200 || strings.Contains(r.Body, "/icon.png") {
			t.Errorf("%s: %d %s", path, r.Status, r.Body)
		}
	}
	for _, path := range []string{"/docs", "/llms.txt"} {
		if r := s.Get(path); !strings.Contains(r.Body, "/feeds.opml") {
			t.Errorf("%s leads to no list of feeds", path)
		}
	}
	for form, media := range map[string]string{"atom": "application/atom+xml; charset=utf-8", "json": "application/feed+json; charset=utf-8"} {
		r := s.Get("/feeds/members/alpha." + form)
		if r.Status != 200 || !strings.Contains(r.Body, "was outbid by beta, rank 2 after 1") || !strings.Contains(r.Body, ",2026:news/alpha/1025") || r.Header.Get("Content-Type") != media {
			t.Errorf("%d %s", r.Status, r.Body)
		}
		wantProblem(t, s.Get("/feeds/members/beta."+form), api.OriginUnavailable)
		wantProblem(t, s.Get("/feeds/members/nobody."+form), api.UnknownMember)
		wantProblem(t, s.Get("/feeds/members/next."+form), api.UnknownMember)
		if page := s.Get("/members/alpha"); !strings.Contains(page.Body, "/feeds/members/alpha."+form) {
			t.Errorf("the page leads to no feed: %s", page.Body)
		}
	}
	wantProblem(t, s.Get("/feeds/members/alpha.xml"), api.NotFound)
	wantProblem(t, s.Get("/api/ring/a/b/hops"), api.NotFound)
	for path, want := range map[string]string{"/": "98\u202f765", "/members/alpha": "7\u202f654", "/api/hops": "98765"} {
		if r := s.Get(path); r.Status != 200 || !strings.Contains(r.Body, want) {
			t.Errorf("%s does not say %s: %d %s", path, want, r.Status, r.Body)
		}
	}
	if r := s.Get("/members/alpha"); strings.Count(r.Body, "/log/proof/") != 1 || !strings.Contains(r.Body, `href="../log/proof/8" type="text/plain" download="alpha-8.tlog-proof">Bid $7.25</a>`) {
		t.Errorf("the page offers no proof: %s", r.Body)
	}
	if r := s.Get("/members/alpha", "Accept", "text/markdown"); !strings.Contains(r.Body, "**7\u202f654** went on") {
		t.Errorf("%s", r.Body)
	}
	if r := s.Get("/members/beta"); r.Status != 200 || strings.Contains(r.Body, "Visitors from the ring") {
		t.Errorf("without its hops: %d %s", r.Status, r.Body)
	}
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ring_member_hops","arguments":{"slug":"alpha","days":9}}}`
	if r := s.message(call); !strings.Contains(r.Body, `"structuredContent":{"member":"alpha"`) || asked[len(asked)-1] != "/api/ring/alpha/hops?days=9" {
		t.Errorf("%s, asked for %v", r.Body, asked)
	}

	without := serve(t, Config{Core: newRing(t)})
	wantProblem(t, without.Get("/api/ring/alpha/hops"), api.NotFound)
	wantProblem(t, without.Get("/api/hops"), api.NotFound)
	wantProblem(t, without.Get("/feeds.opml"), api.NotFound)
	wantProblem(t, without.Get("/members/alpha/icon.png"), api.NotFound)
	if r := without.Get("/leaderboard"); strings.Contains(r.Body, "/icon.png") {
		t.Errorf("icons that nobody has: %s", r.Body)
	}
	wantProblem(t, without.Get("/feeds/members/alpha.atom"), api.NotFound)
}

// A list with words is the origin's, on both ways through the shell, and any other is the core's.
func TestSearchesAreTheOrigins(t *testing.T) {
	var asked []string
	away := false
	beside := func(_ context.Context, path, query string) api.Document {
		asked = append(asked, path+"?"+query)
		if away {
			return api.Refusal(base, api.OriginUnavailable, "Later.", "")
		}
		return api.Document{Status: 200, Media: "application/json", MaxAge: 10, Body: []byte(`{"total":0,"members":[]}`)}
	}
	s := serve(t, Config{Core: newRing(t), OriginData: beside})
	alone := serve(t, Config{Core: newRing(t)})
	c, cAlone := s.Dial(), alone.Dial()
	r, rAlone := bufio.NewReader(c), bufio.NewReader(cAlone)
	for _, slow := range []string{"", unusual} {
		for target, want := range map[string]string{
			"/api/ring?q=a": "?q=a", "/api/ring?page=2&q=caf%C3%A9+x&other=1&limit=3": "?q=caf%C3%A9+x&limit=3&page=2", "/api/ring?%71=a": "?q=a",
			"/api/ring?q=+CAFE%CC%81%20%20X+&q=y": "?q=caf%C3%A9+x", "/api/ring?q=+": "?q=+",
			"/api/ring?q=&q=b&q=c&kind=mcp": "?q=b&kind=mcp", "/api/ring?category=x%26q%3Dy&q=%26": "?q=%26&category=x%26q%3Dy", "/api/%72ing?q=a": "?q=a",
			"/api/ring": "", "/api/ring?q=": "", "/api/ring?q": "", "/api/ring?category=sqlite": "", "/api/ring?category=%71": "", "/api/ring?category=x%26q%3Dy": "", "/api/leaderboard?q=a": "", "/api/ring/next?q=a": "",
		} {
			asked = nil
			got := ask(t, s, c, r, "GET "+target+" HTTP/1.1\r\nHost: x\r\n"+slow+"\r\n")
			if want == "" {
				if len(asked) != 0 || got.Status != 200 || !strings.Contains(got.Body, "alpha") && !strings.Contains(target, "category") {
					t.Errorf("%s: status %d, asked for %v", target, got.Status, asked)
				}
				continue
			}
			if len(asked) != 1 || asked[0] != "/api/ring"+want || got.Status != 200 || got.Header.Get("Cache-Control") != "public, max-age=10, stale-while-revalidate=60, stale-if-error=86400" {
				t.Errorf("%s: status %d, asked for %v, want %s", target, got.Status, asked, want)
			}
			got = ask(t, alone, cAlone, rAlone, "GET "+target+" HTTP/1.1\r\nHost: x\r\n"+slow+"\r\n")
			wantProblem(t, got, api.OriginUnavailable)
			wantFields(t, got, "Retry-After", "60", "Cache-Control", "no-store")
		}
	}
	asked = nil
	long := s.Get("/api/ring?q=" + strings.Repeat("a", 513))
	wantProblem(t, long, api.InvalidParameter)
	if !strings.Contains(long.Body, `"parameter":"q"`) || len(asked) > 0 {
		t.Errorf("%s, asked for %v", long.Body, asked)
	}
	away = true
	wantFields(t, s.Get("/api/ring?q=a"), "Retry-After", "5")
	wantProblem(t, s.Do("POST", "/api/ring?q=a", ""), api.MethodNotAllowed)
	if other := s.Get("/api/ring?kind=mcp"); other.Status != 200 {
		t.Errorf("status %d", other.Status)
	}
}

// The page about the ledger says how far witnesses have cosigned it, where a policy names some.
func TestVerifySaysWhatIsWitnessed(t *testing.T) {
	ring := newRing(t)
	_, second := ring.Head()
	var size int64
	for _, c := range []struct {
		size int64
		says string
	}{{0, "have not cosigned the log yet"}, {4711, "<strong>Witnessed to 4\u202f711 events</strong>"}, {4711, ">40 seconds ago</time>"}} {
		size = c.size
		s := serve(t, Config{Core: ring, Witnessed: func() (int64, time.Time) { return size, time.Unix(second-45, 0) }})
		if r := s.Get("/verify"); !strings.Contains(r.Body, c.says) || r.Header.Get("Cache-Control") == "" {
			t.Errorf("no %q: %s", c.says, r.Body)
		}
	}
	if r := serve(t, Config{Core: ring}).Get("/verify"); strings.Contains(r.Body, "itnesses have") || strings.Contains(r.Body, "Witnessed") {
		t.Errorf("without a policy: %s", r.Body)
	}
}
