package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"webring/server/sites/fetch"
	"webring/server/sites/score/exemplar"
	"webring/server/sites/score/local"
	"webring/templates"
)

// scored starts a ring that scores sites itself, and what is at every host below
// scored.test. The ring trusts the authority of its certificates.
func scored(t *testing.T, sites http.Handler, args ...string) (o *origin, fetchMap string) {
	t.Helper()
	server, err := exemplar.Serve(sites, "*.scored.test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	roots := t.TempDir()
	if err := os.WriteFile(filepath.Join(roots, "authority.pem"), server.Roots, 0o600); err != nil {
		t.Fatal(err)
	}
	fetchMap = "*.scored.test=" + server.Addr.String()
	return startWith(t, []string{"SSL_CERT_DIR=" + roots}, append([]string{"--scorer", "local", "--fetch-map", fetchMap}, args...)...), fetchMap
}

// poor are checks without which a site may not join.
var poor = []string{"robots", "text", "json-ld", "markdown", "sitemap", "llms-txt", "mcp-card", "mcp", "ai-catalog", "openapi", "not-found", "headings", "about", "contact", "api-catalog", "agent-card"}

// TestFromTheFreeCheckToTheReport goes the whole way with real parts.
func TestFromTheFreeCheckToTheReport(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	good := exemplar.Site{Name: "Good", About: "A site to be read.", Without: []string{"mcp-card", "mcp", "agent-card", "signatures"}}
	var asked atomic.Int64
	o, fetchMap := scored(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		site := good
		if strings.HasPrefix(r.Host, "poor.") {
			site.Without = poor
		}
		site.ServeHTTP(w, r)
	}), "--tempo-rpc", c.RPC)

	body := `{"name":"Good","url":"https://good.scored.test/","kind":"website"}`
	check := func(host string) string {
		form := url.Values{"name": {"Good"}, "url": {"https://" + host + ".scored.test/"}, "kind": {"website"}}
		return string(o.draft(form.Encode()).Body)
	}
	if page := check("good"); !strings.Contains(page, "89") || !strings.Contains(page, "/reports/") {
		t.Errorf("the free check does not show the score and the report: %s", page)
	}
	n := asked.Load()
	if n == 0 || n > fetch.OneScoring {
		t.Errorf("the site was asked %d times", n)
	}
	// The address of a draft gives back what was found, and has no site asked, also for drafts that nobody has checked.
	for text, want := range map[string]string{body: "You're eligible", strings.Replace(body, "//good.", "//other.", 1): "Check this draft to see its price and rank"} {
		for range 2 {
			if r := o.get("/"+templates.DraftAddress(text), "Accept", "text/html"); r.Status != http.StatusOK || !strings.Contains(string(r.Body), want) {
				t.Errorf("%s: %d, no %s in %s", text, r.Status, want, r.Body)
			}
		}
	}
	if asked.Load() != n {
		t.Errorf("addresses had the site asked %d times", asked.Load()-n)
	}
	if r := o.post("/api/register", body); r.Status != http.StatusPaymentRequired {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	p := o.pay(wallet(t), "/api/register", body)
	if p.Status != http.StatusCreated || asked.Load() != n {
		t.Fatalf("%d %s; the site was asked %d times more", p.Status, p.Body, asked.Load()-n)
	}
	member := at(t, paidDocument(t, p), "member")
	report, _ := at(t, member, "agentic_report").(string)
	id, found := strings.CutPrefix(report, o.base)
	if at(t, member, "agentic_score") != 89.0 || !found {
		t.Fatalf("%v", member)
	}

	html, doc, text := o.get(id, "Accept", "text/html"), o.get(id, "Accept", "application/json"), o.get(id+".md")
	if html.Status != 200 || !bytes.Contains(html.Body, []byte("89 of 100")) || html.Header.Get("Cache-Control") != "public, max-age=3600" {
		t.Errorf("%d %v %s", html.Status, html.Header, html.Body)
	}
	if at(t, doc.document(t), "score") != 89.0 || at(t, doc.document(t), "rubric") != local.Rubric || !bytes.HasPrefix(text.Body, []byte("# Agent readiness: 89 of 100")) {
		t.Errorf("%s %s", doc.Body, text.Body)
	}
	if r := o.get("/reports/" + strings.Repeat("a", 26)); r.Status != 404 || r.code(t) != "not_found" {
		t.Errorf("%d %s", r.Status, r.Body)
	}

	// Below 40: its report, and no challenge.
	r := o.post("/api/register", `{"name":"Poor","url":"https://poor.scored.test/","kind":"website"}`)
	low := o.refused(r, 422, "agentic_score_too_low")
	lowReport, _ := at(t, low, "report").(string)
	if score, _ := at(t, low, "score").(float64); score >= 40 || r.Header.Get("WWW-Authenticate") != "" || o.get(strings.TrimPrefix(lowReport, o.base)).Status != 200 {
		t.Errorf("%s", r.Body)
	}
	// The page says what is missing and what brings most, and the report says the same.
	lowPage := string(o.get(strings.TrimPrefix(lowReport, o.base), "Accept", "text/html").Body)
	for _, page := range []string{check("poor"), lowPage} {
		for _, want := range []string{" points missing", "Joining takes 40: ", "The least work that reaches 40", `<span class="plus">+10</span>`, "It is enough to join.", " checks passed</summary>", "Make a website ready for agents.",
			"which is an address and no instruction: https://poor.scored.test/", "-d &#39;{&#34;name&#34;:&#34;"} {
			if !strings.Contains(page, want) {
				t.Errorf("no %s in %s", want, page)
			}
		}
	}
	if page := check("poor"); !strings.Contains(page, strings.TrimPrefix(lowReport, o.base)) || !strings.Contains(page, "Check again") {
		t.Errorf("the free check does not lead to the report %s: %s", lowReport, page)
	}
	// Not there at all: no score, and no challenge.
	r = o.post("/api/register", `{"name":"None","url":"https://none.invalid-but-admitted.scored.test:443/","kind":"website"}`)
	if doc := o.refused(r, 422, "agentic_score_too_low"); at(t, doc, "score") != nil {
		t.Errorf("%s", r.Body)
	}

	// A restart keeps the report, and the command line says the same.
	o.stop()
	o.launch()
	if again := o.get(id, "Accept", "text/html"); !bytes.Equal(again.Body, html.Body) {
		t.Errorf("after a restart: %d %s", again.Status, again.Body)
	}
	cmd := invoke(t, "score", "--json", "--dev", "--fetch-map", fetchMap, "https://good.scored.test/")
	cmd.Env = append(os.Environ(), o.env...)
	out, err := cmd.CombinedOutput()
	var printed struct{ Score int }
	if err != nil || json.Unmarshal(out, &printed) != nil || printed.Score != 89 {
		t.Errorf("webring score: %v %s", err, out)
	}
	for _, wrong := range [][]string{{"https://good.scored.test/"}, {"https://127.0.0.1/"}, {}, {"--fetch-map", fetchMap, "https://good.scored.test/"}} {
		if out, err := o.operate(append([]string{"score"}, wrong...)...); err == nil {
			t.Errorf("webring score %v: %s", wrong, out)
		}
	}
	o.openInChromium(id)
}

