package paid_test

import (
	"context"
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

// counted has a transaction use up a nonce of its account and have no end, as the Go and
// Python clients make them.
func counted(nonce string) func(*transaction) {
	return func(tx *transaction) { tx.ValidBefore, tx.Nonce = 0, nonce }
}

// strand has a payer make a payment without an end that is not mined, until it has lapsed. It
// gives the challenge and the credential.
func (r *ring) strand(op, body, payer string, cents int64) (mpp.Challenge, string) {
	r.t.Helper()
	r.network.change(func() { r.network.fates[payer] = fate{after: 24 * time.Hour} })
	ch := r.challenge(op, body)
	credential := r.sign(ch, payer, cents, counted(payer+":7"))
	r.post(op, body, credential).is(503, api.PaymentPending)
	time.Sleep(15 * time.Second)
	if v := r.stored(ch); v.State != ledger.Reserved || v.Lapsed.IsZero() {
		r.t.Fatalf("not lapsed: %+v", v)
	}
	return ch, credential
}

// A payment without an end that is not mined holds its URL for little more than a minute, and
// counts as a failure from then on. It is waited for, and what becomes of it is told: its
// effect, whether or not there was another process; nothing, if its nonce was used by another;
// a matter for the operator, if others have what it was for; and after an hour that nobody
// waits for it any more.
func TestAPaymentWithoutAnEndThatIsNotMined(t *testing.T) {
	mine := func(r *ring) { r.network.change(func() { r.network.fates["mallory"] = fate{} }) }
	for _, c := range []struct {
		name string
		then func(r *ring)
		is   int
		code api.Code
		has  amounts
		wait time.Duration
	}{
		{"mined late", mine, 201, "", amounts{"bob": 100, "mallory paid": 100, "open": 0}, time.Minute},
		{"mined when the ring is full", func(r *ring) { r.fill(); mine(r) }, 409, api.PaymentUnapplied,
			amounts{"bob": 0, "mallory paid": 100, "open": 0}, time.Minute},
		{"mined when another has the URL, in a block that is dropped", func(r *ring) {
			r.join(bob, "dave")
			r.network.change(func() { r.network.fates["mallory"] = fate{shallow: true} })
			time.Sleep(time.Minute)
			r.network.change(func() { r.network.fates["mallory"] = fate{after: 24 * time.Hour} })
		}, 503, api.PaymentPending, amounts{"bob": 100, "dave paid": 100, "mallory paid": 0, "open": 1}, time.Minute},
		{"mined late, in another process", func(r *ring) { r.restart(); mine(r) }, 201, "", amounts{"bob": 100, "mallory paid": 100, "open": 0}, time.Minute},
		{"mined when another has the URL", func(r *ring) { r.join(bob, "dave"); mine(r) }, 409, api.PaymentUnapplied,
			amounts{"bob": 100, "dave paid": 100, "mallory paid": 100, "open": 0}, time.Minute},
		{"mined while another pays for the URL", func(r *ring) {
			r.network.change(func() { r.network.fates["dave"] = fate{after: 20 * time.Second} })
			h := r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(bob), Authorization: []string{r.sign(r.challenge(paid.OpRegister, bob), "dave", 100)}})
			synctest.Wait()
			mine(r)
			h.wait().is(201, "")
		}, 409, api.PaymentUnapplied, amounts{"bob": 100, "dave paid": 100, "mallory paid": 100, "open": 0}, time.Minute},
		{"its nonce used by another", func(r *ring) { r.network.change(func() { r.network.used["mallory:7"] = true }) }, 409, api.CredentialReused,
			amounts{"bob": 0, "mallory paid": 0, "open": 0}, time.Minute},
		{"not mined yet", func(*ring) {}, 503, api.PaymentPending, amounts{"bob": 0, "mallory paid": 0, "open": 1}, 30 * time.Minute},
		{"not mined, and its network silent since", func(r *ring) { r.network.change(func() { r.network.down = true }) }, 503, api.PaymentPending,
			amounts{"bob": 0, "mallory paid": 0, "open": 1}, 3 * time.Hour},
		{"not mined, and its network stands still since", func(r *ring) { r.network.change(func() { r.network.frozen = time.Now() }) }, 503, api.PaymentPending,
			amounts{"bob": 0, "mallory paid": 0, "open": 1}, 3 * time.Hour},
		{"mined when its network goes on after hours", func(r *ring) {
			r.network.change(func() { r.network.frozen = time.Now() })
			time.Sleep(3 * time.Hour)
			r.network.change(func() { r.network.frozen = time.Time{} })
			time.Sleep(40 * time.Second)
			mine(r)
		}, 201, "", amounts{"bob": 100, "mallory paid": 100, "open": 0}, time.Minute},
		{"mined when the next process has begun", func(r *ring) {
			r.stop()
			time.Sleep(3 * time.Hour)
			r.start(r.store, r.headBytes(r.process))
			time.Sleep(40 * time.Second)
			mine(r)
		}, 201, "", amounts{"bob": 100, "mallory paid": 100, "open": 0}, time.Minute},
		{"never mined", func(*ring) {}, 409, api.CredentialReused, amounts{"bob": 0, "mallory paid": 0, "open": 0}, 62 * time.Minute},
	} {
		inRing(t, c.name, func(t *testing.T, r *ring) {
			began := time.Now()
			ch, credential := r.strand(paid.OpRegister, bob, "mallory", 100)
			if held := r.stored(ch).Lapsed.Sub(began); held < time.Minute || held > time.Minute+15*time.Second {
				t.Errorf("held for %v", held)
			}
			// It counts as a failure, and its payer pays for the URL in no other way.
			r.post(paid.OpRegister, bob, r.sign(r.challenge(paid.OpRegister, bob), "mallory", 100)).is(503, api.PaymentPending)
			if a := r.post(paid.OpRegister, bob).is(402, api.PaymentRequired); !strings.Contains(string(a.Body), "Payments for this address have failed.") {
				t.Errorf("%s", a.Body)
			}
			if a := r.post(paid.OpRegister, bob, credential).is(503, api.PaymentPending); !strings.Contains(string(a.Body), "use the nonce for another transaction") {
				t.Errorf("%s", a.Body)
			}
			c.then(r)
			time.Sleep(c.wait)
			a := r.post(paid.OpRegister, bob, credential).is(c.is, c.code)
			if r.has(c.has); c.code == api.CredentialReused {
				want := map[bool]string{true: "failed", false: "pending"}[r.network.used["mallory:7"]]
				a.shows("outcome", want)
			}
		})
	}
}

