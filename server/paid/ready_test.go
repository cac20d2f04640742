package paid_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/pay/mpp"
)

// Only networks that answer, with a clock that agrees with ours, are offered.
func TestOnlyNetworksThatAreUpAreOffered(t *testing.T) {
	for _, c := range []struct {
		rule          string
		first, second func(n *network)
		want          string // methods; "" for 503
	}{
		{"both up", nil, nil, "coin token"},
		{"one silent", func(n *network) { n.down = true }, nil, "token"},
		{"its clock 61 s behind", nil, func(n *network) { n.skew = -61 * time.Second }, "coin"},
		{"its clock 61 s ahead", func(n *network) { n.skew = 61 * time.Second }, nil, "token"},
		{"their clocks 60 s off", func(n *network) { n.skew = 60 * time.Second }, func(n *network) { n.skew = -60 * time.Second }, "coin token"},
		{"both silent", func(n *network) { n.down = true }, func(n *network) { n.down = true }, ""},
	} {
		in(t, c.rule, func(t *testing.T) {
			r := newRing(t, two, func(r *ring) {
				for n, change := range map[*network]func(*network){r.network: c.first, r.second: c.second} {
					if change != nil {
						change(n)
					}
				}
			})
			// Each network was asked twice: until the other is heard, one that is behind holds our clock back.
			time.Sleep(5 * time.Second)
			synctest.Wait()
			a := r.post(paid.OpRegister, ada)
			if c.want == "" {
				a.is(503, api.PaymentsUnavailable)
				same(t, r.scorer.count(), 0)
				return
			}
			var got []string
			for _, ch := range a.is(402, api.PaymentRequired).challenges() {
				got = append(got, ch.Method)
			}
			same(t, strings.Join(got, " "), c.want)
		})
	}
}

// A network that comes back is offered again, and is not asked for its clock
// by every request.
func TestClockIsAskedOnceInAWhile(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		for range 20 {
			r.post(paid.OpRegister, ada).is(503, api.PaymentsUnavailable)
		}
		r.network.change(func() { r.network.down = false })
		same(t, r.network.questions("clock"), 1)
		time.Sleep(5 * time.Second)
		r.post(paid.OpRegister, ada).is(402, api.PaymentRequired)
	}, func(r *ring) { r.network.down = true })
}

// While the clock is ahead of the chain's, the ring asks for no money and no proof, and writes
// nothing by it, for payers, owners or the operator. Then all goes on, as if the
// clock had never been wrong.
func TestAClockThatIsAheadStampsNothing(t *testing.T) {
	for _, ahead := range []time.Duration{2 * time.Minute, 48 * time.Hour, 365 * 24 * time.Hour} {
		in(t, ahead.String(), func(t *testing.T) {
			o := newOwned(t)
			size, promised, proven := o.size(), o.challenge(paid.OpRegister, another), o.challengeFor(paid.OpChange, "ada", `{"name":"Ada Two"}`)
			o.back.Store(int64(-ahead))
			o.post(paid.OpRegister, another).is(503, api.PaymentsUnavailable)
			o.post(paid.OpRegister, another, o.sign(promised, "carol", 100)).is(503, api.PaymentsUnavailable)
			o.call(paid.OpChange, "ada", `{"name":"Ada Two"}`).is(503, api.PaymentsUnavailable)
			o.call(paid.OpChange, "ada", `{"name":"Ada Two"}`, o.prove(proven, alice)).is(503, api.PaymentsUnavailable)
			if err := o.remove("bob", false); !errors.Is(err, ledger.ErrClock) {
				t.Errorf("the operator removes a member: %v", err)
			}
			if o.network.charged("carol") != 0 || o.size() != size {
				t.Errorf("charged %d, ledger %s, was %s", o.network.charged("carol"), o.size(), size)
			}
			o.back.Store(0)
			o.post(paid.OpRegister, another, o.sign(promised, "carol", 100)).is(201, "")
			o.call(paid.OpChange, "ada", `{"name":"Ada Two"}`, o.prove(proven, alice)).is(200, "")
			o.look(func(v *ledger.View) {
				if last := time.UnixMilli(v.State().LastStamp()); last.After(time.Now()) {
					t.Errorf("an event is stamped %s", last)
				}
			})
		})
	}
}

