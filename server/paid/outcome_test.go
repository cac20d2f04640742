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
)

// A slow transaction is waited for, and there is no answer before its outcome is known.
func TestRequestIsHeldUntilTheOutcomeIsKnown(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, 10 * time.Second, 24 * time.Second} {
		for _, mute := range []bool{false, true} {
			inRing(t, fmt.Sprintf("mined after %v, mute %v", after, mute), func(t *testing.T, r *ring) {
				r.network.fates["alice"] = fate{after: after, mute: mute}
				credential := r.sign(r.challenge(paid.OpRegister, ada), "alice", 100)
				began := time.Now()
				a := r.post(paid.OpRegister, ada, credential).is(201, "")
				if took := time.Since(began); took < after || took > 35*time.Second {
					t.Errorf("answered after %v", took)
				}
				if a.field("Location") != base+"/api/ring/ada" || r.total("ada") != 100 || r.network.charged("alice") != 100 {
					t.Errorf("ada has %d, alice paid %d: %v", r.total("ada"), r.network.charged("alice"), a.Header)
				}
			})
		}
	}
}

// 44: an unknown outcome is 503 when the transaction can no longer be mined,
// and not before; never a 402. The work goes on and ends in one effect, which
// the same credential gets told once.
func TestUnknownOutcomeIsNeverForgotten(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		credential := r.sign(r.challenge(paid.OpRegister, ada), "alice", 100)
		r.network.simulate = func(context.Context, mpp.Payment) error {
			r.network.change(func() { r.network.down = true }) // silent from the sending on
			return nil
		}
		began := time.Now()
		h := r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(ada), Authorization: []string{credential}})
		time.Sleep(34 * time.Second)
		synctest.Wait()
		if h.answered() {
			t.Fatal("answered before the transaction's time had run out")
		}
		r.post(paid.OpRegister, ada, credential).is(409, api.CredentialReused)
		// Others learn that somebody is paying, also those who would pay.
		other := r.post(paid.OpRegister, ada)
		same(t, other.Status, 503)
		h.wait().is(503, api.PaymentPending)
		same(t, time.Since(began), 35*time.Second)
		r.post(paid.OpRegister, ada, credential).is(503, api.PaymentPending)
		r.handle(keyed(paid.OpRegister, ada, "k", credential)).is(503, api.PaymentPending)
		time.Sleep(24 * time.Hour)
		r.post(paid.OpRegister, ada, credential).is(503, api.PaymentPending)
		r.has(amounts{"open": 1, "ada": 0})
		same(t, strings.Count(r.log.String(), "open beyond its time"), 1)

		r.network.change(func() { r.network.down = false })
		time.Sleep(time.Minute)
		synctest.Wait()
		r.has(amounts{"open": 0, "ada": 100, "alice paid": 100})
		r.post(paid.OpRegister, ada, credential).is(201, "")
		r.post(paid.OpRegister, ada, credential).is(409, api.CredentialReused)
		r.restart()
		r.post(paid.OpRegister, ada, credential).is(409, api.CredentialReused)
	})
}

// After a 503 the stored answer is given once, to one of the copies that ask
// for it at the same time.
func TestStoredAnswerIsGivenOnce(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		r.network.fates["alice"] = fate{mute: true, after: 20 * time.Second}
		credential := r.sign(r.challenge(paid.OpRegister, ada), "alice", 100)
		r.network.simulate = func(context.Context, mpp.Payment) error {
			r.network.change(func() { r.network.down = true })
			return nil
		}
		r.post(paid.OpRegister, ada, credential).is(503, api.PaymentPending)
		r.network.change(func() { r.network.down = false })
		time.Sleep(time.Minute)
		call := paid.Call{Operation: paid.OpRegister, Body: []byte(ada), Authorization: []string{credential}}
		r.oneOf([]paid.Call{call, call, call}).is(201, "")
	})
}

// The credential stays consumed when the block of its payment is final.
func TestAnAnswerStaysGiven(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.network.change(func() { r.network.fates["bob"] = fate{shallow: true} })
		credential := r.sign(r.challenge(paid.OpBid, fund), "bob", 150)
		r.post(paid.OpBid, fund, credential).is(200, "")
		time.Sleep(time.Second)
		r.network.change(func() { r.network.fates["bob"] = fate{} })
		time.Sleep(time.Minute)
		same(t, r.unconfirmed(), 0)
		r.post(paid.OpBid, fund, credential).is(409, api.CredentialReused)
	})
}

