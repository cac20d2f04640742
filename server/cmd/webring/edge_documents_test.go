package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"webring/edge/describe"
	"webring/static"
)

// TestEdgesShowWhatTheOriginDoes asks an edge for every document, page and tool,
// and goes on asking when the origin is gone.
func TestEdgesShowWhatTheOriginDoes(t *testing.T) {
	t.Parallel()
	const contact = "mailto:security@ring.dev"
	o := founded(t, reference, append(freely, "--contact", contact)...)
	e := o.follow(t, o.verifier(), "--contact", contact)
	alike(t, o, e)

	// What is passed on comes first: pages that show it do not wait for it as long as a
	// busy origin may take.
	targets := append(slices.Clone(relayed), "/nowhere", "/members/nobody", "/next?kind=robot", "/next?category=none", "/sitemaps/pages.xml", "/sitemaps/members-1.xml", "/sitemaps/members-2.xml", "/opml/1.opml",
		"/ai-catalogs/agent-1.json", "/ai-catalogs/mcp-1.json", "/.well-known/agent-skills/join-webring/SKILL.md", "/widget.js", "/badge/beta.svg",
		"/", "/leaderboard", "/leaderboard?page=2", "/ring", "/ring?kind=agent", "/categories/tools", "/categories/gone", "/members/alpha", "/members/eta", "/join", "/join?opening=first", "/embed?from=beta", "/docs",
		"/problems/member_removed", "/feeds/members/beta.atom", "/feeds/members/beta.json",
		"/openwebring/1.json", "/v0.1/servers?limit=1", "/v0.1/servers?updated_since=2026-01-01T00:00:00Z")
	for _, d := range describe.Documents() {
		targets = append(targets, d.Path)
	}
	for _, a := range static.Assets() {
		targets = append(targets, a.Path)
	}
	type asked struct{ target, accept string }
	first := map[asked]reply{}
	for _, target := range targets {
		for _, accept := range []string{"text/html", "text/markdown"} {
			first[asked{target, accept}] = sameAt(o, e, target, accept)
		}
	}
	o.refused(first[asked{"/members/eta", "text/markdown"}], http.StatusGone, "member_removed")
	// For people it is a page.
	if r := first[asked{"/members/eta", "text/html"}]; r.Status != http.StatusGone || !strings.Contains(string(r.Body), "problems/member_removed") {
		t.Errorf("status %d: %s", r.Status, r.Body)
	}
	o.kill()
	for a, want := range first {
		if got := e.get(a.target, "Accept", a.accept, "X-Request-Id", sameID); got.Status != want.Status || undated(got) != undated(want) {
			t.Errorf("without the origin, %s as %s: status %d\n%s", a.target, a.accept, got.Status, got.Body)
		}
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "webring-tests", Version: "1.0.0"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: e.base + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for n, c := range toolCalls {
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: json.RawMessage(c.arguments)})
		if err != nil {
			t.Fatalf("%s %s: %v", c.tool, c.arguments, err)
		}
		text := r.Content[0].(*mcp.TextContent).Text
		if slices.ContainsFunc(describe.Tools(), func(d describe.Tool) bool { return d.Name == c.tool && d.Sends() }) {
			want := "payments_unavailable"
			if c.tool == "ring_check" {
				want = "origin_unavailable" // it is free
			}
			if got := at(t, value(t, []byte(text)), "code"); !r.IsError || got != want {
				t.Errorf("%s %s without the origin: %s", c.tool, c.arguments, text)
			}
			continue
		}
		e.sameAsHTTP(n, r.StructuredContent, text, r.IsError)
	}
	// What only the origin can say is free, and nothing is said of payments.
	unavailable := func(what string, r reply) {
		t.Helper()
		o.refused(r, http.StatusServiceUnavailable, "origin_unavailable")
		if r.Header.Get("Retry-After") == "" || strings.Contains(strings.ToLower(string(r.Body)), "payment") {
			t.Errorf("%s without the origin: %v %s", what, r.Header, r.Body)
		}
	}
	for _, target := range []string{"/api/ring?q=al", "/api/events?since=77", "/api/ring/zeta/events", "/api/hops?days=99", "/api/ring/alpha/hops?days=99", "/feeds.opml", "/members/zeta/icon.png", "/reports/1"} {
		unavailable(target, e.get(target))
	}
	unavailable("/join", e.send(http.MethodPost, "/join", []byte("name=x"), "Content-Type", "application/x-www-form-urlencoded"))
	unavailable("/api/check", e.post("/api/check", `{"name":"Ada","url":"https://ada.dev/","kind":"agent"}`))
	for tool, arguments := range map[string]string{"ring_list": `{"q":"al"}`, "ring_events": `{"since":77}`, "ring_member_events": `{"slug":"zeta"}`, "ring_hops": `{"days":99}`, "ring_member_hops": `{"slug":"alpha","days":99}`} {
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		if text := r.Content[0].(*mcp.TextContent).Text; !r.IsError || at(t, value(t, []byte(text)), "code") != "origin_unavailable" {
			t.Errorf("%s without the origin: %s", tool, text)
		}
	}
}

