package paid_test

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/api"
	"webring/server/paid"
	"webring/server/pay/mpp"
)

// keyed is a call with an Idempotency-Key, which is made long enough.
func keyed(op, body, key string, authorization ...string) paid.Call {
	if key != "" {
		key = "key-of-the-tests-"[:16-len(key)] + key
	}
	return paid.Call{Operation: op, Body: []byte(body), IdempotencyKey: key, Authorization: authorization}
}

// A used credential is answered with 409, which tells what became of it and
// brings no challenge: clients pay again on a 402.
func TestUsedCredentialIsNotAskedToPayAgain(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		join := r.challenge(paid.OpRegister, ada)
		credential := r.sign(join, "alice", 100)
		r.post(paid.OpRegister, ada, credential).is(201, "")
		for range 2 {
			for _, c := range []paid.Call{
				{Operation: paid.OpRegister, Body: []byte(ada), Authorization: []string{credential}},                 // the same request
				keyed(paid.OpRegister, ada, "new", credential),                                                       // with a key it had not
				{Operation: paid.OpRegister, Body: []byte(bob), Authorization: []string{credential}},                 // another body
				{Operation: paid.OpRegister, Authorization: []string{credential}},                                    // no body
				{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}},                     // another operation
				{Operation: paid.OpRegister, Body: []byte(ada), Authorization: []string{r.sign(join, "alice", 100)}}, // another transaction in it
			} {
				a := r.handle(c).is(409, api.CredentialReused)
				a.shows("outcome", "applied").shows("links.self", base+"/api/ring/ada")
			}
			time.Sleep(time.Hour) // 409 comes before payment_expired
			r.restart()
		}
		r.has(amounts{"ada": 100, "alice paid": 100})
	})
}

// A credential whose payment was reserved is recognised by its challenge, even
// when realm or key have been changed since: a client that is told to pay the new one
// pays twice. The stored answer is given out as long as the challenge proves to be
// ours, by a key that was not thrown away, and not then, whatever else the request
// knows.
func TestUsedCredentialOutlivesRealmAndKey(t *testing.T) {
	another := bytes.Repeat([]byte("new--key"), 4)
	for name, tc := range map[string]struct {
		change func(*paid.Config)
		ours   bool
	}{
		"another realm": {func(c *paid.Config) { c.Realm = "other.example" }, true},
		"retired key":   {func(c *paid.Config) { c.Keys = mpp.Keys{Current: another, Retired: [][]byte{another, challengeKey}} }, true},
		"another key":   {func(c *paid.Config) { c.Keys = mpp.Keys{Current: another} }, false},
	} {
		inAdasRing(t, name, func(t *testing.T, r *ring) {
			applied := r.sign(r.challenge(paid.OpRegister, bob), "bob", 100)
			r.handle(keyed(paid.OpRegister, bob, "k", applied)).is(201, "")
			r.network.change(func() {
				r.network.fates["carol"] = fate{after: 10 * time.Second, mute: true}
				r.network.fates["dora"] = fate{state: mpp.Failed}
			})
			failed := r.sign(r.challenge(paid.OpBid, fund), "dora", 150)
			r.post(paid.OpBid, fund, failed).is(402, api.VerificationFailed)
			ch := r.challenge(paid.OpBid, fund)
			open := r.sign(ch, "carol", 150)
			unused := r.sign(r.challenge(paid.OpBid, fund), "erin", 150)
			next := r.failAt("broadcast")
			r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{open}})
			time.Sleep(time.Second)

			r.config = tc.change
			next()
			asked := r.network.questions("decode", "simulate") // the rest is asked about the open one
			for _, key := range []string{"", "k", "l"} {
				if a := r.handle(keyed(paid.OpRegister, bob, key, applied)); tc.ours && key == "k" {
					a.is(201, "")
				} else if a.is(409, api.CredentialReused); a.member("outcome") != "applied" || a.member("links", "self") != base+"/api/ring/bob" {
					t.Errorf("applied, with key %q: %s", key, a.Body)
				}
				r.handle(keyed(paid.OpBid, fund, key, open)).is(503, api.PaymentPending)
			}
			a := r.post(paid.OpBid, fund, failed).is(409, api.CredentialReused)
			a.shows("outcome", "failed")
			same(t, r.network.questions("decode", "simulate"), asked)
			if a := r.post(paid.OpBid, fund, unused); name == "retired key" {
				a.is(503, api.PaymentPending) // an earlier process may have sent it
			} else {
				a.is(402, api.InvalidChallenge)
			}

			time.Sleep(time.Minute) // the open one is finished meanwhile
			if tc.ours {
				r.post(paid.OpBid, fund, open).is(200, "")
			}
			for range 2 {
				a := r.post(paid.OpBid, fund, open).is(409, api.CredentialReused)
				a.shows("outcome", "applied").shows("links.self", base+"/api/ring/ada")
			}
			r.has(amounts{"ada": 250, "carol paid": 150, "bob paid": 100})

			// With realm and key unchanged, the payer still gets the answer.
			r.config = nil
			r.restart()
			if !tc.ours {
				r.post(paid.OpBid, fund, open).is(200, "")
			}
			r.handle(keyed(paid.OpRegister, bob, "k", applied)).is(201, "")
		})
	}
}