// farAhead has a transaction end 270 seconds from now, as clients do since the chain takes that.
func farAhead(tx *transaction) { tx.ValidBefore = time.Now().Add(270 * time.Second).Unix() }

// A payment that ends far ahead holds its URL and its request for no longer than one without an end. Until its end it
// has its effect if it is mined; then it has failed.
func TestAPaymentThatEndsFarAhead(t *testing.T) {
	mine := func(r *ring) { r.network.change(func() { r.network.fates["mallory"] = fate{} }) }
	for _, c := range []struct {
		name string
		then func(r *ring)
		is   int
		code api.Code
		has  amounts
		wait time.Duration
	}{
		{"mined late", mine, 201, "", amounts{"bob": 100, "mallory paid": 100, "open": 0}, time.Minute},
		{"mined late, in another process", func(r *ring) { r.restart(); mine(r) }, 201, "", amounts{"bob": 100, "mallory paid": 100, "open": 0}, time.Minute},
		{"mined when another has the URL", func(r *ring) { r.join(bob, "dave"); mine(r) }, 409, api.PaymentUnapplied,
			amounts{"bob": 100, "dave paid": 100, "mallory paid": 100, "open": 0}, time.Minute},
		{"not mined yet", func(*ring) {}, 503, api.PaymentPending, amounts{"bob": 0, "mallory paid": 0, "open": 1}, 2 * time.Minute},
		{"never mined", func(*ring) {}, 409, api.CredentialReused, amounts{"bob": 0, "mallory paid": 0, "open": 0}, 4 * time.Minute},
		{"never mined, in another process", func(r *ring) { r.restart() }, 409, api.CredentialReused, amounts{"bob": 0, "mallory paid": 0, "open": 0}, 4 * time.Minute},
		{"not known, as its network is silent", func(r *ring) { r.network.change(func() { r.network.down = true }) }, 503, api.PaymentPending,
			amounts{"bob": 0, "mallory paid": 0, "open": 1}, time.Hour},
	} {
		inRing(t, c.name, func(t *testing.T, r *ring) {
			r.network.change(func() { r.network.fates["mallory"] = fate{after: 24 * time.Hour} })
			ch := r.challenge(paid.OpRegister, bob)
			credential := r.sign(ch, "mallory", 100, farAhead)
			began := time.Now()
			r.post(paid.OpRegister, bob, credential).is(503, api.PaymentPending)
			if held := time.Since(began); held > 75*time.Second {
				t.Errorf("its request was held for %v", held)
			}
			time.Sleep(15 * time.Second)
			if v := r.stored(ch); v.State != ledger.Reserved || v.Lapsed.IsZero() {
				t.Fatalf("not lapsed: %+v", v)
			}
			for name, a := range map[string]answer{
				"another payment for the URL": r.post(paid.OpRegister, bob, r.sign(r.challenge(paid.OpRegister, bob), "mallory", 100)).is(503, api.PaymentPending),
				"it, presented again":         r.post(paid.OpRegister, bob, credential).is(503, api.PaymentPending),
			} {
				if until := began.Add(270 * time.Second).UTC().Format(time.RFC3339); !strings.Contains(string(a.Body), until) || strings.Contains(string(a.Body), "nonce") {
					t.Errorf("%s: does not say until %s: %s", name, until, a.Body)
				}
			}
			c.then(r)
			time.Sleep(c.wait)
			a := r.post(paid.OpRegister, bob, credential).is(c.is, c.code)
			if r.has(c.has); c.code == api.CredentialReused {
				a.shows("outcome", "failed")
			}
		})
	}
	// After a failure its URL can be paid for like this, too. An account has two of them open.
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.network.fates["mallory"] = fate{state: mpp.Failed}
		early := r.challenge(paid.OpRegister, bob)
		r.post(paid.OpRegister, bob, r.sign(r.challenge(paid.OpRegister, bob), "mallory", 100)).is(402, api.VerificationFailed)
		r.post(paid.OpRegister, bob, r.sign(early, "carol", 100, farAhead)).is(201, "")
		r.network.fates["carol"] = fate{after: 24 * time.Hour}
		for range 2 {
			r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(r.challenge(paid.OpBid, fund), "carol", 150, farAhead)}})
		}
		synctest.Wait()
		a := r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "carol", 150, farAhead)).is(503, api.PaymentPending)
		if !strings.Contains(string(a.Body), "more than 90 seconds ahead") {
			t.Errorf("%s", a.Body)
		}
	})
}

