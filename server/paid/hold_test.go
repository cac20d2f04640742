package paid_test

import (
	"fmt"
	"slices"
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

// ask asks once. It fails unless the refusal is the one for a client that has not paid.
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

// Wallets with payments that cannot be settled hold a URL twice. After that, wallets that have not paid
// here before cannot hold it. One of them is always quicker than a client that asks each second.
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
		for range 600 {
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
		if most := 2 * (time.Minute + depth + late); v.longest > most || v.longest < time.Minute {
			t.Errorf("no 402 for %v, want %v at most", v.longest, most)
		}
		if time.Since(v.last) > time.Second || len(wallets) > 0 {
			t.Errorf("at the end the URL is held, with %d wallets left", len(wallets))
		}
		// After the second, every wallet that has not paid is turned away at once.
		same(t, held[503], 6)
		t.Logf("eight wallets: %v without a 402 at most, in %v", v.longest, time.Since(began))
	})
}

// Accounts that have bid once, with payments that come to nothing, cannot hold a URL by
// turns: each gets it twice an hour. Nor do they keep out those that have never paid.
func TestAccountsThatHaveBidDoNotHoldAURLByTurns(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
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
		same(t, len(held), 2*len(payers))
		r.join(bob, "an account that never paid")
	})
}

// Once two payments for a URL have failed, accounts that have never paid wait until the first of them is an
// hour old, and so does an account that has paid, if both were its own. Other URLs are free for all.
func TestTwoFailuresKeepOutThoseThatNeverPaid(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		fail := func(payer string) time.Time {
			t.Helper()
			r.network.change(func() { r.network.fates[payer] = fate{state: mpp.Failed} })
			r.tries(bob, payer).is(402, api.VerificationFailed)
			return r.now()
		}
		refused := func(payer string, failed time.Time) {
			t.Helper()
			a := r.tries(bob, payer).is(503, api.PaymentPending)
			wait, _ := strconv.Atoi(a.field("Retry-After"))
			free := failed.Add(time.Hour)
			if until := r.now().Add(time.Duration(wait) * time.Second); until.Before(free) || until.After(free.Add(time.Second)) ||
				!strings.Contains(string(a.Body), "until "+free.UTC().Format(time.RFC3339)) {
				t.Errorf("Retry-After %d, %v after the failure: %s", wait, r.now().Sub(failed), a.Body)
			}
		}
		first := fail("mallory")
		time.Sleep(10 * time.Minute)
		second := fail("mallory-2")
		if a := r.post(paid.OpRegister, bob).is(402, api.PaymentRequired); !strings.Contains(string(a.Body), "until "+second.Add(time.Hour).UTC().Format(time.RFC3339)) {
			t.Errorf("the 402 does not say until when: %s", a.Body)
		}
		sent := r.network.questions("broadcast")
		for range 2 {
			refused("dave", first)
			refused("mallory", first)
			time.Sleep(15 * time.Minute)
			r.restart()
		}
		same(t, r.network.questions("broadcast")-sent, 0)
		r.join(cyn, "dave")
		own := fail("alice")
		fail("alice")
		refused("alice", own)
		time.Sleep(first.Add(time.Hour).Sub(r.now()))
		r.join(bob, "erin")
	})
}

