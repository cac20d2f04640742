package edge

import (
	"context"
	"encoding/json"
	"html"
	"image"
	"image/color"
	"image/png"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/edge/edgetest"
	"webring/static"
	"webring/templates"
	"webring/wasm/host"
)

func TestTheFrontPageShowsTheLeaderAndTheLeaderboard(t *testing.T) {
	ring := newRing(t)
	s := serve(t, Config{Core: ring})
	r := s.Get("/")
	if r.Status != 200 {
		t.Fatalf("status %d: %s", r.Status, r.Body)
	}
	for _, want := range []string{
		"<title>Test &lt;Ring&gt;</title>", "<bdi>Test &lt;Ring&gt;</bdi>", "paid placement",
		`<a rel="sponsored noopener" href="https://alpha.example/"><bdi>Alpha &amp; Co</bdi></a>`, `href="https://gamma.example/"><bdi>Gamma`,
		"51.00", "50.01", "keeps it first, at $52", "starts fading in", "fades after a first bid", "Take first place for <span class=\"amount\" data-live=\"first\">$51.01</span>", "takes first place", `href="` + static.Style.Path[1:] + `"`, `href="members/beta"`,
	} {
		if !strings.Contains(r.Body, want) {
			t.Errorf("no %s in %s", want, r.Body)
		}
	}
	wantFields(t, r, "Content-Type", "text/html; charset=utf-8", "Webring-Seq", "4", "Vary", "Accept-Encoding | Accept",
		"Cache-Control", "public, max-age=5, stale-while-revalidate=30, stale-if-error=86400",
		"Content-Security-Policy", templates.Policy, "Referrer-Policy", "strict-origin-when-cross-origin")
	if r := s.Get("/", "If-None-Match", r.Header.Get("ETag")); r.Status != 304 || r.Body != "" {
		t.Errorf("its own tag: status %d", r.Status)
	}
	ring.Tick(time.Unix(epoch+500, 0))
	later := s.Get("/", "If-None-Match", r.Header.Get("ETag"))
	if later.Status != 200 || !strings.Contains(later.Body, "fading, ") {
		t.Errorf("after decay: status %d %s", later.Status, later.Body)
	}
}

// The front page says who joined, and whom a bid lifted past whom, in the words of the news.
func TestTheFrontPageSaysWhatHappened(t *testing.T) {
	news := `{"id":1,"at":"2026-11-24T09:00:00Z","type":"joined","member":"beta","rank":2,"amount_usd":"1.00","seq":2},` +
		`{"id":2,"at":"2026-11-24T09:10:00Z","type":"bid","member":"gone","was_rank":9,"rank":8,"amount_usd":"3.00","seq":3},` +
		`{"id":3,"at":"2026-11-24T09:20:00Z","type":"bid","member":"alpha","was_rank":5,"rank":1,"amount_usd":"50.00","seq":4},` +
		`{"id":4,"at":"2026-11-24T09:20:00Z","type":"outbid","member":"gamma","by":"alpha","was_rank":1,"rank":2,"seq":4},` +
		`{"id":5,"at":"2026-11-24T09:20:00Z","type":"outbid","member":"beta","by":"alpha","was_rank":2,"rank":3,"seq":4},` +
		`{"id":6,"at":"2026-11-24T09:30:00Z","type":"asleep","member":"gamma","seq":5}`
	s := serve(t, Config{Core: newRing(t), OriginData: func(_ context.Context, path, query string) api.Document {
		if path != "/api/events" || query != "limit=100" {
			return api.Document{Status: 503}
		}
		return api.Document{Status: 200, Media: "application/json", MaxAge: 5, Body: []byte(`{"events":[` + news + `],"best_bid":{"member":"gamma"}}`)}
	}})
	_, latest, _ := strings.Cut(s.Get("/").Body, `id="latest"`)
	latest, _, _ = strings.Cut(latest, "</section>")
	said := strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(latest[strings.Index(latest, "<ul>"):], " ")), " ")
	if want := regexp.MustCompile(`^Alpha &amp; Co got \$50 and passed Gamma and 3 others, now rank 1 .* Beta joined at rank 2 .* Follow who joins and who leads$`); !want.MatchString(said) || strings.Contains(said, "gone") {
		t.Errorf("%s", said)
	}
}