// A payment that was given up can still be mined, so its Idempotency-Key stays used: a client
// that lost its credential does not pay twice.
func TestAPaymentThatWasGivenUpKeepsItsKey(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		const key = "one"
		r.network.fates["mallory"] = fate{after: 24 * time.Hour}
		ch := r.challenge(paid.OpBid, fund)
		r.handle(keyed(paid.OpBid, fund, key, r.sign(ch, "mallory", 150, counted("mallory:7")))).is(503, api.PaymentPending)
		time.Sleep(2 * time.Hour)
		if v := r.stored(ch); v.State != ledger.Failed {
			t.Fatalf("not given up: %+v", v)
		}
		r.handle(keyed(paid.OpBid, fund, key)).is(409, api.IdempotencyKeyUsed).shows("outcome", "pending")
		r.handle(keyed(paid.OpBid, fund, key, r.sign(r.challenge(paid.OpBid, fund), "mallory", 150))).is(409, api.IdempotencyKeyUsed)
		r.has(amounts{"ada": 100, "mallory paid": 0, "open": 0})
	})
}

// A payment that is mined after it was given up is the operator's: its money is found, and can
// be credited.
func TestAPaymentThatIsMinedAfterItWasGivenUp(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		ch, credential := r.strand(paid.OpBid, fund, "mallory", 150)
		time.Sleep(2 * time.Hour)
		if v := r.stored(ch); v.State != ledger.Failed || v.Body != nil || strings.Contains(string(v.Payment), "salt") {
			t.Errorf("%+v", v)
		}
		given, err := paid.StoredPayment(r.stored(ch))
		r.must(err)
		r.network.change(func() {
			r.network.fates["mallory"] = fate{}
			r.network.sent[given.Reference] = sent{given, time.Now(), ""}
		})
		all, err := r.service.Scan(t.Context(), time.Now().Add(-24*time.Hour), false)
		if err != nil || len(all) != 1 || all[0].Missing != 150 || all[0].Transfer.Payer != "mallory" {
			t.Errorf("%+v, %v", all, err)
		}
		// Another payment of its account over the same sum, which is open, does not account for it.
		r.network.change(func() { r.network.fates["mallory"] = fate{lost: true, forgotten: true} })
		r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(r.challenge(paid.OpBid, fund), "mallory", 150)}})
		time.Sleep(24 * time.Hour)
		r.has(amounts{"open": 1})
		if n := strings.Count(r.log.String(), `payments scan" network=coin:test transaction=`+given.Reference+" "); n != 1 {
			t.Errorf("the daily look tells %d times of it", n)
		}
		a := r.post(paid.OpBid, fund, credential).is(409, api.CredentialReused)
		if a.shows("outcome", "pending"); !strings.Contains(string(a.Body), "give the operator the transaction") {
			t.Errorf("%s", a.Body)
		}
	})
}

