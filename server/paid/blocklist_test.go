package paid_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/paid/risk"
)

// block puts an entry on the blocklist.
func (r *ring) block(kind ledger.BlockKind, text string) {
	r.t.Helper()
	b, err := risk.NewBlock(kind, text)
	r.must(err)
	r.must(r.books.Do(context.Background(), func(tx *ledger.Tx) error { return tx.Block(&b) }))
}

// hide takes a member out of the ring.
func (r *ring) hide(slug string) error {
	return r.books.Do(context.Background(), func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Hidden{Stamp: tx.Stamp(), Member: slug, Reason: "test"}, nil)
		return err
	})
}

func TestBlocksAsTheyAreCompared(t *testing.T) {
	const account = "0x00000000000000000000000000000000000000Ab"
	for _, c := range []struct {
		kind ledger.BlockKind
		text string
		want string // "" for an error
	}{
		{ledger.BlockHost, "Bad.dev", "bad.dev"}, {ledger.BlockHost, " www.bad.dev. ", "bad.dev"}, {ledger.BlockHost, "bücher.de", "xn--bcher-kva.de"},
		{ledger.BlockHost, "www.com", "www.com"}, {ledger.BlockHost, "zip", "zip"},
		{ledger.BlockHost, "https://bad.dev", ""}, {ledger.BlockHost, "bad.dev/page", ""}, {ledger.BlockHost, "bad.dev:80", ""}, {ledger.BlockHost, "", ""},
		{ledger.BlockHost, "*.bad.dev", ""}, {ledger.BlockHost, strings.Repeat("a.", 200) + "dev", ""},
		{ledger.BlockPayer, account, strings.ToLower(account)}, {ledger.BlockPayer, "did:pkh:eip155:8453:" + account, strings.ToLower(account)},
		{ledger.BlockPayer, "0xab", ""}, {ledger.BlockPayer, "alice", ""},
		{ledger.BlockWord, "Casino", "casino"}, {ledger.BlockWord, "free  MONEY", "freemoney"}, {ledger.BlockWord, "Lotto", "iotto"}, {ledger.BlockWord, "…!", ""},
		{ledger.BlockWord, strings.Repeat("w ", 64), strings.Repeat("w", 64)}, {ledger.BlockWord, strings.Repeat("w", 65), ""}, {ledger.BlockWord, strings.Repeat("w", ledger.MaxBlockText+1), ""},
		{"name", "x", ""},
	} {
		b, err := risk.NewBlock(c.kind, c.text)
		if (err == nil) != (c.want != "") || err == nil && (b.Value != c.want || b.Kind != c.kind || b.Text != strings.TrimSpace(c.text)) {
			t.Errorf("%s %q: %+v, %v", c.kind, c.text, b, err)
		}
	}
}