// A page is sent from memory while it is true, and never after that.
func TestPagesAreDrawnWhenANumberOnThemChanges(t *testing.T) {
	ring := newRing(t)
	s := serve(t, Config{Core: ring})
	standing := regexp.MustCompile(`data-live="lead">([$0-9.]+)<`)
	for second := int64(epoch + 2); second < epoch+1100; second += 7 {
		ring.Tick(time.Unix(second, 0))
		var board struct {
			Leaderboard []struct {
				Standing string `json:"effective_bid_usd"`
			}
		}
		if err := json.Unmarshal([]byte(s.Get("/api/leaderboard?limit=1").Body), &board); err != nil {
			t.Fatal(err)
		}
		if m := standing.FindStringSubmatch(s.Get("/").Body); m == nil || m[1] != templates.Dollars(board.Leaderboard[0].Standing) {
			t.Fatalf("at second %d the page says %v, the leaderboard %s", second, m, board.Leaderboard[0].Standing)
		}
	}
	before := s.Get("/ring").Header.Get("ETag")
	if again := s.Get("/ring", "If-None-Match", before); again.Status != 304 {
		t.Errorf("the ring did not change: status %d", again.Status)
	}
	join(t, ring, 1_200_000, "Delta", core.Joined{Slug: "delta"})
	for _, target := range []string{"/", "/ring", "/members/gamma", "/badge/delta.svg", "/embed?from=gamma"} {
		if r := s.Get(target); r.Status != 200 || !strings.Contains(r.Body, "Delta") && !strings.Contains(r.Body, "of 4") {
			t.Errorf("%s does not know the new member: %d %s", target, r.Status, r.Body)
		}
	}
}

func TestEveryPage(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for _, c := range []struct {
		target string
		has    []string
	}{
		{"/ring", []string{"Members 1 to 3 of 3", `href="members/alpha"`, `aria-current="page"`}},
		{"/ring?kind=mcp", []string{"Members 1 to 1 of 1", "Beta"}},
		{"/ring?page=2", []string{"No more members", `href="ring?page=1"`}},
		{"/ring?limit=1&offset=2", []string{"Members 1 to 3 of 3"}},
		{"/leaderboard", []string{"keeps it first, at $52", "takes first place", "Price of first place", `href="members/beta?amount=50.01#bid"`, `aria-current="page"`}},
		{"/leaderboard?page=2", []string{"No more members", `href="leaderboard"`}},
		{"/categories/general", []string{"Members 1 to 3 of 3", `href="../members/alpha"`}},
		{"/members/beta", []string{"Beta", "50.01", `href="../members/alpha"`, `href="../members/gamma"`, `"member":"beta","amount":"50.01"`, "this member, number 2"}},
		{"/members/b%65ta", []string{"Beta"}},
		{"/members/alpha", []string{"keeps it first, at $52", `"amount":"1.00"`}},
		{"/members/beta?amount=7.5", []string{`"member":"beta","amount":"7.50"`, " lifts it to <strong>$8.50 in total</strong> and <strong>rank 2</strong> of 3. It counts in full for "}},
		{"/members/beta?amount=1000000", []string{`"amount":"1000000.00"`}},
		{"/members/beta?amount=1000000.01", []string{`"amount":"50.01"`}},
		{"/members/beta?amount=0.99", []string{`"amount":"50.01"`}},
		{"/members/beta?amount=%27%3B%20id%20%27", []string{`"amount":"50.01"`}},
		{"/join", []string{`<form class="draft" id="draft" action="join#result" method="post">`, "at least 40 to join", "50.01"}},
		{"/embed", []string{"webring-online", static.Widget.Integrity(), base + "/widget.js", "script-src 'self' " + base}},
		{"/embed?from=gamma", []string{"Snippets for", "/prev?from=gamma", "/badge/gamma.svg", "<bdi>Beta</bdi>"}},
		{"/embed?from=gamma.example", []string{"/prev?from=gamma"}},
		{"/embed?from=%3Cimg%20src=x%3E", []string{"No member is called", "&lt;img src=x&gt;"}},
		{"/embed?from=%FF", []string{"No member is called"}},
		{"/about", []string{"About <bdi>", "A ring of agents", "paid placement"}},
		{"/docs", []string{"GET /api/ring/{slug}", "POST /api/bid", "unknown_member", "120 requests", "X-Request-Id"}},
	} {
		r := s.Get(c.target)
		for _, want := range append(c.has, "<!doctype html>", `<a class="skip"`) {
			if r.Status != 200 || !strings.Contains(r.Body, want) && !strings.Contains(html.UnescapeString(r.Body), want) {
				t.Errorf("%s: status %d, no %s in %s", c.target, r.Status, want, r.Body)
			}
		}
		// The policy has the hash of one script, which all pages begin with.
		inline := regexp.MustCompile(`<script>|<script [^>]*>[^<{]`).FindAllString(r.Body, -1)
		if strings.Contains(r.Body, "style=\"") || strings.Join(inline, "") != "<script data-theme>t" || regexp.MustCompile(` on[a-z]+=`).MatchString(r.Body) {
			t.Errorf("%s: a page that its own policy breaks", c.target)
		}
		wantFields(t, r, "Content-Type", "text/html; charset=utf-8", "Content-Security-Policy", templates.Policy)
		wantCommon(t, r)
	}
}