// The power fails when a payment has lapsed, and the next process knows it.
func TestPowerFailsWhenAPaymentHasLapsed(t *testing.T) {
	for _, step := range []string{"commit:2", "head:2", "lapsed"} {
		inAdasRing(t, step, func(t *testing.T, r *ring) {
			synctest.Wait()
			r.network.change(func() { r.network.fates["bob"] = fate{after: 5 * time.Minute} })
			credential := r.sign(r.challenge(paid.OpBid, fund), "bob", 150, counted("bob:7"))
			next := r.failAt(step)
			r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}})
			time.Sleep(2 * time.Minute)
			next()
			time.Sleep(time.Minute)
			r.look(func(v *ledger.View) {
				if all := v.Open(); len(all) != 1 || all[0].Lapsed.IsZero() || v.OpenPayments() != 0 {
					t.Errorf("%d open, %d of them not lapsed", len(all), v.OpenPayments())
				}
			})
			time.Sleep(5 * time.Minute)
			r.post(paid.OpBid, fund, credential).is(200, "")
			r.has(amounts{"ada": 250, "bob paid": 150, "open": 0})
		})
	}
}

// While a network is silent or stands still, nothing says that a payment is not mined: it
// stays as it is.
func TestAPaymentDoesNotLapseWhileItsNetworkIsSilent(t *testing.T) {
	for name, silence := range map[string]func(n *network){
		"silent":       func(n *network) { n.down = true },
		"stands still": func(n *network) { n.frozen = time.Now() },
	} {
		inRing(t, name, func(t *testing.T, r *ring) {
			r.network.fates["carol"] = fate{after: 3 * time.Minute}
			ch := r.challenge(paid.OpRegister, bob)
			credential := r.sign(ch, "carol", 100, counted("carol:7"))
			h := r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(bob), Authorization: []string{credential}})
			synctest.Wait()
			r.network.change(func() { silence(r.network) })
			h.wait().is(503, api.PaymentPending)
			time.Sleep(10 * time.Minute)
			if v := r.stored(ch); v.State == ledger.Reserved && !v.Lapsed.IsZero() {
				t.Errorf("%+v", v)
			}
			r.network.change(func() { r.network.down, r.network.frozen = false, time.Time{} })
			time.Sleep(time.Minute)
			r.post(paid.OpRegister, bob, credential).is(201, "")
			r.has(amounts{"bob": 100, "carol paid": 100, "open": 0})
		})
	}
}

// A bid that lapsed has its effect when it is mined, even if its member has left meanwhile.
func TestAMemberLeavesForWhichAPaymentHasLapsed(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		_, credential := r.strand(paid.OpBid, fund, "mallory", 150)
		r.must(r.remove("ada", true))
		r.network.change(func() { r.network.fates["mallory"] = fate{} })
		time.Sleep(time.Minute)
		if a := r.post(paid.OpBid, fund, credential).is(200, "").shows("leaderboard_rank", nil); strings.Contains(string(a.Body), "ada.dev") {
			t.Errorf("%s", a.Body)
		}
		r.post(paid.OpBid, fund, credential).is(409, api.CredentialReused).shows("outcome", "applied")
		r.has(amounts{"mallory paid": 150, "ada": 250, "open": 0})
	})
}