// The stored answer comes back, byte for byte and any number of times, for the
// credential with its Idempotency-Key and body; also after a restart.
func TestIdempotencyKeyBringsTheStoredAnswer(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		ch := r.challenge(paid.OpBid, fund)
		credential := r.sign(ch, "bob", 150)
		first := r.handle(keyed(paid.OpBid, fund, "k", credential)).is(200, "")
		for range 3 {
			again := r.handle(keyed(paid.OpBid, fund, "k", credential)).is(200, "")
			if !bytes.Equal(again.Body, first.Body) || !reflect.DeepEqual(again.Header, first.Header) {
				t.Errorf("the stored answer differs:\n%v %s\n%v %s", first.Header, first.Body, again.Header, again.Body)
			}
			time.Sleep(time.Hour)
			r.restart()
		}
		r.handle(keyed(paid.OpBid, `{"member":"ada","amount":"1.51"}`, "k", credential)).is(422, api.InvalidRequest).
			names("This Idempotency-Key was used with another body; send the body it was used with, or another key.")
		r.handle(keyed(paid.OpBid, fund, "other", credential)).is(409, api.CredentialReused)
		r.handle(keyed(paid.OpRegister, fund, "k", credential)).is(409, api.CredentialReused)
		r.has(amounts{"ada": 250, "bob paid": 150})
	})
}

// A client that lost its credential but not its key is never led to pay twice:
// neither by a second challenge nor by one that it already has.
func TestIdempotencyKeyNeverPaysTwice(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.network.change(func() { r.network.fates["bob"] = fate{after: 8 * time.Second} })
		simulating := make(chan struct{})
		r.network.simulate = func(ctx context.Context, _ mpp.Payment) error {
			select {
			case <-simulating:
				return nil
			case <-ctx.Done():
				return mpp.ErrUnavailable
			}
		}

		one, two := r.challenge(paid.OpBid, fund), r.challenge(paid.OpBid, fund)
		first := r.begin(keyed(paid.OpBid, fund, "k", r.sign(one, "bob", 150)))
		synctest.Wait()
		r.handle(keyed(paid.OpBid, fund, "k")).is(503, api.PaymentPending) // while the simulation runs
		second := r.begin(keyed(paid.OpBid, fund, "k", r.sign(two, "bob", 150)))
		synctest.Wait()
		close(simulating)
		synctest.Wait()
		r.handle(keyed(paid.OpBid, fund, "k")).is(503, api.PaymentPending) // while it is open
		r.handle(keyed(paid.OpBid, fund, "l")).is(402, api.PaymentRequired)
		r.handle(keyed(paid.OpBid, `{"member":"ada","amount":"1.51"}`, "k")).is(402, api.PaymentRequired)

		// The two met in the simulation; either may have come out first.
		answers := []answer{first.wait(), second.wait()}
		won, lost := answers[0], answers[1]
		if won.Status != 200 {
			won, lost = lost, won
		}
		won.is(200, "")
		lost.is(409, api.IdempotencyKeyUsed)
		a := r.handle(keyed(paid.OpBid, fund, "k")).is(409, api.IdempotencyKeyUsed)
		a.shows("outcome", "applied").shows("links.self", base+"/api/ring/ada")
		three := r.challenge(paid.OpBid, fund)
		r.handle(keyed(paid.OpBid, fund, "k", r.sign(three, "bob", 150))).is(409, api.IdempotencyKeyUsed)
		r.has(amounts{"ada": 250, "bob paid": 150})
	})
}