// another is a registration of its own.
const another = `{"name":"Another","url":"https://another.dev","kind":"agent"}`

// A machine that is not ready asks nobody to pay, and does not send what was
// asked for before: 503 before any money moves. What was taken is finished.
func TestMachineThatIsNotReadyTakesNoPayments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		r := newRing(t, func(r *ring) {
			r.config = func(c *paid.Config) {
				c.Ready = func() error {
					if full.Load() {
						return errors.New("the disk is full")
					}
					return nil
				}
			}
		})
		r.join(ada, "alice")
		r.network.change(func() { r.network.fates["carol"] = fate{after: 5 * time.Second} })
		ch := r.challenge(paid.OpBid, fund)
		under := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(r.challenge(paid.OpBid, fund), "carol", 150)}})
		synctest.Wait()
		full.Store(true)
		size, asked := r.size(), r.network.questions("simulate", "broadcast")
		scored := r.scorer.count()
		r.post(paid.OpRegister, bob).is(503, api.PaymentsUnavailable)
		r.post(paid.OpBid, fund).is(503, api.PaymentsUnavailable)
		r.post(paid.OpBid, fund, r.sign(ch, "bob", 150)).is(503, api.PaymentsUnavailable)
		if now := r.size(); now != size || r.network.questions("simulate", "broadcast") != asked || r.scorer.count() != scored {
			t.Errorf("the ledger went from %s to %s; somebody was asked", size, now)
		}
		if !strings.Contains(r.log.String(), "the disk is full") {
			t.Errorf("the log does not say why: %s", r.log)
		}
		under.wait().is(200, "")
		full.Store(false)
		r.post(paid.OpBid, fund, r.sign(ch, "bob", 150)).is(200, "")
		r.has(amounts{"ada": 400})
	})
}

// While the ledger can write nothing, no payer is bound. What was bound before is
// neither given up nor half done, and has its one effect when there is room. All
// that was granted can be read.
func TestNothingIsWrittenWithoutRoom(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.network.change(func() { r.network.fates["carol"] = fate{after: 5 * time.Second} })
		credential := r.sign(r.challenge(paid.OpBid, fund), "carol", 150)
		late := r.sign(r.challenge(paid.OpBid, fund), "bob", 150, func(tx *transaction) { tx.ValidBefore += 60 })
		under := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}})
		synctest.Wait()
		r.full.Store(true)
		rows := fmt.Sprint(r.rows())
		sent := r.network.questions("broadcast")
		r.post(paid.OpBid, fund, late).is(503, api.PaymentsUnavailable)
		same(t, r.network.questions("broadcast"), sent)
		under.wait().is(503, api.PaymentPending)
		r.has(amounts{"carol paid": 150})
		r.post(paid.OpBid, fund, credential).is(503, api.PaymentPending)
		time.Sleep(time.Hour)
		if fmt.Sprint(r.rows()) != rows || len(r.open()) != 1 || r.total("ada") != 100 {
			t.Errorf("written: ada has %d, %d open", r.total("ada"), len(r.open()))
		}
		err := r.books.Do(t.Context(), func(tx *ledger.Tx) error {
			rules := *tx.State().Rules()
			rules.Stamp = tx.Stamp()
			_, err := tx.Append(&rules, nil)
			return err
		})
		if !errors.Is(err, ledger.ErrNoRoom) {
			t.Errorf("the operator's events: %v", err)
		}
		// Nor does a new process give up, or write.
		r.restart()
		time.Sleep(time.Minute)
		same(t, fmt.Sprint(r.rows()), rows)
		r.full.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		r.post(paid.OpBid, fund, credential).is(200, "")
		r.post(paid.OpBid, fund, credential).is(409, api.CredentialReused)
		r.has(amounts{"ada": 250, "carol paid": 150, "bob paid": 0})
	})
}

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

