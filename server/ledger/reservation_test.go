package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"webring/core"
	"webring/server/ledger"
)

func TestReservationReadsBackByEveryKey(t *testing.T) {
	r := openedRing(t)
	v := registration("new", "payer")
	v.ReplayKeys = []string{v.ID, "chain:tx"}
	v.Idempotency, v.BodyDigest = "hash", "sha-256=:x:"
	v.ValidBefore = start.Add(time.Minute)
	r.must(func(tx *ledger.Tx) error {
		if err := tx.Reserve(v); err != nil {
			return err
		}
		if got, err := tx.View().ByReplayKey("chain:tx"); err != nil || got.ID != v.ID {
			t.Errorf("in its own turn: %v, %v", got, err)
		}
		if got, err := tx.View().Get(v.ID); err != nil || got.ID != v.ID || tx.View().OpenRegistrations() != 1 {
			t.Errorf("in a view of its own turn: %v, %v", got, err)
		}
		return nil
	})
	if !v.Created.Equal(start) {
		t.Errorf("Created = %v, want %v", v.Created, start)
	}
	for range 2 {
		r.View(func(view *ledger.View) {
			for name, get := range map[string]func() (*ledger.Reservation, error){
				"id":         func() (*ledger.Reservation, error) { return view.Get(v.ID) },
				"replay key": func() (*ledger.Reservation, error) { return view.ByReplayKey("chain:tx") },
				"idempotency": func() (*ledger.Reservation, error) {
					some, err := view.ByIdempotency("hash")
					if len(some) != 1 {
						t.Fatalf("%d reservations, %v", len(some), err)
					}
					return some[0], err
				},
			} {
				if got, err := get(); err != nil || !reflect.DeepEqual(got, v) {
					t.Errorf("by %s: %+v, %v, want %+v", name, got, err, v)
				}
			}
			if until, pending := view.URLPending("new.org"); !pending || !until.Equal(v.ValidBefore) {
				t.Errorf("its URL is pending: %t, until %v", pending, until)
			}
			if _, pending := view.URLPending("old.org"); pending {
				t.Error("another URL is pending")
			}
			if some, err := view.ByIdempotency("x"); err != nil || len(some) != 0 {
				t.Errorf("under an unknown key: %v, %v", some, err)
			}
			for _, err := range []error{second(view.Get("x")), second(view.ByReplayKey("x"))} {
				if err != ledger.ErrNoReservation {
					t.Errorf("what is not there: %v", err)
				}
			}
		})
		r.reopen()
	}
}

func second(_ *ledger.Reservation, err error) error { return err }

// Of fifty concurrent copies one is reserved, and all others learn which.
func TestFiftyCopiesReserveOnce(t *testing.T) {
	r := openedRing(t, "ada")
	errs := make(chan error, 50)
	var copies sync.WaitGroup
	for i := range cap(errs) {
		copies.Go(func() {
			v := bidReservation(fmt.Sprint("challenge-", i), "ada", 100)
			v.ReplayKeys = []string{v.ID, "the transaction"}
			errs <- r.do(func(tx *ledger.Tx) error { return tx.Reserve(v) })
		})
	}
	copies.Wait()
	close(errs)
	won, named := 0, map[string]bool{}
	for err := range errs {
		var replayed *ledger.ReplayedError
		switch {
		case err == nil:
			won++
		case errors.As(err, &replayed):
			named[replayed.Reservation] = true
		default:
			t.Error(err)
		}
	}
	r.View(func(v *ledger.View) {
		open := v.Open()
		if won != 1 || len(open) != 1 || len(named) != 1 || !named[open[0].ID] {
			t.Errorf("%d won, %d are open, the others name %v", won, len(open), named)
		}
	})
}

