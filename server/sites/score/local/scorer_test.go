package local

import (
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"webring/server/sites/fetch"
	"webring/server/sites/score"
	"webring/server/sites/score/exemplar"
)

// world is a site at https://site.dev/ and the scorer that looks at it. The same
// handler answers at http://plain.dev/.
type world struct {
	*Scorer
	sent atomic.Int64
}

// least is the least passing score.
const least = 40

func serve(t *testing.T, h http.Handler) *world {
	t.Helper()
	w := &world{}
	counted := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.sent.Add(1)
		h.ServeHTTP(rw, r)
	})
	secure, err := exemplar.Serve(counted, "site.dev")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(secure.Close)
	plain := httptest.NewServer(counted)
	t.Cleanup(plain.Close)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secure.Roots)
	client := fetch.New(fetch.Config{Map: map[string]netip.AddrPort{"site.dev": secure.Addr, "plain.dev": netip.MustParseAddrPort(plain.Listener.Addr().String())},
		Roots: roots, Limits: fetch.Limits{PerMinute: -1}})
	t.Cleanup(client.Close)
	w.Scorer = New(client, least, nil, nil)
	return w
}

func scan(t *testing.T, w *world, url string) *Report {
	t.Helper()
	r, err := w.Scan(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func failed(r *Report) (ids []string) {
	for _, g := range r.Groups {
		for _, c := range g.Checks {
			if !c.Passed() {
				ids = append(ids, c.ID)
			}
		}
	}
	return ids
}

func TestRubricHasHundredPointsAsPublished(t *testing.T) {
	want := map[string]int{"Reach": 25, "Content": 26, "Discovery": 24, "Interfaces": 25, Bonus: 5}
	handbook, err := os.ReadFile("../../../HANDBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	seen, total := map[string]bool{}, 0
	for _, g := range rubric {
		points := 0
		for _, e := range g.entries {
			points += e.points
			if seen[e.id] || e.title == "" || e.fix == "" || e.points < 1 {
				t.Errorf("%+v", e)
			}
			seen[e.id] = true
			if row := fmt.Sprintf("| `%s` | %d |", e.id, e.points); bytes.Count(handbook, []byte(row)) != 1 {
				t.Errorf("the handbook does not have once: %s", row)
			}
		}
		if points != want[g.name] {
			t.Errorf("%s has %d points", g.name, points)
		}
		if g.name != Bonus {
			total += points
		}
	}
	if total != MaxScore || bytes.Count(handbook, []byte("\n| `")) == 0 || !bytes.Contains(handbook, []byte("rubric "+strings.TrimPrefix(Rubric, "webring-"))) {
		t.Errorf("%d points, or the handbook does not name the rubric", total)
	}
}

// maxRequests is how many requests a scan sends to a site that does not redirect: fewer than
// the client takes for one scoring.
const maxRequests = fetch.OneScoring - 2

func TestExemplarySiteScoresHundred(t *testing.T) {
	w := serve(t, &exemplar.Site{Name: "Example", About: "A site to be read."})
	r := scan(t, w, "https://site.dev/")
	if r.Score != 100 || len(failed(r)) != 0 {
		t.Errorf("%s", r.Markdown())
	}
	if sent := int(w.sent.Load()); sent != r.Requests || sent > maxRequests {
		t.Errorf("%d requests, the report says %d", sent, r.Requests)
	}
	if r.Rubric != Rubric || time.Since(r.ScannedAt).Abs() > time.Minute || r.URL != "https://site.dev/" {
		t.Errorf("%+v", r)
	}
}

// What to do, and how much work that is, follows what was found.
func TestAMissingHeadingIsALine(t *testing.T) {
	text := "<p>" + strings.Repeat("Of wool and needles. ", 30)
	for html, want := range map[string]struct {
		effort int
		fix    string
	}{
		text:                       {1, "<h1>"},
		"<h1></h1>" + text:         {1, "<h1>"},
		"<h1>Knits</h1><p>Little.": {4, "before any script runs"},
		"<div id=app></div>":       {4, "before any script runs"},
		"<h1>Knits</h1>" + text:    {4, ""},
	} {
		w := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "text/html")
			fmt.Fprint(rw, "<!doctype html><title>Knits</title>", html)
		}))
		for _, g := range scan(t, w, "https://site.dev/").Groups {
			for _, c := range g.Checks {
				if c.ID == "text" && (Effort(c) != want.effort || !strings.Contains(c.Fix, want.fix) || c.Passed() != (want.fix == "")) {
					t.Errorf("%q: %+v, effort %d", html, c, Effort(c))
				}
			}
		}
	}
}

