package paid_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/api"
	"webring/server/paid"
)

// networksOffered asks for a challenge, and says by which methods it can be paid and how long
// the answer took.
func (r *ring) networksOffered() (methods string, took time.Duration) {
	r.t.Helper()
	began := time.Now()
	var names []string
	for _, ch := range r.post(paid.OpRegister, ada).is(402, api.PaymentRequired).challenges() {
		names = append(names, ch.Method)
	}
	return strings.Join(names, " "), time.Since(began)
}

// A node that takes a connection and says nothing holds up nobody who pays on another
// network. It is left out of the offers until it answers.
func TestHangingNetworkDoesNotSlowBuyersOfTheOther(t *testing.T) {
	in(t, "hanging later", func(t *testing.T) {
		r := newRing(t, two)
		r.networksOffered()
		r.second.change(func() { r.second.hanging = true })
		hung := time.Now()
		for time.Since(hung) < time.Minute {
			methods, took := r.networksOffered()
			if took != 0 {
				t.Errorf("a 402 took %v", took)
			}
			if since := time.Since(hung); since > 11*time.Second && methods != "coin" {
				t.Errorf("%v after it hung, the offers are %q", since, methods)
			}
			time.Sleep(700 * time.Millisecond)
		}
		r.second.change(func() { r.second.hanging = false })
		time.Sleep(8 * time.Second)
		if methods, _ := r.networksOffered(); methods != "coin token" {
			t.Errorf("after it answers again, the offers are %q", methods)
		}
	})
	in(t, "hanging from the start", func(t *testing.T) {
		r := newRing(t, two, func(r *ring) { r.network.hanging = true })
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(700 * time.Millisecond) {
			methods, took := r.networksOffered()
			if took != 0 {
				t.Errorf("%v after the start, a 402 took %v", time.Since(began), took)
			}
			if methods != "token" {
				t.Errorf("%v after the start, the offers are %q", time.Since(began), methods)
			}
		}
	})
	in(t, "both hanging", func(t *testing.T) {
		r := newRing(t, two, func(r *ring) { r.network.hanging, r.second.hanging = true, true })
		began := time.Now()
		r.post(paid.OpRegister, ada).is(503, api.PaymentsUnavailable)
		if took := time.Since(began); took != 0 {
			t.Errorf("the answer took %v", took)
		}
	})
}

// A node that is slow as ever goes on being offered: it is late when it takes twice as
// long as the last time.
func TestSlowNetworkIsOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, two, func(r *ring) { r.second.slow = 900 * time.Millisecond })
		offered := func(want string) {
			t.Helper()
			for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(100 * time.Millisecond) {
				if methods, _ := r.networksOffered(); methods != want {
					t.Fatalf("after %v, the offers are %q", time.Since(began), methods)
				}
			}
		}
		offered("coin token")
		r.second.change(func() { r.second.slow = 1700 * time.Millisecond })
		offered("coin token")
	})
}

// A node that stops answering when it is to simulate a payment, or to say what its payer
// holds, is not waited for: the payer is told that nothing was charged, and the same
// credential can be sent again.
func TestHangingSimulationIsNotWaitedFor(t *testing.T) {
	for _, question := range []string{"simulate", "holds"} {
		in(t, question, func(t *testing.T) {
			r := newRing(t)
			r.join(ada, "alice")
			r.network.fates["bob"] = fate{after: 20 * time.Second}
			r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(r.challenge(paid.OpBid, fund), "bob", 150)}})
			synctest.Wait()
			credential := r.sign(r.challenge(paid.OpBid, fund), "bob", 150)
			r.network.change(func() { r.network.stuck = question })
			began := time.Now()
			a := r.post(paid.OpBid, fund, credential).is(503, api.PaymentsUnavailable)
			if took := time.Since(began); took > 10*time.Second || !strings.Contains(string(a.Body), "Nothing was charged") {
				t.Errorf("after %v: %s", took, a.Body)
			}
			if n := len(r.open()); n != 1 {
				t.Errorf("%d payments are open, want the first", n)
			}
			r.network.change(func() { r.network.stuck = ""; delete(r.network.fates, "bob") })
			r.post(paid.OpBid, fund, credential).is(200, "")
		})
	}
}

