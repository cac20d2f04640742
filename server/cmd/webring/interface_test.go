package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"webring/core"
	"webring/server/pay/mpp"
)

// TestInterface sends one request of each kind to the binary. The packages that decide have
// the tests of all cases: core/api, edge, edge/front, server/paid and server/paid/form.
func TestInterface(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	o := founded(t, reference, append(freely, "--tempo-rpc", c.RPC, "--realm", "ring.dev", "--allow-name", "Official Gazette",
		"--fetch-map", "*.demo.test=127.0.0.1:9", "--name", "The “Ring”")...)
	tag := o.get("/api/ring").Header.Get("ETag")
	const join, bid = `{"name":"Newcomer","url":"https://newcomer.dev/","kind":"agent"}`, `{"member":"beta","amount":"1.37"}`
	for _, c := range []struct {
		request, body string
		header        []string
		status        int
		says          string // the code of a problem, and otherwise a part of the body or of Location
	}{
		{"GET /api", "", nil, 200, `"name":"The “Ring”"`},
		{"GET /api/ring?kind=agent&limit=1&offset=1", "", nil, 200, `"slug":"delta"`},
		{"GET /api/ring/beta", "", nil, 200, `"url":"https://www.beta.dev/app/"`},
		{"GET /api/ring/next?from=https://shared.dev/foo/bar/baz", "", nil, 200, `"slug":"epsilon"`},
		{"GET /api/ring/prev?from=m%C3%BCller.dev", "", nil, 404, "unknown_member"},
		{"GET /api/ring/random?from=beta&kind=mcp", "", nil, 200, `"slug":"beta"`},
		{"GET /api/categories", "", nil, 200, `{"category":"tools","members":3`},
		{"GET /api/widget?from=www.beta.dev", "", nil, 200, `"next":{"slug":"gamma"`},
		{"GET /api/leaderboard?limit=1&offset=2", "", nil, 200, `"effective_bid_usd":"2.99"`},
		{"GET /next?from=beta", "", nil, 302, "https://shared.dev/foo"},
		{"GET /prev?from=nobody", "", nil, 302, "http://zeta.dev/?page=1"},
		{"GET /random?kind=mcp", "", []string{"Authorization", "Payment !"}, 302, "https://www.beta.dev/app/"},
		{"GET /", "", nil, 200, "https://www.beta.dev/app/"},
		{"GET /problems/empty_ring", "", nil, 200, "empty_ring"},
		{"HEAD /api/ring", "", nil, 200, ""},
		{"OPTIONS /api/bid", "", nil, 204, ""},
		{"GET /api/ring", "", []string{"If-None-Match", tag}, 304, ""},
		{"GET /api/", "", nil, 308, "../api"},
		{"GET /api/ring?limit=0", "", nil, 400, "invalid_parameter"},
		{"GET /api", "", []string{"Api-Version", "2"}, 400, "unsupported_api_version"},
		{"GET /api/ring/nobody", "", nil, 404, "unknown_member"},
		{"GET /api/ring/next?category=none", "", nil, 404, "empty_ring"},
		{"GET /nowhere", "", nil, 404, "not_found"},
		{"DELETE /api/ring", "", nil, 405, "method_not_allowed"},
		{"GET /api/ring/eta", "", nil, 410, "member_removed"},
		{"POST /api/bid", strings.Repeat(" ", 16<<10+1), nil, 413, "body_too_large"},
		{"POST /api/bid", "{}", []string{"Content-Encoding", "br"}, 415, "unsupported_encoding"},
		{"GET /api", "", []string{"X-Long", strings.Repeat("x", 32<<10)}, 431, "header_too_large"},
		{"POST /api/register", join, nil, 402, "payment_required"},
		{"POST /api/register", strings.Replace(join, "newcomer.dev", "a.demo.test", 1), nil, 402, "payment_required"},
		{"POST /api/register", strings.Replace(join, "Newcomer", "The official gazette", 1), nil, 402, "payment_required"},
		{"POST /api/register", strings.Replace(join, "Newcomer", "Official", 1), nil, 422, "invalid_request"},
		{"POST /api/register", strings.Replace(join, "newcomer.dev", "localhost", 1), nil, 422, "invalid_url"},
		{"POST /api/register", strings.Replace(join, "https://newcomer.dev/", "http://www.alpha.dev/index.html", 1), nil, 409, "already_registered"},
		{"POST /api/register", join, []string{"X-Forwarded-Proto", "https"}, 403, "tls_required"},
		{"POST /api/bid", bid, nil, 402, "payment_required"},
		{"POST /api/bid", strings.Replace(bid, "beta", "http://BETA.dev:80/%61pp/index.html#x", 1), nil, 402, "payment_required"},
		{"POST /api/bid", strings.Replace(bid, "1.37", "0.99", 1), nil, 422, "bid_too_low"},
		{"POST /api/bid", strings.Replace(bid, "beta", "nobody", 1), nil, 404, "unknown_member"},
		{"POST /api/bid", strings.Replace(bid, "beta", "eta", 1), nil, 410, "member_removed"},
		{"POST /api/bid", `{"member":"alpha","amount":"4.99","only_if_rank":1}`, nil, 409, "rank_taken"},
		{"POST /api/bid", bid, []string{"Authorization", "Payment !"}, 402, "malformed_credential"},
	} {
		t.Run(c.request+" "+c.says, func(t *testing.T) {
			o := o.in(t)
			method, path, _ := strings.Cut(c.request, " ")
			header := c.header
			if method == http.MethodPost {
				header = append(slices.Clone(header), "Content-Type", "application/json")
			}
			r := o.send(method, path, []byte(c.body), header...)
			o.everyAnswer(r)
			o.fields(r, "RateLimit-Limit", "1000000", "RateLimit-Policy", "1000000;w=60")
			switch {
			case c.status >= 400:
				o.refused(r, c.status, c.says)
				if c.status == http.StatusPaymentRequired {
					o.challenge(r)
				}
			case r.Status != c.status || !strings.Contains(string(r.Body)+r.Header.Get("Location"), c.says):
				t.Errorf("status %d, want %d and %s: %v %s", r.Status, c.status, c.says, r.Header, r.Body)
			}
		})
	}
	if ch := o.challenge(o.post("/api/bid", bid)); ch.Realm != "ring.dev" || ch.Method != "tempo" || ch.Description != "Bid 1.37 USD on beta" {
		t.Errorf("challenge: %+v", ch)
	}
	seen := map[string]bool{}
	for range 200 { // one of six members stays away once in 10^15 times
		seen[o.get("/random").Header.Get("Location")] = true
	}
	if len(seen) != len(referenceOrder) {
		t.Errorf("at random came %v", seen)
	}
	unpaid := founded(t, reference, "--trusted-proxy", "127.0.0.1")
	unpaid.refused(unpaid.post("/api/register", join, "X-Forwarded-For", "203.0.113.9", "X-Forwarded-Proto", "https"), 503, "payments_unconfigured")
	for remaining := range 119 {
		unpaid.fields(unpaid.get("/next", "X-Forwarded-For", "203.0.113.9"), "RateLimit-Policy", "120;w=60", "RateLimit-Remaining", fmt.Sprint(118-remaining))
	}
	unpaid.refused(unpaid.get("/next", "X-Forwarded-For", "203.0.113.9"), 429, "rate_limited")
	unpaid.fields(unpaid.get("/next", "X-Forwarded-For", "203.0.113.10"), "RateLimit-Remaining", "119")
	unpaid.fields(unpaid.get("/next"), "RateLimit-Policy", "1200;w=60") // of the proxy itself
}

