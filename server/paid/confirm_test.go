package paid_test

import (
	"fmt"
	"testing"
	"time"

	"webring/server/ledger"
	"webring/server/paid"
)

// unconfirmed is how many applied payments may still be undone.
func (r *ring) unconfirmed() (n int) {
	r.look(func(v *ledger.View) { n = len(v.Unconfirmed()) })
	return n
}

// A payment is granted when it is seen, and asked for again until its block
// stays, by the next process too.
func TestAppliedPaymentsAreConfirmedAtDepth(t *testing.T) {
	in(t, "confirmed", func(t *testing.T) {
		r := newRing(t)
		r.network.fates["alice"] = fate{shallow: true}
		r.join(ada, "alice")
		if r.unconfirmed() != 1 {
			t.Fatal("a payment in a block that may be dropped counts as confirmed")
		}
		time.Sleep(time.Minute)
		r.restart()
		if r.unconfirmed() != 1 {
			t.Fatal("the next process does not know that a payment is to be confirmed")
		}
		r.network.change(func() { r.network.fates["alice"] = fate{} })
		time.Sleep(5 * time.Second)
		if r.unconfirmed() != 0 {
			t.Fatal("a deep payment is not confirmed")
		}
		asked := r.network.questions("outcome")
		time.Sleep(time.Minute)
		if more := r.network.questions("outcome") - asked; more != 0 {
			t.Errorf("a confirmed payment was asked for %d more times", more)
		}
	})
}

// However many payments a network has forgotten, the younger ones have their turn.
func TestForgottenPaymentsDoNotKeepOthersWaiting(t *testing.T) {
	in(t, "forgotten", func(t *testing.T) {
		r := newRing(t)
		r.join(ada, "alice")
		time.Sleep(time.Minute)
		const many = 40
		for i := range many + 1 {
			payer := fmt.Sprintf("payer-%d", i)
			r.network.change(func() { r.network.fates[payer] = fate{shallow: true} })
			r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), payer, 150)).is(200, "")
			time.Sleep(time.Second)
		}
		r.network.change(func() {
			for i := range many {
				r.network.fates[fmt.Sprintf("payer-%d", i)] = fate{forgotten: true}
			}
			r.network.fates[fmt.Sprintf("payer-%d", many)] = fate{}
		})
		time.Sleep(time.Minute)
		if n := r.unconfirmed(); n != many {
			t.Errorf("%d to confirm, and %d are forgotten", n, many)
		}
	})
}

// A payment that its network drops is sent again while it can be mined.
func TestVanishedPaymentIsSentAgain(t *testing.T) {
	in(t, "sent again", func(t *testing.T) {
		r := newRing(t)
		r.network.fates["alice"] = fate{shallow: true}
		r.join(ada, "alice")
		r.network.change(func() {
			clear(r.network.sent)
			r.network.fates["alice"] = fate{}
		})
		time.Sleep(20 * time.Second)
		if r.network.charged("alice") != 100 || r.unconfirmed() != 0 || r.total("ada") != 100 {
			t.Errorf("alice paid %d, %d to confirm, ada has %d", r.network.charged("alice"), r.unconfirmed(), r.total("ada"))
		}
	})
}
