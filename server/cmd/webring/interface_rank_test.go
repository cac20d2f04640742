package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"webring/core"
	"webring/server/paid/form"
)

// usd reads an amount of a document as cents.
func usd(t *testing.T, v any) int64 {
	t.Helper()
	text, _ := v.(string)
	cents, err := form.ParseUSD(text)
	if err != nil {
		t.Fatalf("%v is no amount", v)
	}
	return cents
}

// TestInterfaceLeaderboard holds Leaderboard, its rules, and "Money and rank".
func TestInterfaceLeaderboard(t *testing.T) {
	t.Parallel()
	o := founded(t, reference, freely...)
	doc := o.read("/api/leaderboard")
	names(t, doc, "total count limit offset links rules forecast leaderboard")
	rows := doc["leaderboard"].([]any)

	t.Run("rules is an object of strings", func(t *testing.T) {
		rules := at(t, doc, "rules").(map[string]any)
		names(t, rules, "minimum_bid_usd registration_fee_usd ranking join_at_first_bid_usd bid grace_period decay_span")
		for name, want := range map[string]string{"minimum_bid_usd": "1.00", "registration_fee_usd": "1.00", "grace_period": "P30D", "decay_span": "P90D",
			"join_at_first_bid_usd": "5.01"} { // fee 1.00 + 5.01 is above 6.00
			if rules[name] != want {
				t.Errorf("%s = %v, want %s", name, rules[name], want)
			}
		}
		for name, v := range rules {
			if s, ok := v.(string); !ok || s == "" {
				t.Errorf("%s = %v", name, v)
			}
		}
	})
	t.Run("standing, descending, then the earlier join", func(t *testing.T) {
		want := []string{"beta", "zeta", "gamma", "alpha", "delta", "epsilon"}
		if got := slugs(t, rows); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
	t.Run("rows: Member fields, rank, to_take_first_usd, both totals", func(t *testing.T) {
		for i, row := range rows {
			more := ""
			if at(t, row, "slug") == "alpha" {
				more = " description"
			}
			names(t, row, timedMemberNames+" rank to_take_first_usd full_until gone_at to_pass"+more)
			if at(t, row, "rank") != float64(i+1) {
				t.Errorf("row %d has rank %v", i, at(t, row, "rank"))
			}
		}
	})
	t.Run("paid_total_usd is the fee and every bid, bid_total_usd the bids", func(t *testing.T) {
		for i, want := range []string{"6.00 5.00", "6.00 5.00", "6.00 5.00", "1.00 0.00", "1.00 0.00", "3.00 2.00"} {
			if got := fmt.Sprint(at(t, rows[i], "paid_total_usd"), " ", at(t, rows[i], "bid_total_usd")); got != want {
				t.Errorf("row %d: %s, want %s", i, got, want)
			}
		}
	})
	t.Run("within grace the full total; after the decay span 0.00; without bids for ever the fee", func(t *testing.T) {
		for i, want := range map[int]string{0: "6.00", 1: "6.00", 3: "1.00", 4: "1.00", 5: "0.00"} {
			if got := at(t, rows[i], "effective_bid_usd"); got != want {
				t.Errorf("row %d stands at %v, want %s", i, got, want)
			}
		}
	})
	t.Run("between, floor(total × (decay − elapsed) / decay)", func(t *testing.T) {
		// Half a step is some hours here, so a few seconds of test do not matter.
		last, err := time.Parse(time.RFC3339, at(t, rows[2], "last_bid_at").(string))
		if err != nil {
			t.Fatal(err)
		}
		elapsed := time.Now().Unix() - last.Unix() - int64(30*day/time.Second)
		decay := int64(90 * day / time.Second)
		if got, want := usd(t, at(t, rows[2], "effective_bid_usd")), 600*(decay-elapsed)/decay; got != want {
			t.Errorf("%d cents, want %d", got, want)
		}
	})
	t.Run("to_take_first_usd: null for the leader, else the least payment that leads", func(t *testing.T) {
		for i, want := range []any{nil,
			"1.00", // zeta: one cent would do, but the minimum is more
			"1.00", // gamma: a bid restores 6.00
			"5.00", // alpha joined before the leader: level is enough
			"5.01", // delta joined after: it has to be above
			"3.01", // epsilon: the bid restores 3.00
		} {
			if got := at(t, rows[i], "to_take_first_usd"); got != want {
				t.Errorf("%v: %v, want %v", at(t, rows[i], "slug"), got, want)
			}
		}
	})
	t.Run("last_bid_at is null without bids", func(t *testing.T) {
		for i, row := range rows {
			if got := at(t, row, "last_bid_at"); (got == nil) != (i == 3 || i == 4) {
				t.Errorf("row %d: %v", i, got)
			}
		}
	})
	t.Run("every member has a rank, and the detail agrees with its row", func(t *testing.T) {
		o := o.in(t)
		for _, row := range rows {
			m := at(t, o.read("/api/ring/"+at(t, row, "slug").(string)), "member")
			if at(t, m, "leaderboard_rank") != at(t, row, "rank") || at(t, m, "effective_bid_usd") != at(t, row, "effective_bid_usd") {
				t.Errorf("%v beside %v", m, row)
			}
		}
	})
	t.Run("a page of the middle keeps ranks and quotes", func(t *testing.T) {
		page := o.in(t).read("/api/leaderboard?limit=2&offset=3")["leaderboard"].([]any)
		if at(t, page[0], "rank") != 4.0 || at(t, page[1], "to_take_first_usd") != "5.01" {
			t.Errorf("%v", page)
		}
	})
	t.Run("rank 1 holds the homepage spot", func(t *testing.T) {
		o := o.in(t)
		r := o.get("/")
		page := string(r.Body)
		first, second := strings.Index(page, "https://www.beta.dev/app/"), strings.Index(page, "http://zeta.dev/?page=1")
		if r.Status != 200 || first < 0 || second < first {
			t.Errorf("status %d; rank 1 stands at %d, rank 2 at %d", r.Status, first, second)
		}
		o.fields(r, "Content-Type", "text/html; charset=utf-8")
	})
}

// TestInterfaceRankFromPublishedNumbers holds that anyone can check the order
// from what is shown, on a ring where all standings decay.
func TestInterfaceRankFromPublishedNumbers(t *testing.T) {
	t.Parallel()
	o := founded(t, func(f *founding) {
		members := manyMembers(200)
		for i := range members {
			f.ago(time.Duration(130*200-130*i) * time.Hour / 10)
			members[i].bid = int64(100 + (i*37)%90)
			f.join(members[i])
		}
	}, freely...)
	rows := o.read("/api/leaderboard?limit=200")["leaderboard"].([]any)
	for i := 1; i < len(rows); i++ {
		a, b := rows[i-1], rows[i]
		order := cmp.Or(cmp.Compare(usd(t, at(t, b, "effective_bid_usd")), usd(t, at(t, a, "effective_bid_usd"))),
			cmp.Compare(at(t, a, "ring_position").(float64), at(t, b, "ring_position").(float64)))
		if order >= 0 {
			t.Errorf("rank %d: %v\nrank %d: %v", i, a, i+1, b)
		}
	}
}

// TestInterfaceRulesAreConfiguration holds that fee, minimum and windows are
// flags, recorded in the ledger when they change and only then, and reported.
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
	events("3") // the founding rules, the member, and the flags
	o.stop()
	o.launch()
	events("3")
	o.stop()
	o.args = append(o.args, "--grace", "48h")
	o.launch()
	check("2.50 0.50 P2D P30D")
	events("4")
}

// TestInterfaceOnlyIfRank holds only_if_rank: a 402 promises no rank, and whoever
// names one pays for that, or not at all.
func TestInterfaceOnlyIfRank(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	o := founded(t, reference, append(freely, "--tempo-rpc", c.RPC)...)
	const bid = `{"member":"alpha","amount":"%s","only_if_rank":1}`
	if doc := o.refused(o.post("/api/bid", fmt.Sprintf(bid, "4.99")), 409, "rank_taken"); doc["to_take_rank_usd"] != "5.00" {
		t.Errorf("%v", doc)
	}
	enough := fmt.Sprintf(bid, "5.00")
	credential := o.sign(wallet(t), "/api/bid", enough)
	// Between the 402 and its payment, a newcomer takes the rank.
	join := registration(t, map[string]any{"bid": "5.01", "only_if_rank": 1})
	paidDocument(t, o.pay(wallet(t), "/api/register", join))
	received := o.received()
	if doc := o.refused(o.post("/api/bid", enough, "Authorization", credential), 409, "rank_taken"); doc["to_take_rank_usd"] != "5.01" {
		t.Errorf("%v", doc)
	}
	if got := o.received() - received; got != 0 {
		t.Errorf("%d cents were charged", got)
	}
	if doc := o.refused(o.post("/api/register", registration(t, map[string]any{"url": "https://late.dev/", "only_if_rank": 1})), 409, "rank_taken"); doc["join_at_rank_bid_usd"] != "5.02" {
		t.Errorf("%v", doc)
	}
	if doc := paidDocument(t, o.pay(wallet(t), "/api/bid", fmt.Sprintf(bid, "5.01"))); doc["leaderboard_rank"] != 1.0 {
		t.Errorf("%v", doc)
	}
}

// TestTwoBidsForTheFirstRankAtOnce: of two bids with only_if_rank that are brought at the same
// time, one is paid and leads. The other is refused and costs nothing; a bid without
// only_if_rank goes through beside them.
func TestTwoBidsForTheFirstRankAtOnce(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	o := founded(t, reference, append(freely, "--tempo-rpc", c.RPC)...)
	bodies := []string{
		`{"member":"alpha","amount":"20.00","only_if_rank":1}`,
		`{"member":"gamma","amount":"20.00","only_if_rank":1}`,
		`{"member":"delta","amount":"1.00"}`,
	}
	var credentials []string
	for _, body := range bodies {
		credentials = append(credentials, o.sign(wallet(t), "/api/bid", body))
	}
	received := o.received()
	replies := make([]reply, len(bodies))
	var all sync.WaitGroup
	for i, body := range bodies {
		all.Go(func() { replies[i] = o.post("/api/bid", body, "Authorization", credentials[i]) })
	}
	all.Wait()
	made := int64(0)
	for _, r := range replies[:2] {
		switch r.Status {
		case 200:
			made++
			if doc := r.document(t); doc["leaderboard_rank"] != 1.0 {
				t.Errorf("%v", doc)
			}
		default:
			o.refused(r, 409, "rank_taken")
		}
	}
	if replies[2].Status != 200 {
		t.Errorf("the one beside them: %d %s", replies[2].Status, replies[2].Body)
	}
	if got := o.received() - received; made != 1 || got != 2100 {
		t.Errorf("%d were made, %d cents were charged", made, got)
	}
}
