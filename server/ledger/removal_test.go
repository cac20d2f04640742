package ledger_test

import (
	"bytes"
	"errors"
	"testing"

	"webring/core"
	"webring/server/ledger"
)

func remove(tx *ledger.Tx, slug string, redacted bool) error {
	return appendEvent(tx, &core.Removed{Stamp: tx.Stamp(), Member: slug, Reason: "asked", Redacted: redacted})
}

// After a removal with redaction no word of the member is stored, the tree
// still verifies, and nothing else has changed.
func TestRedactionDeletesEveryWord(t *testing.T) {
	r := openedRing(t, "ada")
	v := r.register("bob")
	b := bidReservation("b", "bob", 100)
	r.must(func(tx *ledger.Tx) error { return tx.Reserve(b) })
	r.must(func(tx *ledger.Tx) error {
		b.State = ledger.Applied
		return tx.Update(b)
	})
	words := []string{"Name of bob", "bob.org", "What bob does", "body of bob", "welcome bob", "bid on https://bob.org"}
	encodings := func(w string) []string { return []string{w, base64ed(w)} }
	found := func() (n int) {
		err := r.store.Scan(nil, nil, func(_, value []byte) error {
			for _, w := range words {
				for _, e := range encodings(w) {
					n += bytes.Count(value, []byte(e))
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if found() < len(words) {
		t.Fatal("the test does not see the words before")
	}
	size, root := r.Root()
	r.must(func(tx *ledger.Tx) error { return remove(tx, "bob", true) })
	if n := found(); n != 0 {
		t.Errorf("%d words are still stored", n)
	}
	if got, err := r.RootAt(size); err != nil || got != root {
		t.Errorf("the tree of the events before has changed: %v", err)
	}

	// A hand that still holds the reservation cannot bring the words back.
	r.must(func(tx *ledger.Tx) error {
		v.Delivered = true
		return tx.Update(v)
	})
	if n := found(); n != 0 {
		t.Errorf("%d words are back after an update", n)
	}
	for range 2 {
		r.View(func(view *ledger.View) {
			got, err := view.Get(v.ID)
			if err != nil || !got.Redacted || !got.Delivered || got.Response.Status != 201 || got.Member != "bob" {
				t.Errorf("the reservation is %+v, %v", got, err)
			}
			if _, err := view.ByReplayKey(v.ReplayKeys[0]); err != nil {
				t.Errorf("its replay key: %v", err)
			}
		})
		records, err := r.Records(0, 10)
		if err != nil || len(records) != 4 || len(records[1].Texts) == 0 || len(records[2].Texts) != 0 {
			t.Errorf("Records: %d, %v; only the redacted texts should be gone", len(records), err)
		}
		r.reopen()
	}
	r.join("carol")
}

func TestRedactionInTheGroupOfTheRegistration(t *testing.T) {
	r := openedRing(t)
	r.must(func(tx *ledger.Tx) error {
		v := registration("ada", "payer")
		if err := tx.Reserve(v); err != nil {
			return err
		}
		if err := applyRegistration(tx, v, "ada"); err != nil {
			return err
		}
		return remove(tx, "ada", true)
	})
	if err := r.store.Scan(nil, nil, func(_, value []byte) error {
		if bytes.Contains(value, []byte("ada.org")) || bytes.Contains(value, []byte(base64ed("body of ada"))) {
			return errors.New("a word is stored")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	r.reopen()
}

// The same, in turns of their own that happen to share a commit: nothing of
// the registration is in the store yet when it is redacted.
func TestRedactionBesideTheRegistration(t *testing.T) {
	r := openedRing(t, "bob")
	g := r.gate()
	r.reopen()
	v := registration("ada", "payer")
	errs := make(chan error)
	send := func(fn func(*ledger.Tx) error) { go func() { errs <- r.do(fn) }() }
	send(func(tx *ledger.Tx) error { return appendEvent(tx, bid(tx, "bob", 100)) })
	<-g.arrived
	for i, fn := range []func(*ledger.Tx) error{
		func(tx *ledger.Tx) error { return tx.Reserve(v) },
		func(tx *ledger.Tx) error { return applyRegistration(tx, v, "ada") },
		func(tx *ledger.Tx) error { return remove(tx, "ada", true) },
	} {
		send(fn)
		r.waitQueued(i + 1)
	}
	g.pass <- struct{}{}
	<-g.arrived
	g.pass <- struct{}{}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	r.View(func(view *ledger.View) {
		if got, err := view.Get(v.ID); err != nil || !got.Redacted || got.Body != nil {
			t.Errorf("the reservation is %+v, %v", got, err)
		}
	})
	r.reopen()
}

// A member is redacted while a bid on it is open: no word of it stays, and the bid still counts.
func TestRedactionBesideAnOpenBid(t *testing.T) {
	r := openedRing(t, "ada")
	b := bidReservation("b", "ada", 100)
	r.must(func(tx *ledger.Tx) error { return tx.Reserve(b) })
	r.must(func(tx *ledger.Tx) error { return remove(tx, "ada", true) })
	r.must(func(tx *ledger.Tx) error { return tx.Update(b) }) // a hand that still holds the words
	for range 2 {
		if err := r.store.Scan(nil, nil, func(_, value []byte) error {
			if bytes.Contains(value, []byte("ada.org")) || bytes.Contains(value, []byte(base64ed(string(bidReservation("b", "ada", 100).Body)))) {
				return errors.New("a word is stored")
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		r.reopen()
	}
	r.must(func(tx *ledger.Tx) (err error) {
		if b, err = tx.Get("b"); err != nil {
			return err
		}
		b.State = ledger.Applied
		b.Seq, err = tx.Append(bid(tx, "ada", 100), nil)
		return errors.Join(err, tx.Update(b))
	})
	r.View(func(v *ledger.View) {
		if at, _ := v.State().BySlug([]byte("ada")); v.State().Member(at).Total() != 200 || !b.Redacted {
			t.Errorf("a total of %d, %+v", v.State().Member(at).Total(), b)
		}
	})
}

// A removal without redaction keeps what it has.
func TestPlainRemovalKeepsTexts(t *testing.T) {
	r := openedRing(t)
	v := r.register("ada")
	r.must(func(tx *ledger.Tx) error { return remove(tx, "ada", false) })
	r.reopen()
	records, err := r.Records(1, 1)
	if err != nil || len(records[0].Texts) == 0 {
		t.Errorf("the texts are gone: %v", err)
	}
	r.View(func(view *ledger.View) {
		if got, err := view.Get(v.ID); err != nil || got.Redacted || len(got.Body) == 0 {
			t.Errorf("the reservation is %+v, %v", got, err)
		}
	})
}