// without says which checks fail beside one, as they begin with what it looks for.
var without = map[string][]string{"mcp-card": {"mcp"}, "skills": {"skill"}}

// TestEachCheckCostsExactlyItsPoints leaves one thing out at a time.
func TestEachCheckCostsExactlyItsPoints(t *testing.T) {
	t.Parallel()
	points := map[string]int{}
	for _, g := range rubric {
		for _, e := range g.entries {
			points[e.id] = e.points
		}
	}
	for id := range points {
		t.Run(id, func(t *testing.T) {
			url := "https://site.dev/"
			if id == "home" {
				url = "http://plain.dev/"
			}
			r := scan(t, serve(t, &exemplar.Site{Name: "Example", About: "A site to be read.", Without: []string{id}}), url)
			want, left := append([]string{id}, without[id]...), 105
			for _, lost := range want {
				left -= points[lost]
			}
			if got := failed(r); r.Score != min(left, MaxScore) || !slices.Equal(got, want) {
				t.Errorf("score %d, failed %v, want %d without %v", r.Score, got, left, want)
			}
			for _, g := range r.Groups {
				for _, c := range g.Checks {
					if c.Evidence == "" || (c.Fix == "") != c.Passed() {
						t.Errorf("%+v", c)
					}
				}
			}
		})
	}
}

// TestProblemDocumentsHelpOn has APIs that answer everybody in the way of RFC 9457.
func TestProblemDocumentsHelpOn(t *testing.T) {
	for body, want := range map[string]bool{
		`{"type":"https://site.dev/problems/not_found","title":"Not found","status":404,"detail":"Nothing has this path. GET /api lists what there is."}`: true,
		`{"title":"Not found","status":404,"detail":"Nothing has this path.","links":{"help":"/docs"}}`:                                                   true,
		`{"title":"Not found","status":404,"detail":"Nothing has this path, and nothing leads on."}`:                                                      false,
		`{"type":"about:blank","status":404,"detail":"Nothing has this path, and nothing leads on."}`:                                                     false,
		`{"type":"https://other.dev/problems","detail":"Nothing has this path, and this leads elsewhere."}`:                                               false,
		`{"type":"/problems/not_found","title":"Not found"}`:                                                                                              false,
		`[]`: false,
	} {
		s := &site{asked: "https://site.dev/", home: answer{err: fetch.ErrUnreachable}, missing: answer{Response: &fetch.Response{Status: 404,
			Header: http.Header{"Content-Type": {"application/problem+json"}}, Body: []byte(body)}}}
		if f := s.checkNotFoundHelp(); f.passed != want || f.evidence == "" {
			t.Errorf("%s: %+v", body, f)
		}
	}
}

// TestSiteOfTheFirstRubricStillJoins has a site that the first rubric gave 100 points, and
// that knows nothing of what came later.
func TestSiteOfTheFirstRubricStillJoins(t *testing.T) {
	site := &exemplar.Site{Name: "Example", About: "A site to be read.", Without: []string{"ai-catalog", "mcp", "skill", "signatures"}}
	r := scan(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/mcp/server-card":
			http.NotFound(w, r)
		case "/.well-known/agent-skills/index.json":
			fmt.Fprint(w, `{"skills":[{"name":"read","type":"skill-md","description":"Reads this site.","url":"https://site.dev/skill.md"}]}`)
		default:
			site.ServeHTTP(w, r)
		}
	})), "https://site.dev/")
	if r.Score != 90 || r.Score < least || !slices.Equal(failed(r), []string{"ai-catalog", "mcp", "skill", "signatures"}) {
		t.Errorf("%s", r.Markdown())
	}
}

// pages answers a fixed set of paths; others get what missing says.
func pages(byPath map[string]string, missing http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text, ok := byPath[r.URL.Path]
		if !ok {
			missing(w, r)
			return
		}
		if strings.HasSuffix(r.URL.Path, ".txt") {
			w.Header().Set("Content-Type", "text/plain")
		} else if strings.HasSuffix(r.URL.Path, ".xml") {
			w.Header().Set("Content-Type", "application/xml")
		} else {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		}
		fmt.Fprint(w, text)
	}
}