// After a payment that came to nothing the key may be used for another.
func TestIdempotencyKeyIsFreeAfterAFailure(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.network.fates["bob"] = fate{state: mpp.Failed}
		ch := r.challenge(paid.OpBid, fund)
		fresh := r.handle(keyed(paid.OpBid, fund, "k", r.sign(ch, "bob", 150))).is(402, api.VerificationFailed).challenges()[0]
		r.handle(keyed(paid.OpBid, fund, "k", r.sign(fresh, "carol", 150))).is(200, "")
		r.has(amounts{"ada": 250, "bob paid": 0})
	})
}

// A key runs out 24 hours after its payment: its payer may then use it for another.
// The credential still gets the stored answer. A payment that is open keeps its key.
func TestIdempotencyKeyRunsOut(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		early := r.sign(r.challenge(paid.OpBid, fund), "bob", 150)
		first := r.handle(keyed(paid.OpBid, fund, "1", early)).is(200, "")
		time.Sleep(24*time.Hour - time.Millisecond)
		spare := r.challenge(paid.OpBid, fund)
		r.handle(keyed(paid.OpBid, fund, "1")).is(409, api.IdempotencyKeyUsed)
		r.handle(keyed(paid.OpBid, fund, "1", r.sign(spare, "bob", 150))).is(409, api.IdempotencyKeyUsed)
		time.Sleep(time.Millisecond)
		ch := r.handle(keyed(paid.OpBid, fund, "1")).is(402, api.PaymentRequired).challenges()[0]
		r.handle(keyed(paid.OpBid, fund, "1", r.sign(ch, "bob", 150))).is(200, "")
		r.handle(keyed(paid.OpBid, fund, "1")).is(409, api.IdempotencyKeyUsed) // from here on for this one
		if again := r.handle(keyed(paid.OpBid, fund, "1", early)).is(200, ""); !bytes.Equal(again.Body, first.Body) {
			t.Errorf("the stored answer differs: %s, was %s", again.Body, first.Body)
		}

		r.network.change(func() { r.network.fates["dora"] = fate{mute: true, after: 20 * time.Second} })
		r.network.simulate = func(context.Context, mpp.Payment) error {
			r.network.change(func() { r.network.down = true })
			return nil
		}
		unknown := r.sign(r.challenge(paid.OpBid, fund), "dora", 150)
		r.handle(keyed(paid.OpBid, fund, "2", unknown)).is(503, api.PaymentPending)
		time.Sleep(48 * time.Hour)
		r.handle(keyed(paid.OpBid, fund, "2")).is(503, api.PaymentPending)
		r.has(amounts{"ada": 400, "bob paid": 300})
	})
}

// A key belongs to the payer that the credential names: another payer with the same
// key and an equal body is served, at the same time and later, and each gets its own
// answer again. A second credential of the same payer is one too many all the while.
func TestIdempotencyKeyBelongsToItsPayer(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.network.change(func() { r.network.fates["bob"] = fate{after: 8 * time.Second} })
		var all []mpp.Challenge
		for range 5 {
			all = append(all, r.challenge(paid.OpBid, fund))
		}
		bobs, carols := r.sign(all[0], "bob", 150), r.sign(all[1], "carol", 150)
		slow := r.begin(keyed(paid.OpBid, fund, "task-1", bobs))
		synctest.Wait()
		carol := r.handle(keyed(paid.OpBid, fund, "task-1", carols)).is(200, "")
		r.handle(keyed(paid.OpBid, fund, "task-1", r.sign(all[2], "bob", 150))).is(409, api.IdempotencyKeyUsed)
		bob := slow.wait().is(200, "")
		r.restart()
		for _, payer := range []string{"bob", "carol"} {
			a := r.handle(keyed(paid.OpBid, fund, "task-1", r.sign(all[3], payer, 150))).is(409, api.IdempotencyKeyUsed)
			a.shows("outcome", "applied")
		}
		r.handle(keyed(paid.OpBid, fund, "task-1", r.sign(all[4], "dora", 150))).is(200, "")
		for credential, first := range map[string]answer{bobs: bob, carols: carol} {
			if again := r.handle(keyed(paid.OpBid, fund, "task-1", credential)).is(200, ""); !bytes.Equal(again.Body, first.Body) {
				t.Errorf("%s\nwas\n%s", again.Body, first.Body)
			}
		}
		r.has(amounts{"ada": 550, "bob paid": 150, "carol paid": 150})
	})
}

