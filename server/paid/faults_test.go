package paid_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"webring/server/ledger"
	"webring/server/ledger/memstore"
	"webring/server/paid"
)

// stubborn presents a credential until it is told what became of it, and starts
// the next process when one has ended.
func (r *ring) stubborn(op, body, credential string) answer {
	r.t.Helper()
	for range 100 {
		a := r.post(op, body, credential)
		synctest.Wait()
		r.revive()
		if a.Status != 503 {
			return a
		}
		time.Sleep(time.Second)
	}
	r.t.Fatal("a payment without an end")
	return answer{}
}

// revive starts the next process if the ledger of this one has ended.
func (r *ring) revive() {
	r.t.Helper()
	if r.books.Err() == nil {
		return
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	r.service.Close(ended)
	r.dead.Store(true)
	r.start(r.store, r.headBytes(r.process))
}

// Each write of a whole life fails once, stored or not: two registrations, a
// bid, their confirmation, and the note of the daily scan. Whichever it is,
// everybody gets what was paid for, once, and pays once.
func TestEveryWriteFailsOnce(t *testing.T) {
	for _, fault := range []memstore.Fault{memstore.FailNotStored, memstore.FailButStored} {
		for commit, more := 1, true; more; commit++ {
			in(t, fmt.Sprintf("fault %d of write %d", fault, commit), func(t *testing.T) {
				r := newRing(t)
				for _, payer := range []string{"alice", "bob", "carol"} {
					r.network.fates[payer] = fate{after: 2 * time.Second, shallow: true}
				}
				synctest.Wait()
				before := r.store.Commits()
				r.store.FailAt(commit, fault)
				pay := func(op, body, payer string, cents int64) {
					t.Helper()
					credential := r.sign(r.challenge(op, body), payer, cents)
					a := r.stubborn(op, body, credential)
					if a.Status >= 300 && (a.Status != 409 || a.member("outcome") != "applied") {
						t.Fatalf("%s is told %d %s", payer, a.Status, a.Body)
					}
				}
				pay(paid.OpRegister, ada, "alice", 100)
				pay(paid.OpRegister, bob, "bob", 100)
				pay(paid.OpBid, fund, "carol", 150)
				r.network.change(func() {
					for payer := range r.network.fates {
						r.network.fates[payer] = fate{after: 2 * time.Second}
					}
				})
				for _, pause := range []time.Duration{time.Minute, 25 * time.Hour, time.Hour} {
					time.Sleep(pause)
					synctest.Wait()
					r.revive()
				}
				if r.total("ada") != 250 || r.total("bob") != 100 || r.credited() != 350 {
					t.Errorf("ada has %d, bob %d, credited %d", r.total("ada"), r.total("bob"), r.credited())
				}
				for payer, want := range map[string]int64{"alice": 100, "bob": 100, "carol": 150} {
					if got := r.network.charged(payer); got != want {
						t.Errorf("%s paid %d, want %d", payer, got, want)
					}
				}
				if len(r.open()) != 0 || r.unconfirmed() != 0 {
					t.Errorf("%d open, %d to confirm", len(r.open()), r.unconfirmed())
				}
				var scanned time.Time
				r.look(func(v *ledger.View) { scanned, _ = v.Scanned("coin:test") })
				if scanned.IsZero() {
					t.Error("no scan was noted")
				}
				a, err := r.books.Audit(context.Background())
				if err != nil || len(a.Findings) != 0 {
					t.Errorf("%v, %+v", err, a)
				}
				more = r.store.Commits()-before >= commit
			})
		}
	}
}
