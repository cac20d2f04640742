package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// everywhere are all kinds of documents and pages that show members.
var everywhere = []string{"/api", "/api/ring?limit=500", "/api/ring/next?from=gamma", "/api/ring/prev?from=epsilon", "/api/categories", "/api/leaderboard",
	"/api/widget", "/api/widget?from=gamma", "/", "/leaderboard", "/ring", "/categories/general", "/join", "/embed", "/members/gamma", "/feeds/joins.atom", "/feeds/joins.json",
	"/feeds/lead.atom", "/feeds/lead.json", "/ring.opml", "/opml/1.opml", "/.well-known/ai-catalog.json", "/ai-catalogs/agent-1.json", "/ai-catalogs/mcp-1.json", "/sitemap.xml", "/sitemaps/members-1.xml", "/openapi.json", "/llms.txt"}

// mentions gives the documents and pages of a node that hold a word.
func (o *origin) mentions(word string) (where []string) {
	o.t.Helper()
	for _, target := range everywhere {
		for _, accept := range []string{"text/html", "text/markdown", "application/json"} {
			if r := o.get(target, "Accept", accept); strings.Contains(string(r.Body)+r.Header.Get("Location"), word) {
				where = append(where, target+" as "+accept)
			}
		}
	}
	return where
}

// TestHiddenMembersAreNowhereAndComeBack holds that what is being paid for a member counts although it
// is hidden meanwhile, that nothing at origin and edges shows a hidden member or takes money for it, and
// that it comes back as it was.
func TestHiddenMembersAreNowhereAndComeBack(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	o := founded(t, reference, append(freely, "--tempo-rpc", g.URL)...)
	e := o.follow(t, o.verifier())
	const site, page = "shared.dev/foo/bar", "https://shared.dev/foo/bar/page"
	if len(o.mentions(site)) < 15 {
		t.Fatalf("only %v show the member at all", o.mentions(site))
	}
	if out, err := o.operate("members", "hide", "delta"); err == nil || !strings.Contains(out, "needs --reason") {
		t.Errorf("hidden without a reason: %v %s", err, out)
	}

	body := `{"member":"delta","amount":"1.00"}`
	credential, late := o.sign(wallet(t), "/api/bid", body), o.sign(wallet(t), "/api/bid", body)
	open := g.shut()
	defer open()
	answered := o.underWay("/api/bid", body, credential)
	if out, err := o.operate("members", "hide", "delta", "--reason", "reported"); err != nil || !strings.Contains(out, "delta is hidden") {
		t.Errorf("the hiding: %v %s", err, out)
	}
	open()
	if r := await(t, "the answer to the bid", answered); r.Status != 200 {
		t.Errorf("the bid that was under way: %d %s", r.Status, r.Body)
	}
	received := o.received()

	check := func(nodes ...*origin) {
		t.Helper()
		alike(t, nodes...)
		for _, n := range nodes {
			if where := n.mentions(site); len(where) > 0 {
				t.Errorf("the hidden member stands in %v", where)
			}
			for _, target := range []string{"/api/ring/delta", "/api/ring/next?from=delta"} {
				if r := n.get(target); r.Status != 404 || r.code(t) != "unknown_member" {
					t.Errorf("%s: %d %s", target, r.Status, r.Body)
				}
			}
			if r := n.get("/next?from=delta"); r.Status != 302 || r.Header.Get("Location") != "https://alpha.dev/" || r.Header.Get("Webring-From") != "unknown" {
				t.Errorf("/next from it: %d %v", r.Status, r.Header)
			}
			widget := n.get("/api/widget?from=delta").document(t)
			if widget["member"] != nil || at(t, widget, "ring", "count") != 5.0 || at(t, widget, "next", "slug") != "alpha" || at(t, widget, "prev", "slug") != "zeta" {
				t.Errorf("its widget: %v", widget)
			}
			if got := at(t, n.get("/api/ring/next?from=gamma").document(t), "member", "slug"); got != "epsilon" {
				t.Errorf("after gamma comes %v", got)
			}
			if got := at(t, n.get("/api/ring/epsilon").document(t), "member", "ring_position"); got != 4.0 {
				t.Errorf("epsilon has the position %v", got)
			}
			for _, target := range []string{"/members/delta", "/badge/delta.svg"} {
				if r := n.get(target, "Accept", "text/html"); r.Status != 404 {
					t.Errorf("%s: %d", target, r.Status)
				}
			}
		}
	}
	check(o, e)
	for _, request := range [][]string{{body}, {`{"member":"https://shared.dev/foo/bar","amount":"1.00"}`}, {body, "Authorization", late}} {
		o.refused(o.post("/api/bid", request[0], request[1:]...), 403, "not_admitted")
	}
	o.refused(o.post("/api/register", registration(t, map[string]any{"url": "https://shared.dev/foo/bar/"})), 403, "not_admitted")
	if out, err := o.operate("members", "list"); err != nil || !strings.Contains(out, "hidden   delta") && !strings.Contains(out, "hidden  delta") {
		t.Errorf("the list: %v\n%s", err, out)
	}
	if out, err := o.operate("members", "show", "delta"); err != nil || !strings.Contains(out, `"hidden": true`) {
		t.Errorf("the row: %v\n%s", err, out)
	}
	if out, err := o.operate("members", "hide", "eta", "--reason", "x"); err == nil || !strings.Contains(out, "eta was removed before") {
		t.Errorf("hiding a removed member: %v %s", err, out)
	}

	// An edge that starts anew, from a snapshot or its own disk, and a restart.
	fresh := o.follow(t, o.verifier())
	e.kill()
	e.launch()
	o.stop()
	o.launch()
	check(o, e, fresh)
	file := filepath.Join(t.TempDir(), "backup.tar")
	if out, err := o.operate("backup", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := o.operate("verify", file); err != nil || !strings.Contains(out, "everything agrees") {
		t.Errorf("the backup: %v\n%s", err, out)
	}

	if out, err := o.operate("members", "unhide", "delta", "--reason", "answered"); err != nil || !strings.Contains(out, "delta is in the ring again") {
		t.Fatalf("%v %s", err, out)
	}
	alike(t, o, e, fresh)
	for _, n := range []*origin{o, e, fresh} {
		member := at(t, n.get("/api/ring/delta").document(t), "member").(map[string]any)
		if member["ring_position"] != 4.0 || member["paid_total_usd"] != "2.00" || member["leaderboard_rank"] == nil {
			t.Errorf("it came back as %v", member)
		}
		if got := at(t, n.get("/api/ring/next?from="+page).document(t), "member", "slug"); got != "epsilon" {
			t.Errorf("from its page comes %v", got)
		}
	}
	o.offered(o.post("/api/bid", body), "payment_required")
	if o.received() != received {
		t.Errorf("%d cents were paid since, want none", o.received()-received)
	}
	o.confirmed()
	if out, err := o.operate("verify"); err != nil || !strings.Contains(out, "everything agrees") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestBlocklistByItsCommand has the operator block a host, a word and a payer. The list
// outlasts a restart, and each entry ends when it is removed.
func TestBlocklistByItsCommand(t *testing.T) {
	t.Parallel()
	o := ring(t)
	banned := wallet(t)
	entries := [][]string{{"host", "WWW.bad.dev"}, {"word", "casino"}, {"payer", banned.Address.Hex()}}
	for _, words := range entries {
		if out, err := o.operate(append([]string{"blocklist", "add", "--reason", "spam"}, words...)...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, c := range []struct{ words, says string }{
		{"add host worse.dev", "blocklist add needs --reason"},
		{"add --reason spam host", "usage: webring blocklist"},
		{"remove host worse.dev again", "usage: webring blocklist"},
		{"drop host bad.dev", "usage: webring blocklist"},
		{"add --reason spam host bad.dev.", "bad.dev. is on the blocklist already"},
		{"add --reason spam planet mars", "is no kind of entry: host, payer or word"},
		{"add --reason spam host bad_host!", "is no host name; give it without scheme, port and path"},
		{"remove word roulette", "is not on the blocklist"},
	} {
		if out, err := o.operate(append([]string{"blocklist"}, strings.Fields(c.words)...)...); err == nil || !strings.Contains(out, c.says) {
			t.Errorf("blocklist %s: %v: %s", c.words, err, out)
		}
	}
	// The list comes back out of a backup, too.
	file, restored := filepath.Join(t.TempDir(), "backup.tar"), filepath.Join(t.TempDir(), "data")
	if out, err := o.operate("backup", file); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o.stop()
	if out, err := o.operate("restore", file, "--data", restored, "--alone"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o.data = restored
	o.launch()
	out, err := o.operate("blocklist", "list")
	for _, line := range []string{"host   bad.dev", `word   "casino"`, "payer  " + strings.ToLower(banned.Address.Hex()), `"spam"`} {
		if err != nil || !strings.Contains(out, line) {
			t.Errorf("the list lacks %s: %v\n%s", line, err, out)
		}
	}
	site := registration(t, map[string]any{"url": "https://deep.bad.dev/"})
	o.refused(o.post("/api/register", site), 403, "not_admitted")
	o.refused(o.post("/api/register", registration(t, map[string]any{"name": "Big Casino"})), 403, "not_admitted")
	o.refused(o.post("/api/register", registration(t, nil), "Authorization", o.sign(banned, "/api/register", registration(t, nil))), 403, "not_admitted")
	for _, words := range entries {
		if out, err := o.operate(append([]string{"blocklist", "remove"}, words...)...); err != nil || !strings.Contains(out, "no longer") {
			t.Errorf("%v: %s", err, out)
		}
	}
	if p := o.pay(banned, "/api/register", site); p.Status != http.StatusCreated || o.received() != 100 {
		t.Errorf("after the entries: %d %s, %d cents", p.Status, p.Body, o.received())
	}
	if out, err := o.operate("members", "remove", "--block", "--reason", "spam", at(t, o.read("/api/ring"), "members", 0, "slug").(string)); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := o.operate("blocklist", "list"); err != nil || !strings.Contains(out, "host  deep.bad.dev") || strings.Contains(out, "casino") {
		t.Errorf("after a removal with --block: %v\n%s", err, out)
	}
	o.refused(o.post("/api/register", site), 403, "not_admitted")
}

// TestPoliciesStandEverywhere holds that the operator's pages are shown by origin and
// edges, and that they change with the flags.
func TestPoliciesStandEverywhere(t *testing.T) {
	t.Parallel()
	const terms, privacy, report = "https://operator.dev/terms?lang=en", "https://operator.dev/privacy", "mailto:abuse@operator.dev"
	o := founded(t, reference, append(freely, "--terms", terms, "--privacy", privacy, "--report", report, "--operator-name", "Ada & Co", "--operator-payee", "Ada's shop")...)
	e := o.follow(t, o.verifier())
	alike(t, o, e)
	for _, n := range []*origin{o, e} {
		policies := at(t, n.get("/api").document(t), "policies").(map[string]any)
		if len(policies) != 3 || policies["terms"] != terms || policies["privacy"] != privacy || policies["report"] != report {
			t.Errorf("/api: %v", policies)
		}
		info := at(t, n.get("/openapi.json").document(t), "info").(map[string]any)
		if info["termsOfService"] != terms || at(t, info, "contact", "email") != "abuse@operator.dev" || !strings.Contains(info["description"].(string), privacy) {
			t.Errorf("/openapi.json: %v", info)
		}
		for _, target := range []string{"/llms.txt", "/", "/ring", "/members/alpha", "/join", "/embed", "/docs", "/problems/not_admitted"} {
			body := strings.ReplaceAll(string(n.get(target, "Accept", "text/html").Body), "&amp;", "&")
			if target != "/llms.txt" && !strings.Contains(body, "Run by <bdi>Ada & Co</bdi>") {
				t.Errorf("%s does not say who runs the ring", target)
			}
			for _, address := range []string{terms, privacy, report} {
				if !strings.Contains(body, address) {
					t.Errorf("%s lacks %s", target, address)
				}
			}
		}
		for _, accept := range []string{"text/html", "text/markdown"} {
			page := string(n.get("/members/alpha", "Accept", accept).Body)
			if !strings.Contains(page, report) || accept == "text/html" && !strings.Contains(page, report+"?subject=Report%20of%20the%20member%20alpha") {
				t.Errorf("the member's page as %s: %s", accept, page)
			}
		}
	}
	before := o.position()
	o.stop()
	o.args = append(o.args, "--report", "https://operator.dev/report?form=1", "--privacy", "")
	o.launch()
	if after := o.position(); after == before {
		t.Error("no event says that the flags have changed")
	}
	alike(t, o, e)
	policies := at(t, e.get("/api").document(t), "policies").(map[string]any)
	if len(policies) != 2 || policies["report"] != "https://operator.dev/report?form=1" {
		t.Errorf("after the change: %v", policies)
	}
	if page := string(e.get("/members/alpha", "Accept", "text/html").Body); !strings.Contains(page, "https://operator.dev/report?form=1&amp;member=alpha") {
		t.Errorf("the member's page: %s", page)
	}
	position := o.position()
	o.stop()
	o.launch()
	if o.position() != position {
		t.Error("a start without a change wrote an event")
	}
	for _, wrong := range [][]string{{"--terms", "operator.dev/terms"}, {"--terms", "mailto:a@operator.dev"}, {"--privacy", "javascript:alert(1)"}, {"--report", "mailto:"},
		{"--report", "https:///x"}, {"--report", "https://operator.dev/a b"}, {"--terms", "https://operator.dev/" + strings.Repeat("x", 1024)}} {
		out, err := o.operate(append([]string{"serve"}, wrong...)...)
		if err == nil || !strings.Contains(out, wrong[0]) {
			t.Errorf("%v: %v %s", wrong, err, out)
		}
	}
}

// gate is a proxy between an origin and the chain. While it is shut, it holds transactions
// back.
type gate struct {
	*httptest.Server
	mu   sync.Mutex
	open chan struct{} // closed when transactions pass
}

func newGate(t *testing.T) *gate {
	c, _ := chain(t)
	node, err := url.Parse(c.RPC)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{open: make(chan struct{})}
	close(g.open)
	pass := httputil.NewSingleHostReverseProxy(node)
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if bytes.Contains(body, []byte("eth_sendRawTransaction")) {
			g.mu.Lock()
			open := g.open
			g.mu.Unlock()
			select {
			case <-open:
			case <-r.Context().Done():
				return
			}
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

// shut holds transactions back until the function that it gives is called.
func (g *gate) shut() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := make(chan struct{})
	g.open = held
	return sync.OnceFunc(func() { close(held) })
}

// underWay sends a credential and waits until its payment is reserved.
func (o *origin) underWay(path, body, credential string) chan reply {
	o.t.Helper()
	answered := make(chan reply, 1)
	go func() {
		r, err := o.try("POST", path, []byte(body), "Content-Type", "application/json", "Authorization", credential)
		if err != nil {
			r = reply{}
		}
		answered <- r
	}()
	eventually(o.t, "a reservation", time.Minute, func() bool {
		select {
		case r := <-answered:
			o.t.Fatalf("answered at once: %d %s\n%s", r.Status, r.Body, o.log)
		default:
		}
		out, err := o.operate("version")
		return err == nil && strings.Contains(out, " 1 open reservations")
	})
	return answered
}