// A key that one account has paid under is not free because another account, which may
// be the same client's, has failed under it since.
func TestIdempotencyKeyOutlivesAnothersFailure(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		spare := r.challenge(paid.OpBid, fund)
		r.handle(keyed(paid.OpBid, fund, "k", r.sign(r.challenge(paid.OpBid, fund), "bob", 150))).is(200, "")
		r.network.change(func() { r.network.fates["carol"] = fate{state: mpp.Failed} })
		// Its fresh challenge is what the key no longer gives.
		r.handle(keyed(paid.OpBid, fund, "k", r.sign(spare, "carol", 150))).is(409, api.IdempotencyKeyUsed)
		r.handle(keyed(paid.OpBid, fund, "k")).is(409, api.IdempotencyKeyUsed)
		r.restart()
		r.handle(keyed(paid.OpBid, fund, "k")).is(409, api.IdempotencyKeyUsed)
	})
}

// Keys that clients could choose alike by chance are refused, with a credential and
// without one. The answer to an unpaid repeat speaks of the key.
func TestIdempotencyKeysAreLongAndVisible(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		credential := r.sign(r.challenge(paid.OpBid, fund), "bob", 150)
		for _, key := range []string{"task-1", "fifteen-letters", strings.Repeat("k", 256), "sixteen letters!", "a-key-with-ümlaut", "a-key-with-a\x00zero", " sixteen-letters"} {
			for _, authorization := range [][]string{nil, {credential}} {
				r.handle(paid.Call{Operation: paid.OpBid, Body: []byte(fund), IdempotencyKey: key, Authorization: authorization}).is(400, api.InvalidIdempotencyKey)
			}
		}
		if n := r.network.questions("decode", "simulate", "broadcast"); n != 3 { // for ada
			t.Errorf("the payment method was asked %d questions", n)
		}
		for _, key := range []string{"sixteen-letters!", strings.Repeat("~", 255), "6f9b8c1e-2f9d-4f0e-9d0a-1f2e3d4c5b6a"} {
			call := paid.Call{Operation: paid.OpBid, Body: []byte(fund), IdempotencyKey: key}
			ch := r.handle(call).is(402, api.PaymentRequired).challenges()[0]
			call.Authorization = []string{r.sign(ch, "bob", 150)}
			r.handle(call).is(200, "")
			call.Authorization = nil
			a := r.handle(call).is(409, api.IdempotencyKeyUsed)
			if detail, _ := a.member("detail").(string); !strings.Contains(detail, "under this Idempotency-Key") || strings.Contains(detail, "This credential") {
				t.Errorf("%s", a.Body)
			}
		}
	})
}

// Of copies of a credential that meet, wherever that is on the way of their payment, one gets the 2xx
// and the others 409.
func TestCopiesMeetAtEveryStep(t *testing.T) {
	for _, o := range orders {
		for _, step := range steps {
			inAdasRing(t, o.op+" at "+step, func(t *testing.T, r *ring) {
				synctest.Wait() // the commits before are over
				credential := r.sign(r.challenge(o.op, o.body), "bob", o.cents)
				r.copiesAt(step, paid.Call{Operation: o.op, Body: []byte(o.body), Authorization: []string{credential}}, o.status)
				r.has(amounts{o.slug: o.total, "bob paid": o.cents, "all": 100 + o.cents, "open": 0})
			})
		}
	}
}

// copiesAt has two copies of a call meet before anything is claimed, and a third one come when the
// first is at a step. One of the three gets this status.
func (r *ring) copiesAt(step string, c paid.Call, status int) {
	r.t.Helper()
	open := r.hold(step)
	decoded := make(chan struct{})
	r.network.change(func() { r.network.decoding = func() { <-decoded } })
	all := []*held{r.begin(c), r.begin(c)}
	synctest.Wait()
	r.network.change(func() { r.network.decoding = nil })
	close(decoded)
	synctest.Wait()
	all = append(all, r.begin(c))
	open()
	r.oneHas(all).is(status, "")
}

