package paid_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/paid/form"
	"webring/server/pay/mpp"
	"webring/server/sites/score"
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
		inAdasRing(t, c.body, func(t *testing.T, r *ring) {
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
			cents, err := form.ParseUSD(c.enough)
			r.must(err)
			r.post(c.op, fmt.Sprintf(c.body, form.FormatUSD(cents-1))).is(409, api.RankTaken)
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
			inAdasRing(t, fmt.Sprintf("%s, simulating %v", op, simulating), func(t *testing.T, r *ring) {
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
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		body := `{"member":"ada","amount":"1.50","only_if_rank":1}`
		_, credential := r.lose(paid.OpBid, body, 150)
		r.join(cyn, "cyn").shows("to_take_first_usd", "1.00")
		r.credit("cyn", 500)
		time.Sleep(time.Second)
		r.post(paid.OpBid, body, credential).is(200, "").shows("to_take_first_usd", "3.50")
		r.has(amounts{"ada": 250})
	})
}

// Payments that are open count: whichever of them settle, and in whatever order, a payment
// with only_if_rank gives its rank, or is not made. One without it is held up for nothing.
func TestOnlyIfRankCountsPaymentsThatAreOpen(t *testing.T) {
	const join = `{"name":"Eve","url":"https://eve.dev","kind":"agent","bid":"%s"}`
	bid := func(member, amount string, rank int) step {
		return step{paid.OpBid, fmt.Sprintf(`{"member":"%s","amount":"%s","only_if_rank":%d}`, member, amount, rank)}
	}
	plain := func(member, amount string) step {
		return step{paid.OpBid, fmt.Sprintf(`{"member":"%s","amount":"%s"}`, member, amount)}
	}
	// ada, bob, cyn and dee have 1.00 each, in the order of their joins.
	for _, c := range []struct {
		name   string
		open   []step // that are open, the earliest first
		last   step   // that is brought then
		enough string // that it is told; "" if it is to come again, "paid" if it is paid
	}{
		{"two that want the first rank", []step{bid("bob", "2.00", 1)}, bid("cyn", "2.00", 1), "2.01"},
		{"an earlier member with as much", []step{bid("bob", "2.00", 1)}, bid("ada", "1.99", 1), "2.00"},
		{"two with more and more", []step{bid("bob", "2.00", 1)}, bid("cyn", "3.00", 1), ""},
		{"two that want two ranks", []step{bid("bob", "2.00", 2)}, bid("cyn", "3.00", 2), "paid"},
		{"three that want two ranks", []step{bid("bob", "2.00", 2), bid("cyn", "3.00", 2)}, bid("dee", "4.00", 2), ""},
		{"a rank that is lower", []step{bid("bob", "2.00", 1)}, bid("cyn", "1.00", 2), "paid"},
		{"one without", []step{plain("bob", "2.00")}, bid("cyn", "2.00", 1), "2.01"},
		{"more than one without", []step{plain("bob", "2.00")}, bid("cyn", "2.01", 1), "paid"},
		{"others for the same member may fail", []step{plain("cyn", "1.00"), plain("bob", "1.50")}, bid("cyn", "1.00", 1), "1.51"},
		{"others for one other member", []step{plain("bob", "1.00"), plain("bob", "1.00")}, bid("cyn", "2.00", 1), "2.01"},
		{"one that joins", []step{{paid.OpRegister, fmt.Sprintf(join, "2.00")}}, bid("cyn", "1.99", 1), "2.00"},
		{"one that wants to join there", []step{bid("bob", "2.00", 1)}, step{paid.OpRegister, strings.Replace(fmt.Sprintf(join, "2.00"), "}", `,"only_if_rank":1}`, 1)}, "2.01"},
		{"a promise to one that joins", []step{{paid.OpRegister, strings.Replace(fmt.Sprintf(join, "2.00"), "}", `,"only_if_rank":1}`, 1)}}, bid("ada", "2.50", 1), ""},
		{"the same member", []step{bid("bob", "2.00", 1)}, bid("bob", "1.00", 1), "paid"},
		{"a bid that promises nothing", []step{bid("bob", "2.00", 1)}, plain("cyn", "3.00"), "paid"},
		{"together they pass", []step{bid("bob", "2.00", 1), plain("cyn", "1.00")}, bid("cyn", "2.10", 1), ""},
	} {
		inRing(t, c.name, func(t *testing.T, r *ring) {
			for _, body := range []string{ada, bob, cyn, `{"name":"Dee","url":"https://dee.dev","kind":"agent"}`} {
				r.join(body, "first of "+body)
			}
			var open []*held
			for i, s := range append(c.open, c.last) {
				payer := fmt.Sprint("payer-", i)
				r.network.change(func() { r.network.fates[payer] = fate{after: 3 * time.Second} })
				a := r.post(s.op, s.body)
				if i == len(c.open) && c.enough != "paid" {
					a.is(409, api.RankTaken)
					name := map[string]string{paid.OpBid: "to_take_rank_usd", paid.OpRegister: "join_at_rank_bid_usd"}[s.op]
					if got, _ := a.member(name).(string); got != c.enough || !strings.Contains(string(a.Body), "Nothing was charged") {
						t.Errorf("%s", a.Body)
					}
					continue
				}
				ch := a.is(402, api.PaymentRequired).challenges()[0]
				amount, err := form.ParseUSD(a.member("amount_usd").(string))
				r.must(err)
				open = append(open, r.begin(paid.Call{Operation: s.op, Body: []byte(s.body), Authorization: []string{r.sign(ch, payer, amount)}}))
				synctest.Wait()
			}
			if n := len(r.open()); n != len(open) {
				t.Fatalf("%d are open", n)
			}
			for _, h := range open {
				h.wait().is2(200, 201)
			}
		})
	}
}

// step is one paid request.
type step struct{ op, body string }

// Of two payments for the first rank that are brought at once, after both got their 402, one
// is made, and gives it. The other costs nothing.
func TestTwoPaymentsForTheFirstRankAtOnce(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.join(bob, "bob")
		var calls []paid.Call
		var all []*held
		payers := []string{"zoe", "yan"}
		for i, member := range []string{"ada", "bob"} {
			body := fmt.Sprintf(`{"member":"%s","amount":"5.00","only_if_rank":1}`, member)
			r.network.fates[payers[i]] = fate{after: 2 * time.Second}
			calls = append(calls, paid.Call{Operation: paid.OpBid, Body: []byte(body),
				Authorization: []string{r.sign(r.challenge(paid.OpBid, body), payers[i], 500)}})
		}
		for _, c := range calls {
			all = append(all, r.begin(c))
		}
		made := 0
		for i, h := range all {
			switch a := h.wait(); a.Status {
			case 200:
				made++
				if a.member("leaderboard_rank") != 1.0 || r.network.charged(payers[i]) != 500 {
					t.Errorf("%s paid %d: %s", payers[i], r.network.charged(payers[i]), a.Body)
				}
			default:
				if a.is(409, api.RankTaken); r.network.charged(payers[i]) != 0 {
					t.Errorf("%s paid %d", payers[i], r.network.charged(payers[i]))
				}
			}
		}
		same(t, made, 1)
	})
}

