package api_test

import (
	"fmt"
	"testing"
	"time"

	"webring/core"
	"webring/core/coretest"
)

// A small bid restores an old total: what passes the member above may lead far further.
func TestASmallBidRevivesAnOldTotal(t *testing.T) {
	r := coretest.NewRing(t)
	for i, cents := range []int64{31_100, 100, 500, 300} {
		slug := fmt.Sprint("m", i)
		r.Join(slug, "https://"+slug+".example/", func(e *core.Joined, _ *core.Texts) { e.Bid = cents })
	}
	r.Advance(r.Clock() + 119*86400)
	r.Stamp = r.Clock() * 1000
	r.Bid("m1", 100)
	for _, slug := range []string{"m2", "m3"} {
		r.Bid(slug, 200)
	}
	rows := at(t, object(t, get(t, r, "/api/leaderboard")), "leaderboard").([]any)
	order := ""
	for _, row := range rows {
		order += fmt.Sprint(at(t, row, "slug"), " ", at(t, row, "effective_bid_usd"), ", ")
	}
	if order != "m2 8.00, m3 6.00, m1 3.00, m0 3.12, " && order != "m2 8.00, m3 6.00, m0 3.46, m1 3.00, " {
		t.Fatal(order)
	}
	for _, row := range rows {
		if at(t, row, "slug") != "m0" {
			continue
		}
		pass := at(t, row, "to_pass")
		if at(t, pass, "amount_usd") != "1.00" || at(t, pass, "rank") != at(t, row, "rank").(float64)-1 || at(t, pass, "slug") != "m3" || at(t, pass, "name") != "The m3" || at(t, pass, "takes_rank") != 1.0 {
			t.Errorf("what revives 312.00: %v", pass)
		}
		if at(t, row, "full_until") != "2026-03-02T08:00:01.000Z" || at(t, row, "gone_at") != "2026-05-31T08:00:01.000Z" {
			t.Errorf("full until %v, gone at %v", at(t, row, "full_until"), at(t, row, "gone_at"))
		}
	}
	r.Bid("m0", 100)
	if o, _ := r.BySlug([]byte("m0")); r.Rank(o) != 1 || r.Standing(o) != 31_300 {
		t.Errorf("revived at rank %d with %d cents", r.Rank(o), r.Standing(o))
	}
}

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
