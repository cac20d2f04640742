package ledger_test

import (
	"fmt"
	"testing"

	"webring/core"
	"webring/server/ledger"
	"webring/server/ledger/memstore"
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

func (r *ring) hasPaid(payer string) (paid bool) {
	r.t.Helper()
	var err error
	r.View(func(v *ledger.View) { paid, err = v.HasPaid(payer) })
	if err != nil {
		r.t.Error(err)
	}
	return paid
}

// earlier gives a closed ring as a version wrote it that had no rows of those who have
// paid: members joined, and each of these accounts has paid for one of them.
func earlier(t *testing.T, payers int) *ring {
	r := openedRing(t, "ada")
	for from := 0; from < payers; from += 100 {
		r.must(func(tx *ledger.Tx) error {
			for i := from; i < min(from+100, payers); i++ {
				e := bid(tx, "ada", 100)
				e.Payment = core.Payment{Method: "evm", Network: "evm:1", Transaction: fmt.Sprintf("0x%x", i), Payer: fmt.Sprintf("did:pkh:eip155:1:0xA%d", i)}
				if err := appendEvent(tx, e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	r.Close()
	old := ledger.Batch{}
	err := r.store.Scan([]byte("y"), nil, func(key, _ []byte) error {
		old[string(key)] = nil
		return nil
	})
	if err == nil {
		err = r.store.Commit(old)
	}
	if err != nil || len(old) != payers+1 {
		t.Fatalf("%d rows: %v", len(old), err)
	}
	return r
}

// The accounts that have paid are known in a ledger of an earlier version too, whatever
// goes wrong when it is opened for the first time. Its events are read for that once.
func TestAccountsThatHavePaidAreKnownInLedgersOfBefore(t *testing.T) {
	const payers = 2500 // more than are written at a time
	known := func(t *testing.T, r *ring) {
		t.Helper()
		for i := range payers {
			if payer := fmt.Sprintf("did:pkh:eip155:1:0xa%d", i); !r.hasPaid(payer) {
				t.Fatalf("%s has paid, and is not known", payer)
			}
		}
		if r.hasPaid("did:pkh:eip155:1:0xb") || r.hasPaid("") {
			t.Error("an account that has not paid is known")
		}
	}
	for commit := range 5 {
		for _, fault := range []memstore.Fault{memstore.FailNotStored, memstore.FailButStored} {
			r := earlier(t, payers)
			if commit > 0 {
				r.store.FailAt(commit, fault)
				if l, err := ledger.Open(r.config()); commit < 4 {
					if err == nil {
						t.Fatalf("opened though commit %d failed", commit)
					}
				} else if err != nil {
					t.Fatalf("the opening takes more than three commits: %v", err)
				} else {
					l.Close()
				}
			}
			r.reopen()
			known(t, r)
			commits := r.store.Commits()
			r.reopen()
			known(t, r)
			if r.store.Commits() != commits {
				t.Error("the next opening writes, too")
			}
			r.Close()
		}
	}
}

// A ledger of an earlier version opens on a full disk. The accounts that have
// paid are known from the next opening on that can write.
func TestLedgerOfBeforeOpensWithoutRoom(t *testing.T) {
	r := earlier(t, 1)
	full := r.config()
	full.Room = func() error { return errRefused }
	l, err := ledger.Open(full)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	r.reopen()
	if !r.hasPaid("did:pkh:eip155:1:0xa0") {
		t.Error("not known")
	}
}