// What an account that has never paid asks of a network is cheap: its balance comes first and alone, what it lacks
// is remembered for a while, and all such accounts share a bound.
func TestAccountsWithoutMoneyCostLittle(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		asked := func(do func()) [3]int {
			t.Helper()
			before := [3]int{r.network.questions("holds"), r.network.questions("simulate"), r.network.questions("seen")}
			do()
			return [3]int{r.network.questions("holds") - before[0], r.network.questions("simulate") - before[1], r.network.questions("seen") - before[2]}
		}
		bid := func(payer string, changes ...func(*transaction)) string {
			return r.sign(r.challenge(paid.OpBid, fund), payer, 150, changes...)
		}
		poor := func(payer string, cents int64) { r.network.change(func() { r.network.balances[payer] = cents }) }
		poor("mallory", 149)
		first, second := bid("mallory"), bid("mallory")
		same(t, asked(func() {
			r.post(paid.OpBid, fund, first).is(402, api.VerificationFailed).shows("reason", mpp.ReasonFunds)
		}), [3]int{1, 0, 0}) // the network said that it was not made
		same(t, asked(func() {
			for _, credential := range []string{first, second, first} {
				r.post(paid.OpBid, fund, credential).is(503, api.PaymentsUnavailable).waits(14, 15).shows("reason", mpp.ReasonFunds)
			}
		}), [3]int{})
		// It is asked for less, and again after a while.
		r.post(paid.OpRegister, cyn, r.sign(r.challenge(paid.OpRegister, cyn), "mallory", 100)).is(201, "")
		poor("eve", 149)
		early := bid("eve")
		r.post(paid.OpBid, fund, early).is(402, api.VerificationFailed)
		poor("eve", 150)
		r.post(paid.OpBid, fund, early).is(503, api.PaymentsUnavailable)
		time.Sleep(15 * time.Second)
		r.post(paid.OpBid, fund, bid("eve")).is(200, "")

		// Accounts that have paid are simulated at once, and their payments take their turn.
		poor("alice", 10_000)
		same(t, asked(func() { r.post(paid.OpBid, fund, bid("alice")).is(200, "") }), [3]int{0, 1, 0})

		// One that has spent what it holds on this payment has its effect.
		poor("dave", 150)
		credential := bid("dave")
		r.send(credential)
		r.post(paid.OpBid, fund, credential).is(200, "")

		// Where the network takes its time, a crowd of them keeps nobody out that has paid.
		r.network.change(func() { r.network.stuck = "holds" })
		var crowd []*held
		same(t, asked(func() {
			for i := range 60 {
				c := paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{bid(fmt.Sprint("crowd-", i))}, Client: fmt.Sprintf("192.0.%d.1", i)}
				crowd = append(crowd, r.begin(c))
			}
			synctest.Wait()
		}), [3]int{8, 0, 0})
		r.post(paid.OpBid, fund, bid("alice")).is(200, "")
		for _, h := range crowd {
			h.wait().is(503, api.PaymentsUnavailable)
		}
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
		inRing(t, fmt.Sprint(c.balance, " cents"), func(t *testing.T, r *ring) {
			r.network.balances["mallory"] = c.balance
			r.network.fates["mallory"] = fate{lost: true}
			var all []*held
			for i := range 8 {
				credential := r.sign(r.challenge(paid.OpRegister, urls(i)), "mallory", 100)
				all = append(all, r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(urls(i)), Authorization: []string{credential}}))
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			same(t, len(r.open()), c.open)
			refused := 0
			for _, h := range all {
				if h.answered() {
					h.wait().is(402, api.VerificationFailed)
					refused++
				}
			}
			same(t, refused, 8-c.open)
		})
	}
	// What is mined and has no effect yet does not make an account seem poor, however long
	// it has no effect.
	for _, block := range []time.Duration{0, 2 * time.Second, 12 * time.Second} {
		inRing(t, "an honest account that spends its last cent at once, blocks of "+block.String(), func(t *testing.T, r *ring) {
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
		}, func(r *ring) { r.network.block = block })
	}
}

// Two payments of an account are asked about before either is reserved: one balance does not do for both.
func TestOneBalanceIsNotEnoughForTwoPaymentsAtOnce(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.network.balances["bob"], r.network.fates["bob"] = 299, fate{after: 10 * time.Second}
		var credentials []string
		for range 2 {
			credentials = append(credentials, r.sign(r.challenge(paid.OpBid, fund), "bob", 150))
		}
		synctest.Wait()
		open := r.hold("commit") // the writer is busy, so both wait for their reservations
		r.clients.Go(func() { r.credit("ada", 1) })
		synctest.Wait()
		var all []*held
		for _, credential := range credentials {
			all = append(all, r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}}))
		}
		open()
		synctest.Wait()
		r.has(amounts{"open": 1})
		time.Sleep(5 * time.Second)
		if !all[0].answered() {
			slices.Reverse(all)
		}
		all[0].wait().is(402, api.VerificationFailed).shows("reason", mpp.ReasonFunds)
		all[1].wait().is(200, "")
		r.has(amounts{"ada": 251, "bob paid": 150, "open": 0})
	})
}