// The log says within 15 seconds that a network is silent, or has stopped, and once,
// though nobody asks to pay.
func TestSilentNetworkIsNoticedThoughNobodyPays(t *testing.T) {
	for name, c := range map[string]struct {
		change func(n *network)
		why    string
	}{
		"refuses": {func(n *network) { n.down = true }, "the node at"},
		"hangs":   {func(n *network) { n.hanging = true }, "deadline"},
		"stopped": {func(n *network) { n.skew = -61 * time.Second }, "60 s apart"},
	} {
		in(t, name, func(t *testing.T) {
			const noticed = "payment network takes no payments"
			r := newRing(t)
			time.Sleep(time.Minute)
			if log := r.log.String(); strings.Contains(log, noticed) {
				t.Fatalf("noticed before: %s", log)
			}
			r.network.change(func() { c.change(r.network) })
			time.Sleep(15*time.Second + time.Millisecond)
			if log := r.log.String(); !strings.Contains(log, noticed) || !strings.Contains(log, c.why) {
				t.Errorf("not noticed after 15 s: %s", log)
			}
			time.Sleep(time.Hour)
			if n := strings.Count(r.log.String(), noticed); n != 1 {
				t.Errorf("noticed %d times", n)
			}
			r.network.change(func() { r.network.down, r.network.hanging, r.network.skew = false, false, 0 })
			time.Sleep(8 * time.Second)
			if log := r.log.String(); !strings.Contains(log, "payment network takes payments again") {
				t.Errorf("its return is not noticed: %s", log)
			}
			r.post(paid.OpRegister, ada).is(402, api.PaymentRequired)
		})
	}
}

// Open payments wait for blocks: what is asked for each grows with the blocks, and for
// blocks it is asked once for all.
func TestOpenPaymentsAreAskedForByBlocks(t *testing.T) {
	const payers = 8
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		r.join(ada, "alice")
		r.network.change(func() {
			r.network.block = 12 * time.Second
			for i := range payers {
				r.network.fates[fmt.Sprintf("payer-%d", i)] = fate{after: 50 * time.Second}
			}
		})
		var all []*held
		for i := range payers {
			credential := r.sign(r.challenge(paid.OpBid, fund), fmt.Sprintf("payer-%d", i), 150, func(tx *transaction) { tx.ValidBefore += 60 })
			all = append(all, r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}}))
		}
		synctest.Wait()
		outcomes, clocks := r.network.questions("outcome"), r.network.questions("clock")
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if n := r.network.questions("outcome") - outcomes; n > payers*5 {
			t.Errorf("%d payments, in four blocks, were asked for %d times", payers, n)
		}
		if n := r.network.questions("clock") - clocks; n > 50 {
			t.Errorf("the newest block was asked for %d times in 40 seconds", n)
		}
		began := time.Now()
		for _, h := range all {
			h.wait().is(200, "")
		}
		if took := time.Since(began); took > 25*time.Second {
			t.Errorf("a payment that was mined after 50 s was seen %v after the first 40", took)
		}
	})
}

// A network whose newest block is not known tells of payments all the same.
func TestOutcomeIsAskedForWithoutBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		r.join(ada, "alice")
		credential := r.sign(r.challenge(paid.OpBid, fund), "bob", 150)
		r.network.change(func() { r.network.fates["bob"] = fate{after: 5 * time.Second} })
		h := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}})
		synctest.Wait()
		r.network.change(func() { r.network.silent = "clock" })
		began := time.Now()
		h.wait().is(200, "")
		if took := time.Since(began); took > 25*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
