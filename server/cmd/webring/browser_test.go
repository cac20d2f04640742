package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	xtlog "golang.org/x/mod/sumdb/tlog"

	"webring/core/snap"
	"webring/edge/follow"
	"webring/edge/tlog"
	"webring/server"
	"webring/server/devchain"
	"webring/server/sites/score/exemplar"
	"webring/static"
)

// These tests open the pages and the widget in the system's Chromium, and once more in its
// Firefox. With WEBRING_SHOTS=DIR they leave pictures of what they saw.

var wholeBrowser = flag.Bool("browser.whole", false, "look at each page in both colour schemes, with all checks at each width, and pay and verify in Firefox, too")

// browserFolder is where the programs that do it lie, from here.
const browserFolder = "../../../edge/browser"

// browser gives the browser's path, or skips and says how to get what is missing.
func browser(t *testing.T) string {
	t.Helper()
	if raceDetector {
		t.Skip("the browser and the binary are programs of their own, in which the race detector sees nothing: the run without it looks at the pages")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		dir, err := filepath.Abs(browserFolder)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := exec.LookPath("node"); err != nil {
			t.Skip("needs Node 20 or newer to drive the browser: apt install nodejs npm, or nodejs.org")
		}
		if err := devchain.InstallIn(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Skip("needs Chromium: apt install chromium")
	return ""
}

// firefox gives the other browser's path, or "".
func firefox() string {
	for _, name := range []string{"firefox-esr", "firefox"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

const noFirefox = "needs Firefox: apt install firefox-esr"

// look runs one of the programs with a plan, and fails the test with all that it
// finds.
func look(t *testing.T, program string, plan map[string]any) {
	t.Helper()
	drive(t, program, plan, 100, func(do string) { t.Errorf("%s asks for %q", program, do) })
}

// drive is look for a program that asks for things while it runs. It makes so many checks at
// least.
func drive(t *testing.T, program string, plan map[string]any, least int, do func(what string)) {
	t.Helper()
	if dir := os.Getenv("WEBRING_SHOTS"); dir != "" {
		plan["shots"] = dir
	}
	plan["whole"] = *wholeBrowser
	// The go command forgets a result when a file that the test read changes.
	for _, name := range []string{program, "chromium.mjs", "firefox.mjs"} {
		if _, err := os.ReadFile(filepath.Join(browserFolder, name)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", program, string(text))
	cmd.Dir = browserFolder
	errs := &logBuffer{}
	cmd.Stderr = errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var line struct { // the last one is the report
		Do       string
		Checks   int
		Findings []struct{ Where, What, More string }
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20) // findings show what the pages say
	for lines.Scan() {
		line.Do = ""
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Errorf("%s: %s", program, lines.Text())
			continue
		}
		if line.Do != "" {
			do(line.Do)
			fmt.Fprintln(in, "done")
		}
	}
	if err := errors.Join(lines.Err(), cmd.Wait()); err != nil {
		t.Fatalf("%s: %v: %s", program, err, errs)
	}
	if line.Checks < least {
		t.Errorf("%s: only %d checks", program, line.Checks)
	}
	for _, f := range line.Findings {
		t.Errorf("%s: not so: %s: %s", f.Where, f.What, f.More)
	}
	t.Logf("%s: %d checks", program, line.Checks)
}

// syntheticRing starts an origin with so many made-up members, which flags of seed may follow.
func syntheticRing(t *testing.T, members string, args ...string) *origin {
	t.Helper()
	o := &origin{t: t, data: folder(t)}
	listen := devchain.FreeAddress()
	o.base = "http://" + listen
	o.args = []string{"serve", "--dev", "--scorer", "fixed:72", "--listen", listen, "--base-url", o.base, "--rate-limit", "0"}
	o.args = append(o.args, args...)
	if err := run(append([]string{"seed", "--data", o.data, "--seed", "4", "--members"}, strings.Fields(members)...), io.Discard); err != nil {
		t.Fatal(err)
	}
	o.launch()
	t.Cleanup(o.kill)
	return o
}

func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	firefox := firefox()
	o := syntheticRing(t, "2000", "--terms", "https://operator.dev/terms", "--privacy", "https://operator.dev/privacy", "--report", "mailto:abuse@operator.dev")
	type page struct {
		Name   string            `json:"name"`
		Path   string            `json:"path"`
		Base   string            `json:"base,omitempty"` // of another ring than most
		Fill   map[string]string `json:"fill,omitempty"`
		Status int               `json:"status,omitempty"`
		Rows   bool              `json:"rows,omitempty"` // it has a leaderboard
		Like   bool              `json:"like,omitempty"` // other pages have all of its parts: it is looked at closely only with -browser.whole
	}
	members := o.get("/api/ring?limit=5&offset=65").document(t)
	slugOf := func(i int) string { return at(t, members, "members", i, "slug").(string) }
	slug := slugOf(0)
	o.stop()
	o.write(func(f *founding) { ownAll(f, slugOf(3), slugOf(1), slugOf(3), slugOf(2)) })
	o.launch()
	gone := slugOf(4)
	if said, err := o.operate("members", "remove", gone, "--reason", "test"); err != nil {
		t.Fatal(err, said)
	}
	pages := []page{
		{Name: "home", Path: "/", Rows: true},
		{Name: "leaderboard", Path: "/leaderboard", Rows: true},
		{Name: "leaderboard-3", Path: "/leaderboard?page=3", Rows: true, Like: true},
		{Name: "ring", Path: "/ring?page=2"},
		{Name: "found", Path: "/ring?sort=newest&q=" + slug[:2], Like: true},
		{Name: "category", Path: "/categories/finance"},
		{Name: "member", Path: "/members/" + slug},
		{Name: "member-verified", Path: "/members/" + slugOf(1)},
		{Name: "member-asleep", Path: "/members/" + slugOf(2)},
		{Name: "join", Path: "/join"},
		{Name: "checked", Path: "/join", Fill: map[string]string{"name": "A site", "url": "https://a-site.dev/", "kind": "mcp", "opening": "first"}},
		{Name: "wrong", Path: "/join", Fill: map[string]string{"name": "A site", "url": "https://a-site.local/", "kind": "mcp", "bid": "0.3"}},
		{Name: "taken", Path: "/join", Fill: map[string]string{"name": "\u05d0\u05ea\u05e8 \u05e9\u05dc\u05d5\u05dd", "url": at(t, members, "members", 0, "url").(string), "kind": "website"}, Like: true},
		{Name: "embed", Path: "/embed?from=" + slug},
		{Name: "docs", Path: "/docs"},
		{Name: "about", Path: "/about"},
		{Name: "problems", Path: "/problems"},
		{Name: "verify", Path: "/verify"},
		{Name: "problem", Path: "/problems/unknown_member", Like: true},
		{Name: "error", Path: "/members/nobody", Status: http.StatusNotFound},
		{Name: "gone", Path: "/members/" + gone, Status: http.StatusGone},
	}
	hard := syntheticRing(t, "12 --hard-names")
	named := hard.get("/api/ring?limit=12").document(t)
	add := func(base string, more ...page) {
		for _, p := range more {
			p.Base = base
			pages = append(pages, p)
		}
	}
	add(hard.base, []page{
		{Name: "hard-home", Path: "/"}, {Name: "hard-ring", Path: "/ring", Like: true}, {Name: "hard-leaderboard", Path: "/leaderboard"},
		{Name: "hard-embed", Path: "/embed?from=" + at(t, named, "members", 0, "slug").(string), Like: true},
		{Name: "hard-member-long", Path: "/members/" + at(t, named, "members", 0, "slug").(string)},
		{Name: "hard-member-wide", Path: "/members/" + at(t, named, "members", 11, "slug").(string), Like: true},
	}...)
	empty, _ := scored(t, &exemplar.Site{Name: "Low", About: "A site to be read.", Without: poor})
	low := map[string]string{"name": "Low", "url": "https://low.scored.test/", "kind": "agent"}
	form := url.Values{}
	for field, value := range low {
		form.Set(field, value)
	}
	checked := empty.draft(form.Encode())
	report := regexp.MustCompile(`/reports/[a-z2-7]+`).Find(checked.Body)
	if report == nil {
		t.Fatalf("no report: %s", checked.Body)
	}
	add(empty.base, []page{
		{Name: "empty", Path: "/"}, {Name: "empty-ring", Path: "/ring", Like: true}, {Name: "empty-leaderboard", Path: "/leaderboard", Like: true},
		{Name: "empty-error", Path: "/next", Status: http.StatusNotFound},
		{Name: "low", Path: "/join", Fill: low}, {Name: "report", Path: string(report)},
	}...)
	look(t, "pages.mjs", map[string]any{"chromium": chromium, "firefox": firefox, "base": o.base, "pages": pages})
	if firefox == "" {
		t.Run("Firefox", func(t *testing.T) { t.Skip(noFirefox) })
	}
}

// The page verifies what nodes show with the core in the browser, and finds what was altered.
func TestAReaderVerifiesTheLeaderboard(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	o := syntheticRing(t, "300")
	e := o.follow(t, o.verifier())
	w := startWorker(t, o.base, o.verifier())
	alike(t, o, e)
	w.comesTo(o)
	_, other, err := note.GenerateKey(rand.Reader, "ring.example")
	if err != nil {
		t.Fatal(err)
	}
	position, err := strconv.Atoi(o.position())
	if err != nil {
		t.Fatal(err)
	}
	written := strconv.Itoa(position)
	if position >= 1000 {
		written = fmt.Sprintf("%d,%03d", position/1000, position%1000)
	}
	firefox := firefox()
	if !*wholeBrowser {
		t.Log("Firefox, and what is altered like in another row, are looked at with -browser.whole, as in make soak")
	}
	evidence := 0
	drive(t, "verify.mjs", map[string]any{"chromium": chromium, "firefox": firefox, "nodes": []string{o.base, e.base, w.base}, "position": written, "key": other, "memory": o.signings(t)}, 100, func(text string) {
		evidence++
		evidenceIn(t, text, o.verifier())
	})
	if evidence != 1 {
		t.Errorf("the page gave evidence %d times", evidence)
	}
	if firefox == "" {
		t.Run("Firefox", func(t *testing.T) { t.Skip(noFirefox) })
	}
}

// signings are checkpoints that a ring's key has signed: one that its ledger continues, one of
// another history, and one of a longer ledger.
func (o *origin) signings(t *testing.T) map[string]string {
	t.Helper()
	secret, err := os.ReadFile(server.SyncKeyPath(o.data))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(secret)))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := tlog.Keys(o.verifier())
	if err != nil {
		t.Fatal(err)
	}
	newest, err := follow.Verify(o.get("/sync/checkpoint").Body, keys)
	if err != nil {
		t.Fatal(err)
	}
	fetch := tlog.Get(func(_ context.Context, path string, _ int64) ([]byte, error) { return o.get(path).Body, nil })
	newest.Snapshot = snap.Snapshot{}
	earlier, longer := newest, newest
	earlier.Size -= 10
	if earlier.Root, err = xtlog.TreeHash(int64(earlier.Size), fetch.Hashes(t.Context())(xtlog.Tree{N: int64(newest.Size), Hash: newest.Root})); err != nil {
		t.Fatal(err)
	}
	forged := earlier
	forged.Root[0] ^= 1
	longer.Size += 1000
	return map[string]string{"name": newest.Origin, "key": o.verifier(), "earlier": string(sign(t, signer, earlier)),
		"forged": string(sign(t, signer, forged)), "longer": string(sign(t, signer, longer))}
}

// The widget's neighbours have names that would be markup, or reverse the direction of
// the page, if they were not escaped.
func TestTheWidgetOnOtherSites(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	o := ring(t)
	names := []string{"<img src=x onerror=alert(1)>", "Plain Member", "\u05d0\u05ea\u05e8 \u202e<b>bold</b>"}
	slugs := make([]string, len(names))
	for i, name := range names {
		body, err := json.Marshal(map[string]string{"name": name, "kind": "website", "url": "https://site-" + string(rune('a'+i)) + ".dev/"})
		if err != nil {
			t.Fatal(err)
		}
		p := o.pay(wallet(t), "/api/register", string(body))
		if p.Status != http.StatusCreated {
			t.Fatalf("status %d: %s", p.Status, p.Body)
		}
		slugs[i] = at(t, paidDocument(t, p), "member", "slug").(string)
	}
	plan := map[string]any{"chromium": chromium, "base": o.base, "from": slugs[1], "place": "2 of 3",
		"names":  map[string]string{"prev": names[0], "next": strings.ReplaceAll(names[2], "\u202e", "")},
		"pinned": static.Widget.Path, "integrity": static.Widget.Integrity()}
	look(t, "widget.mjs", plan)
	t.Run("Firefox", func(t *testing.T) {
		firefox := firefox()
		if firefox == "" {
			t.Skip(noFirefox)
		}
		delete(plan, "chromium")
		plan["firefox"] = firefox
		look(t, "widget.mjs", plan)
	})
	// A page is compared with itself, so what the clicks above change on it must be there.
	eventually(t, "visitors on home", longEnough, func() bool { return strings.Contains(string(o.get("/").Body), "visitors") })
	look(t, "pages.mjs", map[string]any{"chromium": chromium, "base": o.base, "pages": []map[string]any{
		{"name": "hostile-home", "path": "/", "like": true}, {"name": "hostile-leaderboard", "path": "/leaderboard", "like": true},
		{"name": "hostile-member", "path": "/members/" + slugs[1], "like": true}, {"name": "hostile-embed", "path": "/embed?from=" + slugs[0], "like": true},
	}})
}

// The draft that the join page checks is told the same as the request that would
// be paid; and the command that it shows pays.
func TestTheJoinPageSaysWhatAPaidRequestWouldGet(t *testing.T) {
	t.Parallel()
	o := ring(t)
	member := o.join("First Member", "agent", "4.00")
	send := func(form string) string {
		r := o.draft(form)
		if r.Status != http.StatusOK {
			t.Fatalf("status %d: %s", r.Status, r.Body)
		}
		return string(r.Body)
	}
	seq := o.get("/").Header.Get("Webring-Seq")
	for form, want := range map[string][]string{
		"":                            {"Enter the name of the site.", "Enter the address of the site", "Choose what it is", "3 things to correct"},
		"name=x&url=ftp://a&kind=cat": {"Choose what it is", "must begin with https://", `href="#url"`, `href="#kind-agent"`},
		"url=anna%40x.dev":            {"One thing to correct", "An e-mail address is no site."},
		"name=x&url=https%3A%2F%2Fx.dev&kind=mcp&bid=0.5&category=A+%26+B": {"The opening bid must be at least 1.00 USD.", `name="category" class="short" type="text" maxlength="64" autocomplete="off" list="categories" value="a-b"`, `id="opening-own" value="own" checked`},
		"name=x&url=https%3A%2F%2Fwww.first-member.dev%2F&kind=mcp":        {"This site is already in the ring", `href="members/` + member + `"`, "already_registered"},
		"name=x&url=https%3A%2F%2Fx.dev&kind=mcp":                          {"You're eligible", "72 of 100", "<dd>$1 <small>the fee alone</small>", `Your rank</dt><dd>2 <small>of 2`},
		"name=x&url=https%3A%2F%2Fx.dev&kind=mcp&bid=4.00":                 {"<dd>$5 <small>fee included</small>", `Your rank</dt><dd>2 <small>of 2`},
		"name=x&url=https%3A%2F%2Fx.dev&kind=mcp&bid=4.01":                 {"<dd>$5.01 <small>fee included</small>", `Your rank</dt><dd>1 <small>of 2`, "-J &#39;{&#34;name&#34;:&#34;x&#34;"},
	} {
		page := send(form)
		for _, w := range want {
			if !strings.Contains(page, w) {
				t.Errorf("%s: no %s in %s", form, w, page)
			}
		}
	}
	if now := o.get("/").Header.Get("Webring-Seq"); now != seq {
		t.Errorf("checking moved the ledger from %s to %s", seq, now)
	}
	// The command, with the installed client in place of the one that npx fetches.
	page := send("name=It%27s+%22mine%22&url=https%3A%2F%2Fmine.dev&kind=agent&bid=9.00&description=one%0D%0Atwo")
	command := regexp.MustCompile(`<pre><code>(npx .*?)</code></pre>`).FindStringSubmatch(page)
	if command == nil {
		t.Fatalf("no command in %s", page)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", installed(t, html.UnescapeString(command[1])))
	cmd.Env = append(os.Environ(), "MPPX_PRIVATE_KEY="+wallet(t).HexKey())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command[1], err, out)
	}
	first := at(t, o.get("/api/leaderboard?limit=1").document(t), "leaderboard", 0).(map[string]any)
	if first["name"] != `It's "mine"` || first["description"] != "one two" || first["effective_bid_usd"] != "10.00" {
		t.Errorf("at rank 1 is %v", first)
	}
}

func TestAnEdgePassesDraftsOn(t *testing.T) {
	t.Parallel()
	o := start(t)
	e := o.follow(t, o.verifier())
	r := e.draft("name=&kind=mcp")
	if r.Status != http.StatusOK || !strings.Contains(string(r.Body), `<a href="#name">Enter the name of the site.</a>`) {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}