// A node that takes a connection and says nothing delays no payer on another
// network. It is left out of the offers until it answers.
func TestHangingNetworkDoesNotSlowBuyersOfTheOther(t *testing.T) {
	inRing(t, "hanging later", func(t *testing.T, r *ring) {
		r.networksOffered()
		r.second.change(func() { r.second.hanging = true })
		hung := time.Now()
		for time.Since(hung) < time.Minute {
			methods, took := r.networksOffered()
			same(t, took, 0)
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
	}, two)
	inRing(t, "hanging from the start", func(t *testing.T, r *ring) {
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(700 * time.Millisecond) {
			methods, took := r.networksOffered()
			same(t, took, 0)
			same(t, methods, "token")
		}
	}, two, func(r *ring) { r.network.hanging = true })
	inRing(t, "both hanging", func(t *testing.T, r *ring) {
		began := time.Now()
		r.post(paid.OpRegister, ada).is(503, api.PaymentsUnavailable)
		same(t, time.Since(began), 0)
	}, two, func(r *ring) { r.network.hanging, r.second.hanging = true, true })
}

// A node that is slow as ever goes on being offered: it is late when it takes twice as
// long as the last time.
func TestSlowNetworkIsOffered(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
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
	}, two, func(r *ring) { r.second.slow = 900 * time.Millisecond })
}

// A node that stops answering when it is to simulate a payment, or to say what its payer
// holds, is not waited for: the payer is told that nothing was charged, and the same
// credential can be sent again.
func TestHangingSimulationIsNotWaitedFor(t *testing.T) {
	for _, question := range []string{"simulate", "holds"} {
		inAdasRing(t, question, func(t *testing.T, r *ring) {
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
			same(t, len(r.open()), 1)
			r.network.change(func() { r.network.stuck = ""; delete(r.network.fates, "bob") })
			r.post(paid.OpBid, fund, credential).is(200, "")
		})
	}
}

// The log says within 15 seconds that a network is silent, or has stopped, and once,
// even without requests to pay.
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
	inAdasRing(t, "", func(t *testing.T, r *ring) {
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

// slow takes two seconds for each question about a payment.
type slow struct {
	*method
	asking, most *atomic.Int32 // about payments that have their effect
}

func (m slow) Outcome(ctx context.Context, p mpp.Payment, since time.Time) (mpp.Outcome, error) {
	if strings.HasPrefix(p.Payer, "early") {
		m.most.Store(max(m.most.Load(), m.asking.Add(1)))
		defer m.asking.Add(-1)
	}
	time.Sleep(2 * time.Second)
	return m.method.Outcome(ctx, p, since)
}

// An open payment waits neither for other open ones nor for those that have their effect, which
// are asked for a few at a time, and all in the end.
func TestOpenPaymentsWaitForNoOthers(t *testing.T) {
	const payers, atOnce = 70, 8
	var asking, most atomic.Int32
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		bid := func(payer string, f fate) *held {
			r.network.change(func() { r.network.fates[payer] = f })
			return r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(r.challenge(paid.OpBid, fund), payer, 150)}})
		}
		for i := range payers {
			bid(fmt.Sprint("early ", i), fate{shallow: true}).wait().is(200, "")
		}
		time.Sleep(2 * time.Second)
		began := time.Now()
		var all []*held
		for i := range payers {
			all = append(all, bid(fmt.Sprint("late ", i), fate{after: time.Second}))
		}
		for _, h := range all {
			h.wait().is(200, "")
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("payments that were mined after a second took %v", took)
		}
		r.network.change(func() {
			for i := range payers {
				r.network.fates[fmt.Sprint("early ", i)] = fate{}
			}
		})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if left, n := r.unconfirmed(), most.Load(); left > 0 || n > atOnce {
			t.Errorf("%d are not confirmed after two minutes; of those that have their effect, %d were asked for at a time", left, n)
		}
	}, func(r *ring) {
		r.methods = func(dead *atomic.Bool) []paid.Method {
			return []paid.Method{slow{&method{node{r.network, dead}, "coin"}, &asking, &most}}
		}
	})
}