// A payment that is known to have failed releases its URL at once.
func TestFailedPaymentReleasesItsURLAtOnce(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
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
		inRing(t, depth.String(), func(t *testing.T, r *ring) {
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
// once, though it never paid and one of its own has failed. No account is quicker: others wait
// until the hour is over. Nothing is sent while the site cannot be asked.
func TestASiteNamesTheAccountThatGetsItsURL(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
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
		same(t, o.sites.asked, 1) // for the account that failed, with its new offer
		fail("mallory")
		// A stranger who never paid is told who can register, and how the site says so.
		if a := ask("").is(402, api.PaymentRequired); !strings.Contains(string(a.Body), "a request with an account in Wallet-Account is told how") {
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
			o.tries(cyn, other).is(503, api.PaymentPending).waits(3599, 3600)
			o.sites.busy = time.Minute
			o.tries(cyn, other).is(503, api.PaymentsUnavailable)
			o.sites.busy = 0
		}
		same(t, o.network.questions("broadcast")-sent, 0)
		a := ask(payer).is(402, api.PaymentRequired)
		if strings.Contains(string(a.Body), "for this address") {
			t.Errorf("it is told of others: %s", a.Body)
		}
		o.post(paid.OpRegister, cyn, o.sign(a.challenges()[0], payer, 100)).is(201, "")
	})
}

// A payment that began before another one for its URL failed does not hold the URL either if the site names
// other accounts.
func TestASiteIsAskedAfterAPaymentHasFailed(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		o.sites.show("cyn.dev", "0x00000000000000000000000000000000000000cc")
		o.network.change(func() {
			o.network.fates["mallory"] = fate{after: 500 * time.Millisecond, state: mpp.Failed}
			o.network.fates["mallory-2"] = fate{lost: true}
			o.network.balances["mallory-2"] = 200
		})
		one, two, bid := o.challenge(paid.OpRegister, cyn), o.challenge(paid.OpRegister, cyn), o.challenge(paid.OpBid, fund)
		o.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{o.sign(bid, "mallory-2", 150)}})
		synctest.Wait()
		second := o.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(cyn), Authorization: []string{o.sign(two, "mallory-2", 100)}})
		synctest.Wait() // it waits for its balance
		o.post(paid.OpRegister, cyn, o.sign(one, "mallory", 100)).is(402, api.VerificationFailed)
		o.network.change(func() { o.network.balances["mallory-2"] = 1000 })
		second.wait().is(503, api.PaymentPending)
		o.tries(cyn, "mallory-3").is(503, api.PaymentPending)
	})
}

// A site names its account at once: while the first payment of a stranger holds its URL, so that no second one does.
func TestASiteNamesItsAccountWhileAnotherPays(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		const payer = "0x00000000000000000000000000000000000000cc"
		ask := func(account string) answer {
			return o.handle(paid.Call{Operation: paid.OpRegister, Body: []byte(cyn), WalletAccount: account})
		}
		early := o.challenge(paid.OpRegister, cyn)
		o.network.change(func() { o.network.fates["mallory"] = fate{lost: true} })
		h := o.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(cyn), Authorization: []string{o.sign(o.challenge(paid.OpRegister, cyn), "mallory", 100)}})
		synctest.Wait()
		if a := ask("").is(503, api.PaymentPending); !strings.Contains(string(a.Body), "Wallet-Account") {
			t.Errorf("%s", a.Body)
		}
		if a := ask(payer).is(503, api.PaymentPending); !strings.Contains(string(a.Body), "https://cyn.dev/token.txt") {
			t.Errorf("%s", a.Body)
		}
		o.sites.show("cyn.dev", payer)
		ask(payer).is(503, api.PaymentPending)
		h.wait().is(402, api.VerificationFailed)
		sent := o.network.questions("broadcast")
		o.post(paid.OpRegister, cyn, o.sign(early, "mallory-2", 100)).is(503, api.PaymentPending)
		same(t, o.network.questions("broadcast")-sent, 0)
		o.post(paid.OpRegister, cyn, o.sign(ask(payer).is(402, api.PaymentRequired).challenges()[0], payer, 100)).is(201, "")
	})
}