// Money for a member that has left takes no rank from others. Once it returns, which waits for
// nothing, it passes those that have less.
func TestThoseThatLeftTakeNoRank(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		const dear, body = `{"member":"ada","amount":"9.00"}`, `{"member":"bob","amount":"2.00","only_if_rank":1}`
		for _, payer := range []string{carol, bobby} {
			o.network.fates[payer] = fate{after: 8 * time.Second}
		}
		first := o.begin(paid.Call{Operation: paid.OpBid, Body: []byte(dear), Authorization: []string{o.sign(o.challenge(paid.OpBid, dear), carol, 900)}})
		time.Sleep(time.Second)
		o.post(paid.OpBid, body).is(409, api.RankTaken)
		o.deed(paid.OpLeave, "ada", "", alice).is(200, "")
		second := o.begin(paid.Call{Operation: paid.OpBid, Body: []byte(body), Authorization: []string{o.sign(o.challenge(paid.OpBid, body), bobby, 200)}})
		first.wait().is(200, "").shows("leaderboard_rank", nil)
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		same(t, len(o.open()), 1)
		second.wait().is(200, "").shows("leaderboard_rank", 2.0)
		o.has(amounts{"ada": 1000, "bob": 300})
	})
}

// FuzzPromiseIsKept holds the whole to its first rule: whatever body gets a 402
// gets its 201 when it is paid for. Nothing that the challenge lets pass may be
// refused by the event, the texts or the fold, when the money is gone.
func FuzzPromiseIsKept(f *testing.F) {
	f.Add("Ada", "https://ada.dev", "general", "", "1")
	f.Add("\u00e4\u0323\U0001f600", "https://xn--bcher-kva.de/a%2fb/../c?q=%C3%A4#x", "0-", "\\ \" \u2028", "1000000.00")
	f.Add("random", "http://www.next.dev:80/index.html", "z9-", "<script>", "1.5")
	f.Add("...", "https://B\u00fccher.de/\u00e4?", "a", "\u200b", "0001.00")
	f.Fuzz(func(t *testing.T, name, url, category, description, bid string) {
		body, err := json.Marshal(map[string]string{"name": name, "url": url, "kind": "agent", "category": category, "description": description, "bid": bid})
		if err != nil {
			t.Fatal(err)
		}
		inRing(t, "", func(t *testing.T, r *ring) {
			a := r.post(paid.OpRegister, string(body))
			if a.Status != 402 {
				return
			}
			cents, err := form.ParseUSD(bid)
			r.must(err)
			cents += 100
			r.post(paid.OpRegister, string(body), r.sign(a.challenges()[0], "alice", cents)).is(201, "")
			same(t, r.network.charged("alice"), cents)
		})
	})
}