func TestPagesThatAreNotThereAreProblems(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for target, code := range map[string]api.Code{
		"/members/": api.NotFound, "/members/a/b": api.NotFound, "/members": api.NotFound,
		"/members/nobody": api.UnknownMember, "/members/%ff": api.NotFound, "/members/next": api.UnknownMember, "/members/%2e%2e": api.UnknownMember,
		"/categories/none": api.EmptyRing, "/categories/": api.NotFound, "/categories/A%20B": api.EmptyRing,
		"/badge/alpha": api.NotFound, "/badge/nobody.png": api.UnknownMember, "/cards/nobody.png": api.UnknownMember, "/cards/alpha": api.NotFound, "/cards/a/b.png": api.NotFound, "/badge/nobody.svg": api.UnknownMember, "/badge/alpha.example.svg": api.UnknownMember,
		"/ring?kind=cat": api.InvalidParameter, "/ring?page=0": api.InvalidParameter, "/leaderboard?page=0": api.InvalidParameter, "/problems/none": api.NotFound,
	} {
		r := s.Get(target)
		var doc struct{ Code string }
		if err := json.Unmarshal([]byte(r.Body), &doc); err != nil || r.Status != code.Status() || doc.Code != string(code) {
			t.Errorf("%s: %d %s, want %s", target, r.Status, r.Body, code)
		}
		wantFields(t, r, "Content-Type", "application/problem+json", "Cache-Control", "no-store")
	}
	for _, folder := range []string{"/members/", "/categories/", "/badge/", "/cards/"} {
		long := folder + strings.Repeat("\"", MaxHeader-1000) // three times as long when it is escaped
		for _, accept := range []string{"*/*", "text/markdown"} {
			wantProblem(t, s.Raw("GET "+long+" HTTP/1.1\r\nHost: x\r\nAccept: "+accept+"\r\n\r\n"), api.NotFound)
		}
	}
	// The paths of other reads are no members as Markdown either.
	for _, slug := range []string{"next", "prev", "random"} {
		wantProblem(t, s.Get("/members/"+slug, "Accept", "text/markdown"), api.UnknownMember)
	}
	if r := s.Do("POST", "/members/alpha", ""); r.Status != 405 || r.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("POST to a page: %d, %s", r.Status, r.Header.Get("Allow"))
	}
	if r := s.Do("HEAD", "/members/alpha", ""); r.Status != 200 || r.Body != "" || r.Header.Get("Content-Length") == "0" {
		t.Errorf("HEAD of a page: %d, %s", r.Status, r.Header.Get("Content-Length"))
	}
}

// An escaped '?' is part of a path, whatever was asked for before.
func TestPathsWithAQuestionMarkAreOtherPaths(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for _, accept := range []string{"text/html", "text/markdown"} {
		if r := s.Get("/categories/general?kind=mcp", "Accept", accept); r.Status != 200 {
			t.Fatalf("status %d", r.Status)
		}
		for _, path := range []string{"/categories/general%3Fkind=mcp", "/ring%3Fkind=mcp", "/kind=mcp%20/categories/general"} {
			if r := s.Get(path, "Accept", accept); r.Status != 404 {
				t.Errorf("%s as %s: status %d", path, accept, r.Status)
			}
		}
	}
}

