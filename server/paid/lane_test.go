package paid_test

import (
	"context"
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
		{"never mined", func(*ring) {}, 409, api.CredentialReused, amounts{"bob": 0, "mallory paid": 0, "open": 0}, 62 * time.Minute},
	} {
		inRing(t, c.name, func(t *testing.T, r *ring) {
			began := time.Now()
			ch, credential := r.strand(paid.OpRegister, bob, "mallory", 100)
			if held := r.stored(ch).Lapsed.Sub(began); held < time.Minute || held > time.Minute+15*time.Second {
				t.Errorf("held for %v", held)
			}
			// It counts as a failure: its payer is barred, others hold the URL for a minute.
			r.post(paid.OpRegister, bob, r.sign(r.challenge(paid.OpRegister, bob), "mallory", 100)).is(503, api.PaymentPending)
			if expires, err := r.challenge(paid.OpRegister, bob).ExpiresAt(); err != nil || expires.Sub(r.now()) > time.Minute {
				t.Errorf("the next challenge expires at %v, %v", expires, err)
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
		r.network.change(func() { r.network.fates["mallory"] = fate{} })
		all, err := r.service.Scan(t.Context(), time.Now().Add(-24*time.Hour), false)
		if err != nil || len(all) != 1 || all[0].Missing != 150 || all[0].Transfer.Payer != "mallory" {
			t.Errorf("%+v, %v", all, err)
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
				if all, own := v.Lapsed("bob"); all != 1 || own != 1 || v.OpenPayments() != 0 {
					t.Errorf("%d lapsed, %d of bob, %d others", all, own, v.OpenPayments())
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

// What has lapsed is bounded: an account has one such payment, and all together leave room for
// accounts that have paid here. It keeps nobody else from anything.
func TestPaymentsThatLapseAreBounded(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		dear := `{"member":"ada","amount":"900.00","only_if_rank":1}`
		r.strand(paid.OpBid, dear, "mallory", 90_000)
		again := r.sign(r.challenge(paid.OpBid, fund), "mallory", 150, counted("mallory:8"))
		r.post(paid.OpBid, fund, again).is(402, api.VerificationFailed).shows("reason", mpp.ReasonLong)
		r.network.change(func() { r.network.fates["mallory"] = fate{} })
		if v := r.open(); len(v) != 1 {
			t.Fatalf("%d open", len(v))
		}
	})
	inAdasRing(t, "a member with a payment that has lapsed leaves", func(t *testing.T, r *ring) {
		_, credential := r.strand(paid.OpBid, fund, "mallory", 150)
		r.must(r.remove("ada", false))
		r.network.change(func() { r.network.fates["mallory"] = fate{} })
		time.Sleep(time.Minute)
		r.post(paid.OpBid, fund, credential).is(409, api.PaymentUnapplied)
		r.has(amounts{"mallory paid": 150, "open": 0})
	})
	inAdasRing(t, "many accounts", func(t *testing.T, r *ring) {
		for i := range 256 {
			r.must(r.books.Do(t.Context(), func(tx *ledger.Tx) error {
				id := fmt.Sprint("lapsed-", i)
				v := &ledger.Reservation{ID: id, State: ledger.Reserved, Operation: paid.OpBid, Member: "ada", Cents: 150, Payer: id, ReplayKeys: []string{id}}
				if err := tx.Reserve(v); err != nil {
					return err
				}
				v.Lapsed = tx.Now()
				return tx.Update(v)
			}))
		}
		refused := r.sign(r.challenge(paid.OpBid, fund), "dave", 150, counted("dave:7"))
		r.post(paid.OpBid, fund, refused).is(402, api.VerificationFailed).shows("reason", mpp.ReasonLong)
		r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "dave", 150)).is(200, "")
		r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "dave", 150, counted("dave:7"))).is(200, "")
		r.has(amounts{"ada": 400, "dave paid": 300, "open": 256})
	})
}

// Of two credentials with one nonce the second is refused before it is sent, whether the first
// is open or has its effect.
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
		first := r.sign(r.challenge(paid.OpBid, fund), "bob", 150, counted("bob:7"))
		second := r.sign(r.challenge(paid.OpBid, fund), "bob", 150, counted("bob:7"))
		h := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{first}})
		synctest.Wait()
		r.post(paid.OpBid, fund, second).is(402, api.VerificationFailed).shows("reason", mpp.ReasonUsed)
		h.wait().is(200, "")
		used = true
		r.post(paid.OpBid, fund, second).is(402, api.VerificationFailed).shows("reason", mpp.ReasonUsed)
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
		r.post(paid.OpBid, fund, second).is(402, api.VerificationFailed).shows("reason", mpp.ReasonUsed)
		time.Sleep(10 * time.Second)
		r.post(paid.OpBid, fund, first).is(200, "")
		r.has(amounts{"ada": 400, "bob paid": 300, "open": 0})
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
