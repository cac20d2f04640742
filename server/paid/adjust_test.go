package paid_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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

// A payment that is gone permanently keeps its effect and is reported, and the operator
// takes it out of the books, once.
func TestPaymentGoneForGoodIsReportedAndVoided(t *testing.T) {
	inRing(t, "voided", func(t *testing.T, r *ring) {
		r.network.fates["alice"] = fate{shallow: true}
		r.join(ada, "alice")
		reference := r.onlyReference()
		void := paid.Adjustment{Kind: core.Void, Transaction: reference, Reason: "dropped by a reorganisation"}
		r.refused(r.adjust(void), "")
		r.network.change(func() {
			clear(r.network.sent)
			r.network.fates["alice"] = fate{lost: true}
		})
		r.refused(r.adjust(void), "")
		time.Sleep(time.Minute)
		if r.unconfirmed() != 0 || !strings.Contains(r.log.String(), "has vanished for good") {
			t.Fatalf("%d to confirm; log: %s", r.unconfirmed(), r.log)
		}
		found, err := r.service.Find(reference)
		if err != nil || found.State != ledger.Applied || found.Outcome != mpp.Gone.String() {
			t.Fatalf("%+v, %v", found, err)
		}
		// Its network may not be configured any more, and a member be mistaken.
		methods := r.methods
		r.methods = func(dead *atomic.Bool) []paid.Method { return []paid.Method{&method{node{r.second, dead}, "token"}} }
		r.restart()
		r.refused(r.adjust(void), "on a network that is configured (token:test)")
		r.methods = methods
		r.restart()
		others := void
		others.Member = "bob"
		r.refused(r.adjust(others), "the payment was for ada")
		e, err := r.service.Adjust(context.Background(), void)
		if err != nil || e.Amount != 100 || e.Member != "ada" || !strings.Contains(r.log.String(), `msg="payment adjusted" kind=void`) {
			t.Fatalf("%+v, %v; log: %s", e, err, r.log)
		}
		r.refused(r.adjust(void), "")
		r.look(func(v *ledger.View) {
			if credited, voided := v.State().Books(); credited != 100 || voided != 100 || r.total("ada") != 100 {
				t.Errorf("books %d and %d, total %d", credited, voided, r.total("ada"))
			}
		})
	})
}

// A payment is not missing because the recipient is another one now: neither by
// the audit nor for the operator. What was voided and comes back is not given to
// the member a second time.
func TestPaymentsToAnEarlierRecipientStand(t *testing.T) {
	inAdasRing(t, "moved", func(t *testing.T, r *ring) {
		synctest.Wait()
		reference := r.onlyReference()
		joined, _ := core.PaymentOf(r.last())
		adjust := func(kind core.Adjustment) error {
			a := paid.Adjustment{Kind: kind, Transaction: reference, Reason: "test"}
			if kind == core.Credit {
				a.Member = "ada"
			}
			return r.adjust(a)
		}
		r.network.change(func() { r.network.payee = "of another" })
		r.restart()
		a, err := r.service.VerifyChain(context.Background())
		if err != nil || a.Asked != 1 || a.Unknown != 0 || len(a.Findings) != 0 {
			t.Errorf("%+v, %v", a, err)
		}
		r.refused(adjust(core.Void), "nothing to take back")
		// A node without the transaction proves nothing before its time is over.
		kept := map[string]sent{}
		r.network.change(func() {
			maps.Copy(kept, r.network.sent)
			clear(r.network.sent)
		})
		r.refused(adjust(core.Void), "pending")
		if a, err := r.service.VerifyChain(context.Background()); err != nil || a.Unknown != 1 || len(a.Findings) != 0 {
			t.Errorf("audited before it was decided: %+v, %v", a, err)
		}
		time.Sleep(time.Minute)
		r.finds(1)
		r.must(adjust(core.Void))
		if p, _ := core.PaymentOf(r.last()); p.Payee == "" || p != joined {
			t.Errorf("the event takes back %+v, and %+v was given", p, joined)
		}
		r.network.change(func() { maps.Copy(r.network.sent, kept) })
		r.refused(adjust(core.Credit), "unclaimed")
		if err := adjust(core.Unclaimed); err != nil {
			t.Error(err)
		}
		r.look(func(v *ledger.View) {
			if credited, voided := v.State().Books(); credited != 200 || voided != 100 || r.total("ada") != 100 {
				t.Errorf("books %d and %d, total %d", credited, voided, r.total("ada"))
			}
		})
	})
}

