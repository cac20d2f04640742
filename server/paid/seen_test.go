package paid_test

import (
	"bytes"
	"context"
	"encoding/json"
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

// orders are the two kinds, as bob pays for them.
var orders = []struct {
	op, body, slug string
	cents, total   int64
	status         int
}{
	{paid.OpRegister, bob, "bob", 100, 100, 201},
	{paid.OpBid, fund, "ada", 150, 250, 200},
}

// lose has bob pay, and the ring lose all memory of it: what was on the disk before
// is restored alone. It gives the challenge and the credential.
func (r *ring) lose(op, body string, cents int64) (mpp.Challenge, string) {
	r.t.Helper()
	rows := r.rows()
	ch := r.challenge(op, body)
	credential := r.sign(ch, "bob", cents)
	if a := r.post(op, body, credential); a.Status >= 300 {
		r.t.Fatalf("%d %s", a.Status, a.Body)
	}
	r.restore(rows, 0)
	if r.stored(ch) != nil || r.network.charged("bob") != cents {
		r.t.Fatal("the record was not lost")
	}
	return ch, credential
}

// A payment is gone only when our clock says so, too, and the two agree: a node whose time is ahead ends none that can be
// mined, and none that was mined meanwhile.
func TestANodeWhoseTimeIsAheadEndsNoPayment(t *testing.T) {
	for _, mined := range []time.Duration{10 * time.Second, 20 * time.Second, time.Hour} {
		inAdasRing(t, mined.String(), func(t *testing.T, r *ring) {
			r.network.change(func() { r.network.fates["bob"] = fate{after: mined} })
			credential := r.sign(r.challenge(paid.OpBid, fund), "bob", 150)
			h := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}})
			synctest.Wait()
			r.network.change(func() { r.network.skew = 2 * time.Minute })
			if mined < time.Minute {
				h.wait().is(200, "")
				r.has(amounts{"ada": 250, "bob paid": 150, "open": 0})
				return
			}
			h.wait().is(503, api.PaymentPending)
			r.has(amounts{"ada": 100, "open": 1})
			r.network.change(func() { r.network.skew = 0 })
			time.Sleep(time.Minute)
			r.post(paid.OpBid, fund, credential).is(409, api.CredentialReused).shows("outcome", "failed")
			r.has(amounts{"ada": 100, "open": 0})
		})
	}
}

// No answer says that nothing was charged before the network was asked: what its payer has sent, in time, is the
// operator's if the ring is full by now, and waits for others that may come before it.
func TestPaymentInTimeThatCameTooLateForItsPlace(t *testing.T) {
	inRing(t, "the ring is full", func(t *testing.T, r *ring) {
		ch := r.challenge(paid.OpRegister, bob)
		credential := r.sign(ch, "bob", 100)
		r.send(credential)
		r.fill()
		r.post(paid.OpRegister, bob, credential).is(409, api.PaymentUnapplied)
		if kept := r.stored(ch); kept == nil || kept.State != ledger.Failed || kept.Reason != string(api.RingFull) {
			t.Errorf("kept %+v", kept)
		}
		r.post(paid.OpRegister, bob, credential).is(409, api.PaymentUnapplied)
	})
	inRing(t, "the ring is full when it is reserved", func(t *testing.T, r *ring) {
		ch := r.challenge(paid.OpRegister, bob)
		credential := r.sign(ch, "bob", 100)
		r.network.change(func() {
			r.network.simulate = func(context.Context, mpp.Payment) error {
				r.network.change(func() { r.network.simulate = nil })
				r.send(credential)
				r.fill()
				return nil
			}
		})
		r.post(paid.OpRegister, bob, credential).is(409, api.PaymentUnapplied)
	})
	inRing(t, "another registers the URL", func(t *testing.T, r *ring) {
		credential := r.sign(r.challenge(paid.OpRegister, bob), "bob", 100)
		r.network.change(func() { r.network.fates["mallory"] = fate{lost: true} })
		h := r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(bob), Authorization: []string{r.sign(r.challenge(paid.OpRegister, bob), "mallory", 100)}})
		synctest.Wait()
		r.send(credential)
		if a := r.post(paid.OpRegister, bob, credential).is(503, api.PaymentPending); strings.Contains(string(a.Body), "Nothing was charged") {
			t.Errorf("%s", a.Body)
		}
		h.wait()
		r.post(paid.OpRegister, bob, credential).is(201, "")
	})
}

