package paid_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/pay/mpp"
)

// A request that an edge has no place for any more is answered at once, and what it
// paid for is told to whoever shows the credential next. Who has not all of the
// request has nobody's let go.
func TestALetGoRequestFindsItsAnswerLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		r.network.change(func() { r.network.fates["alice"] = fate{after: 20 * time.Second} })
		credential := r.sign(r.challenge(paid.OpRegister, ada), "alice", 100)
		call := func(body, credential string) paid.Call {
			return paid.Call{Operation: paid.OpRegister, Body: []byte(body), Authorization: []string{credential}}
		}
		letGo := func(c paid.Call) answer { return answer{t, r.service.LetGo(c)} }

		h := r.begin(call(ada, credential))
		synctest.Wait()
		for name, c := range map[string]paid.Call{
			"no credential":      {Operation: paid.OpRegister, Body: []byte(ada)},
			"another body":       call(bob, credential),
			"another credential": call(ada, forged(t, credential)),
			"not begun":          call(bob, r.sign(r.challenge(paid.OpRegister, bob), "bob", 100)),
		} {
			if letGo(c).is(404, api.NotFound); h.answered() {
				t.Fatalf("%s: the request is let go", name)
			}
		}
		began := time.Now()
		if a := letGo(call(ada, credential)); a.Status != 204 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		a := h.wait().is(503, api.PaymentPending)
		if detail, _ := a.member("detail").(string); !strings.Contains(detail, "Do not pay again") || time.Since(began) != 0 {
			t.Errorf("after %s: %s", time.Since(began), a.Body)
		}
		letGo(call(ada, credential)).is(404, api.NotFound)
		r.post(paid.OpRegister, ada, credential).is(503, api.PaymentPending)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		letGo(call(ada, credential)).is(404, api.NotFound)
		r.post(paid.OpRegister, ada, credential).is(201, "")
		r.post(paid.OpRegister, ada, credential).is(409, api.CredentialReused)
		if r.total("ada") != 100 || r.network.charged("alice") != 100 {
			t.Errorf("ada has %d, alice paid %d", r.total("ada"), r.network.charged("alice"))
		}
	})
}

// forged is a credential with the same challenge id, under another key.
func forged(t *testing.T, credential string) string {
	t.Helper()
	c, _, err := mpp.ParseAuthorization([]string{credential})
	if err != nil {
		t.Fatal(err)
	}
	c.Challenge.Realm = "elsewhere.example"
	header, err := c.Header()
	if err != nil {
		t.Fatal(err)
	}
	return header
}

// However many payments a crowd of accounts has open, there is room for accounts that
// have none, until that is used up, too. What is refused may be sent again.
func TestOpenPaymentsLeaveRoomForAccountsThatHaveNone(t *testing.T) {
	const perPayer, most, kept = 8, 1024, 256
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		r.join(ada, "alice")
		crowd := 0
		opens := func(count, each int) {
			t.Helper()
			for range count {
				id, payer := fmt.Sprint("reservation ", crowd), fmt.Sprint("crowd ", each, " ", crowd/each)
				crowd++
				r.must(r.books.Do(t.Context(), func(tx *ledger.Tx) error {
					return tx.Reserve(&ledger.Reservation{ID: id, State: ledger.Reserved, Operation: paid.OpBid, Member: "ada",
						Cents: 150, Payer: payer, ReplayKeys: []string{id}, ValidBefore: time.Now().Add(time.Minute)})
				}))
			}
		}
		// bid sends a payment that settles in 20 seconds.
		bid := func(payer string) *held {
			r.network.change(func() { r.network.fates[payer] = fate{after: 20 * time.Second} })
			h := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(r.challenge(paid.OpBid, fund), payer, 150)}})
			synctest.Wait()
			return h
		}
		refused := func(h *held) {
			t.Helper()
			a := h.wait().is(503, api.PaymentPending)
			if detail, _ := a.member("detail").(string); !strings.Contains(detail, "Nothing was sent or charged") || a.field("Retry-After") == "" {
				t.Errorf("%s, Retry-After %q", a.Body, a.field("Retry-After"))
			}
		}

		opens(most-kept-2, perPayer)
		var open []*held
		for _, payer := range []string{"bob", "bob", "carol"} {
			open = append(open, bid(payer))
		}
		refused(bid("bob"))
		refused(bid("carol"))
		opens(most-len(r.open())-1, 1)
		open = append(open, bid("dave"))
		refused(bid("erin"))
		for _, h := range open {
			h.wait().is(200, "")
		}
		// There is room again.
		r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "erin", 150)).is(200, "")
		for payer, cents := range map[string]int64{"bob": 300, "carol": 150, "dave": 150, "erin": 150} {
			if got := r.network.charged(payer); got != cents {
				t.Errorf("%s paid %d, want %d", payer, got, cents)
			}
		}
	})
}
