package paid_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/api"
	"webring/server/mpp"
	"webring/server/paid"
)

// only_if_rank is checked before the 402, and what the refusal says it takes does it.
func TestOnlyIfRankIsCheckedBeforeThe402(t *testing.T) {
	for _, c := range []struct {
		op, body string // with a place for the amount
		enough   string // that the refusal names
		member   string
	}{
		// Of four members, ada and bob have 3.00, cyn 2.00 and dee 1.00.
		{paid.OpBid, `{"member":"dee","amount":"%s","only_if_rank":1}`, "2.01", "to_take_rank_usd"},
		{paid.OpBid, `{"member":"dee","amount":"%s","only_if_rank":2}`, "2.01", "to_take_rank_usd"},
		{paid.OpBid, `{"member":"dee","amount":"%s","only_if_rank":3}`, "1.01", "to_take_rank_usd"},
		{paid.OpBid, `{"member":"dee","amount":"%s","only_if_rank":4}`, "", ""},
		{paid.OpBid, `{"member":"dee","amount":"%s","only_if_rank":999999999}`, "", ""},
		{paid.OpBid, `{"member":"dee","amount":"%s","only_if_rank":null}`, "", ""},
		{paid.OpBid, `{"member":"bob","amount":"%s","only_if_rank":1}`, "", ""},
		{paid.OpRegister, `{"name":"Eve","url":"https://eve.dev","kind":"agent","bid":"%s","only_if_rank":1}`, "2.01", "join_at_rank_bid_usd"},
		{paid.OpRegister, `{"name":"Eve","url":"https://eve.dev","kind":"agent","bid":"%s","only_if_rank":3}`, "1.01", "join_at_rank_bid_usd"},
		{paid.OpRegister, `{"name":"Eve","url":"https://eve.dev","kind":"agent","bid":"%s","only_if_rank":4}`, "", ""},
	} {
		in(t, c.body, func(t *testing.T) {
			r := newRing(t)
			r.join(ada, "alice")
			r.join(bob, "bob")
			r.join(cyn, "cyn")
			r.join(`{"name":"Dee","url":"https://dee.dev","kind":"agent"}`, "dee")
			r.credit("ada", 200)
			r.credit("bob", 200)
			r.credit("cyn", 100)
			if c.enough == "" {
				r.post(c.op, fmt.Sprintf(c.body, "1.00")).is(402, api.PaymentRequired)
				return
			}
			refused := r.post(c.op, fmt.Sprintf(c.body, "1.00")).is(409, api.RankTaken)
			if refused.member(c.member) != c.enough || !strings.Contains(string(refused.Body), "Nothing was charged") {
				t.Fatalf("%s\nwant %s %s", refused.Body, c.member, c.enough)
			}
			cents, err := paid.ParseUSD(c.enough)
			r.must(err)
			r.post(c.op, fmt.Sprintf(c.body, paid.FormatUSD(cents-1))).is(409, api.RankTaken)
			body := fmt.Sprintf(c.body, c.enough)
			ch := r.challenge(c.op, body)
			if c.op == paid.OpRegister {
				cents += 100
			}
			status := map[string]int{paid.OpBid: 200, paid.OpRegister: 201}[c.op]
			a := r.post(c.op, body, r.sign(ch, "zoe", cents)).is(status, "")
			var wanted float64
			if _, err := fmt.Sscanf(body[strings.Index(body, "only_if_rank"):], `only_if_rank":%g`, &wanted); err != nil {
				t.Fatal(err)
			}
			if rank, _ := a.member("leaderboard_rank").(float64); rank == 0 || rank > wanted {
				t.Errorf("rank %v, want %v or better", rank, wanted)
			}
		})
	}
}

// A rank that is taken between the 402 and the reservation, even while the payment is
// simulated, costs nothing: nothing is sent.
func TestOnlyIfRankIsCheckedAgainAtTheReservation(t *testing.T) {
	for op, body := range map[string]string{
		paid.OpBid:      `{"member":"bob","amount":"1.50","only_if_rank":1}`,
		paid.OpRegister: `{"name":"Cyn","url":"https://cyn.dev","kind":"mcp","bid":"1.00","only_if_rank":1}`,
	} {
		for _, simulating := range []bool{false, true} {
			in(t, fmt.Sprintf("%s, simulating %v", op, simulating), func(t *testing.T) {
				r := newRing(t)
				r.join(ada, "alice")
				r.join(bob, "bob")
				credential := r.sign(r.challenge(op, body), "zoe", map[string]int64{paid.OpBid: 150, paid.OpRegister: 200}[op])
				sent := r.network.questions("broadcast")
				if simulating {
					r.network.simulate = func(context.Context, mpp.Payment) error { r.credit("ada", 500); return nil }
				} else {
					r.credit("ada", 500)
				}
				a := r.post(op, body, credential).is(409, api.RankTaken)
				if name := map[string]string{paid.OpBid: "to_take_rank_usd", paid.OpRegister: "join_at_rank_bid_usd"}[op]; a.member(name) != "5.01" {
					t.Errorf("%s\nwant %s 5.01", a.Body, name)
				}
				if r.network.charged("zoe") != 0 || r.network.questions("broadcast") != sent || len(r.open()) != 0 {
					t.Errorf("zoe paid %d, %d were sent, %d are open", r.network.charged("zoe"), r.network.questions("broadcast")-sent, len(r.open()))
				}
			})
		}
	}
}

// What has been paid already is not left without its effect for a rank.
func TestOnlyIfRankIsNotAskedOfMoneyThatCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		r.join(ada, "alice")
		body := `{"member":"ada","amount":"1.50","only_if_rank":1}`
		_, credential := r.lose(paid.OpBid, body, 150)
		r.join(cyn, "cyn")
		r.credit("cyn", 500)
		time.Sleep(time.Second)
		r.post(paid.OpBid, body, credential).is(200, "")
		if r.total("ada") != 250 {
			t.Errorf("ada has %d", r.total("ada"))
		}
	})
}