// If a disk lost the record of a payment, it has its effect when its credential is shown
// again, however late, once. Its payer is never told to pay anew.
func TestLostPaymentHasItsEffectHoweverLate(t *testing.T) {
	for _, o := range orders {
		for _, late := range []time.Duration{time.Second, time.Minute, time.Hour, 8 * 24 * time.Hour} {
			inAdasRing(t, fmt.Sprint(o.op, " ", late), func(t *testing.T, r *ring) {
				_, credential := r.lose(o.op, o.body, o.cents)
				time.Sleep(late)
				r.network.simulate = refuse // what was spent cannot be spent again
				r.handle(keyed(o.op, o.body, "k", credential)).is(o.status, "")
				r.post(o.op, o.body, credential).is(409, api.CredentialReused)
				r.handle(keyed(o.op, o.body, "k", credential)).is(o.status, "")
				r.restart()
				r.post(o.op, o.body, credential).is(409, api.CredentialReused)
				r.has(amounts{o.slug: o.total, "bob paid": o.cents})
			})
		}
	}
}

// Where the network is silent nothing is concluded. What was not mined is refused as
// before, and only when the network has passed its end.
func TestLatePaymentOfWhichNothingIsKnown(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		_, credential := r.lose(paid.OpBid, fund, 150)
		time.Sleep(time.Hour)
		r.network.change(func() { r.network.silent = "seen" })
		for range 2 {
			r.post(paid.OpBid, fund, credential).is(503, api.PaymentPending)
		}
		r.network.change(func() { r.network.silent = "" })
		r.post(paid.OpBid, fund, credential).is(200, "")

		unsent := r.sign(r.challenge(paid.OpBid, fund), "carol", 150)
		time.Sleep(26 * time.Second)
		r.network.change(func() { r.network.skew = -10 * time.Second })
		r.post(paid.OpBid, fund, unsent).is(503, api.PaymentPending)
		r.network.change(func() { r.network.skew = 0 })
		a := r.post(paid.OpBid, fund, unsent).is(402, api.PaymentExpired)
		a.shows("reason", "expired")
		r.has(amounts{"ada": 250, "carol paid": 0})
	})
}

// Keys that were rotated out, and recipients that were changed, count for payments that
// were made, and for no others. A key that was thrown away does not. One under another
// realm may be another ring's, so it is the operator's to credit.
func TestLatePaymentUnderAnEarlierConfiguration(t *testing.T) {
	another := bytes.Repeat([]byte("new--key"), 4)
	for name, tc := range map[string]struct {
		change func(r *ring)
		status int
		code   api.Code
		// unsent is the answer to a payment of then that was never made, while it may
		// yet be mined.
		unsent api.Code
	}{
		"retired key":       {func(r *ring) { r.config = keys(another, another, challengeKey) }, 200, "", api.PaymentPending},
		"key thrown away":   {func(r *ring) { r.config = keys(another) }, 402, api.InvalidChallenge, api.InvalidChallenge},
		"another realm":     {func(r *ring) { r.config = func(c *paid.Config) { c.Realm = "other.example" } }, 409, api.PaymentUnapplied, api.InvalidChallenge},
		"another recipient": {func(r *ring) { r.network.change(func() { r.network.payee = "new" }) }, 200, "", api.PaymentPending},
	} {
		inAdasRing(t, name, func(t *testing.T, r *ring) {
			_, credential := r.lose(paid.OpBid, fund, 150)
			unsent := r.sign(r.challenge(paid.OpBid, fund), "carol", 150)
			tc.change(r)
			r.restart()
			if a := r.post(paid.OpBid, fund, unsent); a.code() != string(tc.unsent) {
				t.Errorf("%d %s, want %s", a.Status, a.Body, tc.unsent)
			}
			time.Sleep(26 * time.Second)
			r.post(paid.OpBid, fund, unsent).is(402, api.InvalidChallenge)
			r.post(paid.OpBid, fund, credential).is(tc.status, tc.code)
			want := int64(100)
			if tc.status == 200 {
				want = 250
			}
			r.has(amounts{"ada": want, "carol paid": 0})
		})
	}
}

