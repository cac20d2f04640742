package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"webring/core/api"
	"webring/core/coretest"
	"webring/edge/tlog"
	"webring/server/publish"
)

// TestAWorkerAnswersAsAnEdgeDoes has an edge and a Worker follow random histories, and the
// same files under Deno, and compares what they answer to odd and ordinary targets: status,
// body and fields.
func TestAWorkerAnswersAsAnEdgeDoes(t *testing.T) {
	t.Parallel()
	compared := 0
	// In the history of seed 1 standings change with each second, which two nodes see at
	// different moments: that takes patience. In the others nothing changes any more.
	for seed, targets := range []int{250, 30, 250} {
		seed := uint64(seed)
		h := openHostile(t)
		ask := coretest.Asker{Rand: rand.New(rand.NewPCG(seed, 0x776f726b)), Members: 30}
		snapshot := false
		for i, step := range coretest.Generate(seed, 150) {
			if step.Event == nil || h.apply(step) != nil {
				continue
			}
			if step.Texts != nil {
				ask.Names = append(ask.Names, step.Texts.Name.Value, step.Texts.URL.Value)
			}
			if i > 60 && !snapshot {
				h.snapshot()
				snapshot = true
			}
		}
		h.sign()
		w, d := h.worker(), h.deno()
		e := h.edge(h.base, true)
		h.reached(e)
		h.reachedBy(w)
		h.reachedBy(d)
		for i := range targets {
			target := string(ask.Target())
			if !sendable(target) {
				continue
			}
			var more []string
			switch i % 5 {
			case 1:
				more = []string{"X-Request-Id", fmt.Sprint("request-", i)}
			case 2:
				more = []string{"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
			case 3:
				more = []string{"Api-Version", "1", "If-None-Match", "*"}
			}
			sameAnswer(t, e, w.origin, target, more...)
			sameAnswer(t, e, d.origin, target, more...)
			compared++
		}
		// A search is the origin's.
		for _, node := range []*origin{w.origin, d.origin} {
			if r := node.get("/api/ring?q=a"); string(r.Body) != fromOrigin {
				t.Errorf("a search: %d %s", r.Status, r.Body)
			}
		}
		e.kill()
		w.kill()
		d.kill()
	}
	t.Logf("%d targets compared", compared)
}

// TestAWorkerKeepsDocumentsNoLongerThanTheyHold asks for kept documents, and for fields made from those of the last
// answer, while cores, positions and the time change by chance. Each must be what it is when it is made anew.
func TestAWorkerKeepsDocumentsNoLongerThanTheyHold(t *testing.T) {
	t.Parallel()
	bundled(t)
	const ask = `
		import { Documents } from "./documents.js";
		import { Forms } from "./fields.js";
		let seed = Number(process.argv[1]);
		const chance = (n) => ((seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32 * n) | 0;
		let made = 0;
		class Core {
			constructor(name) { Object.assign(this, { name, seq: 0, second: 10_000 }); }
			// Timed documents change each ten seconds, and others with the position or each time. Targets with a 1 are refused at a third of positions.
			serve(target) {
				made++;
				const validity = target.length % 3;
				const since = this.second - (this.second % 10);
				const said = [this.name, this.seq, target, validity === 0 ? made : validity === 2 ? since : ""].join(" ");
				const status = target.startsWith("/1") && this.seq % 3 === 0 ? 404 : 200;
				const body = Buffer.from(said.padEnd(target.startsWith("/big") ? 90_000 : 5_000));
				return { status, validity, seq: this.seq, second: this.second, since, until: since + 10, body };
			}
		}
		const documents = new Documents();
		const forms = new Forms();
		let core = new Core("first");
		let [asked, names] = [0, ["A", "B", "C", "D"]];
		for (let i = 0; i < 4_000; i++) {
			const what = chance(200);
			if (what === 0) core = new Core(i);
			if (what === 1) core.seq++;
			if (what > 180) core.second += chance(15) - 4; // clocks go back, too
			const target = "/" + ["", "b", "big", "1"][chance(4)] + chance(20);
			const before = made;
			const got = documents.serve(core, target);
			if (made === before) asked++;
			const want = core.serve(target);
			if (want.validity === 0 && made !== before + 2) throw new Error(i + ": what is drawn by chance was kept");
			for (const name of ["status", "seq", "second", "body"])
				if (want.validity > 0 && (name === "body" ? !got.body.equals(want.body) : got[name] !== want[name])) throw new Error(i + ": " + target + " has another " + name);
			const fields = names.filter(() => chance(2)).map((name) => [name, String(chance(3))]);
			if (JSON.stringify([...forms.headers(fields)]) !== JSON.stringify([...new Headers(fields)])) throw new Error(i + ": other fields than " + fields);
		}
		try {
			forms.headers([["A", "1"]]);
			forms.headers([["A", "refused\n\0"]]);
		} catch {}
		for (const value of ["refused\n\0", "2"])
			try {
				if (forms.headers([["A", value]]).get("A") !== value) throw new Error("the value of another answer was sent");
			} catch (error) {
				if (!(error instanceof TypeError)) throw error;
			}
		console.log(asked);`
	seed := rand.Uint32()
	cmd := exec.Command("node", "--input-type=module", "-e", ask, fmt.Sprint(seed))
	cmd.Dir = workerFolder
	out, err := cmd.CombinedOutput()
	kept, _ := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || kept < 50 {
		t.Errorf("seed %d: %v: %s", seed, err, out)
	}
}

// answered is one answer as it came.
type answered struct {
	status int
	header http.Header
	body   string
}

// ask sends a GET with its target as it is.
func ask(t *testing.T, o *origin, target string, header ...string) answered {
	t.Helper()
	return request(t, o, "GET", target, "", append([]string{"Host", "ring.test"}, header...)...)
}

// request sends a request with these fields and this target as they are.
func request(t *testing.T, o *origin, method, target, body string, header ...string) answered {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(o.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(longEnough))
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nConnection: close\r\n", method, target)
	if body != "" {
		fmt.Fprintf(c, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	for i := 0; i+1 < len(header); i += 2 {
		fmt.Fprintf(c, "%s: %s\r\n", header[i], header[i+1])
	}
	io.WriteString(c, "\r\n"+body)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", method, target, err, o.log)
	}
	defer r.Body.Close()
	got, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	return answered{r.StatusCode, r.Header, string(got)}
}

// sameAnswer holds two nodes to the same answer. What changes with the second is asked
// again, and of what is drawn by chance only the kind is compared.
func sameAnswer(t *testing.T, a, b *origin, target string, header ...string) {
	t.Helper()
	var why string
	for range 50 {
		x, y := ask(t, a, target, header...), ask(t, b, target, header...)
		if y.body == fromOrigin {
			if known(target) {
				t.Errorf("GET %s was passed on", target)
			}
			return
		}
		if why = differ(x, y, !strings.Contains(target, "random"), slices.Contains(header, "X-Request-Id") || slices.Contains(header, "Traceparent")); why == "" {
			return
		}
		time.Sleep(37 * time.Millisecond)
	}
	t.Errorf("GET %s %q: %s", target, header, why)
}

// known says whether the Worker must answer by itself.
func known(target string) bool {
	path, _, _ := strings.Cut(target, "?")
	slug, member := strings.CutPrefix(path, "/api/ring/")
	return slices.Contains(api.Paths(), path) || member && plainSlug.MatchString(slug)
}

var plainSlug = regexp.MustCompile(`^[0-9a-z-]+$`)

// sendable says whether a client can send a target to a Worker: the runtime refuses some, and
// writes others as URLs have them.
func sendable(target string) bool {
	odd := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("#\\\"<>`", r) }
	_, err := url.PathUnescape(target)
	return strings.HasPrefix(target, "/") && !strings.ContainsFunc(target, odd) && err == nil
}

// differ says in what two answers differ. named says whether the request had an id.
func differ(x, y answered, exactly, named bool) string {
	fields := func(h http.Header) http.Header {
		h = maps.Clone(h)
		// Of the connection, and of the moment.
		for _, name := range []string{"Date", "Connection", "Keep-Alive", "Transfer-Encoding"} {
			h.Del(name)
		}
		if !named {
			h.Del("X-Request-Id")
		}
		if !exactly {
			for _, name := range []string{"Location", "Content-Length", "Link"} {
				h.Del(name)
			}
		}
		return h
	}
	a, b := fields(x.header), fields(y.header)
	switch {
	case x.status != y.status:
		return fmt.Sprintf("status %d and %d", x.status, y.status)
	case exactly && x.body != y.body:
		return fmt.Sprintf("%s\nand %s", x.body, y.body)
	case !maps.EqualFunc(a, b, slices.Equal):
		return fmt.Sprintf("%v\nand %v", a, b)
	}
	return ""
}

// TestAWorkerReadsAddressesAsAnEdgeDoes asks an edge, a Worker and the same files under Deno for
// addresses as people write and paste them: hosts beyond ASCII in every spelling, pages
// without a scheme, and a slash too many. Foreign pages reach the MCP server of none.
func TestAWorkerReadsAddressesAsAnEdgeDoes(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	h.post = func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1") } // what is passed on
	h.join("first", "xn--mller-kva", "last")
	h.sign()
	e, w, d := h.edge(h.base, true), h.worker(), h.deno()
	h.reached(e)
	h.reachedBy(w)
	h.reachedBy(d)
	nodes := []*origin{w.origin, d.origin}
	for _, from := range []string{
		"m%C3%BCller.test", "m%c3%bcller.test.", "M%C3%9CLLER.Test", "www.m%C3%BCller.test", "mu%CC%88ller.test", "m%C3%BCller%E3%80%82test", "%EF%BD%8D%C3%BCller%EF%BC%8Etest",
		"m%25C3%25BCller.test", "xn--mller-kva.test", "%78n--mller-kva.test", "https%3A%2F%2Fm%C3%BCller.test%2F", "https://m%C3%BCller.test", "http://www.m%C3%BCller.test/index.html",
		"https%3a%2f%2fm%25c3%25bcller.test%3a443%2f", "https%3A%2F%2Fm%C3%BCller.test%2Fk%C3%A4se%3Fq%3D%C3%BC", "https://m%C3%BCller.test/caf%E9", "m%C3%BCller.test/", "M%C3%9CLLER.test:443/x",
		"m%25C3%25BCller.test%2Fx", "www.xn--mller-kva.test/x?y", "xn--mller-kva.test:80",
	} {
		for _, node := range nodes {
			for _, target := range []string{"/api/ring/next?from=" + from, "/api/widget?x&from=" + from + "&y=%C3", "/prev?fr%6Fm=" + from} {
				sameAnswer(t, e, node, target)
			}
		}
		if a := ask(t, w.origin, "/api/widget?from="+from); !strings.Contains(a.body, `"member":{"slug":"xn--mller-kva"`) {
			t.Errorf("from=%s: %s", from, a.body)
		}
	}
	for _, target := range []string{
		"/api/widget?from=m%C3%BCller", "/api/widget?from=m%C3%BC_ller.test", "/api/widget?from=https://x@m%C3%BCller.test/", "/api/widget?from=m%C3%BCller.test%00", "/api/widget?from=%FF.test", "/api/widget?from=%25", "/api/widget?from=m%FCller.test",
		"/api/widget?from=https://m%C3%BCller%EF%BC%8F.test/", "/api/widget?from=m%C3%BCller.test:8443/x", "/api/widget?from=first&from=m%C3%BCller.test", "/api/widget?from=https://first.test/%C3%BC%25C3%25BC", "/api/widget?from=%C3%9F.%C2%AD.test",
		"/next?from=first.test/page", "/next?from=www.first.test:80/page?x", "/next?from=data-first.test/page", "/next?from=mailto:x@first.test", "/next?from=//first.test/",
		"/next/?from=first", "/next/?from=m%C3%BCller.test&x=%2F/", "/prev/", "/api/", "/api/ring/", "/api/ring/first/", "/api/ring/nobody/?x", "/api/widget/?", "/api/leaderboard/?page=2",
		"/api/ring?page=18014398509482", "/api/ring?page=99999999999999999999", "/api/leaderboard?limit=1&page=9007199254740994",
	} {
		for _, node := range nodes {
			sameAnswer(t, e, node, target)
			sameAnswer(t, e, node, target, "Accept", "text/html", "Api-Version", "1")
		}
	}
	for _, c := range []struct {
		host, origin string
		refused      bool
	}{
		{"ring.test", "https://elsewhere.example", false}, {"ring.test:8080", "http://elsewhere.example:81", false}, {"127.0.0.1", "https://elsewhere.example", false}, {"localhost", "https://elsewhere.example", false},
		{"evil.example", "https://evil.example", true}, {"ring.test.evil.example", "http://ring.test.evil.example", true}, {"ring.test", "null", false}, {"ring.test", "file://", false}, {"ring.test", "file:///page", false}, {"ring.test", "nonsense", true}, {"ring.test", "https:x", true}, {"ring.test", "https://", true}, {"ring.test", "https://a.example, https://b.example", true},
	} {
		for _, node := range append(nodes, e) {
			r := request(t, node, "POST", "/mcp", "{}", "Host", c.host, "Origin", c.origin)
			if refused := r.status == http.StatusForbidden && strings.Contains(r.body, `"origin_not_allowed"`); refused != c.refused {
				t.Errorf("from %q at %q: %d %s", c.origin, c.host, r.status, r.body)
			}
		}
	}
}

// TestAWorkerIsVerifiedAsAnEdgeIs asks an edge and a Worker for all that verification reads, and has the
// command verify the Worker, with a policy too, whose witnesses lag.
func TestAWorkerIsVerifiedAsAnEdgeIs(t *testing.T) {
	t.Parallel()
	bundled(t)
	o := syntheticRing(t, "300")
	o.told()
	e := o.follow(t, o.verifier())
	w := startWorker(t, o.base, o.verifier())
	w.comesTo(o)
	size, err := strconv.ParseUint(o.position(), 10, 63)
	if err != nil {
		t.Fatal(err)
	}
	targets := []string{"/sync/checkpoint", "/sync/cosigned", "/sync/keys", tlog.CheckpointPath, fmt.Sprint("/log/proof/", size-1), "/log/proof/1000000", "/log/nothing",
		"/log/tile/0/000", "/log/tile/1/000.p/1", "/log/tile/9/000", tlog.TextsPath(0, tlog.TileWidth), tlog.EntriesPath(0, tlog.TileWidth), tlog.EntriesPath(int64(size/tlog.TileWidth), int(size%tlog.TileWidth))}
	for pattern := range publish.Handlers(new(publish.Switch), func() string { return "" }) {
		begin, _, _ := strings.Cut(pattern, "{")
		if begin != "/sync/snapshot/" && !slices.ContainsFunc(targets, func(target string) bool { return strings.HasPrefix(target, begin) }) {
			t.Errorf("%s is not compared", pattern)
		}
	}
	for _, target := range targets {
		for _, more := range [][]string{nil, {"Api-Version", "2"}, {"Accept", "text/html"}} {
			sameAnswer(t, e, w.origin, target, more...)
		}
	}
	for _, path := range []string{fmt.Sprintf("/sync/snapshot/%064x", 1), "/sync/hops", "/sync/", "/sync", "/sync/keys/x", "//sync/keys"} {
		for _, node := range []*origin{e, w.origin} {
			if r := ask(t, node, path); r.status != http.StatusNotFound && r.status != http.StatusMethodNotAllowed {
				t.Errorf("%s: %d %s", path, r.status, r.body)
			}
		}
	}
	memory := t.TempDir()
	for range 2 {
		if out, err := o.operate("verify", w.base, "--memory", memory); err != nil || !strings.Contains(out, "the same to the byte") {
			t.Errorf("%v\n%s\n%s", err, out, w.log)
		}
	}
}

// TestNoNodeTakesWhatOtherSitesFillIn sends the form of the join page as browsers do for pages of the ring
// and of other sites, and calls of the MCP server and the agent under a stranger's host name.
func TestNoNodeTakesWhatOtherSitesFillIn(t *testing.T) {
	t.Parallel()
	bundled(t)
	secret := secretFile(t)
	o := start(t, "--edge-secret-file", secret)
	e := o.follow(t, o.verifier(), "--edge-secret-file", secret)
	vouches, plain := startWorker(t, o.base, o.verifier(), secretOf(t, secret)), startWorker(t, o.base, o.verifier())
	vouches.comesTo(o)
	plain.comesTo(o)
	const form = "name=Strange+words&url=https%3A%2F%2Fstrange.example%2F&kind=mcp"
	for name, node := range map[string]*origin{"origin": o, "edge": e, "Worker": vouches.origin, "Worker without a secret": plain.origin} {
		for _, path := range []string{"/join", "/%6aoin"} {
			for _, from := range []string{"", o.base, node.base, "https://strange.example", o.base + "0", "null", "file://", "nonsense"} {
				for _, site := range []string{"", "same-origin", "none", "same-site", "cross-site", "Cross-Site"} {
					header := []string{"Content-Type", "application/x-www-form-urlencoded"}
					if from != "" {
						header = append(header, "Origin", from)
					}
					if site != "" {
						header = append(header, "Sec-Fetch-Site", site)
					}
					foreign := strings.HasSuffix(strings.ToLower(site), "-site") || site == "" && from != "" && from != o.base && from != node.base
					r := node.send(http.MethodPost, path, []byte(form), header...)
					if refused := r.Status == http.StatusForbidden && strings.Contains(string(r.Body), `"origin_not_allowed"`); refused != foreign || !refused && r.Status != http.StatusSeeOther {
						t.Errorf("%s: POST %s from %q, %q: %d %.200s", name, path, from, site, r.Status, r.Body)
					}
				}
			}
		}
		r := node.send(http.MethodPost, "/join", []byte(form), "Content-Type", "application/x-www-form-urlencoded", "Accept", "text/html", "Origin", "null")
		if r.Status != http.StatusForbidden || !strings.Contains(string(r.Body), "Another site filled in this form") || strings.Contains(string(r.Body), "Strange") {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
		for _, path := range []string{"/mcp", "/a2a"} {
			for host, refused := range map[string]bool{"strange.example": true, "127.0.0.1": false} {
				if r := request(t, node, http.MethodPost, path, "{}", "Host", host, "Origin", "http://"+host); (r.status == http.StatusForbidden) != refused {
					t.Errorf("%s: POST %s at %s: %d %s", name, path, host, r.status, r.body)
				}
			}
		}
	}
}