// A bid that lapsed has its effect when it is mined, even if it does not reach the rank any
// more without which nothing was to be paid.
func TestALapsedBidOnARank(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		dear := `{"member":"ada","amount":"900.00","only_if_rank":1}`
		_, credential := r.strand(paid.OpBid, dear, "mallory", 90_000)
		r.join(bob, "dave")
		r.credit("bob", 200_000)
		r.network.change(func() { r.network.fates["mallory"] = fate{} })
		time.Sleep(time.Minute)
		r.post(paid.OpBid, dear, credential).is(200, "").shows("leaderboard_rank", 2.0)
	})
}

// While a payment of an account has lapsed, whatever else the account sends gets an answer that
// names it, never an offer: not with its nonce, not with the next one, and not for the same thing.
// Another thing can be paid with an end. When it has ended, its account pays as ever.
func TestNoCircleOfOffersWhileAPaymentHasLapsed(t *testing.T) {
	other := strings.Replace(fund, "1.50", "2.50", 1)
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		ch, credential := r.strand(paid.OpBid, fund, "mallory", 150)
		first, err := paid.StoredPayment(r.stored(ch))
		r.must(err)
		next := "mallory:8"
		r.network.simulate = func(_ context.Context, p mpp.Payment) error {
			if p.Nonce == next {
				return &mpp.Rejection{Code: mpp.CodeVerify, Reason: mpp.ReasonNonce, Detail: "the nonce is not the next one"}
			}
			return nil
		}
		ends := func(*transaction) {}
		for name, c := range map[string]struct {
			body  string
			cents int64
			sign  func(*transaction)
		}{
			"its nonce":               {other, 250, counted("mallory:7")},
			"the nonce after it":      {other, 250, counted(next)},
			"another lane":            {other, 250, counted("mallory's second:0")},
			"the same with its nonce": {fund, 150, counted("mallory:7")},
			"the same with an end":    {strings.Replace(fund, ",", ", ", 1), 150, ends},
		} {
			again := r.sign(r.challenge(paid.OpBid, c.body), "mallory", c.cents, c.sign)
			for range 2 {
				a := r.post(paid.OpBid, c.body, again).is(503, api.PaymentPending).shows("reference", first.Reference).waits(60, 60)
				if !strings.Contains(string(a.Body), "use its nonce for another transaction") {
					t.Errorf("%s: %s", name, a.Body)
				}
				r.restart()
			}
		}
		same(t, len(r.network.sent), 2) // alice's, and mallory's first
		r.network.change(func() { r.network.fates["mallory"] = fate{} })
		r.post(paid.OpBid, other, r.sign(r.challenge(paid.OpBid, other), "mallory", 250)).is(200, "")
		time.Sleep(time.Minute)
		r.post(paid.OpBid, fund, credential).is(200, "")
		next = ""
		r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "mallory", 150, counted("mallory:8"))).is(200, "")
		r.has(amounts{"ada": 650, "mallory paid": 550, "open": 0})
	})
}

// Payments without an end are bounded, open ones like lapsed ones. An address that has some
// leaves room for others, and accounts that have never paid leave all of theirs to those that
// have.
func TestPaymentsWithoutAnEndAreBounded(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.join(bob, "dave")
		opened := 0
		open := func(n int, client string, stranger bool) {
			for range n {
				id := fmt.Sprint("endless-", opened)
				opened++
				r.must(r.books.Do(t.Context(), func(tx *ledger.Tx) error {
					v := &ledger.Reservation{ID: id, State: ledger.Reserved, Operation: paid.OpBid, Member: "ada", Cents: 150, Payer: id,
						ReplayKeys: []string{id}, Endless: true, Stranger: stranger, Client: client}
					if err := tx.Reserve(v); err != nil || opened%2 == 0 {
						return err
					}
					v.Lapsed = tx.Now()
					return tx.Update(v)
				}))
			}
		}
		pay := func(payer, client string) answer {
			r.salt++
			credential := r.sign(r.challenge(paid.OpBid, fund), payer, 150, counted(fmt.Sprint(payer, ":", r.salt)))
			return r.handle(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}, Client: client})
		}
		// One address takes a part of it.
		open(42, "198.51.100.1", true)
		pay("carol", "198.51.100.1").is(503, api.PaymentPending).waits(60, 60)
		pay("carol", "203.0.113.1").is(200, "")
		// All that accounts without a payment can have is taken.
		open(256-42, "", true)
		pay("erin", "203.0.113.2").is(503, api.PaymentPending)
		pay("erin2", "203.0.113.2").is(503, api.PaymentPending)
		pay("carol", "203.0.113.1").is(200, "") // it has paid by now
		pay("dave", "198.51.100.1").is(200, "")
		r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "frank", 150)).is(200, "") // with an end
		// So is all that accounts with one can have.
		open(256, "192.0.2.77", false)
		pay("dave", "198.51.100.1").is(503, api.PaymentPending)
		r.has(amounts{"dave paid": 250, "carol paid": 300, "erin paid": 0, "open": 512})
	})
}

