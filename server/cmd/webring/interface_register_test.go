package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"webring/core"
	"webring/server/devchain"
)

// registration is a valid body with some fields changed; nil leaves one out.
func registration(t *testing.T, changes map[string]any) string {
	t.Helper()
	fields := map[string]any{"name": "Newcomer", "url": "https://newcomer.dev/", "kind": "agent"}
	maps.Copy(fields, changes)
	maps.DeleteFunc(fields, func(_ string, v any) bool { return v == nil })
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// offered holds a 402 to what every one has.
func (o *origin) offered(r reply, code string) {
	o.t.Helper()
	o.refused(r, 402, code)
	if offers := r.Header.Values("WWW-Authenticate"); len(offers) != 1 || !strings.HasPrefix(offers[0], "Payment ") {
		o.t.Errorf("offers: %q", offers)
	}
}

// errorPointers lists where a 422 finds faults, each with words.
func errorPointers(t *testing.T, doc map[string]any) (pointers []string) {
	t.Helper()
	for _, e := range at(t, doc, "errors").([]any) {
		names(t, e, "pointer detail")
		if at(t, e, "detail") == "" {
			t.Errorf("no detail: %v", e)
		}
		pointers = append(pointers, at(t, e, "pointer").(string))
	}
	slices.Sort(pointers)
	return pointers
}

// TestInterfaceRegisterFields holds the table of RegisterRequest and "Limits":
// what is valid gets a 402, and what is not a 422 without a challenge.
func TestInterfaceRegisterFields(t *testing.T) {
	t.Parallel()
	o := ring(t, freely...)
	long := func(n int) string { return "https://long.dev/" + strings.Repeat("x", n-len("https://long.dev/")) }
	for _, c := range []struct {
		rule, field string
		value       any
		code        string // of the 422; "" for a 402
	}{
		{"name is required", "name", nil, "invalid_request"},
		{"name has 1 to 80: none", "name", "", "invalid_request"},
		{"name has 1 to 80: only white space", "name", " \t\u00a0\u2003", "invalid_request"},
		{"name has 1 to 80: only control and format characters", "name", "\x01\u200b\u202e", "invalid_request"},
		{"name has 1 to 80: one", "name", "x", ""},
		{"name has 1 to 80: 80", "name", strings.Repeat("x", 80), ""},
		{"name has 1 to 80: 81", "name", strings.Repeat("x", 81), "invalid_request"},
		{"name counts code points: 80 of four bytes", "name", strings.Repeat("🦊", 80), ""},
		{"name counts code points: 81 of four bytes", "name", strings.Repeat("🦊", 81), "invalid_request"},
		{"name counts after NFC", "name", strings.Repeat("e\u0301", 80), ""},
		{"name counts after trimming", "name", strings.Repeat(" ", 50) + strings.Repeat("x", 80) + strings.Repeat("\n", 50), ""},
		{"name is a string", "name", 7, "invalid_request"},
		{"url is required", "url", nil, "invalid_request"},
		{"url has at most 300: 300", "url", long(300), ""},
		{"url has at most 300: 301", "url", long(301), "invalid_url"},
		{"url is a string", "url", []string{"https://newcomer.dev/"}, "invalid_request"},
		{"kind is required", "kind", nil, "invalid_request"},
		{"kind is agent", "kind", "agent", ""},
		{"kind is mcp", "kind", "mcp", ""},
		{"kind is website", "kind", "website", ""},
		{"kind of another name", "kind", "robot", "invalid_request"},
		{"kind in capitals", "kind", "Agent", "invalid_request"},
		{"category may be left out", "category", nil, ""},
		{"category of 1", "category", "7", ""},
		{"category of 32", "category", strings.Repeat("c", 32), ""},
		{"category of 33", "category", strings.Repeat("c", 33), "invalid_request"},
		{"category empty", "category", "", "invalid_request"},
		{"category begins with a letter or digit", "category", "-tools", "invalid_request"},
		{"category ends as it likes", "category", "tools-", ""},
		{"category in capitals", "category", "Tools", "invalid_request"},
		{"category with another character", "category", "a_b", "invalid_request"},
		{"category with a line break", "category", "tools\n", "invalid_request"},
		{"description may be left out", "description", nil, ""},
		{"description may be empty", "description", "", ""},
		{"description has at most 300: 300", "description", strings.Repeat("ü", 300), ""},
		{"description has at most 300: 301", "description", strings.Repeat("ü", 301), "invalid_request"},
		{"bid may be left out", "bid", nil, ""},
		{"bid at the minimum", "bid", "1.00", ""},
		{"bid without decimals", "bid", "1", ""},
		{"bid with one decimal", "bid", "1.5", ""},
		{"bid without increments", "bid", "1.01", ""},
		{"bid below the minimum", "bid", "0.99", "bid_too_low"},
		{"bid of nothing", "bid", "0", "bid_too_low"},
		{"bid at the maximum", "bid", "1000000.00", ""},
		{"bid above the maximum", "bid", "1000000.01", "bid_too_high"},
		{"bid of 8 digits", "bid", "10000000", "bid_too_high"},
		{"bid of 30 digits", "bid", strings.Repeat("9", 30), "bid_too_high"},
		{"bid with three decimals", "bid", "1.001", "invalid_request"},
		{"bid as a JSON number", "bid", 1.00, "invalid_request"},
		{"bid with a point and no decimals", "bid", "1.", "invalid_request"},
		{"bid without a whole part", "bid", ".50", "invalid_request"},
		{"bid with a sign", "bid", "-1.00", "invalid_request"},
		{"bid with another sign", "bid", "+1.00", "invalid_request"},
		{"bid with an exponent", "bid", "1e2", "invalid_request"},
		{"bid with a comma", "bid", "1,00", "invalid_request"},
		{"bid with a currency", "bid", "$1.00", "invalid_request"},
		{"bid with a space", "bid", " 1.00", "invalid_request"},
		{"bid in other digits", "bid", "١.٠٠", "invalid_request"},
		{"bid empty", "bid", "", "invalid_request"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			o := o.in(t)
			r := o.post("/api/register", registration(t, map[string]any{c.field: c.value}))
			if c.code == "" {
				o.offered(r, "payment_required")
				return
			}
			if got := errorPointers(t, o.refused(r, 422, c.code)); !slices.Equal(got, []string{"/" + c.field}) {
				t.Errorf("errors at %v", got)
			}
		})
	}
	t.Run("null for an optional field is the same as leaving it out", func(t *testing.T) {
		o := o.in(t)
		o.offered(o.post("/api/register", `{"name":"N","url":"https://n.dev/","kind":"mcp","category":null,"description":null,"bid":null}`), "payment_required")
		doc := o.refused(o.post("/api/register", `{"name":null,"url":null,"kind":null}`), 422, "invalid_request")
		if got := errorPointers(t, doc); !slices.Equal(got, []string{"/kind", "/name", "/url"}) {
			t.Errorf("errors at %v", got)
		}
	})
	t.Run("errors lists everything that is wrong", func(t *testing.T) {
		o := o.in(t)
		doc := o.refused(o.post("/api/register", `{"name":"","url":"https://localhost/","kind":"x","bid":"0.01","category":"!","colour":"red"}`), 422, "invalid_request")
		if got := errorPointers(t, doc); !slices.Equal(got, []string{"/bid", "/category", "/colour", "/kind", "/name", "/url"}) {
			t.Errorf("errors at %v", got)
		}
	})
}

