package paid_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
	"webring/server/paid"
	"webring/server/pay/mpp"
)

// steps are the places at which the power may fail on the way of one payment,
// in order. The ledger's own come twice: for the reservation and for the event; and in
// between for the submission, where the service pays for that.
var (
	steps = []string{"simulated", "commit:1", "head:1", "publish:1", "reserved", "broadcast", "receipt",
		"commit:2", "head:2", "publish:2", "applied"}
	stepsWithGas = append(slices.Clone(steps), "commit:3", "head:3", "publish:3")
)

// failAt has the power fail when a payment comes to a step. What was on the
// disk then is kept; the process that goes on is cut off from the network, and
// from the disk that the next one reads. It gives a function that starts that.
func (r *ring) failAt(step string) (next func()) {
	started := r.failBy(step)
	return func() {
		r.t.Helper()
		if !started() {
			r.t.Fatalf("the payment never came to %s", step)
		}
	}
}

// failBy is failAt for a payment that may not come to the step: then the power fails when the next
// process is started. It gives whether the payment came there.
func (r *ring) failBy(step string) (next func() bool) {
	name, turn, _ := strings.Cut(step, ":")
	left := atomic.Int32{}
	left.Store(1)
	if n, err := strconv.Atoi(turn); err == nil {
		left.Store(int32(n))
	}
	p := r.process
	var disk *ledgertest.Store
	var head []byte
	ended := make(chan struct{})
	r.t.Cleanup(func() { close(ended) })
	fail := func() {
		// The head first: another payment may write meanwhile, and on a disk the head is
		// never ahead of the store.
		head = r.headBytes(p)
		disk = p.store.Copy()
		p.dead.Store(true)
	}
	r.onStep(func(at string) {
		if at != name || left.Add(-1) != 0 {
			return
		}
		fail()
		<-ended
	})
	return func() (came bool) {
		r.t.Helper()
		synctest.Wait()
		if came = p.dead.Load(); !came {
			fail()
		}
		r.onStep(nil)
		r.start(disk, head)
		return came
	}
}

// A payment is finished by the next process, wherever the last one ended: one
// effect, at most one charge, and the credential gets its answer once.
func TestPowerFailsAtEveryStep(t *testing.T) {
	for _, op := range orders {
		type way struct {
			after   time.Duration
			gas     bool // the service pays for it
			endless bool // the transaction has no end, and a nonce
		}
		for _, by := range []way{{0, false, false}, {4 * time.Second, false, false}, {0, true, false}, {4 * time.Second, true, false},
			{4 * time.Second, false, true}} {
			after, all := by.after, steps
			if by.gas {
				all = stepsWithGas
			}
			for _, step := range all {
				inAdasRing(t, fmt.Sprintf("%s, mined after %v, gas %t, endless %t, at %s", op.op, after, by.gas, by.endless, step), func(t *testing.T, r *ring) {
					r.network.gas = by.gas
					r.network.fates["bob"] = fate{after: after}
					synctest.Wait()
					ch := r.challenge(op.op, op.body)
					var changes []func(*transaction)
					if by.endless {
						changes = append(changes, counted("bob:7"))
					}
					credential := r.sign(ch, "bob", op.cents, changes...)
					next := r.failAt(step)
					r.begin(keyed(op.op, op.body, "k", credential))
					time.Sleep(6 * time.Second)
					r.network.change(func() { clear(r.network.submitted) })
					next()
					// Before anything was stored, the request has simply failed.
					if step != "simulated" && step != "commit:1" {
						r.handle(keyed(op.op, op.body, "k")).is2(503, 409)
					}
					time.Sleep(10 * time.Second)

					a := r.post(op.op, op.body, credential).is(op.status, "")
					r.post(op.op, op.body, credential).is(409, api.CredentialReused)
					if stored := r.handle(keyed(op.op, op.body, "k", credential)); step != "simulated" && step != "commit:1" {
						if stored.is(op.status, ""); string(stored.Body) != string(a.Body) {
							t.Errorf("answers differ: %s and %s", stored.Body, a.Body)
						}
					}
					r.has(amounts{op.slug: op.total, "bob paid": op.cents, "open": 0})
				})
			}
		}
	}
}

