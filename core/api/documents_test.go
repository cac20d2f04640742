package api_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
	"webring/core/snap"
)

// What owners, sites and visits have said of a member stands in its document.
func TestFieldsOfOwnedMembers(t *testing.T) {
	r := sample(t)
	owner := core.AccountOf("0x00000000000000000000000000000000000000AA")
	renamed := &core.Texts{Name: core.Text{Value: "Renamed"}}
	for _, c := range []struct {
		event core.Event
		texts *core.Texts
		want  map[string]any // nil for a field that is not there
	}{
		{&core.Verified{Member: "alpha", Proof: core.ByLink}, nil, map[string]any{"verified": "link", "verified_at": "now", "claimed": false, "health": "awake", "health_since": nil, "changed_at": nil}},
		{&core.Claimed{Member: "alpha", Owner: owner, Proof: core.ByDNS}, nil, map[string]any{"verified": "dns", "verified_at": "now", "claimed": true, "owner": "0x00000000000000000000000000000000000000aa"}},
		{&core.Asleep{Member: "alpha"}, nil, map[string]any{"health": "asleep", "health_since": "now", "verified": "dns"}},
		{&core.Awake{Member: "alpha"}, nil, map[string]any{"health": "awake", "health_since": "now"}},
		{&core.Changed{Member: "alpha"}, renamed, map[string]any{"name": "Renamed", "changed_at": "now", "verified": "dns"}},
		{&core.Unverified{Member: "alpha"}, nil, map[string]any{"verified": nil, "verified_at": nil, "claimed": true, "changed_at": "2026"}},
	} {
		r.Do(c.event, c.texts)
		now := time.UnixMilli(r.State.LastStamp()).UTC().Format("2006-01-02T15:04:05.000Z")
		m := at(t, object(t, get(t, r, "/api/ring/alpha")), "member").(map[string]any)
		for field, want := range c.want {
			if want == "now" {
				want = now
			}
			if got, _ := m[field].(string); m[field] != want && (want != "2026" || !strings.HasPrefix(got, "2026")) {
				t.Errorf("after %T: %s is %v, want %v", c.event, field, m[field], want)
			}
		}
	}
	if got := at(t, object(t, get(t, r, "/api/ring?limit=1")), "members").([]any)[0].(map[string]any); got["health"] != "awake" || got["name"] != "Renamed" || got["owner"] != nil {
		t.Errorf("in a list: %v", got)
	}
	r.Join("unknown", "https://unknown.example/", func(e *core.Joined, _ *core.Texts) { e.Payment.Payer = "somebody" })
	if m := at(t, object(t, get(t, r, "/api/ring/unknown")), "member").(map[string]any); m["owner"] != nil || m["claimed"] != false {
		t.Errorf("of an unknown owner: %v %v", m["owner"], m["claimed"])
	}
}

func TestLinksAreUnderTheBaseURLAndAnswer(t *testing.T) {
	r := coretest.NewRing(t, func(e *core.Rules) { e.BaseURL = `https://x.example/a"b` })
	r.Join("one", "https://one.example/")
	r.Join("two", "https://two.example/")
	base := r.State.Rules().BaseURL
	seen := 0
	var walk func(v any, within string)
	walk = func(v any, within string) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				walk(value, within+"."+key)
			}
		case []any:
			for _, value := range v {
				walk(value, within)
			}
		case string:
			if !strings.Contains(within, "links") || strings.HasSuffix(within, "site") {
				return
			}
			target, ok := strings.CutPrefix(v, base)
			if !ok {
				t.Errorf("%s: %s is not under the base URL", within, v)
				return
			}
			if seen++; target == "/" {
				return // the page of the ring, not Serve's
			}
			if res := get(t, r, target); res.Status != 200 && res.Status != 302 {
				t.Errorf("%s: %s is answered with %d", within, v, res.Status)
			}
		}
	}
	for _, target := range []string{"/api/ring?limit=1", "/api/ring?limit=1&offset=1", "/api/ring/one", "/api/categories", "/api/widget", "/api/widget?from=two", "/api/leaderboard?limit=1"} {
		walk(object(t, get(t, r, target)), target)
	}
	if seen < 30 {
		t.Errorf("only %d links", seen)
	}
}

