package paid_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/api"
	"webring/server/paid"
	"webring/server/pay/mpp"
)

// victim is what an honest client that wants to register a URL meets: it asks for a
// challenge each second.
type victim struct {
	longest time.Duration // in which no 402 came
	last    time.Time     // when one came
}

// ask asks once. It fails unless the refusal is the one that is meant for whoever has
// not paid.
func (v *victim) ask(r *ring, body string) {
	r.t.Helper()
	a := r.post(paid.OpRegister, body)
	switch a.Status {
	case 402:
		v.last = time.Now()
	case 503:
		wait, err := strconv.Atoi(a.field("Retry-After"))
		want := fmt.Sprintf("Somebody else is registering this address; ask again in %d s.", wait)
		if err != nil || wait < 1 || !strings.Contains(string(a.Body), want) || strings.Contains(string(a.Body), "not pay again") {
			r.t.Fatalf("Retry-After %q: %s", a.field("Retry-After"), a.Body)
		}
	default:
		r.t.Fatalf("%d %s", a.Status, a.Body)
	}
	v.longest = max(v.longest, time.Since(v.last))
}

// Wallets whose payments cannot be settled hold a URL twice: for the validity of the
// first payment, and for a minute. After that none does that has not paid here before.
// One of them is always quicker than whoever asks each second.
func TestWalletsThatCannotPayDoNotHoldAURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const depth = 24 * time.Second
		r := newRing(t)
		var wallets []string
		for i := range 8 {
			wallets = append(wallets, fmt.Sprint("mallory-", i))
			r.network.fates[wallets[i]] = fate{lost: true, depth: depth}
		}
		long := func(tx *transaction) { tx.ValidBefore = time.Now().Add(paid.ChallengeLife).Unix() }
		v := victim{last: time.Now()}
		began, held := time.Now(), map[int]int{}
		for range 3000 {
			a := r.post(paid.OpRegister, bob)
			if a.Status == 402 && len(wallets) > 0 {
				ch := a.challenges()[0]
				expires, err := ch.ExpiresAt()
				r.must(err)
				credential := r.sign(ch, wallets[0], 100, long, func(tx *transaction) { tx.ValidBefore = min(tx.ValidBefore, expires.Unix()) })
				h := r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(bob), Authorization: []string{credential}})
				synctest.Wait()
				if h.answered() {
					held[h.wait().Status]++
				}
				wallets = wallets[1:]
			}
			v.ask(r, bob)
			time.Sleep(time.Second)
		}
		const late = 3 * time.Second // in which the block that decides is asked for
		if most := paid.ChallengeLife + depth + late + time.Minute + depth + late; v.longest > most || v.longest < time.Minute {
			t.Errorf("no 402 for %v, want %v at most", v.longest, most)
		}
		// After the second, every wallet that has not paid is turned away at once.
		if held[503] != 6 {
			t.Errorf("answers at once, by status: %v; want 503 for six wallets", held)
		}
		t.Logf("eight wallets: %v without a 402 at most, in %v", v.longest, time.Since(began))
	})
}

// Accounts that have bid once, and whose payments come to nothing, cannot hold a URL by
// turns: each gets it once an hour. Nor do they keep out those that have never paid.
func TestAccountsThatHaveBidDoNotHoldAURLByTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		r.join(ada, "alice")
		var payers []string
		for i := range 10 {
			payers = append(payers, fmt.Sprint("mallory-", i))
			r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), payers[i], 150)).is(200, "")
		}
		r.network.change(func() {
			for _, payer := range payers {
				r.network.fates[payer] = fate{lost: true}
			}
		})
		began := time.Now()
		var held []time.Duration // when one had the URL to itself
		for next := 0; time.Since(began) < 50*time.Minute; {
			if a := r.post(paid.OpRegister, bob); a.Status == 402 {
				if strings.Contains(string(a.Body), "only an account that has paid here") {
					t.Fatalf("those who never paid are kept out: %s", a.Body)
				}
				credential := r.sign(a.challenges()[0], payers[next], 100, func(tx *transaction) { tx.ValidBefore += 30 })
				next = (next + 1) % len(payers)
				h := r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(bob), Authorization: []string{credential}})
				synctest.Wait()
				if !h.answered() {
					held = append(held, time.Since(began))
				}
			}
			time.Sleep(10 * time.Second)
		}
		if len(held) != len(payers) {
			t.Errorf("they had the URL %d times, at %v", len(held), held)
		}
		r.join(bob, "an account that never paid")
	})
}