// An account whose payment without an end came to nothing shares the room of those that have never
// paid until it pays again. No account takes more than two places.
func TestAPaymentWithoutAnEndThatFailsCostsTheNextItsPlace(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.join(bob, "dave")
		for i := range 256 {
			id := fmt.Sprint("endless-", i)
			r.must(r.books.Do(t.Context(), func(tx *ledger.Tx) error {
				return tx.Reserve(&ledger.Reservation{ID: id, State: ledger.Reserved, Operation: paid.OpBid, Member: "ada", Cents: 150, Payer: id,
					ReplayKeys: []string{id}, Endless: true, Stranger: true})
			}))
		}
		pay := func(change ...func(*transaction)) answer {
			return r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "dave", 150, change...))
		}
		pay(counted("dave:0")).is(200, "")
		r.network.change(func() { r.network.fates["dave"] = fate{after: 24 * time.Hour} })
		for lane := range 2 {
			r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(r.challenge(paid.OpBid, fund), "dave", 150, counted(fmt.Sprint("dave's ", lane, ":0")))}})
		}
		time.Sleep(time.Second)
		if a := pay(counted("dave's 2:0")).is(503, api.PaymentPending); !strings.Contains(string(a.Body), "which is the most it may have") {
			t.Errorf("%s", a.Body)
		}
		time.Sleep(3 * time.Hour)
		r.network.change(func() { delete(r.network.fates, "dave") })
		if a := pay(counted("dave's 2:0")).is(503, api.PaymentPending); !strings.Contains(string(a.Body), "Too many transactions") {
			t.Errorf("%s", a.Body)
		}
		pay().is(200, "")
		pay(counted("dave's 2:0")).is(200, "")
	})
}

// Of two credentials with one nonce the second is not sent, and no offer comes with its answer,
// before it is certain that the first one has used the nonce.
func TestTwoCredentialsOfOneNonce(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		used := false
		r.network.simulate = func(_ context.Context, p mpp.Payment) error {
			if used && p.Nonce != "" {
				return &mpp.Rejection{Code: mpp.CodeVerify, Reason: mpp.ReasonUsed, Detail: "the nonce was used"}
			}
			return nil
		}
		r.network.fates["bob"] = fate{after: 5 * time.Second}
		ch := r.challenge(paid.OpBid, fund)
		first := r.sign(ch, "bob", 150, counted("bob:7"))
		second := r.sign(r.challenge(paid.OpBid, fund), "bob", 150, counted("bob:7"))
		h := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{first}})
		synctest.Wait()
		sent, err := paid.StoredPayment(r.stored(ch))
		r.must(err)
		r.post(paid.OpBid, fund, second).is(503, api.PaymentPending).shows("reference", sent.Reference).waits(5, 5)
		h.wait().is(200, "")
		// Its block may be dropped yet, and another of its payer's transactions may be this payment.
		used = true
		r.post(paid.OpBid, fund, second).is(503, api.PaymentPending)
		r.network.change(func() { r.network.used["bob:7"] = true })
		r.post(paid.OpBid, fund, second).is(402, api.VerificationFailed).shows("reason", mpp.ReasonUsed)
		r.network.change(func() { delete(r.network.used, "bob:7") })
		same(t, len(r.network.sent), 2) // alice's, and bob's first
		r.post(paid.OpBid, fund, first).is(409, api.CredentialReused).shows("outcome", "applied")
		r.has(amounts{"ada": 250, "bob paid": 150, "open": 0})

		// Nor is one sent while the process that took the first up has it open.
		used = false
		first = r.sign(r.challenge(paid.OpBid, fund), "bob", 150, counted("bob:8"))
		next := r.failAt("broadcast")
		r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{first}})
		time.Sleep(time.Second)
		next()
		second = r.sign(r.challenge(paid.OpBid, fund), "bob", 150, counted("bob:8"))
		r.post(paid.OpBid, fund, second).is(503, api.PaymentPending)
		time.Sleep(10 * time.Second)
		r.post(paid.OpBid, fund, first).is(200, "")
		r.has(amounts{"ada": 400, "bob paid": 300, "open": 0})
	})
}