// account is the n-th account as the network of a chain names it.
func account(n, chain int) string { return fmt.Sprintf("did:pkh:eip155:%d:0x%040x", chain, n) }

// site is a registration at a URL, in a category.
func site(url, category string) string {
	return fmt.Sprintf(`{"name":"Somebody","url":%q,"kind":"website","category":%q}`, url, category)
}

// tries registers by a payment of an account, up to whatever comes of it.
func (r *ring) tries(body, payer string) answer {
	r.t.Helper()
	return r.post(paid.OpRegister, body, r.sign(r.challenge(paid.OpRegister, body), payer, 100))
}

// atOnce has n registrations paid for while none of them is mined, and says how many
// joined. The others are refused with the code.
func (r *ring) atOnce(n int, code api.Code, of func(n int) (body, payer string)) (joined int) {
	r.t.Helper()
	var all []*held
	for i := range n {
		body, payer := of(i)
		r.network.change(func() { r.network.fates[payer] = fate{after: 10 * time.Second} })
		all = append(all, r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(body),
			Authorization: []string{r.sign(r.challenge(paid.OpRegister, body), payer, 100)}}))
	}
	for _, h := range all {
		if a := h.wait(); a.Status == 201 {
			joined++
		} else {
			a.is(422, code)
		}
	}
	return joined
}

// limited fails unless a field was refused for the account, and nothing charged.
func (r *ring) limited(a answer, code api.Code, pointer, payer string, charged int64) {
	r.t.Helper()
	a.is(422, code)
	found, _ := a.member("errors").([]any)
	if len(found) != 1 || found[0].(map[string]any)["pointer"] != pointer {
		r.t.Errorf("found at %v, want %s", found, pointer)
	}
	same(r.t, r.network.charged(payer), charged)
}

func TestAnAccountOpensThreeNewCategoriesADay(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		in := func(n int, category string) string { return site(fmt.Sprintf("https://s%d.dev", n), category) }
		mallory, elsewhere, alice := account(1, 42431), account(1, 8453), account(2, 42431)
		for n := range 2 {
			r.tries(in(n, fmt.Sprint("new-", n)), mallory).is(201, "")
		}
		r.tries(in(2, "new-2"), elsewhere).is(201, "") // the same account on another network
		for range 2 {
			r.limited(r.tries(in(3, "new-3"), mallory), api.CategoryUnavailable, "/category", mallory, 200)
			r.limited(r.tries(in(3, "new-3"), elsewhere), api.CategoryUnavailable, "/category", elsewhere, 100)
			r.restart()
		}
		r.tries(in(30, "general"), mallory).is(201, "") // is everybody's
		r.tries(in(31, "new-3"), account(3, 42431)).is(201, "")
		r.must(r.remove("somebody-5", false))
		r.tries(in(3, "new-0"), mallory).is(201, "") // is open
		r.tries(in(4, "new-3"), alice).is(201, "")   // another account
		r.tries(in(5, "new-3"), mallory).is(201, "") // is open now
		time.Sleep(24*time.Hour + time.Second)
		r.tries(in(6, "new-4"), mallory).is(201, "")
	})
}

// What an account has open counts as well, or all at once would be let in.
func TestAnAccountOpensThreeNewCategoriesAtOnce(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		mallory := account(1, 42431)
		joined := r.atOnce(8, api.CategoryUnavailable, func(n int) (body, payer string) {
			return site(fmt.Sprintf("https://s%d.dev", n), fmt.Sprint("new-", n)), mallory
		})
		if charged := r.network.charged(mallory); joined != 3 || charged != 300 {
			t.Errorf("%d joined, and %d cents were charged", joined, charged)
		}
	})
}