func TestLeaderboardRulesFollowTheRules(t *testing.T) {
	r := coretest.NewRing(t)
	rules := func() any { return at(t, object(t, get(t, r, "/api/leaderboard")), "rules") }
	for field, want := range map[string]string{"minimum_bid_usd": "1.00", "registration_fee_usd": "1.00", "join_at_first_bid_usd": "0.00", "grace_period": "P30D", "decay_span": "P90D"} {
		if got := at(t, rules(), field); got != want {
			t.Errorf("%s is %v, want %s", field, got, want)
		}
	}
	r.Join("one", "https://one.example/")
	if got := at(t, rules(), "join_at_first_bid_usd"); got != "1.00" {
		t.Errorf("to join over a fee costs %v, want the minimum", got)
	}
	r.Bid("one", 1000)
	if got := at(t, rules(), "join_at_first_bid_usd"); got != "10.01" {
		t.Errorf("to join over 11.00 costs %v on top of the fee", got)
	}
	r.Rules(func(e *core.Rules) { e.Fee, e.MinBid, e.Grace, e.Decay = 250, 5, 90, 86400 })
	for field, want := range map[string]string{"minimum_bid_usd": "0.05", "registration_fee_usd": "2.50", "join_at_first_bid_usd": "8.51", "grace_period": "PT90S", "decay_span": "P1D"} {
		if got := at(t, rules(), field); got != want {
			t.Errorf("%s is %v, want %s", field, got, want)
		}
	}
	for field, value := range rules().(map[string]any) {
		if s, ok := value.(string); !ok || s == "" {
			t.Errorf("%s is %v, not a string", field, value)
		}
	}
}

// Anyone can check the order from the published numbers alone.
func TestTheLeaderboardIsOrderedByWhatItShows(t *testing.T) {
	r := sample(t)
	for range 20 {
		r.Wait(200)
		rows := object(t, get(t, r, "/api/leaderboard"))["leaderboard"].([]any)
		for i, row := range rows {
			if at(t, row, "rank") != float64(i+1) || (at(t, row, "to_take_first_usd") == nil) != (i == 0) {
				t.Fatalf("row %d: %v", i, row)
			}
			detail := at(t, object(t, get(t, r, "/api/ring/"+at(t, row, "slug").(string))), "member")
			for _, field := range []string{"effective_bid_usd", "paid_total_usd"} {
				if at(t, detail, field) != at(t, row, field) {
					t.Fatalf("detail shows %v, the leaderboard %v", detail, row)
				}
			}
			if at(t, detail, "leaderboard_rank") != at(t, row, "rank") {
				t.Fatalf("detail shows %v, the leaderboard %v", detail, row)
			}
			if i == 0 {
				continue
			}
			above, below := usd(t, at(t, rows[i-1], "effective_bid_usd")), usd(t, at(t, row, "effective_bid_usd"))
			if above < below || above == below && at(t, rows[i-1], "ring_position").(float64) > at(t, row, "ring_position").(float64) {
				t.Fatalf("%v above %v", rows[i-1], row)
			}
		}
	}
}

func usd(t *testing.T, v any) int64 {
	t.Helper()
	s := v.(string)
	if !regexp.MustCompile(`^[0-9]+\.[0-9][0-9]$`).MatchString(s) {
		t.Fatalf("%q is no amount", s)
	}
	var n int64
	for _, c := range strings.Replace(s, ".", "", 1) {
		n = 10*n + int64(c-'0')
	}
	return n
}

func TestTheDirectoryFollowsTheRules(t *testing.T) {
	r := coretest.NewRing(t, func(e *core.Rules) {
		e.Networks, e.Fee, e.MinBid, e.RequiredScore, e.Scorer = []core.Network{{Name: "tempo", Method: "tempo", Currency: "usd"}, {Name: "base", Method: "evm", Currency: "usd"}}, 250, 150, 55, "ora"
	})
	d := object(t, get(t, r, "/api"))
	for path, want := range map[string]string{"name": "Example Ring", "openapi": "https://ring.example/openapi.json", "llms": "https://ring.example/llms.txt",
		"payments registration_fee_usd": "2.50", "payments min_bid_usd": "1.50", "validation service": "ora"} {
		if got := at(t, d, strings.Fields(path)...); got != want {
			t.Errorf("%s is %v, want %s", path, got, want)
		}
	}
	if rule := at(t, d, "validation", "rule").(string); !strings.Contains(rule, "at least 55") {
		t.Errorf("rule: %s", rule)
	}
	if networks, _ := json.Marshal(at(t, d, "payments", "networks")); string(networks) != `["tempo","base"]` {
		t.Errorf("networks %s", networks)
	}
	if _, there := d["synthetic"]; there {
		t.Error("a paid ring is called synthetic")
	}
	endpoints := d["endpoints"].(map[string]any)
	if offers, _ := json.Marshal(at(t, d, "payments", "offers")); string(offers) !=
		`[{"currency":"usd","intent":"charge","method":"tempo","network":"tempo"},{"currency":"usd","intent":"charge","method":"evm","network":"base"}]` {
		t.Errorf("offers %s", offers)
	}
	there := []string{"POST /api/register", "POST /api/check", "POST /api/bid", "PATCH /api/ring/{slug}", "DELETE /api/ring/{slug}", "POST /api/ring/{slug}/claim",
		"POST /api/ring/{slug}/visit", "POST /api/ring/{slug}/return", "GET /api/ring/{slug}/hops", "GET /api/hops", "GET /api/ring/{slug}/events", "GET /api/events",
		"GET /widget.js", "GET /openapi.json", "GET /llms.txt", "POST /mcp"}
	for _, path := range api.Paths() {
		there = append(there, "GET "+path)
	}
	for _, endpoint := range there {
		if about, ok := endpoints[endpoint].(string); !ok || about == "" {
			t.Errorf("%s is not described", endpoint)
		}
		delete(endpoints, endpoint)
	}
	if len(endpoints) != 0 {
		t.Errorf("described, and not there: %v", endpoints)
	}

	r.Rules(func(e *core.Rules) { e.Synthetic, e.Networks = true, nil })
	d = object(t, get(t, r, "/api"))
	if d["synthetic"] != true || len(at(t, d, "payments", "networks").([]any)) != 0 || !strings.Contains(at(t, d, "payments", "how").(string), "payments_unconfigured") {
		t.Errorf("synthetic, without networks: %v", d)
	}
}