// TestReportsComeBackWithTheRing holds that a backup brings the reports that
// members rest on, a minute after they joined as well as later, and that they
// stay when another service scores from then on.
func TestReportsComeBackWithTheRing(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	o, _ := scored(t, &exemplar.Site{Name: "Site", About: "A site to be read."}, "--tempo-rpc", c.RPC)
	register := func(name string) (body, report string) {
		body = fmt.Sprintf(`{"name":%q,"url":"https://%s.scored.test/","kind":"website"}`, name, strings.ToLower(name))
		p := o.pay(wallet(t), "/api/register", body)
		if p.Status != http.StatusCreated {
			t.Fatalf("%d %s", p.Status, p.Body)
		}
		report, _ = at(t, paidDocument(t, p), "member", "agentic_report").(string)
		return body, strings.TrimPrefix(report, o.base)
	}
	_, stays := register("Stays")
	_, goes := register("Goes")
	if out, err := o.operate("members", "remove", "goes", "--reason", "asked to", "--redact"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if r := o.get(goes); r.Status != 404 {
		t.Errorf("the report of a redacted member: %d", r.Status)
	}
	want := o.get(stays)
	file, restored := filepath.Join(t.TempDir(), "backup.tar"), filepath.Join(t.TempDir(), "data")
	if out, err := o.operate("backup", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o.kill()
	if out, err := o.operate("restore", file, "--data", restored, "--alone"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o.data = restored
	o.args = append(o.args, "--scorer", "fixed:50")
	o.launch()
	if got := o.get(stays); got.Status != 200 || !bytes.Equal(got.Body, want.Body) {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// TestSitesDoNotWriteTheLog has sites that send more than they were asked for.
func TestSitesDoNotWriteTheLog(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var asked atomic.Int64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				asked.Add(1)
				// On until the other side has had enough.
				_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				for err == nil {
					_, err = io.WriteString(conn, strings.Repeat("stranger's words ", 1000))
				}
			}()
		}
	}()
	c, _ := chain(t)
	o := start(t, "--scorer", "local", "--tempo-rpc", c.RPC, "--fetch-map", "*.noisy.test="+l.Addr().String())
	for i := range 3 {
		o.refused(o.post("/api/register", fmt.Sprintf(`{"name":"Noise","url":"http://site%d.noisy.test/","kind":"website"}`, i)), 422, "agentic_score_too_low")
	}
	if text := o.log.String(); asked.Load() < 10 || strings.Contains(text, "stranger") {
		t.Errorf("asked %d times, the log: %.500s", asked.Load(), text)
	}
}

// openInChromium holds that the browser shows a page, with its style, and asks
// nobody else for anything.
func (o *origin) openInChromium(path string) {
	o.t.Helper()
	var browser string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			browser = found
			break
		}
	}
	if browser == "" {
		o.t.Log("the report was not opened in Chromium, which is not here: apt-get install chromium")
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	picture := filepath.Join(o.t.TempDir(), "report.png")
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir="+o.t.TempDir(),
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--window-size=1000,1400", "--enable-logging=stderr", "--screenshot="+picture, o.base+path)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Errorf("chromium: %v %s", err, out)
	}
	if bytes.Contains(out, []byte("CONSOLE")) {
		o.t.Errorf("chromium complains: %s", out)
	}
	if info, err := os.Stat(picture); err != nil || info.Size() < 10_000 {
		o.t.Errorf("chromium shows nothing: %v", err)
	}
}

