package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"webring/core"
	"webring/server/ledger"
)

// counted is a store that counts the rows that are read, and the rows under one
// prefix that a batch deletes.
type counted struct {
	ledger.Store
	read, deleted int
	prefix        byte
}

func (r *ring) count(prefix byte) *counted {
	c := &counted{Store: r.store, prefix: prefix}
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

func (c *counted) Commit(b ledger.Batch) error {
	for key, value := range b {
		if key[0] == c.prefix && value == nil {
			c.deleted++
		}
	}
	return c.Store.Commit(b)
}

// adopt has n bids on ada come back, a second apart, and gives the last one's number.
func (r *ring) adopt(n int, payer string) (last uint64) {
	r.t.Helper()
	for range n {
		r.pass(time.Second)
		r.must(func(tx *ledger.Tx) error {
			last = tx.State().Seq()
			event, err := core.AppendEvent(nil, &core.Bid{Stamp: tx.Stamp(), Member: "ada", Amount: 100,
				Payment: core.Payment{Method: "coin", Network: "coin:test", Transaction: fmt.Sprintf("0x%x", last), Payer: payer}})
			if err != nil {
				return err
			}
			return tx.Adopt(ledger.Record{Event: event})
		})
	}
	return last
}

// returned gives the numbers of what came back of a payer since an instant.
func (r *ring) returned(payer string, since time.Time) (numbers []uint64) {
	r.t.Helper()
	r.View(func(v *ledger.View) {
		events, err := v.Restored(payer, since)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, e := range events {
			numbers = append(numbers, e.Seq)
		}
	})
	return numbers
}

// What came back long ago is not read again for every payment, however much it is.
func TestRestoredReadsNothingOfLongAgo(t *testing.T) {
	r := openedRing(t, "ada")
	r.adopt(1500, "payer")
	r.adopt(1, "another")
	since := r.now()
	last := r.adopt(3, "payer")
	c := r.count('b')
	c.read = 0
	if got, want := r.returned("payer", since), []uint64{last - 2, last - 1, last}; !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
	// A search among the events, and what there is since.
	if c.read > 20 {
		t.Errorf("%d rows were read", c.read)
	}
	if got := r.returned("payer", time.Time{}); len(got) != 1503 {
		t.Errorf("of all times: %d events", len(got))
	}
	if got := r.returned("payer", r.now().Add(time.Second)); len(got) != 0 {
		t.Errorf("of the future: %v", got)
	}
}

// A payment leaves nothing that later ones of the same payer have to go over.
func TestPaymentsLeaveNothingForLaterOnesToRead(t *testing.T) {
	r := openedRing(t, "ada")
	c := r.count('b')
	for i := range 30 {
		v := bidReservation(fmt.Sprint("bid-", i), "ada", 100)
		r.must(func(tx *ledger.Tx) error { return tx.Reserve(v) })
		r.must(func(tx *ledger.Tx) (err error) {
			v.State = ledger.Applied
			if v.Seq, err = tx.Append(bid(tx, "ada", 100), nil); err != nil {
				return err
			}
			return tx.Update(v)
		})
	}
	if c.deleted != 0 {
		t.Errorf("%d rows were deleted that never were", c.deleted)
	}
	c.read = 0
	if got := r.returned("payer", time.Time{}); len(got) != 0 || c.read != 0 {
		t.Errorf("%v, with %d rows read", got, c.read)
	}
}

// An event that came back is taken by one reservation, from its own turn on.
func TestRestoredEventIsTakenOnce(t *testing.T) {
	r := openedRing(t, "ada")
	last := r.adopt(2, "payer")
	v := bidReservation("bid", "ada", 100)
	r.must(func(tx *ledger.Tx) error { return tx.Reserve(v) })
	r.must(func(tx *ledger.Tx) error {
		v.State, v.Seq = ledger.Applied, last-1
		if err := tx.Update(v); err != nil {
			return err
		}
		if events, err := tx.View().Restored("payer", time.Time{}); err != nil || len(events) != 1 || events[0].Seq != last {
			t.Errorf("in its own turn: %v, %v", events, err)
		}
		return nil
	})
	for range 2 {
		if got := r.returned("payer", time.Time{}); !slices.Equal(got, []uint64{last}) {
			t.Errorf("%v are left", got)
		}
		r.reopen()
	}
}
