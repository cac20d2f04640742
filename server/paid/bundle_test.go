package paid_test

import (
	"context"
	"errors"
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

// What a transaction brought for several payments is not given away while one of
// them is open: that is neither the sum nor the first payer of the transaction.
func TestNothingOfATransactionIsCreditedWhileAPaymentInItIsOpen(t *testing.T) {
	for name, first := range map[string]fate{"both open": {after: time.Hour}, "one has moved": {shallow: true}} {
		inAdasRing(t, name, func(t *testing.T, r *ring) {
			r.network.fates["bob"], r.network.fates["carol"] = first, fate{after: time.Hour}
			var under []*held
			for _, payer := range []string{"bob", "carol"} {
				credential := r.sign(r.challenge(paid.OpBid, fund), payer, 150)
				under = append(under, r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}}))
				synctest.Wait()
			}
			before := r.total("ada")
			r.network.change(func() {
				r.network.arrives("0xb0b", "zoe", 400, time.Now())
				for _, payer := range []string{"bob", "carol"} {
					r.network.fates[payer] = fate{by: "0xb0b", brought: 400}
				}
			})
			credit := paid.Adjustment{Kind: core.Credit, Transaction: "0xb0b", Member: "ada", Reason: "test"}
			if _, err := r.service.Adjust(context.Background(), credit); !errors.Is(err, paid.ErrAdjustment) || r.total("ada") != before {
				t.Errorf("%v; ada has %d, want %d", err, r.total("ada"), before)
			}
			for _, h := range under {
				h.wait()
			}
			time.Sleep(time.Minute)
			// What no payment accounts for is the operator's to give.
			if e, err := r.service.Adjust(context.Background(), credit); err != nil || e.Amount != 100 || r.total("ada") != 500 || len(r.open()) != 0 {
				t.Errorf("%+v, %v; ada has %d, %d open", e, err, r.total("ada"), len(r.open()))
			}
		})
	}
}

// Somebody else can settle two payments in one transaction: each has its effect,
// and the transaction is never credited with more than it brought.
func TestTwoPaymentsInOneTransaction(t *testing.T) {
	inAdasRing(t, "bundle", func(t *testing.T, r *ring) {
		for _, payer := range []string{"bob", "carol", "dave"} {
			r.network.fates[payer] = fate{by: "0xb0b", brought: 300}
		}
		for i, payer := range []string{"bob", "carol"} {
			credential := r.sign(r.challenge(paid.OpBid, fund), payer, 150)
			r.post(paid.OpBid, fund, credential).is(200, "")
			same(t, r.total("ada"), 250+150*int64(i))
		}
		// A third is none of it. No operator has decided that, so one has to look.
		ch := r.challenge(paid.OpBid, fund)
		r.post(paid.OpBid, fund, r.sign(ch, "dave", 150)).is(409, api.PaymentUnapplied)
		if reason := r.stored(ch).Reason; reason == paid.ReasonAdjusted || !strings.Contains(r.log.String(), `level=ERROR msg="payment settled and has no effect"`) {
			t.Errorf("%q; log: %s", reason, r.log)
		}
		r.has(amounts{"ada": 400, "open": 0})
	})
}

// bundle has bob and carol pay 150 each in one transaction. Bob signed before the
// ring had another recipient. It gives carol's request.
func (r *ring) bundle() *held {
	r.t.Helper()
	r.join(ada, "alice")
	r.network.change(func() {
		for _, payer := range []string{"bob", "carol"} {
			r.network.fates[payer] = fate{after: time.Hour}
		}
	})
	pay := func(payer string) *held {
		credential := r.sign(r.challenge(paid.OpBid, fund), payer, 150)
		h := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}})
		synctest.Wait()
		return h
	}
	next := r.failAt("broadcast")
	pay("bob")
	r.network.change(func() { r.network.payee = "of another" })
	next()
	carols := pay("carol")
	if len(r.open()) != 2 {
		r.t.Fatalf("%d payments are open", len(r.open()))
	}
	r.network.change(func() {
		for _, payer := range []string{"bob", "carol"} {
			r.network.fates[payer] = fate{by: "0xb0b", brought: 150}
		}
	})
	return carols
}