// The same holds for money without a stored payment: what the operator credited, and events
// that came back from an edge, in a ring that has changed its recipient twice. What is really
// not there is found among them.
func TestMoneyWithoutAStoredPaymentStands(t *testing.T) {
	inAdasRing(t, "moved twice", func(t *testing.T, r *ring) {
		synctest.Wait()
		rows := r.rows()
		r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "bob", 150)).is(200, "")
		r.network.change(func() {
			for _, reference := range []string{"0xfeed", "0xbeef"} {
				r.network.sent[reference] = sent{mpp.Payment{Payer: "carol", Cents: 250, Reference: reference, ValidBefore: time.Now().Add(time.Hour)}, time.Now(), ""}
			}
		})
		adjust := func(a paid.Adjustment) error {
			a.Reason = "test"
			return r.adjust(a)
		}
		r.must(adjust(paid.Adjustment{Kind: core.Unclaimed, Transaction: "0xfeed"}))
		for _, payee := range []string{"of another", "of a third"} {
			r.network.change(func() { r.network.payee = payee })
			r.restart()
		}
		r.restore(rows)
		r.must(adjust(paid.Adjustment{Kind: core.Credit, Transaction: "0xbeef", Member: "ada"}))
		if p, _ := core.PaymentOf(r.last()); !strings.HasPrefix(p.Payee, "purse") {
			t.Errorf("%+v names another payee than the one that was paid", p)
		}
		chain, err := r.service.VerifyChain(context.Background())
		if err != nil || chain.Asked != 4 || chain.Unknown != 0 || len(chain.Findings) != 0 {
			t.Errorf("%+v, %v", chain, err)
		}
		r.refused(adjust(paid.Adjustment{Kind: core.Void, Transaction: "0xfeed", Member: "ada"}), "nothing to take back")

		r.network.change(func() { delete(r.network.sent, "0xfeed") })
		chain, err = r.service.VerifyChain(context.Background())
		if err != nil || len(chain.Findings) != 1 || !strings.Contains(chain.Findings[0], "0xfeed") {
			t.Errorf("%+v, %v", chain, err)
		}
	})
}

// Unclaimed money that vanished and came back can still be given to a member: no member
// has had it.
func TestUnclaimedMoneyThatComesBackIsCredited(t *testing.T) {
	inAdasRing(t, "back", func(t *testing.T, r *ring) {
		synctest.Wait()
		arrive := func() {
			r.network.change(func() {
				r.network.arrives("0xfeed", "carol", 250, time.Now())
			})
		}
		adjust := func(kind core.Adjustment, member string) {
			t.Helper()
			r.must(r.adjust(paid.Adjustment{Kind: kind, Transaction: "0xfeed", Member: member, Reason: "test"}))
		}
		arrive()
		adjust(core.Unclaimed, "")
		r.network.change(func() { delete(r.network.sent, "0xfeed") })
		adjust(core.Void, "ada")
		arrive()
		adjust(core.Credit, "ada")
		same(t, r.total("ada"), 350)
	})
}

// After its block was dropped, an authorisation can be used again by another transaction.
// That is the same money: it is no stray, and it is not credited a second time.
func TestPaymentThatMovesToAnotherTransactionCountsOnce(t *testing.T) {
	inRing(t, "moves", func(t *testing.T, r *ring) {
		r.network.fates["alice"] = fate{shallow: true}
		r.join(ada, "alice")
		synctest.Wait()
		credit := func() error {
			return r.adjust(paid.Adjustment{Kind: core.Credit, Transaction: "0xb0b", Member: "ada", Reason: "test"})
		}
		r.network.change(func() {
			moved := r.network.sent[r.onlyReference()]
			moved.payment.Reference = "0xb0b"
			clear(r.network.sent)
			r.network.sent["0xb0b"] = moved
			r.network.fates["alice"] = fate{by: "0xb0b", brought: 100}
		})
		r.refused(credit(), "still being settled")
		time.Sleep(time.Minute)
		if r.unconfirmed() != 0 {
			t.Fatal("it is not confirmed")
		}
		r.findsNoStray(time.Now().Add(-time.Hour))
		r.refused(credit(), "account for this transaction already")
		if a, err := r.service.VerifyChain(context.Background()); err != nil || a.Asked != 1 || len(a.Findings) != 0 {
			t.Errorf("%+v, %v", a, err)
		}
		r.has(amounts{"ada": 100})
	})
}

