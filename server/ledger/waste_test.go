package ledger_test

import (
	"reflect"
	"testing"
	"time"

	"webring/server/ledger"
)

// Waste is there after a restart, the oldest first, once for each transaction, until it
// is forgotten.
func TestWasteOutlivesTheProcess(t *testing.T) {
	r := openedRing(t)
	waste := func(transaction string, minutes time.Duration) ledger.Waste {
		return ledger.Waste{At: start.Add(minutes * time.Minute), Network: "evm:8453", Transaction: transaction,
			Payer: "did:pkh:eip155:8453:0xada", Client: "192.0.2.1", Gas: 58_323, Wei: "583230000", Late: minutes > 5}
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