// keys has a service sign with one key and know others.
func keys(current []byte, others ...[]byte) func(*paid.Config) {
	return func(c *paid.Config) {
		c.Keys = mpp.Keys{Current: current}
		if len(others) > 0 {
			c.Keys.Previous, c.Keys.Retired = others[0], others[1:]
		}
	}
}

// A payment that came and can have no effect any more is kept for the operator, and
// its payer is told by what reference, each time and after a restart. Nothing of it
// is granted, and the transaction can be used by no other credential.
func TestPaymentThatCanHaveNoEffectIsKept(t *testing.T) {
	for _, tc := range []struct {
		name, op, body string
		cents          int64
		meanwhile      func(r *ring)
		why            api.Code
	}{
		{"the URL was registered", paid.OpRegister, bob, 100, func(r *ring) { r.join(strings.Replace(bob, "Bob", "Mallory", 1), "mallory") }, api.AlreadyRegistered},
		{"the ring is full", paid.OpRegister, bob, 100, (*ring).fill, api.RingFull},
		{"the member is full", paid.OpBid, fund, 150, func(r *ring) { r.credit("ada", 1<<36-1-100) }, api.TotalTooHigh},
	} {
		inAdasRing(t, tc.name, func(t *testing.T, r *ring) {
			ch, credential := r.lose(tc.op, tc.body, tc.cents)
			tc.meanwhile(r)
			time.Sleep(time.Hour)

			r.network.change(func() { r.network.fates["bob"] = fate{shallow: true} })
			r.post(tc.op, tc.body, credential).is(503, api.PaymentPending) // the block may be dropped
			if r.stored(ch) != nil {
				t.Error("kept although its block may be dropped")
			}
			r.network.change(func() { delete(r.network.fates, "bob") })
			time.Sleep(10 * time.Second)
			credited := r.credited()
			for range 2 {
				a := r.handle(paid.Call{Operation: tc.op, Body: []byte(tc.body), Authorization: []string{credential}, Request: "request-1"}).is(409, api.PaymentUnapplied)
				if detail, _ := a.member("detail").(string); a.member("reference") == "" || a.member("reference") == nil || !strings.Contains(detail, string(tc.why)) {
					t.Errorf("%s", a.Body)
				}
				r.restart()
			}
			kept := r.stored(ch)
			if kept.State != ledger.Failed || kept.Outcome != "settled" || kept.Reason != string(tc.why) || len(kept.Body)+len(kept.Pinned)+len(kept.Request) != 0 || len(r.open()) != 0 {
				t.Errorf("kept as %+v, %d open", kept, len(r.open()))
			}
			r.has(amounts{"all": credited})
			r.audited()
			if p, err := paid.StoredPayment(kept); err != nil || p.Raw != nil {
				t.Errorf("the transaction is kept: %v, %v", p, err)
			}
		})
	}
}

// What would hinder the next payment of an account does not hinder one that came.
func TestLostPaymentIsNotHinderedByOthers(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		_, lost := r.lose(paid.OpRegister, bob, 100)
		r.network.change(func() { r.network.fates["bob"] = fate{state: mpp.Failed} })
		for range 2 {
			r.tries(bob, "bob").is(402, api.VerificationFailed)
		}
		r.network.change(func() { r.network.fates["bob"] = fate{} })
		barred := r.sign(r.challenge(paid.OpRegister, bob), "bob", 100)
		r.post(paid.OpRegister, bob, barred).is(503, api.PaymentPending)
		r.network.simulate = refuse // what was spent cannot be spent again
		r.post(paid.OpRegister, bob, lost).is(201, "")
	})
}

// While somebody else pays for the same URL it is not known yet whether the lost
// payment can have its effect.
func TestLostPaymentWaitsForAnotherOnItsURL(t *testing.T) {
	for _, state := range []mpp.State{mpp.Settled, mpp.Failed} {
		inRing(t, state.String(), func(t *testing.T, r *ring) {
			_, lost := r.lose(paid.OpRegister, bob, 100)
			r.network.change(func() { r.network.fates["mallory"] = fate{state: state, after: 10 * time.Second} })
			other := r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(bob),
				Authorization: []string{r.sign(r.challenge(paid.OpRegister, bob), "mallory", 100)}})
			synctest.Wait()
			r.post(paid.OpRegister, bob, lost).is(503, api.PaymentPending)
			other.wait()
			if a := r.post(paid.OpRegister, bob, lost); state == mpp.Settled {
				a.is(409, api.PaymentUnapplied)
			} else {
				a.is(201, "")
			}
		})
	}
}

