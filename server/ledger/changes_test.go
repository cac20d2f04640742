package ledger_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"webring/core"
	"webring/server/ledger"
)

func rename(tx *ledger.Tx, slug, name string) error {
	_, err := tx.Append(&core.Changed{Stamp: tx.Stamp(), Member: slug}, &core.Texts{Name: core.Text{Value: name}})
	return err
}

func moveTo(tx *ledger.Tx, slug, url string) error {
	_, err := tx.Append(&core.Moved{Stamp: tx.Stamp(), Member: slug, Score: core.Score{Given: true, Value: 50}},
		&core.Texts{URL: core.Text{Value: url}, Report: core.Text{Value: "https://scores.test/" + slug}})
	return err
}

// What a member was called at any time is deleted with its redaction, whenever that comes,
// and the tree stays. The words of a member whose slug begins with the other's stay, too.
func TestRedactionDeletesTheWordsOfChangesAndMoves(t *testing.T) {
	words := []string{"https://bob.org", "What bob does", "Robert", "https://robert.org", "scores.test", "Bobby", "bobbies", "Bob is a cheat", "Bob is none"}
	change := func(tx *ledger.Tx) error { return rename(tx, "bob", "Robert") }
	later := func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Changed{Stamp: tx.Stamp(), Member: "bob", Kind: core.Agent},
			&core.Texts{Name: core.Text{Value: "Bobby"}, Description: core.Text{Value: "All of the bobbies"}})
		return err
	}
	hide := func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Hidden{Stamp: tx.Stamp(), Member: "bob", Why: core.Why{Code: core.Reviewing}}, &core.Texts{Words: core.Text{Value: "Bob is a cheat"}})
		return err
	}
	show := func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Shown{Stamp: tx.Stamp(), Member: "bob", Why: core.Why{Code: core.Resolved}}, &core.Texts{Words: core.Text{Value: "Bob is none"}})
		return err
	}
	for how, apply := range map[string]func(r *ring, turns ...func(*ledger.Tx) error){
		"in turns of their own, over restarts": func(r *ring, turns ...func(*ledger.Tx) error) {
			for _, turn := range turns {
				r.must(turn)
				r.reopen()
			}
		},
		"in one turn": func(r *ring, turns ...func(*ledger.Tx) error) {
			r.must(func(tx *ledger.Tx) (err error) {
				for _, turn := range turns {
					err = errors.Join(err, turn(tx))
				}
				return err
			})
		},
	} {
		t.Run(how, func(t *testing.T) {
			r := openedRing(t, "bobina", "bob")
			seen := 0
			look := func(*ledger.Tx) error {
				seen = 0
				return r.store.Scan(nil, nil, func(_, value []byte) error {
					for _, word := range words {
						seen += bytes.Count(value, []byte(word))
					}
					return nil
				})
			}
			apply(r, change, func(tx *ledger.Tx) error { return moveTo(tx, "bob", "https://robert.org") }, later, hide, show)
			r.must(look)
			if seen < len(words) {
				t.Fatalf("the test sees %d words before", seen)
			}
			size, root := r.Root()
			apply(r, func(tx *ledger.Tx) error { return rename(tx, "bobina", "Bobina again") },
				func(tx *ledger.Tx) error { return rename(tx, "bob", "Bobby") },
				func(tx *ledger.Tx) error { return appendEvent(tx, &core.Left{Stamp: tx.Stamp(), Member: "bob"}) },
				func(tx *ledger.Tx) error { return remove(tx, "bob", true) })
			if r.must(look); seen != 0 {
				t.Errorf("%d words are still stored", seen)
			}
			if got, err := r.RootAt(size); err != nil || got != root {
				t.Errorf("the tree of the events before has changed: %v", err)
			}
			r.reopen()
			records, err := r.Records(0, 100)
			if err != nil {
				t.Fatal(err)
			}
			for i, record := range records {
				e, err := core.DecodeEvent(record.Event)
				if err != nil || (len(record.Texts) > 0) != (core.CommitmentsOf(e).Some() && core.MemberOf(e) == "bobina") {
					t.Errorf("event %d, %T of %s, has %d bytes of texts, %v", i, e, core.MemberOf(e), len(record.Texts), err)
				}
			}
			if a, err := r.Audit(t.Context()); err != nil || len(a.Findings) > 0 {
				t.Errorf("%v, %v", a, err)
			}
			r.must(func(tx *ledger.Tx) error { return moveTo(tx, "bobina", "https://robert.org") })
		})
	}
}