// After one failure a URL is held for a minute at most, and after two only by accounts
// that have paid here before; each for an hour.
func TestHoldsOnAURLAreShortAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		r.join(ada, "alice")
		fail := func(payer string) {
			t.Helper()
			r.network.change(func() { r.network.fates[payer] = fate{state: mpp.Failed} })
			r.post(paid.OpRegister, bob, r.sign(r.challenge(paid.OpRegister, bob), payer, 100)).is(402, api.VerificationFailed)
		}
		life := func() time.Duration {
			t.Helper()
			expires, err := r.challenge(paid.OpRegister, bob).ExpiresAt()
			r.must(err)
			return expires.Sub(r.now().Truncate(time.Second))
		}
		early := r.challenge(paid.OpRegister, bob)
		if life() != paid.ChallengeLife {
			t.Fatalf("a challenge lives %v", life())
		}
		fail("mallory")
		if life() != time.Minute {
			t.Fatalf("after a failure a challenge lives %v", life())
		}
		// A challenge of before does not hold the URL for longer either.
		long := r.sign(early, "carol", 100, func(tx *transaction) { tx.ValidBefore = time.Now().Add(61 * time.Second).Unix() })
		if a := r.post(paid.OpRegister, bob, long).is(402, api.VerificationFailed); a.member("reason") != mpp.ReasonLong || r.network.charged("carol") != 0 {
			t.Fatalf("%s", a.Body)
		}
		// Other URLs are held as before.
		if expires, err := r.challenge(paid.OpRegister, cyn).ExpiresAt(); err != nil || expires.Sub(r.now()) < paid.ChallengeLife-time.Second {
			t.Errorf("another URL's challenge expires at %v, %v", expires, err)
		}

		fail("mallory-2")
		failed := r.now()
		for range 2 {
			offered := r.post(paid.OpRegister, bob).is(402, api.PaymentRequired)
			if !strings.Contains(string(offered.Body), "only an account that has paid here before") {
				t.Errorf("the 402 does not say who can pay it: %s", offered.Body)
			}
			a := r.post(paid.OpRegister, bob, r.sign(offered.challenges()[0], "dave", 100)).is(503, api.PaymentPending)
			wait, _ := strconv.Atoi(a.field("Retry-After"))
			if until := r.now().Add(time.Duration(wait) * time.Second); until.Sub(failed) < time.Hour || until.Sub(failed) > time.Hour+time.Second || r.network.charged("dave") != 0 {
				t.Errorf("Retry-After %d, %v after the failure: %s", wait, r.now().Sub(failed), a.Body)
			}
			time.Sleep(20 * time.Minute)
			r.restart()
		}
		in := r.sign(r.challenge(paid.OpRegister, bob), "alice", 100)
		r.post(paid.OpRegister, bob, in).is(201, "")
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		for i := range 2 {
			payer := fmt.Sprint("mallory-", i)
			r.network.fates[payer] = fate{state: mpp.Failed}
			r.post(paid.OpRegister, bob, r.sign(r.challenge(paid.OpRegister, bob), payer, 100)).is(402, api.VerificationFailed)
		}
		time.Sleep(time.Hour)
		r.join(bob, "dave")
	})
}

// An account's open payments together must fit what it holds.
func TestOpenPaymentsTogetherFitTheBalance(t *testing.T) {
	urls := func(i int) string {
		return fmt.Sprintf(`{"name":"Site %d","url":"https://site-%d.dev","kind":"agent"}`, i, i)
	}
	for _, c := range []struct {
		balance int64
		open    int
	}{{115, 1}, {199, 1}, {200, 2}, {799, 7}, {10_000, 8}} {
		in(t, fmt.Sprint(c.balance, " cents"), func(t *testing.T) {
			r := newRing(t)
			r.network.balances["mallory"] = c.balance
			r.network.fates["mallory"] = fate{lost: true}
			var all []*held
			for i := range 8 {
				credential := r.sign(r.challenge(paid.OpRegister, urls(i)), "mallory", 100)
				all = append(all, r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(urls(i)), Authorization: []string{credential}}))
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if got := len(r.open()); got != c.open {
				t.Errorf("%d are open, want %d", got, c.open)
			}
			refused := 0
			for _, h := range all {
				if h.answered() {
					h.wait().is(402, api.VerificationFailed)
					refused++
				}
			}
			if refused != 8-c.open {
				t.Errorf("%d are refused", refused)
			}
		})
	}
	// What is mined and has no effect yet does not make an account seem poor, however long
	// it has no effect.
	for _, block := range []time.Duration{0, 2 * time.Second, 12 * time.Second} {
		in(t, "an honest account that spends its last cent at once, blocks of "+block.String(), func(t *testing.T) {
			r := newRing(t, func(r *ring) { r.network.block = block })
			r.network.balances["carol"] = 800
			r.network.fates["carol"] = fate{after: 500*time.Millisecond + block/2, mute: true}
			var all []*held
			for i := range 8 {
				credential := r.sign(r.challenge(paid.OpRegister, urls(i)), "carol", 100)
				all = append(all, r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(urls(i)), Authorization: []string{credential}}))
				time.Sleep(100*time.Millisecond + block/4)
			}
			for _, h := range all {
				h.wait().is(201, "")
			}
		})
	}
}

// A payment that is known to have failed releases its URL at once.
func TestFailedPaymentReleasesItsURLAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		r.network.fates["mallory"] = fate{state: mpp.Failed, after: time.Second}
		credential := r.sign(r.challenge(paid.OpRegister, bob), "mallory", 100, func(tx *transaction) { tx.ValidBefore = time.Now().Add(90 * time.Second).Unix() })
		began := time.Now()
		r.post(paid.OpRegister, bob, credential).is(402, api.VerificationFailed)
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("released after %v", took)
		}
		r.join(bob, "alice")
	})
}