// A simulation without an end holds nothing but its own request, which is let
// go in time, and what is sent too late is not sent at all.
func TestSlowSimulation(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		wait := make(chan struct{})
		r.network.simulate = func(context.Context, mpp.Payment) error { // that keeps to no bound
			<-wait
			return nil
		}
		ch := r.challenge(paid.OpBid, fund)
		credential := r.sign(ch, "bob", 150)
		began := time.Now()
		r.post(paid.OpBid, fund, credential).is(503, api.PaymentPending)
		same(t, time.Since(began), 35*time.Second)
		r.post(paid.OpBid, fund, credential).is(503, api.PaymentPending)
		close(wait)
		synctest.Wait()
		if r.stored(ch) != nil || r.network.questions("broadcast") != 1 {
			t.Errorf("a transaction that ran out of time was reserved: %v", r.stored(ch))
		}
		r.post(paid.OpBid, fund, credential).is(402, api.PaymentExpired)
		r.has(amounts{"bob paid": 0})
	})
}

// 38, 39 and transactions that never come: what is answered, that nothing is
// granted, who is barred from what, and that the credential stays used.
func TestPaymentsThatComeToNothing(t *testing.T) {
	for _, c := range []struct {
		rule    string
		fate    fate
		status  int
		code    api.Code
		outcome string
		charged int64
	}{
		{"38: mined, but reverted", fate{state: mpp.Failed, after: 5 * time.Second}, 402, api.VerificationFailed, "failed", 0},
		{"39: diverted", fate{state: mpp.Mismatched, after: 5 * time.Second}, 409, api.PaymentMismatch, "mismatched", 100},
		{"never mined", fate{lost: true}, 402, api.VerificationFailed, "gone", 0},
		{"mined too late", fate{after: time.Minute, mute: true}, 402, api.VerificationFailed, "gone", 0},
	} {
		inAdasRing(t, c.rule, func(t *testing.T, r *ring) {
			r.network.fates["mallory"] = c.fate
			events := r.books.Size()
			ch := r.challenge(paid.OpRegister, bob)
			credential := r.sign(ch, "mallory", 100)
			h := r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(bob), Authorization: []string{credential}})
			time.Sleep(time.Second)
			r.post(paid.OpRegister, bob).is(503, api.PaymentPending) // open, so the URL waits for it

			began := time.Now()
			a := h.wait().is(c.status, c.code)
			if took := time.Since(began); took > 34*time.Second {
				t.Errorf("took %v", took)
			}
			stored := r.stored(ch)
			if stored == nil || stored.State != ledger.Failed || stored.Outcome != c.outcome || r.books.Size() != events || len(r.open()) != 0 {
				t.Fatalf("stored: %+v; events %d, was %d", stored, r.books.Size(), events)
			}
			var payment mpp.Payment
			r.must(json.Unmarshal(stored.Payment, &payment))
			if payment.Raw != nil || payment.Method != "coin" || payment.Reference == "" || payment.Payer != "mallory" ||
				stored.Body != nil || stored.Pinned != nil || stored.URLKey != "" {
				t.Errorf("what is kept of it: %+v, raw %q", stored, payment.Raw)
			}
			same(t, r.network.charged("mallory"), c.charged)
			used := r.post(paid.OpRegister, bob, credential).is(409, api.CredentialReused)
			used.shows("outcome", "failed")

			// The payer can pay once more, by the offer that it has just got.
			fresh := r.challenge(paid.OpRegister, bob)
			if a.Status == 402 {
				fresh = a.challenges()[0]
			}
			r.network.change(func() { delete(r.network.fates, "mallory") })
			r.post(paid.OpRegister, bob, r.sign(fresh, "mallory", 100)).is(201, "")
		})
		inRing(t, c.rule+", and the URL is free for others", func(t *testing.T, r *ring) {
			r.network.fates["mallory"] = c.fate
			r.post(paid.OpRegister, ada, r.sign(r.challenge(paid.OpRegister, ada), "mallory", 100)).is(c.status, c.code)
			r.join(ada, "alice")
		})
		inAdasRing(t, c.rule+", for a bid", func(t *testing.T, r *ring) {
			r.network.fates["mallory"] = c.fate
			r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "mallory", 150)).is(c.status, c.code)
			r.has(amounts{"ada": 100})
			r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "bob", 150)).is(200, "")
		})
	}
}