// A payment that was made for another request is not asked for again, and has its
// effect when that request comes. One that did not pay this ring has none.
func TestPaymentShownWithAnotherRequest(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		_, credential := r.lose(paid.OpRegister, bob, 100)
		for op, body := range map[string]string{paid.OpRegister: cyn, paid.OpBid: fund} {
			a := r.post(op, body, credential).is(409, api.PaymentUnapplied)
			if a.member("reference") == nil {
				t.Errorf("%s", a.Body)
			}
		}
		r.post(paid.OpRegister, bob, credential).is(201, "")

		diverted := r.sign(r.challenge(paid.OpBid, fund), "dora", 150)
		r.network.change(func() { r.network.fates["dora"] = fate{state: mpp.Mismatched} })
		rows := r.rows()
		r.post(paid.OpBid, fund, diverted).is(409, api.PaymentMismatch)
		r.restore(rows, 0)
		r.post(paid.OpBid, fund, diverted).is(409, api.PaymentMismatch)
		r.has(amounts{"ada": 100})
	})
}

// The power may fail at every step of a late payment: the next process ends it.
func TestPowerFailsWhileALostPaymentIsTakenUp(t *testing.T) {
	for _, o := range orders {
		for _, step := range []string{"commit:1", "head:1", "publish:1", "reserved", "receipt", "commit:2", "head:2", "publish:2", "applied"} {
			inAdasRing(t, o.op+" at "+step, func(t *testing.T, r *ring) {
				_, credential := r.lose(o.op, o.body, o.cents)
				time.Sleep(time.Hour)
				next := r.failAt(step)
				r.begin(keyed(o.op, o.body, "k", credential))
				time.Sleep(time.Second)
				next()
				time.Sleep(time.Minute)
				r.post(o.op, o.body, credential).is(o.status, "")
				r.post(o.op, o.body, credential).is(409, api.CredentialReused)
				r.has(amounts{o.slug: o.total, "open": 0, "bob paid": o.cents})
			})
		}
	}
}

// Copies of a late credential, which meet at any step, have one effect.
func TestCopiesOfALatePayment(t *testing.T) {
	for _, step := range []string{"commit:1", "reserved", "receipt", "commit:2", "applied"} {
		inAdasRing(t, step, func(t *testing.T, r *ring) {
			_, credential := r.lose(paid.OpBid, fund, 150)
			time.Sleep(time.Hour)
			r.copiesAt(step, paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}}, 200)
			r.has(amounts{"ada": 250})
		})
	}
}

