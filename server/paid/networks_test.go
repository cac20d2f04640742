package paid_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/paid"
	"webring/server/pay/mpp"
)

// A chain that makes no blocks is told of within 15 seconds though nobody pays, once, and
// once when it makes blocks again. One with slow blocks has more time.
func TestAFrozenChainIsNoticedThoughNobodyPays(t *testing.T) {
	for _, c := range []struct {
		block         time.Duration
		within, never time.Duration
	}{
		{500 * time.Millisecond, 13 * time.Second, 7 * time.Second}, {2 * time.Second, 13 * time.Second, 7 * time.Second},
		{12 * time.Second, 55 * time.Second, 35 * time.Second},
	} {
		in(t, c.block.String(), func(t *testing.T) {
			const stands, again = "payment network stands still", "payment network makes blocks again"
			r := newRing(t, func(r *ring) { r.network.block = c.block })
			time.Sleep(10 * time.Minute)
			if log := r.log.String(); strings.Contains(log, stands) {
				t.Fatalf("noticed before: %s", log)
			}
			is := func(still bool) {
				t.Helper()
				synctest.Wait()
				n := r.service.Networks()[0]
				if n.Method != "coin" || (n.Still > 0) != still || (n.Down() != nil) != still || still && !strings.Contains(n.Down().Error(), "stands still") {
					t.Errorf("still %v, down %v", n.Still, n.Down())
				}
			}
			is(false)
			r.network.change(func() { r.network.frozen = time.Now().Truncate(c.block) })
			time.Sleep(c.never)
			is(false)
			time.Sleep(c.within - c.never)
			is(true)
			if age := time.Since(r.service.Networks()[0].Block); age < c.within || age > c.within+c.block {
				t.Errorf("its newest block is %s old", age)
			}
			time.Sleep(time.Hour)
			if n := strings.Count(r.log.String(), stands); n != 1 {
				t.Errorf("told %d times", n)
			}
			r.network.change(func() { r.network.frozen = time.Time{} })
			time.Sleep(c.block + 5*time.Second)
			is(false)
			if n := strings.Count(r.log.String(), again); n != 1 {
				t.Errorf("its return is told %d times: %s", n, r.log)
			}
		})
	}
}

// What is known of a network that does not answer is what it said last.
func TestASilentNetworkIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, two)
		time.Sleep(time.Minute)
		r.second.change(func() { r.second.down = true })
		time.Sleep(10 * time.Second)
		all := r.service.Networks()
		if len(all) != 2 || all[0].Down() != nil || all[1].Method != "token" || all[1].Down() == nil || all[1].Still != 0 {
			t.Errorf("%+v", all)
		}
		if age := time.Since(all[1].Block); age < 10*time.Second || age > 15*time.Second {
			t.Errorf("its newest block is %s old", age)
		}
	})
}

// Whoever counts is told once what came of each credential, and of one that is answered
// before that, once more.
func TestWhatCameOfPaymentsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan paid.Ended, 100)
		r := newRing(t, func(r *ring) { r.config = func(c *paid.Config) { c.Ended = func(e paid.Ended) { told <- e } } })
		next := func(operation string, want paid.Outcome, least, most time.Duration) {
			t.Helper()
			synctest.Wait()
			select {
			case e := <-told:
				if e.Operation != operation || e.Method != "coin" || e.Outcome != want || e.Took < least || e.Took > most {
					t.Errorf("told %+v, want %s %s", e, operation, want)
				}
			default:
				t.Errorf("nothing is told, want %s", want)
			}
			if n := len(told); n > 0 {
				t.Errorf("%d more are told: %+v", n, <-told)
			}
		}
		r.network.fates["alice"] = fate{after: 3 * time.Second}
		credential := r.sign(r.challenge(paid.OpRegister, ada), "alice", 100)
		r.post(paid.OpRegister, ada, credential).is(201, "")
		next(paid.OpRegister, paid.OutcomeApplied, 3*time.Second, 10*time.Second)
		r.post(paid.OpRegister, ada, credential) // again: it is no other payment
		if len(told) > 0 {
			t.Errorf("told %+v", <-told)
		}
		bid := func() string { return r.sign(r.challenge(paid.OpBid, fund), "bob", 150) }
		r.network.fates["bob"] = fate{state: mpp.Failed}
		r.post(paid.OpBid, fund, bid())
		next(paid.OpBid, paid.OutcomeFailed, 0, time.Minute)
		r.network.fates["bob"] = fate{state: mpp.Mismatched}
		r.post(paid.OpBid, fund, bid())
		next(paid.OpBid, paid.OutcomeMismatched, 0, time.Minute)
		r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "bob", 149))
		next(paid.OpBid, paid.OutcomeRefused, 0, 0)
		r.network.simulate = func(context.Context, mpp.Payment) error { return &mpp.Rejection{Code: mpp.CodeVerify, Detail: "no"} }
		r.post(paid.OpBid, fund, bid())
		next(paid.OpBid, paid.OutcomeRefused, 0, time.Second)
		r.network.simulate = nil

		// The operator has accounted for its transaction: nothing comes of it, so however
		// often it is shown, no payment of this ring has failed.
		credential = r.sign(r.challenge(paid.OpBid, fund), "dora", 150)
		cred, _, err := mpp.ParseAuthorization([]string{credential})
		if err != nil {
			t.Fatal(err)
		}
		reference := fmt.Sprintf("0x%x", sha256.Sum256(cred.Payload))
		r.network.change(func() { r.network.arrives(reference, "dora", 150, time.Now()) })
		if _, err := r.service.Adjust(t.Context(), paid.Adjustment{Kind: core.Unclaimed, Transaction: reference, Reason: "test"}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r.post(paid.OpBid, fund, credential).is(409, api.PaymentUnapplied)
			next(paid.OpBid, paid.OutcomeRefused, 0, time.Second)
		}

		r.network.fates["bob"] = fate{after: 20 * time.Second}
		credential = bid()
		h := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}})
		synctest.Wait()
		r.service.LetGo(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}})
		h.wait().is(503, api.PaymentPending)
		next(paid.OpBid, paid.OutcomePending, 0, time.Second)
		time.Sleep(30 * time.Second)
		next(paid.OpBid, paid.OutcomeApplied, 20*time.Second, 30*time.Second)
	})
}