func TestTidyStaticSitePasses(t *testing.T) {
	h := pages(map[string]string{
		"/": `<!doctype html><html lang="en"><head><title>Notes</title><meta name="description" content="Field notes"></head><body><h1>Notes</h1><h2>Today</h2><p>` +
			strings.Repeat("The tide was low and the light was long. ", 20) + `</p><a href="/about.html">About</a> <a href="mailto:me@site.dev">Write</a></body></html>`,
		"/about.html":  "<!doctype html><title>About</title><h1>About</h1>",
		"/robots.txt":  "User-agent: *\nDisallow:\nAllow: /\n",
		"/sitemap.xml": `<urlset><url><loc>https://site.dev/</loc></url></urlset>`,
	}, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(404)
		fmt.Fprint(w, "<h1>404 Not Found</h1>")
	})
	if r := scan(t, serve(t, h), "https://site.dev/"); r.Score < 40 || r.Score > 70 {
		t.Errorf("%s", r.Markdown())
	}
}

func TestScriptOnlyShellWithSoft404sDoesNot(t *testing.T) {
	shell := `<!doctype html><html lang="en"><head><title>App</title><meta name="description" content="An app"><meta property="og:title" content="App"><meta property="og:type" content="website"></head>` +
		`<body><noscript>You need to enable JavaScript to run this app.</noscript><div id="root"></div><script>` + strings.Repeat("var text = 'lots of text'; ", 200) + `</script></body></html>`
	h := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, shell)
	}
	if r := scan(t, serve(t, http.HandlerFunc(h)), "https://site.dev/"); r.Score >= 40 {
		t.Errorf("%s", r.Markdown())
	}
}

// TestWhatIsHonestlyThereCounts has sites that do right what a hasty look takes
// for wrong.
func TestWhatIsHonestlyThereCounts(t *testing.T) {
	example := &exemplar.Site{Name: "Example", About: "A site to be read.", Without: []string{"links"}}
	w := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/" && strings.Contains(r.Header.Get("Accept"), "text/markdown"):
			w.Header().Set("Content-Type", "text/markdown")
			fmt.Fprint(w, "<p align=center>A picture</p>\n\n# Example\n")
		case r.URL.Path == "/":
			// A description for people first, and the one in JSON at its place.
			w.Header().Set("Link", `</api.yaml>; rel="service-desc"`)
			example.ServeHTTP(w, r)
		case r.URL.Path == "/api.yaml":
			w.Header().Set("Content-Type", "application/yaml")
			fmt.Fprint(w, "openapi: 3.1.0\n")
		default:
			example.ServeHTTP(w, r)
		}
	}))
	if r := scan(t, w, "https://site.dev/"); r.Score != 100 {
		t.Errorf("%v", failed(r))
	}
}

func TestSitesThatCannotBeScored(t *testing.T) {
	w := serve(t, http.NotFoundHandler())
	gone := fetch.New(fetch.Config{Map: map[string]netip.AddrPort{"site.dev": netip.MustParseAddrPort("127.0.0.1:1")}})
	for name, c := range map[string]struct {
		s   *Scorer
		url string
		bad bool // not even a target
	}{
		"an address":                {w.Scorer, "https://127.0.0.1/", true},
		"a private name":            {w.Scorer, "https://printer.local/", true},
		"nothing listens":           {New(gone, least, nil, nil), "https://site.dev/", false},
		"a certificate for another": {w.Scorer, "https://plain.dev/", false},
	} {
		got, err := c.s.Score(t.Context(), c.url)
		if errors.Is(err, score.ErrBadTarget) != c.bad || errors.As(err, new(*score.NotScorable)) == c.bad || got != (score.Result{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestHostileAnswers holds that whatever a site sends costs it points and us
// nothing: no error, no panic, and an answer in time.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	for range 8 {
		z.Write(make([]byte, 1<<20))
	}
	z.Close()
	deep := func(open string) string { return strings.Repeat(open, (256<<10)/len(open)) }
	for name, h := range map[string]http.HandlerFunc{
		"bomb everywhere": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(bomb.Bytes())
		},
		"deep markup": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, deep("<div><b><table>")) },
		"deep JSON":   func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, deep("[")) },
		"deep XML":    func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<urlset>"+deep("<a>")) },
		"many links":  func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, deep("<a href='/about/1'>x</a>")) },
		"entities": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `<!DOCTYPE urlset [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]><urlset><url><loc>&b;</loc></url></urlset>`)
		},
		"link fields": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", strings.Repeat("<x>;rel=service-desc,", 2000))
		},
		"redirects to itself": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
		"redirects away": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1/", http.StatusFound)
		},
		"server error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
	} {
		t.Run(name, func(t *testing.T) {
			site := serve(t, h)
			r, err := site.Scan(t.Context(), "https://site.dev/")
			for try := 0; try < 8 && errors.As(err, new(*score.Unavailable)); try++ { // a busy machine did not get to the end in time
				r, err = site.Scan(t.Context(), "https://site.dev/")
			}
			if err != nil || r.Score >= 40 {
				t.Fatalf("%v, %+v", err, r)
			}
			for _, words := range [][]byte{r.JSON(), r.Markdown()} {
				if bytes.Contains(words, []byte("<div>")) || bytes.Contains(words, []byte("aaaaaaaaaa")) {
					t.Errorf("the report repeats what the site sent: %s", words)
				}
			}
		})
	}
}