// An open reservation can always be applied: what would prevent it is refused
// when it is made, and counts what is open already.
func TestReservationThatCouldNotBeAppliedIsRefused(t *testing.T) {
	r := openedRing(t, "ada", "bob")
	r.must(func(tx *ledger.Tx) error { return remove(tx, "bob", false) })
	full := bidReservation("full", "ada", core.MaxTotal-100-1)
	r.must(func(tx *ledger.Tx) error { return tx.Reserve(full) })
	for _, c := range []struct {
		name string
		v    *ledger.Reservation
		want error
	}{
		{"bid on nobody", bidReservation("b", "carol", 100), core.ErrUnknown},
		{"bid on a removed member", bidReservation("c", "bob", 100), nil},
		{"bid beyond the highest total", bidReservation("b", "ada", 2), core.ErrTotal},
		{"bid up to the highest total", bidReservation("b", "ada", 1), nil},
		{"URL of a member", registration("ada", "payer"), core.ErrURLTaken},
		{"URL of a removed member", registration("bob", "payer"), nil},
	} {
		if err := r.do(func(tx *ledger.Tx) error { return tx.Reserve(c.v) }); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// A registration that has lapsed holds nothing, and is a failure of its URL until it is applied
// after all. Opening the ledger again changes none of that.
func TestALapsedRegistrationCanBeApplied(t *testing.T) {
	r := openedRing(t)
	v := registration("new", "payer")
	r.must(func(tx *ledger.Tx) error { return tx.Reserve(v) })
	r.must(func(tx *ledger.Tx) error {
		v.Lapsed = start
		return tx.Update(v)
	})
	expect := func(failures, lapsed, open int) {
		t.Helper()
		r.reopen()
		r.View(func(view *ledger.View) {
			all := view.URLFailures("new.org")
			_, pending := view.URLPending("new.org")
			out := len(view.Open()) - view.OpenPayments()
			if len(all) != failures || failures > 0 && all[0].Payer != "payer" || pending || out != lapsed || len(view.Open()) != open || view.OpenPayments() != 0 {
				t.Errorf("failures %v, pending: %t, %d lapsed, %d open; want %d, %d, %d", all, pending, out, len(view.Open()), failures, lapsed, open)
			}
		})
	}
	expect(1, 1, 1)
	if err := r.do(func(tx *ledger.Tx) error { return tx.Reserve(registration("new", "another")) }); err != nil {
		t.Errorf("another payer: %v", err)
	}
	r.must(func(tx *ledger.Tx) error {
		other, err := tx.Get("reg-new-another")
		other.State = ledger.Failed
		return errors.Join(err, tx.Update(other))
	})
	r.must(func(tx *ledger.Tx) error { return applyRegistration(tx, v, "new") })
	r.View(func(view *ledger.View) {
		if got, err := view.Get(v.ID); err != nil || got.URLMark != nil || got.Lapsed.IsZero() {
			t.Errorf("%+v, %v", got, err)
		}
		if all := view.URLFailures("new.org"); len(all) != 1 || all[0].Payer != "another" {
			t.Errorf("failures: %v", all)
		}
	})
}

func TestOpenRegistrationsCountTowardsTheCapacity(t *testing.T) {
	r := openedRing(t)
	for i := range capacity - 1 {
		r.must(func(tx *ledger.Tx) error { return tx.Reserve(registration(fmt.Sprint("m", i), "payer")) })
	}
	r.join("ada")
	if err := r.do(func(tx *ledger.Tx) error { return tx.Reserve(registration("more", "payer")) }); err != core.ErrCapacity {
		t.Errorf("one more than there is room for: %v, want ErrCapacity", err)
	}
}

// The row of a proof is found by its keys, is no payment in any list, and goes without a trace.
func TestAProofIsKeptUntilItIsForgotten(t *testing.T) {
	r := newRing(t)
	w := follow(r)
	r.must(func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) })
	r.join("ada")
	proof := func(id string) *ledger.Reservation {
		return &ledger.Reservation{ID: id, State: ledger.Applied, Confirmed: true, Operation: "leave", Member: "ada", Payer: "payer",
			ReplayKeys: []string{"challenge:" + id}, Idempotency: "hash", Seq: 1}
	}
	found := func(ids ...string) {
		t.Helper()
		r.reopen()
		w.catchUp(nil)
		r.View(func(v *ledger.View) {
			for _, member := range []string{"ada", ""} {
				some, err := v.Proofs(member, nil, 10)
				if err != nil || len(some) != len(ids) {
					t.Fatalf("about %q: %v, %v", member, some, err)
				}
				for i, id := range ids {
					if got, err := v.ByReplayKey("challenge:" + id); err != nil || !reflect.DeepEqual(got, some[i]) || got.ID != id {
						t.Errorf("%+v, %v", got, err)
					}
				}
			}
			some, err := v.ByIdempotency("hash")
			if err != nil || len(some) != min(1, len(ids)) || len(some) > 0 && some[0].ID != ids[len(ids)-1] {
				t.Errorf("by its idempotency key: %v, %v", some, err)
			}
			if others, err := v.Proofs("a", nil, 10); err != nil || len(others) > 0 {
				t.Errorf("about another member: %v, %v", others, err)
			}
		})
		if some, err := r.Reservations("", 10); err != nil || len(some) > 0 {
			t.Errorf("payments: %v, %v", some, err)
		}
		if a, err := r.Audit(t.Context()); err != nil || a.Applied > 0 || len(a.Findings) > 0 {
			t.Errorf("%+v, %v", a, err)
		}
	}
	first, second := proof("1"), proof("2")
	r.must(func(tx *ledger.Tx) error { return tx.Spend(first) })
	found("1")
	if err := r.do(func(tx *ledger.Tx) error { return tx.Spend(proof("1")) }); !errors.As(err, new(*ledger.ReplayedError)) {
		t.Errorf("a second time: %v", err)
	}
	r.must(func(tx *ledger.Tx) error { return tx.Spend(second) })
	found("1", "2")
	r.View(func(v *ledger.View) {
		if rest, err := v.Proofs("", first, 10); err != nil || len(rest) != 1 || rest[0].ID != "2" {
			t.Errorf("after the first: %v, %v", rest, err)
		}
	})
	r.must(func(tx *ledger.Tx) error { return tx.Forget(first) })
	found("2")
	r.must(func(tx *ledger.Tx) error { return tx.Forget(second) })
	found()
	r.must(func(tx *ledger.Tx) error { return tx.Spend(proof("1")) })
	found("1")

	for name, change := range map[string]func(*ledger.Reservation){
		"a payment":        func(v *ledger.Reservation) { v.Cents = 1 },
		"an open one":      func(v *ledger.Reservation) { v.State = ledger.Reserved },
		"not final":        func(v *ledger.Reservation) { v.Confirmed = false },
		"without a key":    func(v *ledger.Reservation) { v.ReplayKeys = nil },
		"without a member": func(v *ledger.Reservation) { v.Member = "" },
	} {
		v := proof("3")
		change(v)
		if err := r.do(func(tx *ledger.Tx) error { return tx.Spend(v) }); !errors.Is(err, ledger.ErrReservation) {
			t.Errorf("%s: %v", name, err)
		}
	}
	paid := bidReservation("paid", "ada", 100)
	r.must(func(tx *ledger.Tx) error { return tx.Reserve(paid) })
	if err := r.do(func(tx *ledger.Tx) error { return tx.Forget(paid) }); !errors.Is(err, ledger.ErrReservation) {
		t.Errorf("a payment was forgotten: %v", err)
	}
}