// Of two credentials with one nonce, the second is being simulated while the first settles: the
// nonce is free again, and used. It is refused before it is sent.
func TestANonceIsUsedDuringASimulation(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		simulated := make(chan struct{})
		other := strings.Replace(fund, "1.50", "2.50", 1)
		r.network.simulate = func(_ context.Context, p mpp.Payment) error {
			if p.Cents == 250 {
				<-simulated
			}
			return nil
		}
		second := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(other), Authorization: []string{r.sign(r.challenge(paid.OpBid, other), "bob", 250, counted("bob:7"))}})
		synctest.Wait()
		r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "bob", 150, counted("bob:7"))).is(200, "")
		close(simulated)
		second.wait().is(503, api.PaymentPending)
		same(t, len(r.network.sent), 2) // alice's, and bob's first
		r.has(amounts{"ada": 250, "bob paid": 150, "open": 0})

		// Who does not know whether it was used sends nothing either.
		r.network.change(func() { r.network.simulate, r.network.silent = nil, "unused" })
		third := r.sign(r.challenge(paid.OpBid, fund), "bob", 150, counted("bob:8"))
		r.post(paid.OpBid, fund, third).is(503, api.PaymentsUnavailable)
		r.network.change(func() { r.network.silent = "" })
		r.post(paid.OpBid, fund, third).is(200, "")
		r.has(amounts{"ada": 400, "bob paid": 300, "open": 0})
	})
}

// A transaction that is replaced while its payment is open: by one that pays nothing here, which
// frees the URL at once, or by one that pays the same, which is the payment.
func TestATransactionIsReplacedWhileItsPaymentIsOpen(t *testing.T) {
	for name, pays := range map[string]bool{"by nothing": false, "by the same": true} {
		inRing(t, name, func(t *testing.T, r *ring) {
			r.network.fates["mallory"] = fate{after: time.Hour, by: "0xreplacement", brought: 100}
			credential := r.sign(r.challenge(paid.OpRegister, bob), "mallory", 100, counted("mallory:7"))
			h := r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(bob), Authorization: []string{credential}})
			time.Sleep(3 * time.Second)
			r.network.change(func() {
				r.network.used["mallory:7"] = true
				if pays {
					r.network.arrives("0xreplacement", "mallory again", 100, time.Now())
				}
			})
			if pays {
				h.wait().is(201, "")
				r.has(amounts{"bob": 100, "mallory paid": 0, "mallory again paid": 100, "open": 0})
				r.post(paid.OpRegister, bob, credential).is(409, api.CredentialReused).shows("outcome", "applied")
				return
			}
			h.wait().is(402, api.VerificationFailed).shows("reason", mpp.ReasonNotMined)
			r.join(bob, "dave")
			r.has(amounts{"bob": 100, "mallory paid": 0, "dave paid": 100, "open": 0})
		})
	}
}

// Strangers who name an account, its lane and its next nonce keep none of its payments out: they
// cannot sign for it, as the simulation shows.
func TestALaneFilledByOthers(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		forged := make(chan struct{})
		r.network.simulate = func(_ context.Context, p mpp.Payment) error {
			if p.Cents == 150 {
				return nil
			}
			<-forged
			return &mpp.Rejection{Code: mpp.CodeVerify, Reason: mpp.ReasonKey, Detail: "the account has no such access key"}
		}
		other := strings.Replace(fund, "1.50", "2.50", 1)
		var all []*held
		for range 20 {
			all = append(all, r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(other), Client: "198.51.100.1",
				Authorization: []string{r.sign(r.challenge(paid.OpBid, other), "bob", 250, counted("bob:7"))}}))
		}
		synctest.Wait()
		r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "bob", 150, counted("bob:7"))).is(200, "")
		close(forged)
		for _, h := range all {
			h.wait().is(402, api.VerificationFailed).shows("reason", mpp.ReasonKey)
		}
		r.has(amounts{"ada": 250, "bob paid": 150, "open": 0})
	})
}