// The page of a member who was removed says that, and no page leads there.
func TestRemovedMembersAreGone(t *testing.T) {
	ring := newRing(t)
	s := serve(t, Config{Core: ring})
	pages := []string{"/", "/leaderboard", "/ring", "/categories/general", "/members/alpha", "/embed?from=gamma"}
	for _, target := range append(pages, "/members/beta", "/badge/beta.svg", "/badge/beta.png", "/cards/beta.png", "/embed?from=beta") {
		for _, accept := range []string{"text/html", "text/markdown"} {
			if r := s.Get(target, "Accept", accept); r.Status != 200 {
				t.Fatalf("%s: status %d", target, r.Status)
			}
		}
	}
	edgetest.Apply(t, ring, &core.Removed{Stamp: (epoch + 3) * 1000, Member: "beta", Reason: "asked to"}, nil)
	for _, accept := range []string{"text/html", "text/markdown", "*/*"} {
		if r := s.Get("/members/beta", "Accept", accept); r.Status != 410 || strings.Contains(r.Body, "Beta") {
			t.Errorf("as %s: %d %s", accept, r.Status, r.Body)
		}
		for _, target := range pages {
			if r := s.Get(target, "Accept", accept); r.Status != 200 || strings.Contains(r.Body, "beta") || strings.Contains(r.Body, "Beta") {
				t.Errorf("%s as %s: status %d, and a member who is gone: %s", target, accept, r.Status, r.Body)
			}
		}
	}
	wantProblem(t, s.Get("/badge/beta.svg"), api.UnknownMember)
	wantProblem(t, s.Get("/cards/beta.png"), api.MemberRemoved)
	if r := s.Get("/embed?from=beta"); r.Status != 200 || !strings.Contains(r.Body, "No member is called") {
		t.Errorf("snippets for a member who is gone: %d %s", r.Status, r.Body)
	}
}