func TestReservationThatIsMalformedIsRefused(t *testing.T) {
	r := openedRing(t)
	for name, spoil := range map[string]func(*ledger.Reservation){
		"no id":            func(v *ledger.Reservation) { v.ID = "" },
		"long id":          func(v *ledger.Reservation) { v.ID = strings.Repeat("x", 600) },
		"no replay key":    func(v *ledger.Reservation) { v.ReplayKeys = nil },
		"empty replay key": func(v *ledger.Reservation) { v.ReplayKeys = []string{""} },
		"no amount":        func(v *ledger.Reservation) { v.Cents = 0 },
		"no URL":           func(v *ledger.Reservation) { v.URLKey = "" },
		"no operation":     func(v *ledger.Reservation) { v.Operation = "" },
		"bid without member": func(v *ledger.Reservation) {
			v.Operation, v.URLKey = ledger.OperationBid, ""
		},
		"no state":       func(v *ledger.Reservation) { v.State = "" },
		"ended":          func(v *ledger.Reservation) { v.State = ledger.Failed },
		"too large":      func(v *ledger.Reservation) { v.Body = make([]byte, 1<<20) },
		"pinned no JSON": func(v *ledger.Reservation) { v.Pinned = []byte("{") },
	} {
		v := registration("new", "payer")
		spoil(v)
		if err := r.do(func(tx *ledger.Tx) error { return tx.Reserve(v) }); !errors.Is(err, ledger.ErrReservation) {
			t.Errorf("%s: %v, want ErrReservation", name, err)
		}
	}
}