// A URL belongs to one member or to one payment. An open bid keeps no member where it is, and goes
// with it.
func TestAURLBelongsToOneMemberOrPayment(t *testing.T) {
	r := openedRing(t, "ada", "bob")
	open := registration("new", "payer")
	pays := bidReservation("b", "ada", 100)
	r.must(func(tx *ledger.Tx) error { return errors.Join(tx.Reserve(pays), tx.Reserve(open)) })
	r.reopen()
	for what, c := range map[string]struct {
		turn func(*ledger.Tx) error
		want error
	}{
		"a move to a URL that is paid for": {func(tx *ledger.Tx) error { return moveTo(tx, "bob", "http://www.new.org/index.html") }, ledger.ErrURLPending},
		"words of a reason that redacts": {func(tx *ledger.Tx) error {
			_, err := tx.Append(&core.Removed{Stamp: tx.Stamp(), Member: "bob", Redacted: true, Why: core.Why{Code: core.Spam}}, &core.Texts{Words: core.Text{Value: "w"}})
			return err
		}, core.ErrEvent},
		"words of a reason without a code": {func(tx *ledger.Tx) error {
			_, err := tx.Append(&core.Hidden{Stamp: tx.Stamp(), Member: "bob"}, &core.Texts{Words: core.Text{Value: "w"}})
			return err
		}, core.ErrEvent},
		"a reason with a name": {func(tx *ledger.Tx) error {
			_, err := tx.Append(&core.Hidden{Stamp: tx.Stamp(), Member: "bob", Why: core.Why{Code: core.Spam}}, &core.Texts{Name: core.Text{Value: "n"}, Words: core.Text{Value: "w"}})
			return err
		}, core.ErrTexts},
		"a move to another's URL":    {func(tx *ledger.Tx) error { return moveTo(tx, "bob", "https://ada.org") }, core.ErrURLTaken},
		"a move to no canonical URL": {func(tx *ledger.Tx) error { return moveTo(tx, "bob", "https://BOB.org") }, core.ErrTexts},
		"a move without a URL":       {func(tx *ledger.Tx) error { return appendEvent(tx, &core.Moved{Stamp: tx.Stamp(), Member: "bob"}) }, core.ErrTexts},
		"a change of nothing":        {func(tx *ledger.Tx) error { return appendEvent(tx, &core.Changed{Stamp: tx.Stamp(), Member: "bob"}) }, core.ErrEvent},
		"a change with a URL":        {func(tx *ledger.Tx) error { return wordy(tx, &core.Changed{Stamp: tx.Stamp(), Member: "bob"}, true) }, core.ErrTexts},
		"a change of words without any": {func(tx *ledger.Tx) error {
			return wordy(tx, &core.Changed{Stamp: tx.Stamp(), Member: "bob", Kind: core.MCP}, false)
		}, core.ErrTexts},
		"a claim with words": {func(tx *ledger.Tx) error {
			return wordy(tx, &core.Claimed{Stamp: tx.Stamp(), Member: "bob", Owner: core.Account{1}, Proof: core.ByDNS}, true)
		}, core.ErrTexts},
		"a description that is cleared and given": {func(tx *ledger.Tx) error {
			_, err := tx.Append(&core.Changed{Stamp: tx.Stamp(), Member: "bob", Cleared: true}, &core.Texts{Description: core.Text{Value: "d"}})
			return err
		}, core.ErrEvent},
	} {
		before := r.digest()
		if err := r.do(c.turn); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		if r.digest() != before {
			t.Errorf("%s has left a trace", what)
		}
	}
	r.must(func(tx *ledger.Tx) error { return rename(tx, "ada", "Changes do not wait") })
	r.must(func(tx *ledger.Tx) error { return moveTo(tx, "ada", "https://ada.net") })
	r.must(func(tx *ledger.Tx) error { // the old URL is free, and the new one taken
		took := registration("ada", "other")
		if err := tx.Reserve(took); err != nil {
			return err
		}
		taken := registration("ada.net", "other")
		taken.URLKey = "ada.net"
		if err := tx.Reserve(taken); err != core.ErrURLTaken {
			t.Errorf("the new URL: %v", err)
		}
		if err := moveTo(tx, "bob", "https://ada.org"); err != ledger.ErrURLPending {
			t.Errorf("the old URL, that is paid for again: %v", err)
		}
		return nil
	})
	r.must(func(tx *ledger.Tx) error { return appendEvent(tx, &core.Departed{Stamp: tx.Stamp(), Member: "ada"}) })
	r.must(func(tx *ledger.Tx) (err error) {
		pays.State = ledger.Applied
		pays.Seq, err = tx.Append(bid(tx, "ada", 100), nil)
		return errors.Join(err, tx.Update(pays))
	})
	r.reopen()
	r.View(func(v *ledger.View) {
		at, _ := v.State().BySlug([]byte("ada"))
		if m := v.State().Member(at); !m.Departed || m.URL != "https://ada.net" || m.Total() != 200 || m.Score.Value != 50 || m.Report != "https://scores.test/ada" || m.Name != "Changes do not wait" {
			t.Errorf("%+v", m)
		}
	})
}

// wordy appends an event with texts that it cannot have.
func wordy(tx *ledger.Tx, e core.Event, url bool) error {
	t := &core.Texts{}
	if url {
		t.Name.Value, t.URL.Value = "Name", "https://url.org"
	}
	_, err := tx.Append(e, t)
	return err
}

// A store that has lost the words of a change, or has kept those of a redacted member, is
// damaged.
func TestWordsOfChangesMustBeThereUntilTheyAreRedacted(t *testing.T) {
	texts := func(seq byte) string { return string([]byte{'e', 0, 0, 0, 0, 0, 0, 0, seq, 1}) }
	for what, damage := range map[string]func(r *ring) ledger.Batch{
		"texts of ada are missing": func(r *ring) ledger.Batch { return ledger.Batch{texts(2): nil} },
		"still there": func(r *ring) ledger.Batch {
			kept, err := r.store.Get([]byte(texts(2)))
			if err != nil {
				r.t.Fatal(err)
			}
			kept = bytes.Clone(kept)
			r.must(func(tx *ledger.Tx) error { return remove(tx, "ada", true) })
			return ledger.Batch{texts(2): kept}
		},
		"do not match": func(r *ring) ledger.Batch {
			kept, err := r.store.Get([]byte(texts(2)))
			if err != nil {
				r.t.Fatal(err)
			}
			return ledger.Batch{texts(2): bytes.Replace(kept, []byte("Renamed"), []byte("renamed"), 1)}
		},
	} {
		r := openedRing(t, "ada")
		r.must(func(tx *ledger.Tx) error { return rename(tx, "ada", "Renamed") })
		if err := r.store.Commit(damage(r)); err != nil {
			t.Fatal(err)
		}
		r.Close()
		if _, err := ledger.Open(r.config()); !errors.Is(err, ledger.ErrDamaged) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