// Another transaction in a challenge, however slow it is, is not asked about while the first is in work: a client
// that is told to pay anew pays twice.
func TestTwoTransactionsInOneChallenge(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		ch := r.challenge(paid.OpBid, fund)
		bid := func() *held {
			return r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(ch, "bob", 150)}})
		}
		decoded := make(chan struct{})
		r.network.change(func() { r.network.decoding = func() { <-decoded } })
		slow := bid()
		synctest.Wait()
		open := r.hold("simulated")
		r.network.change(func() { r.network.decoding = nil })
		first := bid()
		synctest.Wait()
		r.network.change(func() { r.network.simulate = refuse })
		close(decoded)
		slow.wait().is(409, api.CredentialReused).shows("outcome", "pending")
		open()
		first.wait().is(200, "")
		r.has(amounts{"ada": 250, "bob paid": 150})
	})
}

// A copy that comes when the payment has ended, and just before the first request gets the answer,
// does not get it, too. With one processor the copy runs as soon as the work has ended.
func TestACopyComesBeforeTheAnswerIsGiven(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var ended func()
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		credential := r.sign(r.challenge(paid.OpBid, fund), "bob", 150)
		call := paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}}
		var second *held
		synctest.Wait() // that of ada has ended
		ended = func() { second = r.begin(call) }
		first := r.begin(call)
		synctest.Wait()
		r.oneHas([]*held{first, second}).is(200, "")
	}, func(r *ring) {
		r.config = func(cfg *paid.Config) {
			cfg.Ended = func(paid.Ended) {
				if ended != nil {
					ended()
				}
			}
		}
	})
}

// oneOf sends calls at once, and gives the answer of the one that has an effect.
func (r *ring) oneOf(calls []paid.Call) (done answer) {
	r.t.Helper()
	var all []*held
	for _, c := range calls {
		all = append(all, r.begin(c))
	}
	return r.oneHas(all)
}

// oneHas gives the answer of the one request that has an effect. It fails the test unless the others
// are told that the credential was used.
func (r *ring) oneHas(all []*held) (done answer) {
	r.t.Helper()
	for _, h := range all {
		if a := h.wait(); a.Status < 300 && done.Status == 0 {
			done = a
		} else {
			a.is(409, api.CredentialReused)
		}
	}
	if done.t = r.t; done.Status == 0 {
		r.t.Error("no call had an effect")
	}
	return done
}

// Copies that keep coming while the first is in work, whatever it is doing,
// find out that it is: none gets its answer, or an invitation to pay. Seeds of
// the scheduler differ from run to run; many short races find what one does not.
func TestCopiesNeverOvertakeTheFirst(t *testing.T) {
	for round := range 40 {
		inAdasRing(t, fmt.Sprint(round), func(t *testing.T, r *ring) {
			credential := r.sign(r.challenge(paid.OpBid, fund), "bob", 150)
			// What was spent cannot be spent again: a copy that gets as far as
			// the simulation would be told to pay.
			r.network.simulate = func(ctx context.Context, p mpp.Payment) error {
				if r.network.charged("bob") > 0 {
					return refuse(ctx, p)
				}
				return nil
			}
			var clients sync.WaitGroup
			var mu sync.Mutex
			counts := map[string]int{}
			for range 8 {
				clients.Go(func() {
					for range 8 {
						a := r.post(paid.OpBid, fund, credential)
						mu.Lock()
						counts[fmt.Sprint(a.Status, " ", a.code())]++
						mu.Unlock()
					}
				})
			}
			clients.Wait()
			if counts["200 "] != 1 || counts["409 credential_reused"] != 63 {
				t.Errorf("answers: %v", counts)
			}
		})
	}
}

// A copy that was looked at before the first was claimed, and is slow, must
// find the payment in the ledger before it asks the network anything: the
// network would say that the account cannot pay, and the client would.
func TestSlowCopyFindsThePaymentInTheLedger(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		credential := r.sign(r.challenge(paid.OpBid, fund), "bob", 150)
		call := paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}}

		looked, hold := make(chan struct{}), make(chan struct{})
		r.network.decoding = func() { close(looked); <-hold }
		slow := r.begin(call)
		<-looked
		r.network.change(func() { r.network.decoding = nil })
		r.handle(call).is(200, "")
		r.network.change(func() { r.network.simulate = refuse })
		close(hold)
		a := slow.wait().is(409, api.CredentialReused)
		a.shows("outcome", "applied")
		r.has(amounts{"ada": 250})
	})
}