// The operator can give a lost registration its effect, with the money that its
// transaction brought. The credential that comes after all gets no second one.
func TestOperatorGivesALostRegistrationItsEffect(t *testing.T) {
	const body = `{"name":"Bob","url":"https://bob.dev","kind":"mcp","category":"tools","bid":"2.50"}`
	adjust := func(r *ring, transaction, register string) (*core.Adjusted, error) {
		return r.service.Adjust(context.Background(), paid.Adjustment{Kind: core.Credit, Transaction: transaction, Register: json.RawMessage(register), Reason: "test"})
	}
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		_, credential := r.lose(paid.OpRegister, body, 350)
		transaction := r.reference("bob")
		for register, want := range map[string]string{
			`{"name":"Bob"}`: "the registration is not what /api/register takes",
			strings.Replace(body, "bob.dev", "ada.dev", 1): "already in the ring",
			strings.Replace(body, "2.50", "3.50", 1):       "leaves 3.50 USD",
		} {
			if _, err := adjust(r, transaction, register); !errors.Is(err, paid.ErrAdjustment) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", register, err, want)
			}
		}
		r.network.change(func() { r.network.senders = 2 })
		if _, err := adjust(r, transaction, body); !errors.Is(err, paid.ErrAdjustment) || !strings.Contains(err.Error(), "does not say who joins") {
			t.Errorf("a transaction in which several paid: %v", err)
		}
		r.network.change(func() { r.network.senders = 1 })
		if _, err := adjust(r, "0xfeed", body); !errors.Is(err, paid.ErrAdjustment) {
			t.Errorf("a transaction that is not there: %v", err)
		}
		e, err := adjust(r, transaction, body)
		if err != nil || e.Member != "bob" || e.Amount != 350 {
			t.Fatalf("%+v, %v", e, err)
		}
		var m core.Member
		r.look(func(v *ledger.View) {
			at, _ := v.State().BySlug([]byte("bob"))
			m = v.State().Member(at)
		})
		if m.Bids != 250 || m.Total() != 350 || m.Category != "tools" || m.Score.Given {
			t.Errorf("%+v", m)
		}
		if _, err := adjust(r, transaction, strings.Replace(body, "bob.dev", "bob.com", 1)); !errors.Is(err, paid.ErrAdjustment) {
			t.Errorf("given twice: %v", err)
		}
		r.post(paid.OpRegister, body, credential).is(409, api.CredentialReused)
		r.finds(0)
	})
	// If its URL is another's meanwhile, it is kept; adjusted, it needs no attention.
	inRing(t, "", func(t *testing.T, r *ring) {
		ch, credential := r.lose(paid.OpRegister, bob, 100)
		r.join(bob, "mallory")
		r.post(paid.OpRegister, bob, credential).is(409, api.PaymentUnapplied)
		if e, err := adjust(r, r.reference("bob"), strings.Replace(bob, "bob.dev", "bob.com", 1)); err != nil || e.Member != "bob-2" || e.Amount != 100 {
			t.Fatalf("%+v, %v", e, err)
		}
		if kept := r.stored(ch); kept.Reason != paid.ReasonAdjusted {
			t.Errorf("%q", kept.Reason)
		}
		r.post(paid.OpRegister, bob, credential).is(409, api.PaymentUnapplied)
	})
}

// reference names the one transaction of a payer.
func (r *ring) reference(payer string) (reference string) {
	r.network.change(func() {
		for name, s := range r.network.sent {
			if s.payment.Payer == payer {
				reference = name
			}
		}
	})
	return reference
}

// A payment that was sent and of which nothing is known here is not refused in the last
// seconds of its time either: it may yet be mined. One that could never have been sent
// from here is.
func TestPaymentInItsLastSeconds(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.network.change(func() { r.network.fates["bob"] = fate{after: 24 * time.Second} })
		credential := r.sign(r.challenge(paid.OpBid, fund), "bob", 150)
		r.send(credential)
		time.Sleep(21 * time.Second)
		r.post(paid.OpBid, fund, credential).is(503, api.PaymentPending)
		time.Sleep(5 * time.Second)
		r.post(paid.OpBid, fund, credential).is(200, "")
		r.has(amounts{"ada": 250, "bob paid": 150})
		ch := r.challenge(paid.OpBid, fund)
		time.Sleep(paid.ChallengeLife)
		r.post(paid.OpBid, fund, r.sign(ch, "carol", 150)).is(402, api.PaymentExpired)
	})
}

// send has the payer of a credential send its transaction alone.
func (r *ring) send(authorization string) {
	r.t.Helper()
	cred, _, err := mpp.ParseAuthorization([]string{authorization})
	r.must(err)
	p, err := (&method{node{r.network, &r.dead}, "coin"}).Decode(cred)
	r.must(err)
	r.network.change(func() { r.network.sent[p.Reference] = sent{p, r.now(), r.network.payee} })
}

