package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"webring/core"
	"webring/server/ledger"
)

// counted is a store that counts the rows that are read.
type counted struct {
	ledger.Store
	read int
}

func (r *ring) count() *counted {
	c := &counted{Store: r.store}
	r.over = func(ledger.Store) ledger.Store { return c }
	r.reopen()
	return c
}

func (c *counted) Get(key []byte) ([]byte, error) {
	c.read++
	return c.Store.Get(key)
}

func (c *counted) Scan(prefix, from []byte, fn func(key, value []byte) error) error {
	return c.Store.Scan(prefix, from, func(key, value []byte) error {
		c.read++
		return fn(key, value)
	})
}

// payment is one of payer with a binding, on the network of all payments here.
func payment(payer, binding string) core.Payment {
	return core.Payment{Method: "coin", Network: "coin:test", Payer: payer, Binding: binding}
}

// adopt has n bids on ada come back, all with one binding, and gives the last one's number.
func (r *ring) adopt(n int, payer, binding string) (last uint64) {
	r.t.Helper()
	for range n {
		r.pass(time.Second)
		r.must(func(tx *ledger.Tx) error {
			last = tx.State().Seq()
			p := payment(payer, binding)
			p.Transaction = fmt.Sprintf("0x%x", last)
			event, err := core.AppendEvent(nil, &core.Bid{Stamp: tx.Stamp(), Member: "ada", Amount: 100, Payment: p})
			if err != nil {
				return err
			}
			return tx.Adopt(ledger.Record{Event: event})
		})
	}
	return last
}

// returned gives the number of the event that came back of a payment, 0 for none.
func (r *ring) returned(p core.Payment) (seq uint64) {
	r.t.Helper()
	r.View(func(v *ledger.View) {
		var err error
		if seq, _, err = v.Restored(p); err != nil {
			r.t.Fatal(err)
		}
	})
	return seq
}

// What came back of other payments is not read for every payment, however much it is, and is no
// event of it.
func TestRestoredReadsNothingOfOtherPayments(t *testing.T) {
	r := openedRing(t, "ada")
	r.adopt(1500, "payer", "0x01")
	r.adopt(1, "another", "0x5a")
	want := r.adopt(1, "payer", "0x5a")
	c := r.count()
	c.read = 0
	if got := r.returned(payment("payer", "0x5a")); got != want || c.read > 4 {
		t.Errorf("event %d, want %d; %d rows were read", got, want, c.read)
	}
	elsewhere := payment("payer", "0x5a")
	elsewhere.Network = "coin:other"
	for _, other := range []core.Payment{payment("payer", ""), payment("payer", "0x5"), payment("new", "0x5a"), elsewhere} {
		if got := r.returned(other); got != 0 {
			t.Errorf("event %d is for %+v", got, other)
		}
	}
}

// What the operator has put right is no event of a payment.
func TestAdjustmentsThatComeBackAreNoPayments(t *testing.T) {
	r := openedRing(t, "ada")
	r.must(func(tx *ledger.Tx) error {
		p := payment("payer", "0x5a")
		p.Transaction = "0x1"
		event, err := core.AppendEvent(nil, &core.Adjusted{Stamp: tx.Stamp(), Adjustment: core.Credit, Member: "ada", Amount: 100, Reason: "test", Payment: p})
		if err != nil {
			return err
		}
		return tx.Adopt(ledger.Record{Event: event})
	})
	if got := r.returned(payment("payer", "0x5a")); got != 0 {
		t.Errorf("event %d", got)
	}
}

// An event that came back is taken by one reservation, from its own turn on.
func TestRestoredEventIsTakenOnce(t *testing.T) {
	r := openedRing(t, "ada")
	p := payment("payer", "0x5a")
	last := r.adopt(2, "payer", "0x5a")
	r.must(func(tx *ledger.Tx) error {
		tx.Claim(p, last-1)
		if seq, _, err := tx.View().Restored(p); err != nil || seq != last {
			t.Errorf("in its own turn: %d, %v", seq, err)
		}
		return nil
	})
	for range 2 {
		if got := r.returned(p); got != last {
			t.Errorf("%d is left", got)
		}
		r.reopen()
	}
}