// The first step of a payment is its request's, however long that takes.
func TestTheWatcherWaitsForTheFirstStep(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		open := r.hold("reserved")
		asked := r.network.questions("broadcast", "outcome")
		h := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(r.challenge(paid.OpBid, fund), "bob", 150)}})
		time.Sleep(10 * time.Second)
		same(t, r.network.questions("broadcast", "outcome"), asked)
		open()
		h.wait().is(200, "")
	})
}

// A network without a known newest block still reports payments.
func TestOutcomeIsAskedForWithoutBlocks(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
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

// A chain that makes no blocks is reported within 15 seconds even without payments, once, and
// once more when it makes blocks again. One with slow blocks has more time.
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

// A block time that was wrong for seconds, or a deep reorganisation, does not make a chain stand still.
// One that then stands still is noticed all the same, even by two nodes of which one lags.
func TestAChainGoesOnAfterAWrongBlockTime(t *testing.T) {
	for _, c := range []struct{ wrong, after time.Duration }{
		{wrong: 365 * 24 * time.Hour}, {wrong: 61 * time.Second}, {wrong: 50 * time.Second}, {wrong: -50 * time.Second}, {wrong: -365 * 24 * time.Hour},
		{-50 * time.Second, -50 * time.Second}, {365 * 24 * time.Hour, -50 * time.Second},
	} {
		in(t, fmt.Sprint(c), func(t *testing.T) {
			const block = 2 * time.Second
			r := newRing(t, func(r *ring) { r.network.block = block })
			time.Sleep(time.Minute)
			r.network.change(func() { r.network.skew = c.wrong })
			time.Sleep(5 * time.Second)
			r.network.change(func() { r.network.skew = c.after })
			time.Sleep(13 * time.Second)
			for range 60 {
				time.Sleep(time.Second)
				synctest.Wait()
				if n := r.service.Networks()[0]; n.Down() != nil || (time.Since(n.Block)+c.after).Abs() > 10*time.Second {
					t.Fatalf("%v, its newest block is %s old", n.Down(), time.Since(n.Block))
				}
			}
			r.post(paid.OpRegister, ada).is(402, api.PaymentRequired)
			stood := time.Now().Add(c.after).Truncate(block)
			for i := range 90 { // the newer one of the two blocks may first be heard of after 20 s
				r.network.change(func() { r.network.frozen = stood.Add(-block * time.Duration(i*i%3)) })
				time.Sleep(time.Second)
			}
			synctest.Wait()
			if n := r.service.Networks()[0]; n.Still < 40*time.Second {
				t.Errorf("it stands still for %s", n.Still)
			}
		})
	}
	// Nor does a payment that was not mined wait for the year to pass.
	inAdasRing(t, "given up", func(t *testing.T, r *ring) {
		r.network.change(func() { r.network.skew = 365 * 24 * time.Hour })
		time.Sleep(5 * time.Second)
		r.network.change(func() { r.network.skew = 0; r.network.fates["bob"] = fate{lost: true} })
		time.Sleep(10 * time.Second)
		r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "bob", 150, counted("bob:7"))).is(503, api.PaymentPending)
		time.Sleep(2 * time.Hour)
		same(t, len(r.open()), 0)
	}, func(r *ring) { r.network.block = 2 * time.Second })
}