func TestSlowSiteEndsWithTheScan(t *testing.T) {
	t.Parallel()
	w := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" && r.Header.Get("Accept") == acceptHTML && r.UserAgent() == fetch.Agent {
			fmt.Fprint(w, "<h1>Fast</h1>")
			return
		}
		<-r.Context().Done()
	}))
	if w.time != 20*time.Second {
		t.Errorf("a scan may take %s", w.time)
	}
	w.time = 3 * time.Second
	start := time.Now()
	r, err := w.Scan(t.Context(), "https://site.dev/")
	if err != nil || time.Since(start) > 15*time.Second { // 25 s if nothing ended it
		t.Fatalf("%v after %s", err, time.Since(start))
	}
	if r.Score > 20 {
		t.Errorf("%s", r.Markdown())
	}
}

func TestLimitOfOursCostsTheSiteNothing(t *testing.T) {
	to := netip.MustParseAddrPort(httptest.NewServer(&exemplar.Site{Name: "x", About: "y"}).Listener.Addr().String())
	l := New(fetch.New(fetch.Config{Map: map[string]netip.AddrPort{"site.dev": to}, Limits: fetch.Limits{PerMinute: 10}}), least, nil, nil)
	_, err := l.Score(t.Context(), "http://site.dev/")
	var down *score.Unavailable
	if !errors.As(err, &down) || !down.Busy || down.RetryAfter < time.Second || down.RetryAfter > 61*time.Second {
		t.Errorf("%v", err)
	}
	if n := l.scans.shares.Taken(); n != 0 || len(l.scans.running) != 0 {
		t.Errorf("%d places are not free", n)
	}
}

func TestReportIsKeptOrThereIsNoScore(t *testing.T) {
	w := serve(t, &exemplar.Site{Name: "x", About: "y"})
	w.keep = func(r *Report) (string, error) { return "https://ring.dev/reports/" + r.Rubric, nil }
	if got, err := w.Score(t.Context(), "https://site.dev/"); err != nil || got.Score != 100 || got.Report != "https://ring.dev/reports/webring-2" || got.Version != Rubric || got.Provider != "local" || got.ScannedAt.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	w.keep = func(*Report) (string, error) { return "", errors.New("the disk is full") }
	var down *score.Unavailable
	if got, err := w.Score(t.Context(), "https://site.dev/"); !errors.As(err, &down) || got != (score.Result{}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzPage(f *testing.F) {
	for _, s := range []string{"<html lang=en><title>t</title><h1>x</h1>", "<script type=application/ld+json>{", "<a href=//x>", "<template><h1>", "<title/><body>x", "<iframe><p>x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p := readPage(body, []string{"text/html", "application/xhtml+xml", ""}[len(body)%3])
		if p.text < 0 || p.text > 2*len(body) || len(p.links) > maxLinks {
			t.Fatalf("%+v", p)
		}
		for _, text := range p.jsonLD {
			linkedData(text)
		}
	})
}

func FuzzLinks(f *testing.F) {
	f.Add(`</a>; rel="service-desc"; type=x, <b>;rel=alternate`)
	f.Fuzz(func(t *testing.T, field string) {
		for _, l := range parseLinks([]string{field}) {
			if strings.ContainsAny(l.target, ">") || len(l.target)+len(l.rel) > len(field) {
				t.Fatalf("%q gives %+v", field, l)
			}
		}
	})
}

func FuzzSitemap(f *testing.F) {
	f.Add([]byte(`<urlset><url><loc>https://site.dev/</loc></url></urlset>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := &site{asked: "https://site.dev/", home: answer{err: fetch.ErrUnreachable}}
		if n, _ := s.readSitemap(body, ""); n < 0 || n > len(body) {
			t.Fatal(n)
		}
	})
}