// Somebody can settle payments to two recipients of the ring in one transaction.
// What one of them got says nothing about what is left for the other: each payment
// has its effect, and none is ended in the name of an operator who did nothing.
func TestPaymentsToTwoRecipientsInOneTransaction(t *testing.T) {
	inRing(t, "two recipients", func(t *testing.T, r *ring) {
		r.bundle().wait().is(200, "")
		time.Sleep(time.Minute)
		r.has(amounts{"ada": 400, "open": 0})
		r.finds(0)
	})
	// A backup may have both as open, whatever of their events an edge brings back.
	for events := range 3 {
		inRing(t, fmt.Sprintf("restored with %d events", events), func(t *testing.T, r *ring) {
			carols := r.bundle()
			rows := r.rows()
			carols.wait()
			time.Sleep(time.Minute)
			if open := r.restore(rows, events); open != 2 {
				t.Fatalf("the backup has %d payments open", open)
			}
			time.Sleep(time.Minute)
			r.has(amounts{"ada": 400, "all": 400, "open": 0})
			if a, err := r.books.Audit(context.Background()); err != nil || len(a.Findings) != 0 || a.Alone != 0 {
				t.Errorf("%v, %+v", err, a)
			}
		})
	}
}

// What the operator gives of such a transaction is what all recipients got, so none
// of its payments has an effect of its own when its credential comes after that.
func TestAdjustmentIsOfWhatAllRecipientsGot(t *testing.T) {
	inAdasRing(t, "two recipients", func(t *testing.T, r *ring) {
		synctest.Wait()
		arrive := func(payer string) {
			p := mpp.Payment{Reference: payer, Payer: payer, Cents: 150, ValidBefore: time.Now().Add(time.Hour)}
			r.network.sent[payer] = sent{p, time.Now(), r.network.payee}
			r.network.fates[payer] = fate{by: "0xb0b", brought: 150}
		}
		r.network.change(func() {
			arrive("bob")
			r.network.payee = "of another"
			arrive("carol")
		})
		r.restart()
		credit := paid.Adjustment{Kind: core.Credit, Transaction: "0xb0b", Member: "ada", Reason: "test"}
		if e, err := r.service.Adjust(context.Background(), credit); err != nil || e.Amount != 300 {
			t.Fatalf("%+v, %v", e, err)
		}
		for _, payer := range []string{"bob", "carol"} {
			ch := r.challenge(paid.OpBid, fund)
			r.post(paid.OpBid, fund, r.sign(ch, payer, 150)).is(409, api.PaymentUnapplied)
			same(t, r.stored(ch).Reason, paid.ReasonAdjusted)
		}
		if r.total("ada") != 400 || len(r.open()) != 0 || strings.Count(r.log.String(), `level=WARN msg="payment settled and has no effect"`) != 2 {
			t.Errorf("ada has %d, %d open; log: %s", r.total("ada"), len(r.open()), r.log)
		}
	})
}

// While it is unknown what all recipients got, or the block may yet be dropped, the
// second payment stays open, and the log says so.
func TestPaymentStaysOpenWhileItIsNotKnownWhatItsTransactionBrought(t *testing.T) {
	for name, c := range map[string]struct {
		silent  string
		shallow bool
		said    string
		other   int64 // that carol's recipient got, too; the node that is asked what it got lags
	}{
		"silent":  {silent: "received", said: "what 0xb0b brought in all is not known"},
		"lagging": {other: 100, said: "what 0xb0b brought in all is not known"},
		"shallow": {shallow: true, said: "payment waits for its block to be final"},
	} {
		inRing(t, name, func(t *testing.T, r *ring) {
			carols := r.bundle()
			know := func(silent string, shallow, lags bool) {
				r.network.change(func() {
					r.network.silent = silent
					r.network.fates["bob"] = fate{by: "0xb0b", brought: 150, shallow: shallow}
					r.network.fates["carol"] = fate{after: 5 * time.Second, by: "0xb0b", brought: 150 + c.other, shallow: shallow, lags: lags}
				})
			}
			know(c.silent, c.shallow, c.other > 0)
			time.Sleep(10 * time.Minute)
			carols.wait()
			r.has(amounts{"ada": 250, "open": 1})
			if !strings.Contains(r.log.String(), c.said) {
				t.Errorf("the log does not say why: %s", r.log)
			}
			know("", false, false)
			time.Sleep(time.Minute)
			r.has(amounts{"ada": 400, "open": 0})
		})
	}
}