// TestInterfaceRulesAreConfiguration checks that fee, minimum and windows are flags, that
// the ledger records them when they change and only then, and that documents show them.
func TestInterfaceRulesAreConfiguration(t *testing.T) {
	t.Parallel()
	o := founded(t, func(f *founding) {
		f.ago(2 * day)
		f.join(founder{slug: "early", url: "https://early.dev/", category: "general", kind: core.Agent, bid: 300})
	}, append(freely, "--fee", "2.50", "--min-bid", "0.5", "--grace", "36h", "--decay", "720h")...)
	check := func(want string) {
		t.Helper()
		rules := at(t, o.read("/api/leaderboard"), "rules")
		got := fmt.Sprint(at(t, rules, "registration_fee_usd"), " ", at(t, rules, "minimum_bid_usd"), " ", at(t, rules, "grace_period"), " ", at(t, rules, "decay_span"))
		if got != want {
			t.Errorf("rules: %s, want %s", got, want)
		}
	}
	events := func(want string) {
		t.Helper()
		if out, err := o.operate("version"); err != nil || !strings.Contains(out, want+" events") {
			t.Errorf("%v, want %s events: %s", err, want, out)
		}
	}
	check("2.50 0.50 PT129600S P30D")
	payments := at(t, o.read("/api"), "payments")
	if at(t, payments, "registration_fee_usd") != "2.50" || at(t, payments, "min_bid_usd") != "0.50" {
		t.Errorf("directory: %v", payments)
	}
	// The member paid under other rules, and keeps its totals.
	if m := at(t, o.read("/api/ring/early"), "member"); at(t, m, "paid_total_usd") != "4.00" || at(t, m, "effective_bid_usd") == "4.00" {
		t.Errorf("%v", m)
	}
	o.told()
	events("4") // the founding rules, the member, the flags, and a snapshot
	o.stop()
	o.launch()
	events("4")
	o.stop()
	o.args = append(o.args, "--grace", "48h")
	o.launch()
	check("2.50 0.50 P2D P30D")
	o.told()
	events("6")
}

var challengeParam = regexp.MustCompile(`([a-z]+)="((?:[^"\\]|\\.)*)"(, |$)`)

// challenge reads the one offer of a 402.
func (o *origin) challenge(r reply) mpp.Challenge {
	o.t.Helper()
	c, err := readChallenge(r)
	if err != nil {
		o.t.Fatal(err)
	}
	return c
}

func readChallenge(r reply) (mpp.Challenge, error) {
	list, ok := strings.CutPrefix(r.Header.Get("WWW-Authenticate"), "Payment ")
	if !ok || challengeParam.ReplaceAllString(list, "") != "" {
		return mpp.Challenge{}, fmt.Errorf("%d is no challenge: %q %s", r.Status, list, r.Body)
	}
	p := map[string]string{}
	for _, m := range challengeParam.FindAllStringSubmatch(list, -1) {
		p[m[1]] = m[2]
	}
	return mpp.Challenge{ID: p["id"], Realm: p["realm"], Method: p["method"], Intent: p["intent"], Request: p["request"],
		Expires: p["expires"], Digest: p["digest"], Opaque: p["opaque"], Description: p["description"]}, nil
}

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