// The matrix of the crash tests, with every cell: wherever the power fails, and whatever becomes of the
// transaction, it has its effect once, or none and its payer was not charged; and the credential gets
// the truth.
func TestPowerFailsInEveryCell(t *testing.T) {
	const withBid = `{"name":"Bob","url":"https://bob.dev","kind":"mcp","bid":"2.00"}`
	all := slices.Clone(orders)
	all = append(all, all[0])
	all[2].body, all[2].cents, all[2].total = withBid, 300, 300
	for name, f := range map[string]fate{"fine": {}, "chain silent": {lost: true}, "mined, unheard": {mute: true}, "not mined": {lost: true}, "mined later": {after: 4 * time.Second}} {
		for _, op := range all {
			for _, step := range steps {
				inAdasRing(t, fmt.Sprintf("%s of %d, %s, at %s", op.op, op.cents, name, step), func(t *testing.T, r *ring) {
					synctest.Wait()
					r.network.change(func() { r.network.fates["bob"] = f })
					credential := r.sign(r.challenge(op.op, op.body), "bob", op.cents)
					next := r.failBy(step)
					r.begin(paid.Call{Operation: op.op, Body: []byte(op.body), Authorization: []string{credential}})
					time.Sleep(6 * time.Second)
					r.network.change(func() { r.network.down = name == "chain silent" })
					if came := next(); !came && !f.lost {
						t.Fatalf("the payment never came to %s", step)
					}
					time.Sleep(5 * time.Second)
					r.network.change(func() { r.network.down, r.network.fates["bob"] = false, fate{lost: name == "not mined"} })
					a := r.post(op.op, op.body, credential)
					for range 30 {
						if a.Status == 503 {
							time.Sleep(5 * time.Second)
							a = r.post(op.op, op.body, credential)
						}
					}
					switch {
					case name != "not mined":
						a.is(op.status, "")
						r.post(op.op, op.body, credential).is(409, api.CredentialReused)
						r.has(amounts{op.slug: op.total, "bob paid": op.cents, "all": 100 + op.cents, "open": 0})
						return
					case a.Status != 402:
						a.is(409, api.CredentialReused).shows("outcome", "failed")
					}
					r.has(amounts{op.slug: op.total - op.cents, "bob paid": 0, "all": 100, "open": 0})
				})
			}
		}
	}
}

// What is sent is on the disk before, with all that the next process needs to go on.
func TestAPaymentIsOnDiskBeforeItIsSent(t *testing.T) {
	for _, op := range orders {
		inAdasRing(t, op.op, func(t *testing.T, r *ring) {
			ch, sent := r.challenge(op.op, op.body), 0
			r.network.change(func() {
				r.network.sending = func(p mpp.Payment) {
					sent++
					head := filepath.Join(t.TempDir(), "head")
					r.must(os.WriteFile(head, r.headBytes(r.process), 0o600))
					disk, err := ledger.Open(ledger.Config{Store: r.store.Copy(), HeadPath: head, Capacity: r.capacity, Now: r.now})
					r.must(err)
					disk.View(func(v *ledger.View) {
						stored, err := v.Get(ch.ID)
						if err != nil || stored.State != ledger.Reserved || string(stored.Body) != op.body || !bytes.Contains(stored.Payment, []byte(p.Reference)) {
							t.Errorf("on the disk is %+v, %v", stored, err)
						}
					})
					r.must(disk.Close())
				}
			})
			r.post(op.op, op.body, r.sign(ch, "bob", op.cents)).is(op.status, "")
			same(t, sent, 1)
		})
	}
}

// The power fails again while the next process takes the payment up.
func TestPowerFailsTwice(t *testing.T) {
	for _, first := range []string{"reserved", "broadcast", "receipt", "commit:2"} {
		for _, second := range []string{"broadcast", "receipt", "commit:1", "head:1", "applied"} {
			mined := first == "receipt" || first == "commit:2"
			if mined && second == "broadcast" {
				continue // what is mined is not sent again
			}
			inAdasRing(t, first+" and "+second, func(t *testing.T, r *ring) {
				synctest.Wait()
				r.network.change(func() { r.network.fates["bob"] = fate{after: 5 * time.Second} })
				credential := r.sign(r.challenge(paid.OpBid, fund), "bob", 150)
				next := r.failAt(first)
				r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}})
				time.Sleep(3 * time.Second)
				if mined {
					time.Sleep(5 * time.Second)
				}
				var again func()
				r.starting = func() { again = r.failAt(second) }
				next()
				r.starting = nil
				time.Sleep(8 * time.Second)
				again()
				time.Sleep(8 * time.Second)
				r.post(paid.OpBid, fund, credential).is(200, "")
				r.has(amounts{"ada": 250, "bob paid": 150})
			})
		}
	}
}