// The directory says how the operator has the ring look, also after a snapshot.
func TestTheDirectorySaysHowTheRingLooks(t *testing.T) {
	for want, look := range map[string]core.Look{
		"":                     {},
		`{"welcome":"\"Hi\""}`: {Welcome: `"Hi"`},
		`{"welcome":"w","accent":"#111111","accent_dark":"#eeeeee","logo":"0 0 1 1 M0 0z"}`: {Welcome: "w", Accent: "#111111", AccentDark: "#eeeeee", Logo: "0 0 1 1 M0 0z"},
	} {
		r := coretest.NewRing(t, func(e *core.Rules) { e.Look = look })
		restored, err := snap.Open(1, 1, snap.Append(nil, r.State), core.Means{})
		if err != nil {
			t.Fatal(err)
		}
		restored.Advance(r.Clock())
		var res api.Response
		api.Serve(restored, []byte("/api"), 0, &res)
		var doc struct{ Look json.RawMessage }
		if err := json.Unmarshal(res.Body, &doc); err != nil || string(doc.Look) != want {
			t.Errorf("%+v: %s, %v", look, doc.Look, err)
		}
	}
}

// The directory names the pages that the operator has, and no others, also after a
// snapshot.
func TestTheDirectoryNamesTheOperatorsPages(t *testing.T) {
	pages := core.Policies{Terms: `https://operator.example/?a="b"`, Privacy: "https://operator.example/privacy", Report: "mailto:a@operator.example"}
	for _, c := range []struct {
		policies core.Policies
		want     string
	}{
		{core.Policies{}, ""},
		{core.Policies{Terms: pages.Terms}, `{"terms":"https://operator.example/?a=\"b\""}`},
		{core.Policies{Report: pages.Report}, `{"report":"mailto:a@operator.example"}`},
		{pages, `{"terms":"https://operator.example/?a=\"b\"","privacy":"https://operator.example/privacy","report":"mailto:a@operator.example"}`},
	} {
		operator := core.Operator{Name: `"Ada"`, Contact: c.policies.Report, Payee: "Bob"}
		r := coretest.NewRing(t, func(e *core.Rules) { e.Policies, e.Operator = c.policies, operator })
		restored, err := snap.Open(1, 1, snap.Append(nil, r.State), core.Means{})
		if err != nil {
			t.Fatal(err)
		}
		restored.Advance(r.Clock())
		for _, st := range []*core.State{r.State, restored} {
			var res api.Response
			api.Serve(st, []byte("/api"), 0, &res)
			var doc struct {
				Policies json.RawMessage
				Operator core.Operator
			}
			if err := json.Unmarshal(res.Body, &doc); err != nil || string(doc.Policies) != c.want || doc.Operator != operator {
				t.Errorf("%+v: %s %v, %v", c.policies, doc.Policies, doc.Operator, err)
			}
		}
	}
}

// A hidden member is no member to any read.
func TestAHiddenMemberIsInNoDocument(t *testing.T) {
	r := sample(t)
	r.Hide("beta")
	for _, target := range every {
		if res := get(t, r, target); strings.Contains(string(res.Body)+string(res.Location), "beta.example") {
			t.Errorf("%s: %s", target, res.Body)
		}
	}
	want := get(t, r, "/api/ring/nobody")
	if got := get(t, r, "/api/ring/beta"); got.Status != 404 || string(got.Body) != string(want.Body) {
		t.Errorf("%d %s, and of a stranger %d %s", got.Status, got.Body, want.Status, want.Body)
	}
}

// What may be kept for a position does not change as time passes.
func TestWhatDependsOnThePositionIsTheSameLater(t *testing.T) {
	r, later := sample(t), sample(t)
	later.Wait(1 << 30)
	for _, target := range every {
		if res := get(t, r, target); res.Validity == api.Position && string(get(t, later, target).Body) != string(res.Body) {
			t.Errorf("%s changes with time", target)
		}
	}
}
