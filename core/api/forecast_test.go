package api_test

import (
	"testing"
	"time"

	"webring/core"
	"webring/core/coretest"
)

// What a member and the leaderboard foresee is what comes, to the second and the cent.
func TestWhatIsForeseenComes(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("fee", "https://fee.example/")
	r.Join("bid", "https://bid.example/", func(e *core.Joined, _ *core.Texts) { e.Bid = 900 })
	r.Join("late", "https://late.example/", func(e *core.Joined, _ *core.Texts) { e.Bid = 400 })
	r.Advance(r.Clock() + 100*86400)
	fore := at(t, object(t, get(t, r, "/api/leaderboard")), "forecast").([]any)
	of := map[string][]any{}
	for _, slug := range []string{"fee", "bid", "late"} {
		of[slug] = at(t, object(t, get(t, r, "/api/ring/"+slug)), "member", "forecast").([]any)
	}
	names := map[any]bool{}
	for i, days := range []float64{0, 7, 30} {
		if i > 0 {
			then, err := time.Parse(time.RFC3339, at(t, fore[i], "at").(string))
			if ahead := then.Unix() - r.Clock(); err != nil || i == 1 && (ahead > 7*86400 || ahead <= 6*86400) {
				t.Fatalf("%v days ahead is %s: %v", days, then, err)
			}
			r.Advance(then.Unix())
		}
		board := object(t, get(t, r, "/api/leaderboard"))
		first := at(t, board, "leaderboard").([]any)[0]
		names[at(t, first, "slug")] = true
		if f := fore[i]; at(t, f, "days") != days || at(t, f, "first") != at(t, first, "slug") || at(t, f, "first_usd") != at(t, first, "effective_bid_usd") ||
			at(t, f, "join_at_first_bid_usd") != at(t, board, "rules", "join_at_first_bid_usd") {
			t.Errorf("foreseen %v, now %v", f, first)
		}
		for _, row := range at(t, board, "leaderboard").([]any) {
			f := of[at(t, row, "slug").(string)][i]
			if at(t, f, "days") != days || at(t, f, "effective_bid_usd") != at(t, row, "effective_bid_usd") || at(t, f, "to_take_first_usd") != at(t, row, "to_take_first_usd") {
				t.Errorf("foreseen %v, now %v", f, row)
			}
		}
	}
	if len(names) < 2 {
		t.Errorf("only %v led", names)
	}
}

// Instants beyond what RFC 3339 writes are null, and a ring without members has a forecast.
func TestForecastsAtTheEdges(t *testing.T) {
	r := coretest.NewRing(t)
	empty := at(t, object(t, get(t, r, "/api/leaderboard")), "forecast").([]any)
	for _, f := range empty {
		if at(t, f, "first") != nil || at(t, f, "first_usd") != "0.00" || at(t, f, "join_at_first_bid_usd") != "0.00" {
			t.Errorf("in an empty ring: %v", f)
		}
	}
	r.Stamp = core.MaxStamp - 86_400_000
	r.Join("last", "https://last.example/", func(e *core.Joined, _ *core.Texts) { e.Bid = 900 })
	m := at(t, object(t, get(t, r, "/api/ring/last")), "member").(map[string]any)
	if m["full_until"] != nil || m["gone_at"] != nil || m["to_pass"] != nil {
		t.Errorf("at the end of time: %v %v %v", m["full_until"], m["gone_at"], m["to_pass"])
	}
	for i, f := range m["forecast"].([]any) {
		if _, there := f.(map[string]any)["at"]; there || i == 0 && at(t, f, "effective_bid_usd") != "10.00" {
			t.Errorf("at the end of time: %v", f)
		}
	}
}