// A transaction that was reserved and never sent is sent by the next process
// only while it can still be mined; otherwise it ends as gone.
func TestReservationThatWasNeverSent(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		ch := r.challenge(paid.OpRegister, ada)
		credential := r.sign(ch, "alice", 100)
		next := r.failAt("reserved")
		r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(ada), Authorization: []string{credential}})
		time.Sleep(time.Minute) // nobody is there
		next()
		time.Sleep(time.Minute)
		if stored := r.stored(ch); stored.State != ledger.Failed || stored.Outcome != "gone" {
			t.Fatalf("%+v", stored)
		}
		a := r.post(paid.OpRegister, ada, credential).is(409, api.CredentialReused)
		if a.member("outcome") != "failed" || r.network.charged("alice") != 0 {
			t.Errorf("alice paid %d: %s", r.network.charged("alice"), a.Body)
		}
		r.join(ada, "bob")
	})
}

// Behind the fence nothing is sent, and the payment stays open. Without it the payment goes on.
func TestNothingIsSentBehindTheFence(t *testing.T) {
	for _, op := range orders {
		var leads atomic.Bool
		leads.Store(true)
		inAdasRing(t, op.op, func(t *testing.T, r *ring) {
			leads.Store(false)
			ch := r.challenge(op.op, op.body)
			h := r.begin(paid.Call{Operation: op.op, Body: []byte(op.body), Authorization: []string{r.sign(ch, "bob", op.cents)}})
			time.Sleep(20 * time.Second)
			if stored := r.stored(ch); stored == nil || stored.State != ledger.Reserved {
				t.Errorf("%+v", stored)
			}
			r.has(amounts{"bob paid": 0})
			leads.Store(true)
			h.wait().is(op.status, "")
			r.has(amounts{op.slug: op.total, "bob paid": op.cents, "open": 0})
		}, func(r *ring) {
			r.config = func(cfg *paid.Config) {
				cfg.Fence = func() error {
					if !leads.Load() {
						return errors.New("another node leads")
					}
					return nil
				}
			}
		})
	}
}

// A commit fails, stored or not: the ledger ends, no payment is asked for, and the next
// process finishes what it finds.
func TestLedgerBreaksOnTheWay(t *testing.T) {
	for _, fault := range []ledgertest.Fault{ledgertest.FailNotStored, ledgertest.FailButStored} {
		for commit, what := range map[int]string{1: "the reservation", 2: "the event", 3: "the delivery"} {
			for _, after := range []time.Duration{0, 3 * time.Second} {
				inAdasRing(t, fmt.Sprintf("fault %d of %s, mined after %v", fault, what, after), func(t *testing.T, r *ring) {
					r.network.fates["bob"] = fate{after: after}
					synctest.Wait()
					ch := r.challenge(paid.OpBid, fund)
					credential := r.sign(ch, "bob", 150)
					r.store.FailAt(commit, fault)
					began := time.Now()
					a := r.handle(keyed(paid.OpBid, fund, "k", credential))
					if time.Since(began) > 10*time.Second {
						t.Errorf("answered after %v", time.Since(began))
					}
					if commit < 3 {
						a.is(503, api.PaymentPending)
					} else {
						a.is(200, "")
					}
					synctest.Wait()
					if !errors.Is(r.books.Err(), ledger.ErrBroken) {
						t.Fatalf("the ledger goes on: %v", r.books.Err())
					}
					// As long as this process is still there, it takes no money.
					for range 2 {
						if a := r.post(paid.OpBid, fund, credential); a.Status == 402 || a.Status == 200 {
							t.Errorf("after the break: %d %s", a.Status, a.Body)
						}
					}
					other := r.post(paid.OpRegister, bob)
					if other.Status == 402 {
						fresh := r.sign(other.challenges()[0], "carol", 100)
						r.post(paid.OpRegister, bob, fresh).is(503, api.PaymentPending)
					}
					r.must(r.service.Close(t.Context()))
					r.dead.Store(true)
					r.start(r.store, r.headBytes(r.process))
					time.Sleep(10 * time.Second)

					if commit == 1 && fault == ledgertest.FailNotStored && r.stored(ch) != nil {
						t.Error("the reservation is there")
					}
					if commit < 3 || fault == ledgertest.FailNotStored {
						r.post(paid.OpBid, fund, credential).is(200, "")
					}
					r.post(paid.OpBid, fund, credential).is(409, api.CredentialReused)
					r.has(amounts{"ada": 250, "bob paid": 150, "carol paid": 0})
				})
			}
		}
	}
}

// What is stored but not yet durable is not reported.
func TestNothingIsAnsweredBeforeItIsDurable(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		synctest.Wait()
		credential := r.sign(r.challenge(paid.OpBid, fund), "bob", 150)
		commits, reached, goOn := 0, make(chan struct{}), make(chan struct{})
		r.onStep(func(at string) {
			if at != "commit" {
				return
			}
			if commits++; commits == 2 {
				close(reached)
				<-goOn
			}
		})
		first := r.begin(keyed(paid.OpBid, fund, "k", credential))
		<-reached
		copies := r.begin(keyed(paid.OpBid, fund, "k", credential))
		synctest.Wait()
		if first.answered() || copies.answered() {
			t.Error("answered before the commit")
		}
		r.store.FailAt(1, ledgertest.FailNotStored)
		close(goOn)
		first.wait().is(503, api.PaymentPending)
		copies.wait().is(503, api.PaymentPending)
	})
}