func TestReservationChangesOnlyForwards(t *testing.T) {
	states := []ledger.ReservationState{ledger.Reserved, ledger.Applied, ledger.Failed}
	for _, from := range states {
		for _, to := range states {
			r := openedRing(t, "ada")
			v := bidReservation("b", "ada", 100)
			r.must(func(tx *ledger.Tx) error { return tx.Reserve(v) })
			if from != ledger.Reserved {
				r.must(func(tx *ledger.Tx) error {
					v.State = from
					return tx.Update(v)
				})
			}
			v.State = to
			err := r.do(func(tx *ledger.Tx) error { return tx.Update(v) })
			if allowed := from == ledger.Reserved || from == to; (err == nil) != allowed || err != nil && !errors.Is(err, ledger.ErrReservation) {
				t.Errorf("from %s to %s: %v", from, to, err)
			}
		}
	}
}

func TestWhatWasReservedStays(t *testing.T) {
	r := openedRing(t, "ada")
	r.must(func(tx *ledger.Tx) error { return tx.Reserve(registration("new", "payer")) })
	for name, spoil := range map[string]func(*ledger.Reservation){
		"URL":         func(v *ledger.Reservation) { v.URLKey = "ada.org" },
		"amount":      func(v *ledger.Reservation) { v.Cents++ },
		"payer":       func(v *ledger.Reservation) { v.Payer = "other" },
		"replay keys": func(v *ledger.Reservation) { v.ReplayKeys = append(v.ReplayKeys, "more") },
		"idempotency": func(v *ledger.Reservation) { v.Idempotency = "other" },
		"applied without a member": func(v *ledger.Reservation) {
			v.State = ledger.Applied
		},
	} {
		v := registration("new", "payer")
		spoil(v)
		if err := r.do(func(tx *ledger.Tx) error { return tx.Update(v) }); !errors.Is(err, ledger.ErrReservation) {
			t.Errorf("%s: %v, want ErrReservation", name, err)
		}
	}
	if err := r.do(func(tx *ledger.Tx) error { return tx.Update(registration("none", "payer")) }); err != ledger.ErrNoReservation {
		t.Errorf("updating what is not there: %v", err)
	}
}

// A registration that came to nothing keeps no address, only a hash of it. It counts as a
// failure of its URL all the same, after a restart, too.
func TestFailedRegistrationForgetsItsURL(t *testing.T) {
	r := openedRing(t)
	v := registration("new", "payer")
	v.Body, v.Pinned = nil, nil
	r.must(func(tx *ledger.Tx) error { return tx.Reserve(v) })
	plain := *v
	r.must(func(tx *ledger.Tx) error {
		v.State = ledger.Failed
		return tx.Update(v)
	})
	stored := func() []byte { return r.get("r" + v.ID) }
	for name, update := range map[string]*ledger.Reservation{"as it is kept": v, "by a hand that still has the URL": &plain} {
		r.pass(time.Minute)
		update.State, update.URLMark = ledger.Failed, nil
		r.must(func(tx *ledger.Tx) error { return tx.Update(update) })
		r.reopen()
		if bytes.Contains(stored(), []byte("new.org")) {
			t.Errorf("updated %s: the URL is stored: %s", name, stored())
		}
		r.View(func(v *ledger.View) {
			if all := v.URLFailures("new.org"); len(all) != 1 || all[0].Payer != "payer" || !all[0].At.Equal(start) {
				t.Errorf("updated %s: failures %v", name, all)
			}
		})
	}
}

// A turn reads what it has stored, whatever its caller does with what it was given before.
func TestATurnReadsWhatItHasStored(t *testing.T) {
	r := openedRing(t, "ada")
	r.must(func(tx *ledger.Tx) error {
		return errors.Join(tx.Reserve(bidReservation("one", "ada", 100)), tx.Reserve(bidReservation("two", "ada", 200)))
	})
	r.must(func(tx *ledger.Tx) error {
		given, err := tx.Get("one")
		if err != nil {
			return err
		}
		given.Cents, given.Reason = 1, "altered"
		for _, step := range []struct {
			id, reason, want string
			cents            int64
		}{{"one", "", "", 100}, {"one", "stored", "stored", 100}, {"two", "", "", 200}, {"one", "again", "again", 100}, {"one", "again", "again", 100}} {
			now, err := tx.Get(step.id)
			if err == nil && step.reason != "" {
				now.Reason = step.reason
				err = tx.Update(now)
			}
			if err != nil {
				return err
			}
			now.Reason = "altered"
			if now, err = tx.Get(step.id); err != nil || now.ID != step.id || now.Reason != step.want || now.Cents != step.cents {
				t.Errorf("%+v: %+v, %v", step, now, err)
			}
		}
		return nil
	})
	r.View(func(v *ledger.View) {
		if got, err := v.Get("one"); err != nil || got.Reason != "again" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