// On a network where only the transaction that settled a payment names it, an event that
// is there already is found by that: no payment that had its effect is kept as one that
// had none.
func TestLatePaymentWhoseEventIsThere(t *testing.T) {
	inAdasRing(t, "back from an edge", func(t *testing.T, r *ring) {
		r.network.change(func() { r.network.fates["bob"] = fate{by: "0xbatch", brought: 100} })
		rows := r.rows()
		ch := r.challenge(paid.OpRegister, bob)
		credential := r.sign(ch, "bob", 100)
		r.post(paid.OpRegister, bob, credential).is(201, "")
		r.restore(rows)
		time.Sleep(time.Hour)
		r.post(paid.OpRegister, bob, credential).is(409, api.CredentialReused)
		if r.stored(ch) != nil || r.credited() != 200 {
			t.Errorf("kept %v, credited %d", r.stored(ch), r.credited())
		}
	})
	inAdasRing(t, "the operator's", func(t *testing.T, r *ring) {
		r.network.change(func() { r.network.fates["bob"] = fate{by: "0xbatch", brought: 100} })
		ch, credential := r.lose(paid.OpRegister, bob, 100)
		r.must(r.adjust(paid.Adjustment{Kind: core.Credit, Transaction: "0xbatch", Register: json.RawMessage(bob), Reason: "test"}))
		r.post(paid.OpRegister, bob, credential).is(409, api.CredentialReused)
		if r.stored(ch) != nil || r.credited() != 200 {
			t.Errorf("kept %v, credited %d", r.stored(ch), r.credited())
		}
	})
}

// A payment to a recipient that this ring knows nothing of has no effect and leaves no
// trace: the key may have signed for another ring, such as one that was restored from
// this one's backup for a trial. Once the ring knows the recipient, it has its effect.
func TestLatePaymentToARecipientOfAnotherRing(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		rows := r.rows()
		r.network.change(func() { r.network.payee = "between" })
		r.restart()
		ch := r.challenge(paid.OpRegister, bob)
		credential := r.sign(ch, "bob", 100)
		r.post(paid.OpRegister, bob, credential).is(201, "")
		r.network.change(func() { r.network.payee = "today" })
		r.restore(rows, 0)
		a := r.post(paid.OpRegister, bob, credential).is(409, api.PaymentUnapplied)
		if a.member("reference") != r.reference("bob") || r.stored(ch) != nil || r.credited() != 0 {
			t.Errorf("%s; kept %v, credited %d", a.Body, r.stored(ch), r.credited())
		}
		r.network.change(func() { r.network.payee = "between" })
		r.restart()
		r.network.change(func() { r.network.payee = "today" })
		r.restart()
		r.post(paid.OpRegister, bob, credential).is(201, "")
	})
}

// A payment that stays valid too long is refused, and not held.
func TestPaymentThatIsValidForAges(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		credential := r.sign(r.challenge(paid.OpBid, fund), "bob", 150, func(tx *transaction) { tx.ValidBefore = mpp.LastSecond })
		a := r.post(paid.OpBid, fund, credential).is(402, api.VerificationFailed)
		a.shows("reason", "valid_too_long")
	})
}

// Two payments of one account under one key are one too many, unless the second came
// all the same.
func TestSecondPaymentUnderAKeyThatCame(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		second := r.sign(r.challenge(paid.OpBid, fund), "bob", 150)
		r.handle(keyed(paid.OpBid, fund, "k", r.sign(r.challenge(paid.OpBid, fund), "bob", 150))).is(200, "")
		r.send(second)
		r.handle(keyed(paid.OpBid, fund, "k", second)).is(200, "")
		r.has(amounts{"ada": 400, "bob paid": 300})
	})
}

// A payment for a request that is no longer valid is kept for the operator.
func TestPaymentWhoseRequestIsNotTakenAnyMore(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		const body = `{"member":"ada","amount":"1.50"}`
		ch := r.challenge(paid.OpBid, body)
		// As if an earlier version had pinned what this one does not know.
		ch.Opaque, _ = mpp.EncodeJSON(map[string]string{"op": paid.OpBid, "nonce": "n"})
		mpp.Keys{Current: challengeKey}.Sign(&ch)
		credential := r.sign(ch, "bob", 150)
		r.post(paid.OpBid, body, credential).is(422, api.InvalidRequest)
		r.send(credential)
		a := r.post(paid.OpBid, body, credential).is(409, api.PaymentUnapplied)
		a.shows("reference", r.reference("bob"))
	})
}

// A challenge for a network that is not configured any more is not answered with
// another: whether it was paid cannot be asked.
func TestLatePaymentOnANetworkThatWent(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		var other mpp.Challenge
		for _, c := range r.post(paid.OpBid, fund).is(402, api.PaymentRequired).challenges() {
			if c.Method == "token" {
				other = c
			}
		}
		credential := r.sign(other, "bob", 150)
		r.methods = func(dead *atomic.Bool) []paid.Method { return []paid.Method{&method{node{r.network, dead}, "coin"}} }
		r.restart()
		if a := r.post(paid.OpBid, fund, credential).is(409, api.PaymentUnapplied); a.member("reference") != other.ID {
			t.Errorf("%s", a.Body)
		}
		other.ID = strings.Repeat("A", 43)
		r.post(paid.OpBid, fund, r.sign(other, "bob", 150)).is(400, api.UnsupportedMethod)
	}, two)
}