// A reservation of a method that is no longer configured stays, blocks its URL,
// and is reported; when the method is back, it is finished.
func TestReservationOfAMethodThatIsGone(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		join := r.post(paid.OpRegister, bob).challenges()[1]
		done := r.sign(join, "bob", 100)
		r.post(paid.OpRegister, bob, done).is(201, "")
		synctest.Wait() // the delivery is noted
		ch := r.post(paid.OpRegister, ada).challenges()[1]
		credential := r.sign(ch, "alice", 100)
		next := r.failAt("broadcast")
		r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(ada), Authorization: []string{credential}})
		time.Sleep(time.Second)

		both := r.methods
		r.methods = func(dead *atomic.Bool) []paid.Method { return both(dead)[:1] }
		next()
		time.Sleep(24 * time.Hour)
		if len(r.open()) != 1 || !strings.Contains(r.log.String(), `level=ERROR msg="open payment cannot be taken up; it stays reserved"`) {
			t.Errorf("%d open; log: %s", len(r.open()), r.log)
		}
		r.post(paid.OpRegister, ada).is(503, api.PaymentPending)
		r.post(paid.OpRegister, ada, credential).is(503, api.PaymentPending)
		r.post(paid.OpRegister, bob, done).is(409, api.CredentialReused)
		r.post(paid.OpRegister, ada, r.sign(r.unissued(ch), "carol", 100)).is(409, api.PaymentUnapplied)

		r.methods = both
		r.restart()
		time.Sleep(time.Minute)
		r.post(paid.OpRegister, ada, credential).is(201, "")
		same(t, r.second.charged("alice"), 100)
	}, two)
}

// Closing lets held payments finish and no new ones begin.
func TestCloseWaitsForHeldPayments(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		r.network.fates["alice"] = fate{after: 10 * time.Second}
		credential := r.sign(r.challenge(paid.OpRegister, ada), "alice", 100)
		late := r.sign(r.challenge(paid.OpRegister, bob), "bob", 100)
		h := r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(ada), Authorization: []string{credential}})
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- r.service.Close(context.Background()) }()
		synctest.Wait()
		r.post(paid.OpRegister, bob, late).is(503, api.PaymentsUnavailable)
		if len(closed) > 0 || h.answered() {
			t.Error("closed before the payment was finished")
		}
		h.wait().is(201, "")
		if err := <-closed; err != nil {
			t.Error(err)
		}
		r.restart()
		r.post(paid.OpRegister, ada, credential).is(409, api.CredentialReused)
		r.post(paid.OpRegister, bob, late).is(201, "")
	})
}

// A close that may not wait leaves the payment to the next process, and tells
// the client that it is pending.
func TestCloseThatMayNotWait(t *testing.T) {
	for _, at := range []string{"simulation", "settlement"} {
		inRing(t, at, func(t *testing.T, r *ring) {
			r.network.fates["alice"] = fate{after: 10 * time.Second}
			if at == "simulation" {
				r.network.simulate = func(ctx context.Context, _ mpp.Payment) error { <-ctx.Done(); return mpp.ErrUnavailable }
			}
			credential := r.sign(r.challenge(paid.OpRegister, ada), "alice", 100)
			h := r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(ada), Authorization: []string{credential}})
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := r.service.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Close: %v", err)
			}
			a := h.wait()
			if at == "simulation" {
				a.is(503, api.PaymentsUnavailable)
			} else {
				a.is(503, api.PaymentPending)
			}
			r.network.change(func() { r.network.simulate = nil })
			r.restart()
			time.Sleep(11 * time.Second)
			r.post(paid.OpRegister, ada, credential).is(201, "")
			r.has(amounts{"alice paid": 100})
		})
	}
}

// Closing does not wait for work that no request waits for.
func TestCloseDoesNotWaitForOpenReservations(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		r.network.simulate = func(context.Context, mpp.Payment) error {
			r.network.change(func() { r.network.down = true })
			return nil
		}
		credential := r.sign(r.challenge(paid.OpRegister, ada), "alice", 100)
		r.post(paid.OpRegister, ada, credential).is(503, api.PaymentPending)
		for range 2 { // in the process that began it, and in one that took it up
			began := time.Now()
			r.restart()
			same(t, time.Since(began), 0)
			r.has(amounts{"open": 1})
			time.Sleep(time.Second)
		}
	})
}