func TestTheFrontPageOfAnEmptyRing(t *testing.T) {
	s := serve(t, Config{Core: openedRing(t)})
	r := s.Get("/")
	if r.Status != 200 || !strings.Contains(r.Body, "Nobody yet") || !strings.Contains(r.Body, "Join for $1") ||
		strings.Contains(r.Body, "<table") {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}

func TestTheFrontPageOfARingThatIsNotOpenIsAProblem(t *testing.T) {
	s := serve(t, Config{Core: host.NewNative(1)})
	if r := s.Get("/"); r.Status != 500 || !strings.Contains(r.Body, `"code":"internal"`) {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}

func TestEveryProblemTypeLeadsToItsPage(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for _, code := range api.Codes() {
		r := s.Get("/problems/" + string(code))
		if r.Status != 200 || !strings.Contains(r.Body, "<code>"+string(code)+"</code>") || !strings.Contains(r.Body, `href="../static/`) || !strings.Contains(html.UnescapeString(r.Body), code.Title()) {
			t.Errorf("%s: %d %s", code, r.Status, r.Body)
		}
		wantFields(t, r, "Content-Type", "text/html; charset=utf-8", "Content-Security-Policy", templates.Policy)
	}
}

func TestAssetsAreNamedByTheirContent(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for _, a := range static.Assets() {
		r := s.Get(a.Path)
		if r.Status != 200 || r.Body != string(a.Body) {
			t.Errorf("%s: %d, %d bytes", a.Path, r.Status, len(r.Body))
		}
		wantFields(t, r, "Content-Type", a.Type, "Cache-Control", "public, max-age=31536000, immutable")
		if r := s.Get(a.Path, "If-None-Match", r.Header.Get("ETag")); r.Status != 304 {
			t.Errorf("%s: status %d for its own tag", a.Path, r.Status)
		}
	}
}

func TestOtherSitesMayLoadWidgetAndBadge(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for _, target := range []string{"/widget.js", static.Widget.Path, "/badge/alpha.svg", "/badge/alpha.png", "/badge/alpha@2x.png", "/card.png", "/cards/alpha.png"} {
		r := s.Get(target)
		wantFields(t, r, "Cross-Origin-Resource-Policy", "cross-origin", "Access-Control-Allow-Origin", "*")
		if again := s.Get(target, "If-None-Match", r.Header.Get("ETag")); r.Status != 200 || again.Status != 304 {
			t.Errorf("%s: %d, then %d", target, r.Status, again.Status)
		}
	}
	if r := s.Get("/widget.js"); !strings.Contains(r.Header.Get("Cache-Control"), "max-age=300,") || r.Body != string(static.Widget.Body) {
		t.Errorf("/widget.js: %v", r.Header)
	}
	if r := s.Get("/badge/alpha.svg"); r.Header.Get("Content-Type") != "image/svg+xml" || !strings.Contains(r.Body, "<title id=\"t\">Alpha &amp; Co, No. 1 in Test &lt;Ring&gt;</title>") {
		t.Errorf("the badge is %s", r.Body)
	}
	if r := s.Get("/"); r.Header.Get("Cross-Origin-Resource-Policy") != "" {
		t.Error("the home page is for other sites to load")
	}
}

// The picture that a page names for previews is there, as large as it says.
func TestPagesNameTheirCards(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	image1200 := regexp.MustCompile(`<meta property="og:image" content="https://ring\.example(/[^"]*)">`)
	for path, card := range map[string]string{"/": "/card.png", "/members/alpha": "/cards/alpha.png", "/leaderboard": "/previews/leaderboard.png", "/join": "/previews/join.png",
		"/ring": "/previews/ring.png", "/categories/general": "/previews/ring.png", "/embed": "/previews/embed.png", "/docs": "/previews/docs.png",
		"/about": "/previews/about.png", "/verify": "/previews/verify.png", "/problems": "/previews/problems.png", "/problems/not_found": "/previews/problems.png"} {
		named := image1200.FindStringSubmatch(s.Get(path).Body)
		if named == nil || named[1] != card {
			t.Errorf("%s names %q, want %s", path, named, card)
			continue
		}
		r := s.Get(card)
		wantFields(t, r, "Content-Type", "image/png", "Vary", "")
		if age := r.Header.Get("Cache-Control"); !strings.HasPrefix(age, "public, max-age=") {
			t.Errorf("%s: %s", card, age)
		}
		if m, err := png.Decode(strings.NewReader(r.Body)); err != nil || m.Bounds() != image.Rect(0, 0, 1200, 630) {
			t.Errorf("%s: %v, %v", card, m, err)
		}
		wantCommon(t, r)
	}
	if r := s.Get("/members/alpha"); !strings.Contains(r.Body, `<meta property="og:image:alt" content="Alpha &amp; Co (alpha.example) has rank 1 of 3 in Test &lt;Ring&gt;.">`) {
		t.Error("the card is not described")
	}
	if m, err := png.Decode(strings.NewReader(s.Get("/badge/alpha.png").Body)); err != nil || m.Bounds() != image.Rect(0, 0, 88, 31) {
		t.Errorf("the button: %v, %v", m, err)
	}
	for _, icon := range static.Icons {
		if r := s.Get(icon.Path); r.Status != 200 || r.Body != string(icon.Body) {
			t.Errorf("%s: status %d, %d bytes", icon.Path, r.Status, len(r.Body))
		}
	}
}

// A ring looks as its operator has it look, on every page and card.
func TestTheLookOfTheOperator(t *testing.T) {
	plain, look := serve(t, Config{Core: newRing(t)}), core.Look{Welcome: "Come <in>.", Accent: "#1f6a62", AccentDark: "#63c7b8", Logo: "0 0 24 24 M2 2h20v20H2z"}
	ring := newRing(t)
	edgetest.Apply(t, ring, &core.Rules{Stamp: (epoch + 2) * 1000, Name: "Test", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Decay: 1000, Look: look}, nil)
	s := serve(t, Config{Core: ring})
	sheet := static.StylePath(look.Accent, look.AccentDark)
	body := s.Get("/").Body
	for _, want := range []string{"Come &lt;in&gt;.", `href="` + sheet[1:] + `"`, `href="look/icon.svg"`, `<svg viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d="M2 2h20v20H2z"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the front page has no %s", want)
		}
	}
	r := s.Get(sheet)
	wantFields(t, r, "Content-Type", static.Style.Type, "Cache-Control", "public, max-age=31536000")
	if !strings.Contains(r.Body, "--seal: light-dark(#1f6a62, #63c7b8)") || !strings.Contains(r.Body, "url(../static/face-") {
		t.Error("the style sheet has another colour, or no face")
	}
	if r := s.Get(static.LogoPath); r.Header.Get("Content-Type") != "image/svg+xml" || !strings.Contains(r.Body, `path{fill:#1f6a62}`) || !strings.Contains(r.Body, `d="M2 2h20v20H2z"`) {
		t.Errorf("the icon is %s", r.Body)
	}
	for _, path := range []string{"/look/icon.svg", sheet} {
		wantProblem(t, plain.Get(path), api.NotFound)
	}
	wantProblem(t, s.Get(strings.Replace(sheet, "1f6a62", "1f6a63", 1)), api.NotFound)
	wantProblem(t, s.Get("/previews/none.png"), api.NotFound)
	wantProblem(t, s.Get("/previews/join"), api.NotFound)
	m, err := png.Decode(strings.NewReader(s.Get("/card.png").Body))
	if err != nil {
		t.Fatal(err)
	}
	if at := color.RGBAModel.Convert(m.At(88, 84)); at != (color.RGBA{0x1f, 0x6a, 0x62, 0xff}) {
		t.Errorf("in the place of the logo the card is %v", at)
	}
}

// restlessCore moves on before every call: somebody joins.
type restlessCore struct {
	*host.Native
	t     *testing.T
	mu    sync.Mutex
	calls int // of ServeAll
	moves int
}

func (c *restlessCore) ServeAll(targets [][]byte, all []api.Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(targets) > 256 {
		c.t.Errorf("%d targets in one call", len(targets))
	}
	if c.calls++; c.moves > 0 {
		c.moves--
		slug := "joins-" + strconv.Itoa(c.moves)
		join(c.t, c.Native, 10_000+int64(c.calls), slug, core.Joined{Slug: slug})
	}
	c.Native.ServeAll(targets, all)
}

// However often the ring moves while a page reads it, all that the page shows is of the
// position of its last call.
func TestAPageIsOfOnePositionWhileTheRingMoves(t *testing.T) {
	ring := &restlessCore{Native: newRing(t), t: t, moves: 60}
	s := serve(t, Config{Core: ring})
	sizes := regexp.MustCompile(`data-live="members">([0-9]+)<|text class="count" x="200" y="204">([0-9]+)<`)
	for range 30 {
		r := s.Get("/")
		found := sizes.FindAllStringSubmatch(r.Body, -1)
		if r.Status != 200 || len(found) != 2 || found[0][2] != found[1][1] {
			t.Fatalf("status %d, one page, two sizes: %q", r.Status, found)
		}
		for _, path := range []string{"/members/alpha", "/ring", "/feeds/joins.atom", "/opml/1.opml", "/llms.txt", "/join", "/badge/alpha.svg"} {
			if r := s.Get(path); r.Status != 200 {
				t.Errorf("%s: status %d", path, r.Status)
			}
		}
	}
	if ring.moves > 0 {
		t.Errorf("%d moves are left", ring.moves)
	}
}

// A page takes few calls, which do not grow with the ring, and none when it is sent from the
// cache.
func TestAPageTakesFewCalls(t *testing.T) {
	ring := &restlessCore{Native: newRing(t), t: t}
	s := serve(t, Config{Core: ring})
	for _, c := range []struct {
		path  string
		calls int
	}{
		{"/", 2}, {"/", 0}, {"/ring", 2}, {"/docs", 1}, {"/embed?from=alpha", 1}, {"/badge/alpha.svg", 2}, {"/problems/empty_ring", 0},
		{"/leaderboard", 1}, {"/leaderboard?page=2", 1}, {"/members/alpha", 3}, {"/members/alpha", 0}, {"/members/nobody", 1},
	} {
		before := ring.calls
		s.Get(c.path)
		if got := ring.calls - before; got != c.calls {
			t.Errorf("%s took %d calls, want %d", c.path, got, c.calls)
		}
	}
}
