package ledger_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// steps is a history in which each step is one transaction.
var steps = []func(*ledger.Tx) error{
	func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) },
	func(tx *ledger.Tx) error { return tx.Reserve(registration("ada", "payer")) },
	func(tx *ledger.Tx) error { return applyRegistration(tx, registration("ada", "payer"), "ada") },
	func(tx *ledger.Tx) error { return joinMember(tx, "bob") },
	func(tx *ledger.Tx) error { return tx.Reserve(bidReservation("b", "bob", 300)) },
	func(tx *ledger.Tx) error {
		v := bidReservation("b", "bob", 300)
		seq, err := tx.Append(bid(tx, "bob", 300), nil)
		v.Seq, v.State = seq, ledger.Applied
		return errors.Join(err, tx.Update(v))
	},
	func(tx *ledger.Tx) error { return remove(tx, "ada", true) },
}

// newSteps gives a ring whose salts are always the same, so that two of them
// that have done the same hold the same bytes.
func newSteps(t testing.TB) *ring {
	r := &ring{t: t, dir: t.TempDir(), store: ledgertest.NewStore(), time: start, zeroSalts: true}
	r.reopen()
	t.Cleanup(func() { r.Close() })
	return r
}

// Every write of the writer goes wrong once, in every way in which it can:
// the ledger ends without an answer to anybody, and what the next one opens is
// the state before or after that transaction, never between.
func TestEveryWriteFault(t *testing.T) {
	digests := []string{newSteps(t).digest()}
	for whole := newSteps(t); len(digests) <= len(steps); digests = append(digests, whole.digest()) {
		whole.must(steps[len(digests)-1])
	}

	for step := range steps {
		for _, f := range []struct {
			name   string
			inject func(r *ring)
			stored bool
		}{
			{"commit fails and is not stored", func(r *ring) { r.store.FailAt(1, ledgertest.FailNotStored) }, false},
			{"commit fails but is stored", func(r *ring) { r.store.FailAt(1, ledgertest.FailButStored) }, true},
			{"head is not written", func(r *ring) { r.Fault(&ledger.FaultyHead{Countdown: 1}) }, true},
			{"head is written in part", func(r *ring) { r.Fault(&ledger.FaultyHead{Countdown: 1, Written: 30}) }, true},
			{"head is written but fails", func(r *ring) { r.Fault(&ledger.FaultyHead{Countdown: 1, Written: 1000}) }, true},
			{"head is not synced", func(r *ring) { r.Fault(&ledger.FaultyHead{Countdown: 1, FailSync: true}) }, true},
		} {
			t.Run(fmt.Sprintf("step %d, %s", step, f.name), func(t *testing.T) {
				r := newSteps(t)
				for _, s := range steps[:step] {
					r.must(s)
				}
				published := len(r.published)
				f.inject(r)
				if err := r.do(steps[step]); !errors.Is(err, ledger.ErrBroken) {
					t.Fatalf("Do = %v, want ErrBroken", err)
				}
				<-r.Done()
				if err := r.do(steps[step]); !errors.Is(err, ledger.ErrBroken) || !errors.Is(r.Err(), ledger.ErrBroken) {
					t.Errorf("afterwards: Do = %v, Err = %v", err, r.Err())
				}
				if len(r.published) != published {
					t.Error("something was published")
				}
				for i, err := range r.committed {
					if last := i == step; last != (err != nil) || len(r.committed) != step+1 {
						t.Errorf("commit %d of %d was told to end with %v", i+1, len(r.committed), err)
					}
				}

				r.reopen()
				done := step
				if f.stored {
					done++
				}
				if r.digest() != digests[done] {
					t.Fatalf("what is stored is not what %d steps leave", done)
				}
				for _, s := range steps[done:] {
					r.must(s)
				}
				r.reopen()
				if r.digest() != digests[len(steps)] {
					t.Error("going on leads elsewhere")
				}
			})
		}
	}
}

// Everybody who is in the group of a failed commit, or waits behind it, is
// told that the outcome is unknown, also those whose function had refused.
func TestFailedCommitAnswersAllWhoWait(t *testing.T) {
	r := openedRing(t, "ada")
	g := r.gate()
	r.reopen()
	errs := make(chan error, 6)
	send := func(fn func(*ledger.Tx) error) { go func() { errs <- r.do(fn) }() }
	place := func(tx *ledger.Tx) error { return appendEvent(tx, bid(tx, "ada", 100)) }
	send(place)
	<-g.arrived
	send(place)
	send(place)
	send(func(*ledger.Tx) error { return errRefused })
	r.waitQueued(3)
	g.pass <- struct{}{}
	<-g.arrived // the second group
	send(place)
	send(place)
	r.waitQueued(2)
	r.store.FailAt(1, ledgertest.FailNotStored)
	g.pass <- struct{}{}
	good := 0
	for range cap(errs) {
		if err := <-errs; err == nil {
			good++
		} else if !errors.Is(err, ledger.ErrBroken) || !errors.Is(err, ledgertest.ErrInjected) {
			t.Errorf("an answer is %v, want ErrBroken and the cause", err)
		}
	}
	if good != 1 || r.Size() != 3 {
		t.Errorf("%d were told of success, %d events are called durable", good, r.Size())
	}
}

// A crash at any point between two transactions, and in the middle of each,
// leaves a folder that opens and holds everything that was answered for.
func TestCrashPoints(t *testing.T) {
	for _, point := range []string{"commit", "head", "publish"} {
		r := newSteps(t)
		type copied struct {
			store *ledgertest.Store
			head  []byte
			done  int
		}
		var crashes []copied
		done := 0
		r.failpoint = func(name string) {
			if name != point {
				return
			}
			head, err := os.ReadFile(r.config().HeadPath)
			if err != nil {
				t.Error(err)
			}
			after := done
			if point != "commit" {
				after++
			}
			crashes = append(crashes, copied{r.store.Copy(), head, after})
		}
		digests := []string{r.digest()}
		for _, s := range steps {
			r.must(s)
			done++
			digests = append(digests, r.digest())
		}
		if len(crashes) != len(steps) {
			t.Fatalf("%s was passed %d times in %d transactions", point, len(crashes), len(steps))
		}
		for i, c := range crashes {
			after := &ring{t: t, dir: t.TempDir(), store: c.store, time: start, zeroSalts: true}
			if err := os.WriteFile(after.config().HeadPath, c.head, 0o600); err != nil {
				t.Fatal(err)
			}
			after.reopen()
			if after.digest() != digests[c.done] {
				t.Errorf("a crash at %q of step %d: the rows are not those after %d steps", point, i, c.done)
			}
			for _, s := range steps[c.done:] {
				after.must(s)
			}
			if after.digest() != digests[len(steps)] {
				t.Errorf("a crash at %q of step %d: going on leads elsewhere", point, i)
			}
			after.Close()
		}
	}
}
