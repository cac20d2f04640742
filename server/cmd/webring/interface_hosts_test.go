package main

import (
	"encoding/json"
	"net/url"
	"testing"

	"webring/core"
)

// TestInterfaceHostsBeyondASCII holds that a host with letters beyond ASCII, however
// encoded, is turned into its A-label before the ring is asked: at the origin and at an
// edge, in documents, redirects and tools, and in a bid.
func TestInterfaceHostsBeyondASCII(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	o := founded(t, func(f *founding) {
		f.join(founder{slug: "alpha", url: "https://alpha.dev/", category: "general", kind: core.Website},
			founder{slug: "muller", url: "https://www.xn--mller-kva.dev/", category: "general", kind: core.Website},
			founder{slug: "omega", url: "https://omega.dev/", category: "general", kind: core.Website},
			founder{slug: "mueller", url: "https://muller.dev/", category: "general", kind: core.Website})
	}, append(freely, "--tempo-rpc", c.RPC)...)
	nodes := map[string]*origin{"the origin": o, "an edge": o.follow(t, o.verifier(), freely...)}
	for rule, name := range map[string]string{
		"a bare name": "müller.dev", "in capitals": "MÜLLER.DEV", "decomposed": "mu\u0308ller.dev", "with www.": "www.müller.dev", "with full-width stops": "www．müller。dev",
		"with escapes": "m%C3%BCller.dev", "a URL": "https://müller.dev", "a URL in capitals": "HTTPS://MÜLLER.DEV/", "a page": "http://www.müller.dev/käse?q=ü",
		"a decomposed URL": "https://mu\u0308ller.dev/index.html", "a URL with escapes": "https://m%C3%BCller.dev/", "an A-label": "xn--mller-kva.dev",
	} {
		for where, n := range nodes {
			t.Run(rule+", at "+where, func(t *testing.T) {
				n := n.in(t)
				from := "?from=" + url.QueryEscape(name)
				if got := at(t, n.read("/api/ring/next"+from), "member", "slug"); got != "omega" {
					t.Errorf("next is %v", got)
				}
				if got := at(t, n.read("/api/widget"+from), "member", "slug"); got != "muller" {
					t.Errorf("the widget is that of %v", got)
				}
				n.fields(n.get("/next"+from), "Location", "https://omega.dev/", "Webring-From", "")
				n.fields(n.get("/prev"+from), "Location", "https://alpha.dev/", "Webring-From", "")
				arguments, err := json.Marshal(map[string]string{"from": name})
				if err != nil {
					t.Fatal(err)
				}
				r := n.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ring_widget","arguments":`+string(arguments)+`}}`)
				if got := at(t, r.document(t), "result", "structuredContent", "member", "slug"); got != "muller" {
					t.Errorf("a tool's widget is that of %v", got)
				}
			})
		}
	}
	for _, member := range []string{"https://müller.dev/", "https://WWW.MU\u0308LLER.dev", "https://m%C3%BCller.dev/", "https://www．müller。dev/"} {
		t.Run("a bid on "+member, func(t *testing.T) {
			o := o.in(t)
			body, err := json.Marshal(map[string]string{"member": member, "amount": "1.00"})
			if err != nil {
				t.Fatal(err)
			}
			r := o.post("/api/bid", string(body))
			o.offered(r, "payment_required")
			if got := o.challenge(r).Description; got != "Bid 1.00 USD on muller" {
				t.Errorf("%s", got)
			}
		})
	}
}