// The largest challenge, with everything in it as long as it may be, stays below
// the size that clients are prepared for, and can be paid.
func TestLargestChallengeStaysBelowItsLimit(t *testing.T) {
	const limit = 8 << 10 // bytes; what the draft says of a challenge
	long := strings.Join([]string{strings.Repeat("r", 63), strings.Repeat("e", 63), strings.Repeat("a", 63), strings.Repeat("l", 61)}, ".")
	for name, words := range map[string]string{"plain": strings.Repeat("w", 128), "escaped": strings.Repeat("\x01", 128), "quoted": strings.Repeat(`"`, 128)} {
		inRing(t, name, func(t *testing.T, r *ring) {
			r.rules(func(e *core.Rules) { e.Fee = core.MaxAmount })
			url := "https://ada.dev/" + strings.Repeat("p", core.MaxURL-len("https://ada.dev/"))
			report := "https://score.example/" + strings.Repeat("r", core.MaxReport-len("https://score.example/"))
			r.scorer.results[url] = score.Result{Score: 100, Provider: words, Version: words, Report: report,
				ScannedAt: time.Date(2026, 12, 31, 23, 59, 59, 123456789, time.UTC)}
			body := fmt.Sprintf(`{"name":%q,"url":%q,"kind":"website","category":%q,"description":%q,"bid":"1000000.00"}`,
				strings.Repeat("n", core.MaxName), url, strings.Repeat("c", 32), strings.Repeat("d", core.MaxDescription))
			a := r.post(paid.OpRegister, body).is(402, api.PaymentRequired)
			header := a.field("WWW-Authenticate")
			pinned := map[string]string{}
			r.must(mpp.DecodeJSON(a.challenges()[0].Opaque, &pinned))
			if pinned["report"] != report || pinned["url"] != url || pinned["provider"] != words || pinned["version"] != words {
				t.Errorf("not everything is pinned: %v", pinned)
			}
			if len(header) >= limit {
				t.Errorf("a challenge of %d bytes, want less than %d", len(header), limit)
			}
			r.post(paid.OpRegister, body, r.pay(tempoWallet(1), a.challenges()[0])).is(201, "")
		}, onTempo, func(r *ring) { r.config = func(c *paid.Config) { c.Realm = long } })
	}
}

// A registration that is open may be opening a category, so it counts as one:
// what was promised never goes beyond what the fold can take.
func TestOpenRegistrationsCountAsCategories(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		one := `{"name":"One","url":"https://one.dev","kind":"agent","category":"one"}`
		other := `{"name":"Other","url":"https://other.dev","kind":"agent","category":"other"}`
		first, second := r.challenge(paid.OpRegister, one), r.challenge(paid.OpRegister, other)
		r.fillCategories(3 * core.MaxCategories)
		r.must(r.books.Do(context.Background(), func(tx *ledger.Tx) error {
			for i := range core.MaxCategories - 2 {
				id := fmt.Sprint("open-", i)
				if err := tx.Reserve(&ledger.Reservation{ID: id, State: ledger.Reserved, Operation: ledger.OperationRegister,
					URLKey: id + ".dev", Cents: 100, Payer: id, ReplayKeys: []string{id}}); err != nil {
					return err
				}
			}
			return nil
		}))
		r.post(paid.OpRegister, one, r.sign(first, "alice", 100)).is(201, "")
		r.post(paid.OpRegister, other, r.sign(second, "bob", 100)).is(422, api.CategoryUnavailable)
		r.has(amounts{"bob paid": 0})
		r.tries(site("https://plain.dev", "general"), "bob").is(201, "") // is always open
	}, func(r *ring) { r.capacity = 10_000 })
}