// 37 and silence of the network before anything was sent: a claim is dropped
// and delays no one, including the payer.
func TestRefusedSimulationLeavesNothing(t *testing.T) {
	for name, answer := range map[string]func(context.Context, mpp.Payment) error{"refused": refuse, "silent": silence} {
		inRing(t, name, func(t *testing.T, r *ring) {
			ch := r.challenge(paid.OpRegister, ada)
			credential := r.sign(ch, "alice", 100)
			size := r.size()
			r.network.simulate = answer
			for range 3 {
				if a := r.post(paid.OpRegister, ada, credential); name == "refused" {
					a.is(402, api.VerificationFailed)
				} else {
					a.is(503, api.PaymentsUnavailable)
				}
			}
			if r.size() != size || r.network.questions("broadcast") != 0 {
				t.Errorf("a trace: %s, was %s", r.size(), size)
			}
			r.network.change(func() { r.network.simulate = nil })
			r.post(paid.OpRegister, ada, credential).is(201, "")
		})
	}
}

// Two payers of one URL: the second is not charged, whenever it comes.
func TestTwoPayersOfOneURL(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		r.network.fates["alice"] = fate{after: 5 * time.Second}
		one, two := r.challenge(paid.OpRegister, ada), r.challenge(paid.OpRegister, ada)
		early, second := r.sign(one, "alice", 100), r.sign(two, "bob", 100)
		h := r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(ada), Authorization: []string{early}})
		synctest.Wait()
		r.has(amounts{"open": 1})
		r.post(paid.OpRegister, ada, second).is(503, api.PaymentPending)
		r.post(paid.OpRegister, ada).is(503, api.PaymentPending)
		r.post(paid.OpRegister, bob).is(402, api.PaymentRequired)
		h.wait().is(201, "")
		r.post(paid.OpRegister, ada, second).is(409, api.AlreadyRegistered)
		if r.network.charged("bob") != 0 || r.stored(two) != nil {
			t.Errorf("bob paid %d", r.network.charged("bob"))
		}
	})
	// At once: the reservation decides, not the look before it.
	for round := range 10 {
		inRing(t, fmt.Sprint("race ", round), func(t *testing.T, r *ring) {
			var credentials []string
			for i := range 8 {
				payer := fmt.Sprint("payer-", i)
				r.network.fates[payer] = fate{after: time.Second}
				credentials = append(credentials, r.sign(r.challenge(paid.OpRegister, ada), payer, 100))
			}
			var all []*held
			for _, c := range credentials {
				all = append(all, r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(ada), Authorization: []string{c}}))
			}
			joined := 0
			for i, h := range all {
				a := h.wait()
				charged := r.network.charged(fmt.Sprint("payer-", i))
				switch {
				case a.Status == 201 && charged == 100:
					joined++
				case a.Status == 503 && a.code() == string(api.PaymentPending) && charged == 0:
				case a.Status == 409 && a.code() == string(api.AlreadyRegistered) && charged == 0:
				default:
					t.Errorf("payer %d paid %d and got %d %s", i, charged, a.Status, a.Body)
				}
			}
			same(t, joined, 1)
		})
	}
}

// Open payments count towards what a member may have, before the 402.
func TestOpenPaymentsCountTowardsTheHighestTotal(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		left := int64(core.MaxTotal - 100)
		for left >= 2*core.MaxAmount {
			r.credit("ada", core.MaxAmount)
			left -= core.MaxAmount
		}
		r.credit("ada", left-core.MaxAmount)
		r.network.change(func() { r.network.fates["bob"] = fate{after: 5 * time.Second} })
		most := `{"member":"ada","amount":"1000000.00"}`
		one, two := r.challenge(paid.OpBid, most), r.challenge(paid.OpBid, most)
		h := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(most), Authorization: []string{r.sign(one, "bob", core.MaxAmount)}})
		synctest.Wait()
		r.post(paid.OpBid, `{"member":"ada","amount":"1.00"}`).is(422, api.TotalTooHigh)
		r.post(paid.OpBid, most, r.sign(two, "carol", core.MaxAmount)).is(422, api.TotalTooHigh)
		h.wait().is(200, "")
		r.has(amounts{"ada": core.MaxTotal, "carol paid": 0})
	})
}