// A reorganisation deeper than the depth can put a payment into another transaction when nobody
// asks for it any more. Its event accounts for that one, and if the operator has credited it all the
// same, the first effect can be voided. The audit tells which is so.
func TestAPaymentMovesDeeperThanTheDepth(t *testing.T) {
	for _, nameless := range []bool{false, true} {
		inRing(t, fmt.Sprintf("nameless %t", nameless), func(t *testing.T, r *ring) {
			r.network.change(func() { r.network.nameless = nameless })
			r.join(ada, "alice")
			r.join(bob, "bob")
			synctest.Wait()
			first := r.reference("alice")
			adjust := func(kind core.Adjustment, transaction, member string) error {
				return r.adjust(paid.Adjustment{Kind: kind, Transaction: transaction, Member: member, Reason: "test"})
			}
			r.network.change(func() {
				moved := r.network.sent[first]
				moved.payment.Reference = "0xb0b"
				delete(r.network.sent, first)
				r.network.sent["0xb0b"] = moved
				r.network.fates["alice"] = fate{by: "0xb0b", brought: 100}
			})
			time.Sleep(time.Hour)
			r.refused(adjust(core.Void, first, ""), "settled")
			if !nameless {
				r.findsNoStray(time.Now().Add(-2 * time.Hour))
				r.refused(adjust(core.Credit, "0xb0b", "ada"), "account for this transaction already")
				r.refused(adjust(core.Unclaimed, "0xb0b", ""), "account for this transaction already")
				r.refused(adjust(core.Void, first, ""), "settled")
				r.finds(0)
				r.has(amounts{"ada": 100, "bob": 100})
				return
			}
			r.must(adjust(core.Credit, "0xb0b", "ada"))
			r.finds(1)
			r.refused(adjust(core.Void, "0xb0b", ""), "nothing to take back")
			r.must(adjust(core.Void, first, ""))
			r.finds(0)
			r.findsNoStray(time.Now().Add(-2 * time.Hour))
			r.look(func(v *ledger.View) {
				credited, voided := v.State().Books()
				same(t, credited-voided, 200)
			})
		})
	}
}

// A payer can put the memo of a payment into another transfer. The network does not say that this settles
// the payment, so it is other money, whether or not the node still has the payment's own transaction. The
// node is not asked about a payment that could no longer be mined then.
func TestARepeatedMemoIsOtherMoney(t *testing.T) {
	for _, forgotten := range []bool{false, true} {
		for later, questions := range map[time.Duration]int{3 * time.Minute: 1, 23 * time.Hour: 0} {
			inAdasRing(t, fmt.Sprintf("%v later, forgotten %t", later, forgotten), func(t *testing.T, r *ring) {
				time.Sleep(later)
				first := r.onlyReference()
				r.network.change(func() {
					again := r.network.sent[first]
					again.payment.Reference, again.payment.ValidBefore, again.at = "0xb0b", time.Now().Add(time.Hour), time.Now()
					r.network.sent["0xb0b"] = again
					if forgotten {
						delete(r.network.sent, first)
					}
				})
				time.Sleep(10 * time.Minute)
				transfers, outcomes := r.network.questions("transfers"), r.network.questions("outcome")
				strays, err := r.service.Scan(context.Background(), time.Now().Add(-time.Hour), false)
				var missing []string
				for _, x := range strays {
					missing = append(missing, fmt.Sprint(x.Transfer.Reference, " ", x.Missing))
				}
				if err != nil || len(strays) != 1 || missing[0] != "0xb0b 100" {
					t.Errorf("%v, %v", missing, err)
				}
				same(t, r.network.questions("transfers")-transfers, 1)
				same(t, r.network.questions("outcome")-outcomes, questions)
				r.must(r.adjust(paid.Adjustment{Kind: core.Credit, Transaction: "0xb0b", Member: "ada", Reason: "test"}))
				r.has(amounts{"ada": 200})
			})
		}
	}
}