// relayed are what an edge passes on and caches, for pages and tools.
var relayed = []string{"/ring/moments", "/api/hops", "/api/hops?days=2", "/api/ring/alpha/hops", "/api/ring/beta/hops", "/api/events?since=0&limit=2", "/api/events?limit=1", "/api/ring/beta/events", "/members/beta/icon.png",
	"/api/ring?q=BET+app&limit=2", "/api/ring?q=bet&kind=website&limit=20"}

// sameID names the requests that are to be answered alike: error pages show it.
const sameID = "the-same-request"

// sameAt asks origin and edge for the same, which is to have the same fields, and gives
// the edge's answer.
func sameAt(o, e *origin, target, accept string) (got reply) {
	o.t.Helper()
	var differ []string
	// What holds until a day ends, or a standing falls, counts down, and a second begins for
	// one of the two before the other: they agree again once it has begun for both.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		want := o.get(target, "Accept", accept, "X-Request-Id", sameID)
		got = e.get(target, "Accept", accept, "X-Request-Id", sameID)
		differ = nil
		if got.Status != want.Status || string(got.Body) != string(want.Body) {
			differ = append(differ, fmt.Sprintf("status %d\n%s\nat the origin %d\n%s", got.Status, got.Body, want.Status, want.Body))
		}
		for _, name := range []string{"Content-Type", "Cache-Control", "ETag", "Vary", "Link", "Content-Security-Policy", "Webring-Seq"} {
			if name == "Cache-Control" && slices.Contains(relayed, target) {
				continue // what is left of the time for which the origin lets it be kept
			}
			g, w := got.Header.Values(name), want.Header.Values(name)
			if name == "Cache-Control" && strings.HasPrefix(got.Header.Get("Content-Type"), "text/") {
				g, w = ageless(g), ageless(w)
			}
			if !slices.Equal(g, w) {
				differ = append(differ, fmt.Sprintf("%s: %q, at the origin %q", name, g, w))
			}
		}
		if differ == nil {
			return got
		}
		if time.Now().After(deadline) {
			break
		}
	}
	o.t.Errorf("%s as %s: %s", target, accept, strings.Join(differ, "\n"))
	return got
}

// ageless are the values of Cache-Control without the number of seconds: a page is valid no
// longer than what an edge has passed on into it, which may be older there than at the origin.
func ageless(values []string) (list []string) {
	for _, v := range values {
		list = append(list, maxAge.ReplaceAllString(v, "max-age="))
	}
	return list
}

var maxAge = regexp.MustCompile(`\bmax-age=[0-9]+`)

// undated is the body of an answer without what an hour later reads otherwise: the day until
// which security.txt holds, and how long ago something was or how long it will take.
func undated(r reply) string {
	return spans.ReplaceAllString(expires.ReplaceAllString(string(r.Body), ""), "a while")
}

var spans = regexp.MustCompile(`\b(?:just now|less than an hour|\d+ (?:more )?(?:min|h|hours?|days?)(?: ago)?)\b`)

var expires = regexp.MustCompile(`(?m)^Expires: .*$`)
