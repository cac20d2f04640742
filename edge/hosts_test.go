package edge

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"

	"webring/core"
	"webring/core/coretest"
	"webring/edge/edgetest"
	"webring/wasm/host"
)

// foreignHosts are spellings of the address of one member, as they stand in a query,
// with and without scheme, and of a page below it.
var foreignHosts = []string{
	"müller.example", "m%C3%BCller.example", "m%c3%bcller.example.", "MÜLLER.Example", "www.müller.example", "mu\u0308ller.example", "mu%CC%88ller.example",
	"müller。example", "ｍüller．example", "m%25C3%25BCller.example", "xn--mller-kva.example", "%78n--mller-kva.example",
	"https://müller.example", "https%3A%2F%2Fm%C3%BCller.example%2F", "http://www.m%C3%BCller.example/index.html", "https%3a%2f%2fm%25c3%25bcller.example%3a443%2f",
	"HTTPS://MÜLLER.EXAMPLE/", "https%3A%2F%2Fwww%EF%BC%8Emu%CC%88ller%E3%80%82example%2Fk%C3%A4se%3Fq%3D%C3%BC", "https://m%C3%BCller.example/caf%E9",
	"müller.example/", "www.m%C3%BCller.example%2Fk%C3%A4se%3Fq%3D%C3%BC", "m%25C3%25BCller.example/x", "MÜLLER.example:443/x", "müller.example:80",
}

// foreignRing gives a core in which müller.example stands between two others.
func foreignRing(t testing.TB) *host.Native {
	t.Helper()
	n := newRing(t)
	texts := &core.Texts{Name: core.Text{Value: "Müller"}, URL: core.Text{Value: "https://xn--mller-kva.example/"}}
	edgetest.Apply(t, n, &core.Joined{Stamp: (epoch + 3) * 1000, Slug: "muller", Kind: core.Website, Category: "general",
		Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL), Fee: 100}, texts)
	return n
}

// TestHostsBeyondASCIIResolve holds it for every way in which a request brings one to
// the core: on the fast path and by fasthttp, on pages, and as a tool's argument.
func TestHostsBeyondASCIIResolve(t *testing.T) {
	s := serve(t, Config{Core: foreignRing(t)})
	for _, from := range foreignHosts {
		for target, want := range map[string]string{
			"/api/ring/next?from=" + from:         `"slug":"alpha"`,
			"/api/ring/prev?x&from=" + from:       `"slug":"gamma"`,
			"/api/widget?from=" + from + "&y=%C3": `"member":{"slug":"muller"`,
			"/next?fr%6Fm=" + from:                "https://alpha.example/",
			"/prev?kind=website&from=" + from:     "https://gamma.example/",
			"/embed?from=" + from:                 "webring-online from=&#34;muller&#34;",
		} {
			c := s.Dial()
			r := bufio.NewReader(c)
			for _, fields := range []string{"", unusual} {
				if got := ask(t, s, c, r, "GET "+target+" HTTP/1.1\r\nHost: x\r\n"+fields+"\r\n"); !strings.Contains(got.Body, want) || got.Header.Get("Webring-From") != "" {
					t.Errorf("%s: %d %q %.200s", target, got.Status, got.Header.Get("Webring-From"), got.Body)
				}
			}
			c.Close()
		}
	}
	for _, from := range []string{"müller.example", "https://MU\u0308LLER.example/x", "www.m%C3%BCller.example"} {
		call, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
			"params": map[string]any{"name": "ring_widget", "arguments": map[string]any{"from": from}}})
		if err != nil {
			t.Fatal(err)
		}
		if r := s.Do("POST", "/mcp", string(call)); !strings.Contains(r.Body, `"member":{"slug":"muller"`) {
			t.Errorf("a tool asked from %s: %d %s", from, r.Status, r.Body)
		}
	}
}

// A reference that only looks like a host name, or has one elsewhere, names the same member
// as before.
func TestOtherReferencesStayAsTheyAre(t *testing.T) {
	s := serve(t, Config{Core: foreignRing(t)})
	for from, member := range map[string]string{
		"ａｌｐｈａ": "null", "alpha%E3%80%82": "null", "müller": "null", "müller/x.example": "null", "müller.example:8443/x": "null", "x@müller.example/": "null", "//müller.example/": "null", "mü_ller.example": "null",
		"https://ü@müller.example/": "null", "müller.example%00": "null", "%ff.example": "null", "https://müller／.example": "null",
		"https://alpha.example/%C3%BC%25C3%25BC?q=m%C3%BCller.example": `{"slug":"alpha"`, "https%3A%2F%2Fbeta.example%2Fcaf%25E9": `{"slug":"beta"`,
	} {
		if r := s.Get("/api/widget?from=" + from); !strings.Contains(r.Body, `"member":`+member) {
			t.Errorf("%s: %d %s", from, r.Status, r.Body)
		}
	}
	if r := s.Get("/api/widget?from=alpha&from=m%C3%BCller.example"); !strings.Contains(r.Body, `"member":{"slug":"alpha"`) {
		t.Errorf("the first from counts: %s", r.Body)
	}
}

// What is kept of the answer to one spelling is never the answer to another host's.
func TestSpellingsOfAHostShareNoAnswerWithOtherHosts(t *testing.T) {
	s := serve(t, Config{Core: foreignRing(t)})
	for range 3 {
		for from, known := range map[string]bool{"m%C3%BCller.example": true, "mu%CC%88ller.example": true, "m%C3%B6ller.example": false, "muller.example": false, "m%FCller.example": false} {
			if r := s.Get("/api/widget?from=" + from); strings.Contains(r.Body, `"member":{"slug":"muller"`) != known {
				t.Errorf("%s: %s", from, r.Body)
			}
			if r := s.Get("/next?from=" + from); (r.Header.Get("Webring-From") == "") != known {
				t.Errorf("%s leads to %s", from, r.Header.Get("Location"))
			}
			if r := s.Get("/embed?from=" + from); strings.Contains(r.Body, "from=&#34;muller&#34;") != known {
				t.Errorf("the page for %s: %s", from, r.Body)
			}
		}
	}
}