// What the operator has put right needs no look any more: a payment that was diverted, by its
// transaction or by what the token names in another.
func TestADivertedPaymentIsPutRight(t *testing.T) {
	for _, by := range []string{"", "0xb0b"} {
		inAdasRing(t, by, func(t *testing.T, r *ring) {
			r.network.change(func() {
				r.network.fates["carol"] = fate{state: mpp.Mismatched}
			})
			r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "carol", 150)).is(409, api.PaymentMismatch)
			reference := r.reference("carol")
			found, err := r.service.Find(reference)
			r.must(err)
			same(t, found.Reason == paid.ReasonAdjusted, false)
			r.network.change(func() {
				paid := r.network.sent[reference]
				delete(r.network.fates, "carol")
				delete(r.network.sent, reference)
				paid.payment.Reference = cmp.Or(by, reference)
				r.network.sent[paid.payment.Reference] = paid
			})
			r.must(r.adjust(paid.Adjustment{Kind: core.Credit, Transaction: cmp.Or(by, reference), Member: "ada", Reason: "test"}))
			found, err = r.service.Find(reference)
			r.must(err)
			same(t, found.Reason, paid.ReasonAdjusted)
			r.has(amounts{"ada": 250})
		})
	}
}

// However much a stranger sends, the operator can record it.
func TestATransferBeyondTheHighestTotalIsRecorded(t *testing.T) {
	inAdasRing(t, "large", func(t *testing.T, r *ring) {
		synctest.Wait()
		const sum = 2*core.MaxTotal + 150
		r.network.change(func() { r.network.arrives("0xfeed", "carol", sum, time.Now()) })
		large := paid.Adjustment{Kind: core.Credit, Transaction: "0xfeed", Member: "ada", Reason: "test"}
		r.refused(r.adjust(large), "too high")
		large.Kind, large.Member = core.Unclaimed, ""
		e, err := r.service.Adjust(context.Background(), large)
		r.must(err)
		same(t, e.Amount, sum)
		r.refused(r.adjust(large), "account for this transaction already")
		r.findsNoStray(time.Now().Add(-time.Hour))
		r.finds(0)
		r.audited()
		r.has(amounts{"ada": 100, "all": 100 + sum})
	})
}

// A payment that may yet move keeps as much from its payer from being credited, but not
// what came when it could no longer be mined.
func TestMoneyIsCreditedBesideAPaymentOfAnotherTime(t *testing.T) {
	inRing(t, "beside", func(t *testing.T, r *ring) {
		r.network.fates["alice"] = fate{shallow: true}
		r.join(ada, "alice")
		credit := func() error {
			r.network.change(func() { r.network.arrives("0xb0b", "alice", 100, time.Now()) })
			return r.adjust(paid.Adjustment{Kind: core.Credit, Transaction: "0xb0b", Member: "ada", Reason: "test"})
		}
		time.Sleep(time.Minute)
		r.refused(credit(), "still being settled")
		time.Sleep(time.Hour)
		if err := credit(); err != nil || r.unconfirmed() != 1 || r.total("ada") != 200 {
			t.Errorf("%v, with %d not confirmed and %d for ada", err, r.unconfirmed(), r.total("ada"))
		}
	})
}

// onlyReference names the transaction of the one payment there is.
func (r *ring) onlyReference() string {
	r.t.Helper()
	all, err := r.books.Reservations("", 10)
	if err != nil || len(all) != 1 {
		r.t.Fatalf("%d reservations, %v", len(all), err)
	}
	p, err := paid.StoredPayment(all[0])
	if err != nil {
		r.t.Fatal(err)
	}
	return p.Reference
}

