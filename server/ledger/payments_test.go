package ledger_test

import (
	"reflect"
	"testing"
	"time"

	"webring/core"
	"webring/server/ledger"
)

// An account has paid when an event says so, in whatever case it is spelled, and for
// ever.
func TestAccountsThatHavePaidAreKnown(t *testing.T) {
	r := openedRing(t)
	paid := func(payer string) (paid bool) {
		r.View(func(v *ledger.View) {
			var err error
			if paid, err = v.HasPaid(payer); err != nil {
				t.Error(err)
			}
		})
		return paid
	}
	v := registration("new", "did:pkh:eip155:1:0xab")
	r.must(func(tx *ledger.Tx) error { return tx.Reserve(v) })
	if paid(v.Payer) {
		t.Error("paid by a reservation")
	}
	r.must(func(tx *ledger.Tx) error {
		e := &core.Joined{Stamp: tx.Stamp(), Slug: "new", Kind: core.Website, Category: "general", Fee: 100,
			Payment: core.Payment{Method: "evm", Network: "evm:1", Transaction: "0x1", Payer: v.Payer}}
		_, err := tx.Append(e, &core.Texts{Name: core.Text{Value: "New"}, URL: core.Text{Value: "https://new.org"}})
		return err
	})
	for range 2 {
		if !paid(v.Payer) || !paid("did:pkh:eip155:1:0xAB") || paid("did:pkh:eip155:2:0xab") || paid("did:pkh:eip155:1:0xabc") || paid("did:pkh:eip155:1:0xa") {
			t.Error("not this account alone has paid")
		}
		r.reopen()
	}
}

// An account that has paid owes a payment once one of its without an end lapses or fails, and no
// more once it pays. One that has never paid has not paid by that.
func TestAnAccountOwesAPayment(t *testing.T) {
	for name, end := range map[string]func(*ledger.Reservation){
		"lapsed": func(v *ledger.Reservation) { v.Lapsed = start },
		"failed": func(v *ledger.Reservation) { v.State = ledger.Failed },
	} {
		r := openedRing(t, "ada")
		expect := func(payer string, paid, since bool) {
			t.Helper()
			for range 2 {
				r.View(func(v *ledger.View) {
					ever, err := v.HasPaid(payer)
					lately, also := v.PaidSince(payer)
					if ever != paid || lately != since || err != nil || also != nil {
						t.Errorf("%s: %s has paid %t, and since %t, %v, %v", name, payer, ever, lately, err, also)
					}
				})
				r.reopen()
			}
		}
		bids := 0
		bid := func() {
			bids++
			r.must(func(tx *ledger.Tx) error {
				_, err := tx.Append(&core.Bid{Stamp: tx.Stamp(), Member: "ada", Amount: 100,
					Payment: core.Payment{Method: "tempo", Network: "tempo:1", Transaction: "0x" + string(rune('0'+bids)), Payer: "bob"}}, nil)
				return err
			})
		}
		open := func(id, payer string, endless bool) {
			r.must(func(tx *ledger.Tx) error {
				v := bidReservation(id, "ada", 100)
				v.Payer, v.Endless = payer, endless
				if err := tx.Reserve(v); err != nil {
					return err
				}
				end(v)
				return tx.Update(v)
			})
		}
		bid()
		open("a", "bob", false)
		expect("bob", true, true)
		open("b", "bob", true)
		expect("bob", true, false)
		open("c", "carol", true)
		expect("carol", false, false)
		bid()
		expect("bob", true, true)
	}
}

// Waste is there after a restart, the oldest first, once for each transaction, until it
// is forgotten.
func TestWasteOutlivesTheProcess(t *testing.T) {
	r := openedRing(t)
	waste := func(transaction string, minutes time.Duration) ledger.Waste {
		return ledger.Waste{At: start.Add(minutes * time.Minute), Network: "evm:8453", Transaction: transaction,
			Payer: "did:pkh:eip155:8453:0xada", Client: "192.0.2.1", Gas: 58_323, Wei: "583230000", Paid: minutes > 5}
	}
	newer, older := waste("0x01", 9), waste("0x02", 3)
	holds := func(want ...ledger.Waste) {
		t.Helper()
		for range 2 {
			r.View(func(v *ledger.View) {
				if got, err := v.Wastes(); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%+v, %v, want %+v", got, err, want)
				}
			})
			r.reopen()
		}
	}
	for _, w := range []ledger.Waste{newer, older, newer} {
		r.must(func(tx *ledger.Tx) error { return tx.AddWaste(w) })
	}
	holds(older, newer)
	r.must(func(tx *ledger.Tx) error {
		tx.ForgetWaste(older)
		return nil
	})
	holds(newer)
}
