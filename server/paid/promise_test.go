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
	"webring/server/pay/mpp"
	"webring/server/sites/score"
)

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
		synctest.Test(t, func(t *testing.T) {
			r := newRing(t)
			a := r.post(paid.OpRegister, string(body))
			if a.Status != 402 {
				return
			}
			cents, err := paid.ParseUSD(bid)
			r.must(err)
			cents += 100
			r.post(paid.OpRegister, string(body), r.sign(a.challenges()[0], "alice", cents)).is(201, "")
			if charged := r.network.charged("alice"); charged != cents {
				t.Errorf("%d cents were paid, want %d", charged, cents)
			}
		})
	})
}

// The largest challenge, with everything in it as long as it may be, stays below
// the size that clients are prepared for, and can be paid.
func TestLargestChallengeStaysBelowItsLimit(t *testing.T) {
	const limit = 8 << 10 // bytes; what the draft says of a challenge
	long := strings.Join([]string{strings.Repeat("r", 63), strings.Repeat("e", 63), strings.Repeat("a", 63), strings.Repeat("l", 61)}, ".")
	for name, words := range map[string]string{"plain": strings.Repeat("w", 128), "escaped": strings.Repeat("\x01", 128), "quoted": strings.Repeat(`"`, 128)} {
		in(t, name, func(t *testing.T) {
			r := newRing(t, onTempo, func(r *ring) { r.config = func(c *paid.Config) { c.Realm = long } })
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
		})
	}
}

// A registration that is open may be opening a category, so it counts as one:
// what was promised never goes beyond what the fold can take.
func TestOpenRegistrationsCountAsCategories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, func(r *ring) { r.capacity = 10_000 })
		one := `{"name":"One","url":"https://one.dev","kind":"agent","category":"one"}`
		other := `{"name":"Other","url":"https://other.dev","kind":"agent","category":"other"}`
		first, second := r.challenge(paid.OpRegister, one), r.challenge(paid.OpRegister, other)
		r.fillCategories()
		r.must(r.books.Do(context.Background(), func(tx *ledger.Tx) error {
			for i := range 1023 {
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
		if r.network.charged("bob") != 0 {
			t.Errorf("bob paid %d", r.network.charged("bob"))
		}
	})
}