// The block that decides about a payment is asked for when it is due, however long
// after the end of its validity that is.
func TestDecidingBlockIsAskedForWhenItIsDue(t *testing.T) {
	for _, depth := range []time.Duration{0, 12 * time.Second, 40 * time.Second, 150 * time.Second} {
		in(t, depth.String(), func(t *testing.T) {
			r := newRing(t)
			r.network.fates["mallory"] = fate{lost: true, depth: depth}
			began := time.Now()
			r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(bob), Authorization: []string{r.sign(r.challenge(paid.OpRegister, bob), "mallory", 100)}})
			synctest.Wait()
			for len(r.open()) > 0 {
				time.Sleep(100 * time.Millisecond)
			}
			if late := time.Since(began) - 25*time.Second - depth; late > 3*time.Second {
				t.Errorf("released %v after the block that decides", late)
			}
		})
	}
}

// However many payments for a URL have failed, the account that its site names gets it at
// once, though it never paid and one of its own has failed; and nobody is quicker, because
// for a while others do not get it. Strangers are kept out as before.
func TestASiteNamesTheAccountThatGetsItsURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwned(t)
		const site, payer = "cyn.dev", "0x00000000000000000000000000000000000000cc"
		fail := func(payer string) {
			t.Helper()
			o.network.change(func() { o.network.fates[payer] = fate{state: mpp.Failed} })
			o.post(paid.OpRegister, cyn, o.sign(o.challenge(paid.OpRegister, cyn), payer, 100)).is(402, api.VerificationFailed)
			o.network.change(func() { delete(o.network.fates, payer) })
		}
		ask := func(account string) answer {
			return o.handle(paid.Call{Operation: paid.OpRegister, Body: []byte(cyn), WalletAccount: account})
		}
		fail(payer)
		if o.sites.asked != 0 {
			t.Error("the site was asked after one failure")
		}
		fail("mallory")
		// A stranger who never paid is told who can register, and how the site says so.
		if a := ask("").is(402, api.PaymentRequired); !strings.Contains(string(a.Body), "the account that the site names") {
			t.Errorf("%s", a.Body)
		}
		told := ask(payer).is(402, api.PaymentRequired)
		_, token, _ := strings.Cut(told.member("detail").(string), "by the line ")
		token, _, _ = strings.Cut(token, " ")
		challenge := told.challenges()[0]
		if token != payer || !strings.Contains(string(told.Body), "https://cyn.dev/token.txt") || !strings.Contains(string(told.Body), "_token.cyn.dev") {
			t.Fatalf("%s", told.Body)
		}
		sent := o.network.questions("broadcast")
		if a := o.post(paid.OpRegister, cyn, o.sign(challenge, payer, 100)).is(503, api.PaymentPending); !strings.Contains(string(a.Body), token) {
			t.Errorf("%s", a.Body)
		}
		o.sites.shown[site] = []string{token}
		ask(payer).is(402, api.PaymentRequired)
		// It names no other account: neither one that never paid, nor one that has.
		for _, other := range []string{"mallory-2", alice} {
			a := ask("").is(402, api.PaymentRequired)
			if !strings.Contains(string(a.Body), "the site names the account") {
				t.Errorf("%s", a.Body)
			}
			wait, err := strconv.Atoi(o.post(paid.OpRegister, cyn, o.sign(a.challenges()[0], other, 100)).is(503, api.PaymentPending).field("Retry-After"))
			if err != nil || wait < 500 || wait > 600 {
				t.Errorf("%s waits %d, %v", other, wait, err)
			}
		}
		if n := o.network.questions("broadcast") - sent; n != 0 {
			t.Errorf("%d were sent", n)
		}
		a := ask(payer).is(402, api.PaymentRequired)
		if strings.Contains(string(a.Body), "Payments for this address") {
			t.Errorf("it is told of others: %s", a.Body)
		}
		o.post(paid.OpRegister, cyn, o.sign(a.challenges()[0], payer, 100)).is(201, "")
	})
}

// The site keeps a URL for the account that it names for some minutes, not for ever.
func TestASiteKeepsItsURLForSomeMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwned(t)
		const payer = "0x00000000000000000000000000000000000000cc"
		for _, mallory := range []string{"mallory", "mallory-2"} {
			o.network.change(func() { o.network.fates[mallory] = fate{state: mpp.Failed} })
			o.post(paid.OpRegister, cyn, o.sign(o.challenge(paid.OpRegister, cyn), mallory, 100)).is(402, api.VerificationFailed)
		}
		o.sites.shown["cyn.dev"] = []string{payer}
		o.handle(paid.Call{Operation: paid.OpRegister, Body: []byte(cyn), WalletAccount: payer}).is(402, api.PaymentRequired)
		o.post(paid.OpRegister, cyn, o.sign(o.challenge(paid.OpRegister, cyn), alice, 100)).is(503, api.PaymentPending)
		time.Sleep(11 * time.Minute)
		o.post(paid.OpRegister, cyn, o.sign(o.challenge(paid.OpRegister, cyn), alice, 100)).is(201, "")
	})
}