// Whoever is kept out learns it before a challenge and before anybody scores the site,
// and everybody else gets a challenge.
func TestBlocklistIsAskedBeforeTheScore(t *testing.T) {
	register := func(name, url, description string) string {
		return `{"name":"` + name + `","url":"` + url + `","kind":"agent","description":"` + description + `"}`
	}
	for _, c := range []struct {
		rule      string
		kind      ledger.BlockKind
		text      string
		op, body  string
		forbidden bool
	}{
		{"the host", ledger.BlockHost, "bad.dev", paid.OpRegister, register("X", "https://bad.dev", ""), true},
		{"a page of it", ledger.BlockHost, "bad.dev", paid.OpRegister, register("X", "http://BAD.dev/page?q=1", ""), true},
		{"a name below it", ledger.BlockHost, "bad.dev", paid.OpRegister, register("X", "https://a.b.bad.dev", ""), true},
		{"www.", ledger.BlockHost, "bad.dev", paid.OpRegister, register("X", "https://www.bad.dev/", ""), true},
		{"a top-level name", ledger.BlockHost, "dev", paid.OpRegister, register("X", "https://good.dev", ""), true},
		{"a name that ends like it", ledger.BlockHost, "bad.dev", paid.OpRegister, register("X", "https://notbad.dev", ""), false},
		{"the name above it", ledger.BlockHost, "a.bad.dev", paid.OpRegister, register("X", "https://bad.dev", ""), false},
		{"the host in another's path", ledger.BlockHost, "bad.dev", paid.OpRegister, register("X", "https://good.dev/bad.dev", ""), false},
		{"a word in the name", ledger.BlockWord, "casino", paid.OpRegister, register("My CASINO!", "https://good.dev", ""), true},
		{"a word in other letters", ledger.BlockWord, "casino", paid.OpRegister, register("\u0421\u0430sin0", "https://good.dev", ""), true},
		{"a word that is set apart", ledger.BlockWord, "casino", paid.OpRegister, register("C a s i n o", "https://good.dev", ""), true},
		{"a word in the description", ledger.BlockWord, "casino", paid.OpRegister, register("X", "https://good.dev", "The best casino."), true},
		{"several words in a row", ledger.BlockWord, "free money", paid.OpRegister, register("X", "https://good.dev", "Get free money now"), true},
		{"several words not in a row", ledger.BlockWord, "free money", paid.OpRegister, register("X", "https://good.dev", "free of money"), false},
		{"as many words as an entry has", ledger.BlockWord, strings.Repeat("x ", 64), paid.OpRegister, register("X", "https://good.dev", "a "+strings.Repeat("x ", 70)), true},
		{"a part of a word", ledger.BlockWord, "casino", paid.OpRegister, register("Casinos", "https://good.dev", ""), false},
		{"a word in the URL", ledger.BlockWord, "casino", paid.OpRegister, register("X", "https://casino.dev/casino", ""), false},
		{"a bid on a member by its slug", ledger.BlockHost, "ada.dev", paid.OpBid, fund, true},
		{"a bid on a member by its URL", ledger.BlockHost, "ada.dev", paid.OpBid, `{"member":"https://ada.dev","amount":"1.50"}`, true},
		{"a bid on a member with the word", ledger.BlockWord, "ada", paid.OpBid, fund, true},
		{"a bid on another member", ledger.BlockHost, "bob.dev", paid.OpBid, fund, false},
	} {
		inAdasRing(t, c.rule, func(t *testing.T, r *ring) {
			r.block(c.kind, c.text)
			asked, size := r.scorer.count(), r.size()
			if !c.forbidden {
				r.post(c.op, c.body).is(402, api.PaymentRequired)
				return
			}
			r.post(c.op, c.body).is(403, api.NotAdmitted)
			if r.scorer.count() != asked || r.size() != size {
				t.Errorf("the scorer was asked %d times, the ledger is %s and was %s", r.scorer.count()-asked, r.size(), size)
			}
			if c.op == paid.OpRegister {
				d := r.service.Check(t.Context(), "client", []byte(c.body))
				if d.Refusal == nil || d.Refusal.Code != api.NotAdmitted || r.scorer.count() != asked {
					t.Errorf("the free check: %+v", d)
				}
			}
			// And it ends when the operator takes the entry away.
			b, err := risk.NewBlock(c.kind, c.text)
			r.must(err)
			r.must(r.books.Do(context.Background(), func(tx *ledger.Tx) error { return tx.Unblock(b.Kind, b.Value) }))
			r.post(c.op, c.body).is(402, api.PaymentRequired)
			if c.op == paid.OpRegister {
				r.service.Check(t.Context(), "client", []byte(c.body))
				same(t, r.scorer.client, "client")
			}
		})
	}
}

