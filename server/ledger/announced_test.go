package ledger_test

import (
	"slices"
	"testing"

	"webring/core"
	"webring/server/ledger"
)

// Payees become events once: those that an earlier version has stored, with those of today.
func TestPayeesAreAnnouncedOnce(t *testing.T) {
	r := openedRing(t, "ada")
	if err := r.store.Commit(ledger.Batch{"atempo:1\x00old/ring": {}, "aevm:2\x00old/ring": {}}); err != nil {
		t.Fatal(err)
	}
	payee := func(network, account string) core.Payee { return core.Payee{Network: network, Account: account} }
	today := []core.Payee{payee("tempo:1", "usd/ring"), payee("evm:2", "old/ring")}
	announce := func(some ...core.Payee) {
		t.Helper()
		r.must(func(tx *ledger.Tx) error { return tx.AnnouncePayees(some...) })
	}
	want := func(network string, accounts ...string) {
		t.Helper()
		r.View(func(v *ledger.View) {
			if got, err := v.Payees(network); err != nil || !slices.Equal(got, accounts) {
				t.Errorf("%s has the payees %q, want %q: %v", network, got, accounts, err)
			}
		})
	}
	size := r.Size()
	want("tempo:1", "old/ring")
	for range 2 {
		announce(today...)
		announce()
		want("tempo:1", "old/ring", "usd/ring")
		want("evm:2", "old/ring")
		r.reopen()
	}
	if r.Size() != size+1 {
		t.Errorf("%d events announce them", r.Size()-size)
	}
	announce(payee("tempo:1", "other/ring"))
	announce(today...)
	want("tempo:1", "old/ring", "usd/ring", "other/ring")
	err := r.store.Scan([]byte{'a'}, nil, func(key, _ []byte) error {
		t.Errorf("the row %q is left", key)
		return nil
	})
	if err != nil || r.Size() != size+2 {
		t.Errorf("%d events more, %v", r.Size()-size, err)
	}
	// As many as there may ever have been fit, in several events.
	var many []core.Payee
	for i := range 3 * core.MaxPayees {
		many = append(many, payee("many", string(rune('a'+i))))
	}
	announce(many...)
	r.reopen()
	r.View(func(v *ledger.View) {
		if all, err := v.Payees("many"); err != nil || len(all) != len(many) || v.Changed() != v.State().Seq() {
			t.Errorf("%d of %d payees, changed %d of %d: %v", len(all), len(many), v.Changed(), v.State().Seq(), err)
		}
	})
	r.must(func(tx *ledger.Tx) error {
		return appendEvent(tx, &core.Snapshotted{Stamp: tx.Stamp(), Size: 1, Bytes: 1})
	})
	r.reopen()
	r.View(func(v *ledger.View) {
		if v.Changed() != v.State().Seq()-1 || v.Snapshotted().Bytes != 1 {
			t.Errorf("changed %d of %d: %+v", v.Changed(), v.State().Seq(), v.Snapshotted())
		}
	})
}