// TestInterfaceRegisterURL holds "Refused with invalid_url".
func TestInterfaceRegisterURL(t *testing.T) {
	t.Parallel()
	o := ring(t, freely...)
	for rule, urls := range map[string][]string{
		"relative":           {"", "newcomer.dev", "/path", "//newcomer.dev/", "www.newcomer.dev/x", "?q"},
		"non-http(s)":        {"ftp://newcomer.dev/", "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "mailto:a@newcomer.dev", "wss://newcomer.dev/"},
		"userinfo":           {"https://user@newcomer.dev/", "https://user:pass@newcomer.dev/", "https://@newcomer.dev/"},
		"IP literals":        {"https://127.0.0.1/", "https://8.8.8.8/", "https://[::1]/", "https://[2001:db8::1]/", "https://0x7f.1/", "https://2130706433/", "https://0177.0.0.1/", "https://①②⑦.⓪.⓪.①/"},
		"single-label hosts": {"https://intranet/", "https://com/", "https://dev./"},
		"localhost":          {"https://localhost/", "https://localhost:443/", "https://a.localhost/", "https://LOCALHOST./"},
		"reserved names":     {"https://a.local/", "https://a.internal/", "https://a.test/", "https://a.invalid/", "https://a.example/", "https://example.com/", "https://a.example.org/", "https://a.onion/", "https://1.0.0.127.in-addr.arpa/"},
		"no public name":     {"https://co.uk/", "https://a.nosuchtld/"},
		"other ports":        {"https://newcomer.dev:8443/", "http://newcomer.dev:8080/", "https://newcomer.dev:22/", "https://newcomer.dev:0/", "https://newcomer.dev:99999/", "https://newcomer.dev:x/"},
		"control characters": {"https://newcomer.dev/\x00", "https://newcomer.dev/a\tb", "https://newcomer.dev/a\nb", "https://newcomer.dev/\u202e", "https://newcomer\u200b.dev/\x7f"},
		"no host name":       {"https:///path", "https://a..dev/", "https://-/", "https://new comer.dev/", "https://newcomer.dev\\@evil.dev/", "https://" + strings.Repeat("a", 64) + ".dev/", "https://new_comer.dev/"},
		"broken escapes":     {"https://newcomer.dev/%", "https://newcomer.dev/%zz"},
	} {
		for _, u := range urls {
			t.Run(fmt.Sprintf("%s: %.50q", rule, u), func(t *testing.T) {
				o := o.in(t)
				doc := o.refused(o.post("/api/register", registration(t, map[string]any{"url": u})), 422, "invalid_url")
				if got := errorPointers(t, doc); !slices.Equal(got, []string{"/url"}) {
					t.Errorf("errors at %v", got)
				}
			})
		}
	}
	for rule, u := range map[string]string{"port 80": "http://newcomer.dev:80/", "port 443": "https://newcomer.dev:443", "port 443 on http": "http://newcomer.dev:443/",
		"an international name": "https://bücher.de/käse?q=ü", "a name under a private suffix": "https://somebody.github.io/", "capitals": "HTTPS://NewComer.DEV",
		"white space around it": "  https://newcomer.dev/ \n", "a deep path and a query": "https://newcomer.dev/a/./b/../c/?x=1&y#z"} {
		t.Run("admitted: "+rule, func(t *testing.T) {
			o := o.in(t)
			o.offered(o.post("/api/register", registration(t, map[string]any{"url": u})), "payment_required")
		})
	}
}

// TestInterfaceFetchMap holds what --fetch-map admits.
func TestInterfaceFetchMap(t *testing.T) {
	t.Parallel()
	o := ring(t, append(freely, "--fetch-map", "*.demo.test=127.0.0.1:9", "--fetch-map", "one.internal=127.0.0.1:9", "--fetch-map", "mapped.example=127.0.0.1:9")...)
	for u, admitted := range map[string]bool{
		"https://a.demo.test/": true, "https://a.b.c.demo.test/": true, "https://A.DEMO.test/": true, "https://demo.test/": false, "https://ademo.test/": false,
		"https://other.test/": false, "https://one.internal/": true, "https://a.one.internal/": false,
		"https://127.0.0.1/": false, "https://127.0.0.1:80/": false, "https://intranet/": false,
		"https://mapped.example/": true, "https://a.mapped.example/": false, "https://newcomer.dev/": true,
		"https://a.demo.test:8080/": false, "https://user@a.demo.test/": false,
	} {
		t.Run(u, func(t *testing.T) {
			o := o.in(t)
			r := o.post("/api/register", registration(t, map[string]any{"url": u}))
			if admitted {
				o.offered(r, "payment_required")
			} else {
				o.refused(r, 422, "invalid_url")
			}
		})
	}
	for _, flags := range [][]string{{"--fetch-map", "a.test=127.0.0.1:9"}, {"--scorer", "fixed:72"}} {
		t.Run(flags[0]+" is for development only", func(t *testing.T) {
			o := prepared(t)
			o.args = append([]string{"serve", "--listen", devchain.FreeAddress()}, flags...)
			o.boot()
			o.waitGone()
			if !strings.Contains(o.log.String(), "needs --dev") {
				t.Errorf("%s", o.log)
			}
		})
	}
}

// TestInterfaceReservedNames holds which words names may not hold, and what
// allow-name admits.
func TestInterfaceReservedNames(t *testing.T) {
	t.Parallel()
	o := ring(t, append(freely, "--name", "Northern Lights", "--allow-name", "Official Gazette", "--allow-name", "admin")...)
	for name, ok := range map[string]bool{
		"Official Newcomer": false, "Ver\u3164ified Newcomer": false, "Newcomer, rank #1": false, "Northern Lights Newcomer": false,
		"The official gazette": true, "Admin": true, "Newcomer of high rank": true, "Northern Newcomer": true,
	} {
		t.Run(name, func(t *testing.T) {
			o := o.in(t)
			r := o.post("/api/register", registration(t, map[string]any{"name": name}))
			if ok {
				o.offered(r, "payment_required")
			} else if got := errorPointers(t, o.refused(r, 422, "invalid_request")); !slices.Equal(got, []string{"/name"}) {
				t.Errorf("found at %q", got)
			}
		})
	}
	t.Run("what is never drawn is no part of a name", func(t *testing.T) {
		doc := o.in(t).joined(map[string]any{"name": "New\u034fcomer\u3164 \ufe0f\u115f"})
		if got := at(t, doc, "member", "name"); got != "Newcomer" {
			t.Errorf("the name is %+q", got)
		}
	})
}

// TestInterfaceIdentity holds which spellings are one site: 409
// already_registered without a challenge, or another site.
func TestInterfaceIdentity(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	o := founded(t, func(f *founding) {
		f.join(
			founder{slug: "site", url: "https://www.site.dev/app/", category: "general", kind: core.Agent},
			founder{slug: "query", url: "https://query.dev/?page=1", category: "general", kind: core.Agent},
			founder{slug: "intl", url: "https://xn--bcher-kva.de/", category: "general", kind: core.Agent},
		)
	}, append(freely, "--tempo-rpc", c.RPC)...)
	for rule, u := range map[string]string{
		"as it is": "https://www.site.dev/app/", "without www.": "https://site.dev/app/", "http": "http://www.site.dev/app/", "no slash at the end": "https://site.dev/app",
		"index.html": "https://site.dev/app/index.html", "the default port": "https://site.dev:443/app/", "a fragment": "https://site.dev/app/#top",
		"capitals": "HTTPS://SITE.Dev/app/", "dot segments": "https://site.dev/x/.././app/", "escapes": "https://site.dev/%61p%70/", "the root's dot": "https://site.dev./app/",
		"its query": "https://query.dev?page=1", "its query, escaped": "http://www.query.dev/?p%61ge=1", "U-labels": "https://bücher.de/", "capital U-labels": "https://BÜCHER.de",
	} {
		t.Run("the same site: "+rule, func(t *testing.T) {
			o := o.in(t)
			doc := o.refused(o.post("/api/register", registration(t, map[string]any{"url": u})), 409, "already_registered")
			if self, _ := at(t, doc, "links", "self").(string); o.get(strings.TrimPrefix(self, o.base)).Status != 200 {
				t.Errorf("links.self = %q", self)
			}
		})
	}
	for rule, u := range map[string]string{
		"below it": "https://site.dev/app/x", "above it": "https://site.dev/", "another case": "https://site.dev/App/", "another subdomain": "https://app.site.dev/app/",
		"another port": "https://site.dev:80/app/", "a query": "https://site.dev/app/?x=1", "another query": "https://query.dev/?page=2", "no query": "https://query.dev/",
		"the name in another": "https://xsite.dev/app/", "another final page": "https://site.dev/app/index.htm",
	} {
		t.Run("another site: "+rule, func(t *testing.T) {
			o := o.in(t)
			o.offered(o.post("/api/register", registration(t, map[string]any{"url": u})), "payment_required")
		})
	}
}