// One account has so many payments open and no more, on whichever members and
// whatever the network would say of each: what it cannot pay is held for minutes.
// What is refused was neither sent nor charged, and may be sent again.
func TestOnePayerHasFewPaymentsOpen(t *testing.T) {
	const most = 8
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.network.change(func() { r.network.fates["bob"] = fate{after: 5 * time.Second} })
		var all []*held
		credentials := map[*held]string{}
		for range most + 4 {
			credential := r.sign(r.challenge(paid.OpBid, fund), "bob", 150)
			h := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}})
			all, credentials[h] = append(all, h), credential
		}
		synctest.Wait()
		var open []*held
		var again string
		for _, h := range all {
			if !h.answered() {
				open = append(open, h)
				continue
			}
			again = credentials[h]
			a := h.wait().is(503, api.PaymentPending)
			if detail, _ := a.member("detail").(string); !strings.Contains(detail, "Nothing was sent or charged") || a.field("Retry-After") == "" {
				t.Errorf("%s, Retry-After %q", a.Body, a.field("Retry-After"))
			}
		}
		if len(open) != most || len(r.open()) != most || r.network.questions("broadcast") != most+1 { // and Ada's
			t.Fatalf("%d are held and %d open, %d were sent", len(open), len(r.open()), r.network.questions("broadcast"))
		}
		// Nor for anything else; others pay meanwhile.
		r.post(paid.OpRegister, bob, r.sign(r.challenge(paid.OpRegister, bob), "bob", 100)).is(503, api.PaymentPending)
		r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "carol", 150)).is(200, "")
		for _, h := range open {
			h.wait().is(200, "")
		}
		r.post(paid.OpBid, fund, again).is(200, "")
		same(t, r.network.charged("bob"), (most+1)*150)
	})
}

// A ring at 90 % of its capacity offers no new payments; clients that have a challenge may
// still join while there is room.
func TestFullRingAsksNobodyToPay(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		var asked []mpp.Challenge
		body := func(i int) string { return fmt.Sprintf(`{"name":"M %d","url":"https://m%d.dev","kind":"agent"}`, i, i) }
		for i := range 11 {
			asked = append(asked, r.challenge(paid.OpRegister, body(i)))
		}
		for i := range 9 {
			r.post(paid.OpRegister, body(i), r.sign(asked[i], "alice", 100)).is(201, "")
		}
		r.post(paid.OpRegister, body(20)).is(503, api.RingFull)
		r.post(paid.OpRegister, body(9), r.sign(asked[9], "alice", 100)).is(201, "")
		r.post(paid.OpRegister, body(10), r.sign(asked[10], "bob", 100)).is(503, api.RingFull)
		bid := `{"member":"m-0","amount":"1.50"}`
		r.post(paid.OpBid, bid, r.sign(r.challenge(paid.OpBid, bid), "carol", 150)).is(200, "")
		r.has(amounts{"bob paid": 0, "m-0": 250})
	}, func(r *ring) { r.capacity = 10 })
}

// A score that was made before there were stamps does not stand in the way of a
// payment that went through.
func TestStrangeTimeOfAScoreLosesNoPayment(t *testing.T) {
	for _, at := range []string{"0001-01-02T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-12:00"} {
		inRing(t, at, func(t *testing.T, r *ring) {
			scanned, err := time.Parse(time.RFC3339, at)
			r.must(err)
			result, _ := r.scorer.Score(t.Context(), "", "https://ada.dev")
			result.ScannedAt = scanned
			r.scorer.results["https://ada.dev"] = result
			r.join(ada, "alice")
		})
	}
}

// A request that an edge has no more room for is answered at once. The next request with the
// credential learns what it paid for. A client without the whole request cannot have
// another's let go.
func TestALetGoRequestFindsItsAnswerLater(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		r.network.change(func() { r.network.fates["alice"] = fate{after: 20 * time.Second} })
		credential := r.sign(r.challenge(paid.OpRegister, ada), "alice", 100)
		call := func(body, credential string) paid.Call {
			return paid.Call{Operation: paid.OpRegister, Body: []byte(body), Authorization: []string{credential}}
		}
		letGo := func(c paid.Call) answer { return answer{t, r.service.StopWaiting(c)} }

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
		r.has(amounts{"ada": 100, "alice paid": 100})
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
	inAdasRing(t, "", func(t *testing.T, r *ring) {
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
			same(t, r.network.charged(payer), cents)
		}
	})
}