// A reorganisation drops a payment without an end that has its effect. If it is mined again, all
// is well; if it is not for an hour, it has vanished, and the operator takes it out of the books.
// What is mined even later is money without an event.
func TestAnEndlessPaymentIsDropped(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.network.fates["bob"] = fate{shallow: true}
		r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "bob", 150, counted("bob:7"))).is(200, "")
		reference := r.reference("bob")
		void := paid.Adjustment{Kind: core.Void, Transaction: reference, Reason: "dropped"}
		drop := func() { r.network.change(func() { r.network.fates["bob"] = fate{after: 100 * time.Hour} }) }
		r.network.change(func() { r.network.silent = "outcome" })
		time.Sleep(2 * time.Hour) // nothing says that it is not mined any more
		r.network.change(func() { r.network.silent = "" })
		drop()
		time.Sleep(50 * time.Minute)
		r.network.change(func() { r.network.fates["bob"] = fate{shallow: true} }) // mined again
		time.Sleep(time.Minute)
		drop()
		time.Sleep(50 * time.Minute)
		r.refused(r.adjust(void), "may still come back")
		if r.unconfirmed() != 1 || strings.Contains(r.log.String(), "vanished for good") {
			t.Fatalf("given up before its time: %s", r.log)
		}
		r.network.change(func() { r.network.frozen = time.Now() })
		time.Sleep(time.Hour) // nothing is known of that hour
		r.network.change(func() { r.network.frozen = time.Time{} })
		time.Sleep(40 * time.Second) // what waited for its network has the time
		if r.unconfirmed() != 1 {
			t.Fatal("given up while its network stood still")
		}
		time.Sleep(15 * time.Minute)
		if found, err := r.service.Find(reference); err != nil || r.unconfirmed() != 0 || found.State != ledger.Applied || found.Outcome != "given up" ||
			!strings.Contains(r.log.String(), "vanished for good") {
			t.Fatalf("%+v, %v", found, err)
		}
		r.must(r.adjust(void))
		r.finds(0)
		r.network.change(func() { r.network.fates["bob"] = fate{} })
		time.Sleep(time.Hour)
		if all, err := r.service.Scan(t.Context(), time.Now().Add(-24*time.Hour), false); err != nil || len(all) != 1 || all[0].Missing != 150 {
			t.Errorf("%+v, %v", all, err)
		}
		r.has(amounts{"ada": 250, "bob paid": 150})
	})
}

// A payment whose nonce follows on that of an open one of its account waits for that a moment.
// Of an account without one it is refused at once.
func TestAPaymentWaitsForTheNonceBeforeIt(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		next := time.Now().Add(2500 * time.Millisecond)
		r.network.simulate = func(_ context.Context, p mpp.Payment) error {
			if strings.HasSuffix(p.Nonce, ":8") && time.Now().Before(next) {
				return &mpp.Rejection{Code: mpp.CodeVerify, Reason: mpp.ReasonNonce, Detail: "the nonce is not the next one"}
			}
			return nil
		}
		r.network.fates["bob"] = fate{after: 2 * time.Second}
		early := r.sign(r.challenge(paid.OpBid, fund), "carol", 150, counted("carol:8"))
		r.post(paid.OpBid, fund, early).is(402, api.VerificationFailed).shows("reason", mpp.ReasonNonce)
		first := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(r.challenge(paid.OpBid, fund), "bob", 150, counted("bob:7"))}})
		time.Sleep(700 * time.Millisecond)
		second := r.sign(r.challenge(paid.OpBid, fund), "bob", 150, counted("bob:8"))
		r.post(paid.OpBid, fund, second).is(200, "")
		first.wait().is(200, "")
		r.has(amounts{"ada": 400, "bob paid": 300, "carol paid": 0, "open": 0})
	})
}

// A payment without an end that comes when its challenge has expired is not refused with a
// 402 as long as it can be mined: an earlier process may have sent it.
func TestALatePaymentWithoutAnEnd(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		credential := r.sign(r.challenge(paid.OpBid, fund), "bob", 150, counted("bob:7"))
		time.Sleep(paid.ChallengeLife + time.Second)
		for range 2 {
			r.post(paid.OpBid, fund, credential).is(503, api.PaymentPending)
			time.Sleep(time.Hour)
		}
		r.network.change(func() { r.network.used["bob:7"] = true })
		r.post(paid.OpBid, fund, credential).is(402, api.PaymentExpired)
		r.has(amounts{"ada": 100, "bob paid": 0, "open": 0})
	})
}