// A credential that is refused costs the network a bounded number of look-ups at a time.
func TestLookUpsOfRefusedPaymentsAreBounded(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		var credentials []string
		for range 50 {
			credentials = append(credentials, r.sign(r.challenge(paid.OpBid, fund), "bob", 150))
		}
		time.Sleep(time.Hour)
		r.network.change(func() { r.network.seen = func(ctx context.Context) { <-ctx.Done() } })
		var all []*held
		for _, c := range credentials {
			all = append(all, r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{c}}))
		}
		synctest.Wait()
		if n := r.network.questions("seen"); n > 4 {
			t.Errorf("%d at a time", n)
		}
		for _, h := range all {
			h.wait().is(503, api.PaymentPending)
		}
	})
}

// Whatever refuses a payment in its time, its network is asked before an answer says that nothing was
// charged. One that is mined has its effect, at once or when what stands in its way is decided, or is
// the operator's.
func TestAMinedPaymentIsNotCalledFree(t *testing.T) {
	const cora = `{"name":"Cora","url":"https://cora.dev","kind":"agent"}`
	// last has carol begin to pay for the last place.
	last := func(f fate) func(r *ring) {
		return func(r *ring) {
			r.network.change(func() { r.network.fates["carol"] = f })
			credential := r.sign(r.challenge(paid.OpRegister, cora), "carol", 100)
			r.leave(1)
			r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(cora), Secure: true, Authorization: []string{credential}})
			synctest.Wait()
		}
	}
	for name, tc := range map[string]struct {
		refuse func(r *ring)
		order  int // of orders
		first  int // the answer
		code   api.Code
		later  int // when it is presented again, if the first was 503
		has    amounts
	}{
		"a full ring":                  {func(r *ring) { r.fill() }, 0, 409, api.PaymentUnapplied, 0, amounts{"bob paid": 100}},
		"the last place is another's":  {last(fate{after: 12 * time.Second}), 0, 503, api.PaymentPending, 409, amounts{"cora": 100, "bob paid": 100}},
		"the last place was another's": {last(fate{after: 12 * time.Second, state: mpp.Failed}), 0, 503, api.PaymentPending, 201, amounts{"bob": 100, "bob paid": 100}},
		"as many open as an account may have": {func(r *ring) {
			r.network.change(func() { r.network.fates["bob"] = fate{after: time.Second} })
			for range 8 {
				r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Secure: true, Authorization: []string{r.sign(r.challenge(paid.OpBid, fund), "bob", 150)}})
			}
			synctest.Wait()
			r.network.change(func() { r.network.fates["bob"] = fate{} })
		}, 0, 201, "", 0, amounts{"bob": 100}},
		"clocks that are apart": {func(r *ring) {
			r.network.change(func() { r.network.skew = 90 * time.Second })
			time.Sleep(5 * time.Second)
		}, 1, 200, "", 0, amounts{"ada": 250, "bob paid": 150}},
		"a silent network": {func(r *ring) {
			r.network.change(func() { r.network.down = true })
			time.Sleep(20 * time.Second)
		}, 1, 503, api.PaymentsUnavailable, 200, amounts{"ada": 250, "bob paid": 150}},
	} {
		inAdasRing(t, name, func(t *testing.T, r *ring) {
			o := orders[tc.order]
			_, credential := r.lose(o.op, o.body, o.cents)
			tc.refuse(r)
			a := r.post(o.op, o.body, credential).is(tc.first, tc.code)
			if strings.Contains(string(a.Body), "Nothing was charged") {
				t.Errorf("%s", a.Body)
			}
			if tc.first == 503 {
				r.network.change(func() { r.network.down = false })
				time.Sleep(20 * time.Second)
				again := r.post(o.op, o.body, credential)
				same(t, again.Status, tc.later)
			}
			r.has(tc.has)
		})
	}
}