func TestThreeMembersByDifferentAccountsAreOnADomain(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		at := func(url string) string { return site(url, "general") }
		ada, bob, cyn, dan := account(1, 42431), account(2, 42431), account(3, 42431), account(4, 42431)
		r.tries(at("https://victim.dev"), ada).is(201, "")
		r.tries(at("https://a.victim.dev"), bob).is(201, "")
		r.tries(at("https://www.victim.dev/~cyn"), cyn).is(201, "")
		for range 2 {
			for payer, charged := range map[string]int64{bob: 100, cyn: 100, dan: 0} {
				r.limited(r.tries(at("https://b.a.victim.dev"), payer), api.InvalidRequest, "/url", payer, charged)
			}
			r.restart()
		}
		// The account that was first has as many as it likes, on whichever network.
		r.tries(at("https://x.victim.dev"), account(1, 8453)).is(201, "")
		r.tries(at("https://victim.dev/y"), ada).is(201, "")
		// Names below a public suffix are domains of their own.
		for n, url := range []string{"https://one.github.io", "https://two.github.io", "https://three.github.io", "https://four.github.io", "https://victim.co.uk", "https://notvictim.dev"} {
			r.tries(at(url), account(10+n, 42431)).is(201, "")
		}
		r.must(r.remove("somebody-2", true)) // bob's
		r.tries(at("https://b.a.victim.dev"), dan).is(201, "")
		r.limited(r.tries(at("https://c.victim.dev"), bob), api.InvalidRequest, "/url", bob, 100)
	})
}

// withSites has the ring look at sites that show what is put on them.
func withSites(r *ring) *sites {
	shown := &sites{shown: map[string][]string{}}
	r.config = func(cfg *paid.Config) { cfg.Prover, cfg.MemberSites = signer{}, shown }
	return shown
}

// Strangers that fill a shared host do not keep out the accounts that its pages name.
func TestASiteThatNamesAnAccountOpensItsDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown *sites
		r := newRing(t, func(r *ring) { shown = withSites(r) })
		at := func(url string) string { return site(url, "general") }
		for n, url := range []string{"https://shared.dev/~a", "https://shared.dev/~b", "https://c.shared.dev"} {
			r.tries(at(url), account(n+1, 42431)).is(201, "")
		}
		if shown.asked > 0 {
			t.Errorf("%d sites were asked though nobody was kept out", shown.asked)
		}
		dan, eve := account(4, 42431), account(5, 42431)
		r.limited(r.tries(at("https://shared.dev/~dan"), dan), api.InvalidRequest, "/url", dan, 0)
		shown.show("https://shared.dev/~dan", dan)
		r.limited(r.tries(at("https://shared.dev/~dan"), eve), api.InvalidRequest, "/url", eve, 0)  // another account
		r.limited(r.tries(at("https://shared.dev/~dan2"), dan), api.InvalidRequest, "/url", dan, 0) // another page
		r.tries(at("https://shared.dev/~dan"), dan).is(201, "")
		shown.show("e.shared.dev", eve)
		r.tries(at("https://e.shared.dev/x"), eve).is(201, "")
	})
}

// Strangers who fill a domain do not keep its root from its owner.
func TestTheRootOfADomainStaysOpen(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		for n, url := range []string{"https://victim.dev/a", "https://b.victim.dev", "https://victim.dev/c"} {
			r.tries(site(url, "general"), account(n+1, 42431)).is(201, "")
		}
		r.limited(r.tries(site("https://victim.dev/d", "general"), account(4, 42431)), api.InvalidRequest, "/url", account(4, 42431), 0)
		r.tries(site("https://www.victim.dev/", "general"), account(5, 42431)).is(201, "")
	})
}

// Payments that are open count, and one that has come in spite of a limit has its
// effect: money in hand is not sent back.
func TestAccountsThatPayAtOnceShareADomain(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		joined := r.atOnce(6, api.InvalidRequest, func(n int) (body, payer string) {
			return site(fmt.Sprintf("https://s%d.victim.dev", n), "general"), account(1+n, 42431)
		})
		same(t, joined, 3)
		const late = "https://late.victim.dev"
		bob := account(20, 42431)
		rows := r.rows()
		r.must(r.remove("somebody", false)) // there is room for one more
		r.must(r.remove("somebody-2", false))
		ch := r.challenge(paid.OpRegister, site(late, "general"))
		credential := r.sign(ch, bob, 100)
		r.post(paid.OpRegister, site(late, "general"), credential).is(201, "")
		r.restore(rows, 0) // and it was lost with a disk
		r.post(paid.OpRegister, site(late, "general"), credential).is(201, "")
		same(t, r.network.charged(bob), 100)
	})
}