// The operator's word comes before the promise of a 402: nothing is charged.
func TestBlockBetweenChallengeAndPayment(t *testing.T) {
	for _, c := range []struct {
		rule, op, body string
		between        func(r *ring)
	}{
		{"the host", paid.OpRegister, bob, func(r *ring) { r.block(ledger.BlockHost, "bob.dev") }},
		{"a word", paid.OpRegister, bob, func(r *ring) { r.block(ledger.BlockWord, "bob") }},
		{"the payer registers", paid.OpRegister, bob, func(r *ring) { r.block(ledger.BlockPayer, address("bob")) }},
		{"the payer bids", paid.OpBid, fund, func(r *ring) { r.block(ledger.BlockPayer, address("bob")) }},
		{"the host of the member", paid.OpBid, fund, func(r *ring) { r.block(ledger.BlockHost, "ada.dev") }},
		{"the member is hidden", paid.OpBid, fund, func(r *ring) { r.must(r.hide("ada")) }},
		{"the member was removed", paid.OpBid, fund, func(r *ring) { r.must(r.remove("ada", false)) }},
	} {
		for step, name := range map[string]string{"": "before it is shown", "simulated": "while it is simulated"} {
			inAdasRing(t, c.rule+" "+name, func(t *testing.T, r *ring) {
				credential := r.sign(r.challenge(c.op, c.body), address("bob"), map[string]int64{paid.OpRegister: 100, paid.OpBid: 150}[c.op])
				if step == "" {
					c.between(r)
				} else {
					r.onStep(func(at string) {
						if at == step {
							c.between(r)
						}
					})
				}
				if c.rule == "the member was removed" {
					r.post(c.op, c.body, credential).is(410, api.MemberRemoved)
				} else {
					r.post(c.op, c.body, credential).is(403, api.NotAdmitted)
				}
				if r.network.charged(address("bob")) != 0 || len(r.open()) != 0 {
					t.Errorf("charged %d, %d open", r.network.charged(address("bob")), len(r.open()))
				}
				if n := r.network.questions("broadcast"); n != 1 { // that of ada's registration
					t.Errorf("%d payments were sent", n)
				}
				if n := r.network.questions("holds", "simulate"); step == "" && n != 2 {
					t.Errorf("the network was asked %d questions", n)
				}
			})
		}
	}
}

// address gives an account for a name that is an address: only those can be blocked.
func address(name string) string { return fmt.Sprintf("0x%040x", name) }

// Money that has come has its effect, whatever the operator decided since.
func TestSettledPaymentsCountAllTheSame(t *testing.T) {
	for _, c := range []struct {
		rule, op, body string
		cents          int64
		meanwhile      func(r *ring)
		status         int
		slug           string
		total          int64
	}{
		{"the host", paid.OpRegister, bob, 100, func(r *ring) { r.block(ledger.BlockHost, "bob.dev") }, 201, "bob", 100},
		{"the host of the member", paid.OpBid, fund, 150, func(r *ring) { r.block(ledger.BlockHost, "ada.dev") }, 200, "ada", 250},
		{"the member is hidden", paid.OpBid, fund, 150, func(r *ring) { r.must(r.hide("ada")) }, 200, "ada", 250},
		{"the member was removed", paid.OpBid, fund, 150, func(r *ring) { r.must(r.remove("ada", false)) }, 200, "ada", 250},
	} {
		inAdasRing(t, c.rule, func(t *testing.T, r *ring) {
			_, credential := r.lose(c.op, c.body, c.cents)
			c.meanwhile(r)
			time.Sleep(time.Hour)
			a := r.post(c.op, c.body, credential).is(c.status, "")
			r.has(amounts{c.slug: c.total})
			if strings.HasPrefix(c.rule, "the member ") && (a.member("leaderboard_rank") != nil || a.member("to_take_first_usd") != nil) {
				t.Errorf("a member that is not in the ring has a rank: %s", a.Body)
			}
		})
	}
}

// A hidden member takes no bids, and keeps its URL: it cannot be registered.
func TestHiddenMembersTakeNoPayments(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.must(r.hide("ada"))
		asked := r.scorer.count()
		for op, bodies := range map[string][]string{
			paid.OpBid:      {fund, `{"member":"https://ada.dev","amount":"1.50"}`, `{"member":"ada","amount":"1.50","only_if_rank":1}`},
			paid.OpRegister: {ada, `{"name":"X","url":"http://www.ada.dev/index.html","kind":"agent"}`},
		} {
			for _, body := range bodies {
				r.post(op, body).is(403, api.NotAdmitted)
			}
		}
		same(t, r.scorer.count(), asked)
		r.must(r.books.Do(context.Background(), func(tx *ledger.Tx) error {
			_, err := tx.Append(&core.Shown{Stamp: tx.Stamp(), Member: "ada", Reason: "test"}, nil)
			return err
		}))
		r.post(paid.OpRegister, ada).is(409, api.AlreadyRegistered)
		r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "bob", 150)).is(200, "")
	})
}