// TestManyScoringsAtOnce sends 500 registrations of slow sites at once, each of a
// client of its own, and reads meanwhile.
func TestManyScoringsAtOnce(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	release := make(chan struct{})
	sites := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		defer now.Add(-1)
		select {
		case <-release:
		case <-r.Context().Done():
		}
		fmt.Fprint(w, "<h1>Slow</h1>")
	})
	c, _ := chain(t)
	o, _ := scored(t, sites, "--tempo-rpc", c.RPC, "--trusted-proxy", "127.0.0.1")

	quiet := o.reads(200)
	var statuses sync.Map
	var group sync.WaitGroup
	client := &http.Client{Timeout: 2 * time.Minute}
	for i := range 500 {
		group.Go(func() {
			req, err := http.NewRequest(http.MethodPost, o.base+"/api/register",
				strings.NewReader(fmt.Sprintf(`{"name":"Slow %d","url":"https://slow-%d.scored.test/","kind":"website"}`, i, i)))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Forwarded-For", fmt.Sprintf("203.%d.%d.1", i/200, i%200))
			req.Header.Set("X-Forwarded-Proto", "https")
			res, err := client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			res.Body.Close()
			count, _ := statuses.LoadOrStore(res.StatusCode, new(atomic.Int64))
			count.(*atomic.Int64).Add(1)
		})
	}
	eventually(t, "slow sites being asked", time.Minute, func() bool { return most.Load() >= 8 })
	loaded := o.reads(200)
	sockets, memory := o.resources()
	close(release)
	group.Wait()
	statuses.Range(func(status, count any) bool {
		t.Logf("%d answers of status %d", count.(*atomic.Int64).Load(), status)
		if status != 422 && status != 503 {
			t.Errorf("status %d", status)
		}
		return true
	})
	p99 := func(times []time.Duration) time.Duration { return times[len(times)*99/100] }
	t.Logf("reads: median %s and p99 %s before, %s and %s while 500 scorings wait; at most %d requests at sites at once; %d open files, %d MiB resident",
		quiet[len(quiet)/2], p99(quiet), loaded[len(loaded)/2], p99(loaded), most.Load(), sockets, memory>>20)
	if most.Load() > 64 {
		t.Errorf("%d requests at sites at once", most.Load())
	}
	// 500 clients, 64 sockets to sites, and what a ring needs by itself.
	if sockets > 500+64+200 || memory > 1<<30 {
		t.Errorf("%d open files, %d bytes resident", sockets, memory)
	}
	// Generous: other tests run at the same time.
	if p99(loaded) > 3*time.Second {
		t.Errorf("reads wait: %s", p99(loaded))
	}
	eventually(t, "an end of all requests at sites", time.Minute, func() bool { return now.Load() == 0 })
	client.CloseIdleConnections()
	eventually(t, "the sockets being closed", time.Minute, func() bool {
		left, _ := o.resources()
		return left < 120
	})
}

// reads sends n reads one after the other and gives their times, sorted.
func (o *origin) reads(n int) []time.Duration {
	o.t.Helper()
	var times []time.Duration
	for i := range n {
		began := time.Now()
		o.get([]string{"/api", "/api/ring", "/api/leaderboard", "/api/widget"}[i%4])
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times
}

// resources are the open files and the resident bytes of the process, where the
// system tells.
func (o *origin) resources() (files int, resident int64) {
	o.t.Helper()
	proc := fmt.Sprintf("/proc/%d/", o.cmd.Process.Pid)
	entries, err := os.ReadDir(proc + "fd")
	if err != nil {
		o.t.Logf("open files and memory were not looked at: %v", err)
		return 0, 0
	}
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		o.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &resident); err == nil {
			break
		}
	}
	return len(entries), resident << 10
}
