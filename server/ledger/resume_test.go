package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// Two nodes lead in turn, and each follows in between with what it has in memory: the same
// as a process that reads its store anew, and it takes and writes the same from then on.
func TestALeaderFollowsAgainWithoutReadingItsStore(t *testing.T) {
	r := newRing(t)
	w := follow(r)
	r.must(func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) })
	r.register("ada")
	w.catchUp(nil)
	for i := range 6 {
		r.join(fmt.Sprint("m", i))
		r.must(func(tx *ledger.Tx) error { return tx.Block(entry(ledger.BlockHost, fmt.Sprint("h", i))) })
		if err := r.do(func(tx *ledger.Tx) error { return errors.Join(tx.Reserve(registration("never", "never")), errRefused) }); err == nil {
			t.Fatal("a turn that fails succeeds")
		}
		r.must(func(tx *ledger.Tx) error { return tx.Reserve(bidReservation(fmt.Sprint("open-", i), "ada", 100)) })
		w.catchUp(nil)

		old := r.Ledger
		if f, err := old.Resume(r.store); !errors.Is(err, ledger.ErrBroken) {
			t.Fatalf("a ledger that is written follows: %v, %v", f, err)
		}
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		want := old.Dump()
		store := &counted{Store: r.store}
		f, err := old.Resume(store)
		if err != nil {
			t.Fatal(err)
		}
		if store.read > 1 {
			t.Errorf("%d rows were read", store.read)
		}
		if got := f.Dump(); !reflect.DeepEqual(got, want) {
			t.Fatalf("it holds\n%s, want\n%s", got, want)
		}
		l, err := w.Lead(w.made.over(w.store))
		if err != nil {
			t.Fatal(err)
		}
		w.Follower.Close()
		r.Ledger, w.Follower = l, f
		r.store, w.store, r.dir, w.dir = w.store, r.store, w.dir, r.dir
		r.must(func(tx *ledger.Tx) error { return joinMember(tx, fmt.Sprint("other-", i)) })
		w.catchUp(nil)
		// Who has the closed ledger reads on, and writes nothing.
		if err := old.Do(context.Background(), func(*ledger.Tx) error { return nil }); !errors.Is(err, ledger.ErrClosed) {
			t.Errorf("a turn of the closed ledger: %v", err)
		}
		if old.Size() != r.Size() {
			t.Errorf("the closed ledger has %d events, want %d", old.Size(), r.Size())
		}
		if err := old.Close(); err != nil {
			t.Error(err)
		}
	}
	r.reopen()
	if got, want := r.Dump(), w.Dump(); !reflect.DeepEqual(got, want) {
		t.Errorf("a process that reads all anew has\n%s, want\n%s", got, want)
	}
}

// A leader whose last write was not confirmed must read its store anew: it may have been
// stored or not, and memory has it.
func TestAnUnconfirmedWriteIsReadAnew(t *testing.T) {
	for name, c := range map[string]struct {
		fault ledgertest.Fault
		size  uint64
	}{"stored": {ledgertest.FailButStored, 2}, "not stored": {ledgertest.FailNotStored, 1}} {
		t.Run(name, func(t *testing.T) {
			r := openedRing(t)
			r.store.FailAt(1, c.fault)
			if err := r.do(func(tx *ledger.Tx) error { return joinMember(tx, "ada") }); !errors.Is(err, ledger.ErrBroken) {
				t.Fatalf("a commit that fails: %v", err)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Resume(r.store); !errors.Is(err, ledger.ErrBroken) {
				t.Fatalf("it follows with a write in doubt: %v", err)
			}
			f, err := ledger.Follow(r.config())
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if f.Size() != c.size {
				t.Errorf("%d events are stored, want %d", f.Size(), c.size)
			}
		})
	}
}

// Neither does it follow when the store or the head is not where its memory is.
func TestMemoryThatIsNotWhatIsStoredIsReadAnew(t *testing.T) {
	for name, change := range map[string]func(r *ring) ledger.Store{
		"a store with one more": func(r *ring) ledger.Store {
			other := &ring{t: r.t, dir: r.dir, store: r.store, time: start}
			other.reopen()
			other.join("eve")
			other.Close()
			return r.store
		},
		"a store of another time": func(r *ring) ledger.Store {
			earlier := r.store.Copy()
			r.reopen()
			r.join("eve")
			r.Close()
			return earlier
		},
		"an empty store": func(r *ring) ledger.Store { return ledgertest.NewStore() },
		"no head": func(r *ring) ledger.Store {
			if err := os.Remove(filepath.Join(r.dir, "head")); err != nil {
				r.t.Fatal(err)
			}
			return r.store
		},
		"another head": func(r *ring) ledger.Store {
			if err := os.WriteFile(filepath.Join(r.dir, "head"), make([]byte, 8192), 0o600); err != nil {
				r.t.Fatal(err)
			}
			return r.store
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := openedRing(t, "ada")
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			store := change(r)
			if f, err := r.Resume(store); !errors.Is(err, ledger.ErrBroken) {
				t.Errorf("it follows: %v, %v", f, err)
			}
		})
	}
}