// When a service ends while it waits for an answer, its log does not blame the network.
func TestTheEndOfAServiceIsNoFaultOfItsNetwork(t *testing.T) {
	for question, asks := range map[string]func(r *ring, credential string){
		"simulate": func(r *ring, credential string) { r.begin(bidWith(credential)) },
		"outcome": func(r *ring, credential string) { // of a payment that is open
			r.begin(bidWith(credential))
			time.Sleep(20 * time.Second)
		},
		"seen": func(r *ring, credential string) { // of one that was never sent, and comes too late
			time.Sleep(10 * time.Minute)
			r.begin(bidWith(credential))
		},
		"transfers": func(*ring, string) { time.Sleep(25 * time.Hour) },
	} {
		inAdasRing(t, question, func(t *testing.T, r *ring) {
			r.network.change(func() {
				r.network.fates["bob"] = fate{after: time.Minute}
				r.network.stuck = question
				if question == "seen" {
					r.network.seen = func(ctx context.Context) { <-ctx.Done() }
				}
			})
			before := r.network.questions(question)
			asks(r, r.sign(r.challenge(paid.OpBid, fund), "bob", 150))
			synctest.Wait()
			if r.network.questions(question) == before {
				t.Fatal("it waits for nothing")
			}
			now, cancel := context.WithCancel(t.Context())
			cancel()
			r.service.Close(now)
			synctest.Wait()
			if log := r.log.String(); strings.Contains(log, "cancel") || strings.Contains(log, "network unavailable") {
				t.Error(log)
			}
		})
	}
}

func bidWith(credential string) paid.Call {
	return paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}}
}

// What is known of a network that does not answer is what it said last.
func TestASilentNetworkIsDown(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
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
	}, two)
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
		r.must(r.adjust(paid.Adjustment{Kind: core.Unclaimed, Transaction: reference, Reason: "test"}))
		for range 2 {
			r.post(paid.OpBid, fund, credential).is(409, api.PaymentUnapplied)
			next(paid.OpBid, paid.OutcomeRefused, 0, time.Second)
		}

		r.network.fates["bob"] = fate{after: 20 * time.Second}
		credential = bid()
		h := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}})
		synctest.Wait()
		r.service.StopWaiting(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}})
		h.wait().is(503, api.PaymentPending)
		next(paid.OpBid, paid.OutcomePending, 0, time.Second)
		time.Sleep(30 * time.Second)
		next(paid.OpBid, paid.OutcomeApplied, 20*time.Second, 30*time.Second)
	})
}

// A start without room knows all payees, and takes no payment to a new one before an event names it.
func TestAPayeeIsNamedBeforeItIsPaid(t *testing.T) {
	inAdasRing(t, "full", func(t *testing.T, r *ring) {
		synctest.Wait()
		r.network.change(func() { r.network.payee = "of another" })
		r.full.Store(true)
		r.restart()
		size := r.books.Size()
		r.post(paid.OpBid, fund, "").is(503, api.PaymentsUnavailable)
		r.full.Store(false)
		r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "bob", 150)).is(200, "")
		records, err := r.books.Records(size, 2)
		r.must(err)
		first, err := core.DecodeEvent(records[0].Event)
		r.must(err)
		p, _ := core.PaymentOf(r.last())
		if named, is := first.(*core.Payees); !is || len(records) != 2 || len(named.List) != 1 || named.List[0] != (core.Payee{Network: p.Network, Account: p.Payee}) {
			t.Errorf("%+v comes before a payment of %+v", first, p)
		}
	})
}

// A clock that is set back keeps no open payment waiting.
func TestAClockThatIsSetBackKeepsNoPaymentWaiting(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.network.change(func() { r.network.fates["bob"] = fate{after: 5 * time.Second} })
		h := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(r.challenge(paid.OpBid, fund), "bob", 150)}})
		time.Sleep(2 * time.Second)
		r.back.Store(int64(10 * time.Minute))
		h.wait().is(200, "")
		r.has(amounts{"ada": 250, "bob paid": 150, "open": 0})
	})
}