// A transaction that the operator has given to somebody is not given again when the
// credential of its payment comes after all: that is ended, and its payer told.
func TestCredentialComesAfterItsTransactionWasAdjusted(t *testing.T) {
	for name, c := range map[string]struct {
		op, body string
		cents    int64
		adjust   paid.Adjustment
	}{
		"a bid, credited to its member":  {paid.OpBid, fund, 150, paid.Adjustment{Kind: core.Credit, Member: "ada"}},
		"a bid, credited to another":     {paid.OpBid, fund, 150, paid.Adjustment{Kind: core.Credit, Member: "bob"}},
		"a bid, recorded as unclaimed":   {paid.OpBid, fund, 150, paid.Adjustment{Kind: core.Unclaimed}},
		"a registration, credited":       {paid.OpRegister, cyn, 100, paid.Adjustment{Kind: core.Credit, Member: "ada"}},
		"a registration, kept unclaimed": {paid.OpRegister, cyn, 100, paid.Adjustment{Kind: core.Unclaimed}},
	} {
		inAdasRing(t, name, func(t *testing.T, r *ring) {
			r.join(bob, "alice")
			ch := r.challenge(c.op, c.body)
			r.network.change(func() {
				p := mpp.Payment{Reference: "0xb0b", Payer: "dora", Cents: c.cents, ValidBefore: time.Now().Add(time.Hour)}
				r.network.sent["0xb0b"] = sent{p, time.Now(), r.network.payee}
				r.network.fates["dora"] = fate{by: "0xb0b", brought: c.cents}
			})
			c.adjust.Transaction, c.adjust.Reason = "0xb0b", "test"
			r.must(r.adjust(c.adjust))
			credited := r.credited()
			credential := r.sign(ch, "dora", c.cents)
			for range 2 {
				if a := r.post(c.op, c.body, credential).is(409, api.PaymentUnapplied); a.member("reference") != "0xb0b" {
					t.Errorf("%s", a.Body)
				}
			}
			if stored := r.stored(ch); stored.State != ledger.Failed || len(r.open()) != 0 || r.credited() != credited {
				t.Errorf("%s, %d open, credited %d, want %d", stored.State, len(r.open()), r.credited(), credited)
			}
			// Nothing is left of it that would keep a member from being removed.
			r.must(r.remove("ada", false))
			r.audited()
		})
	}
}

// A payment from before the method's chain or token was changed cannot be asked for
// any more. It is no part of what comes in now, and does not stop that from being adjusted.
func TestPaymentOfAnotherChainDoesNotKeepFromAdjusting(t *testing.T) {
	inRing(t, "of another chain", func(t *testing.T, r *ring) {
		r.network.fates["alice"] = fate{shallow: true}
		r.join(ada, "alice")
		r.network.change(func() {
			r.network.fates["alice"] = fate{foreign: true}
			r.network.arrives("0xb0b", "alice", 100, time.Now())
		})
		credit := paid.Adjustment{Kind: core.Credit, Transaction: "0xb0b", Member: "ada", Reason: "test"}
		if e, err := r.service.Adjust(context.Background(), credit); err != nil || e.Amount != 100 {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

// adjust is what the operator does.
func (r *ring) adjust(a paid.Adjustment) error {
	_, err := r.service.Adjust(context.Background(), a)
	return err
}

// refused fails the test unless err refuses an adjustment, with these words.
func (r *ring) refused(err error, words string) {
	r.t.Helper()
	if !errors.Is(err, paid.ErrAdjustment) || !strings.Contains(err.Error(), words) {
		r.t.Errorf("got %v, want a refusal with %q", err, words)
	}
}

// finds fails the test unless so many transactions have not brought what events gave for them.
func (r *ring) finds(n int) {
	r.t.Helper()
	if a, err := r.service.VerifyChain(context.Background()); err != nil || len(a.Findings) != n {
		r.t.Errorf("%+v, %v; want %d findings", a, err, n)
	}
}

// findsNoStray fails the test if money has come since then for which there is no event.
func (r *ring) findsNoStray(since time.Time) {
	r.t.Helper()
	if strays, err := r.service.Scan(context.Background(), since, false); err != nil || len(strays) != 0 {
		r.t.Errorf("%+v, %v", strays, err)
	}
}

// audited fails the test if the ledger's own audit finds anything.
func (r *ring) audited() {
	r.t.Helper()
	if a, err := r.books.Audit(context.Background()); err != nil || len(a.Findings) != 0 {
		r.t.Errorf("%v, %+v", err, a)
	}
}
