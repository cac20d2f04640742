package paid_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid"
)

// Only networks that answer, with a clock that agrees with ours, are offered.
func TestOnlyNetworksThatAreUpAreOffered(t *testing.T) {
	for _, c := range []struct {
		rule          string
		first, second func(n *network)
		want          string // methods; "" for 503
	}{
		{"both up", nil, nil, "coin token"},
		{"one silent", func(n *network) { n.down = true }, nil, "token"},
		{"its clock 61 s behind", nil, func(n *network) { n.skew = -61 * time.Second }, "coin"},
		{"its clock 61 s ahead", func(n *network) { n.skew = 61 * time.Second }, nil, "token"},
		{"their clocks 60 s off", func(n *network) { n.skew = 60 * time.Second }, func(n *network) { n.skew = -60 * time.Second }, "coin token"},
		{"both silent", func(n *network) { n.down = true }, func(n *network) { n.down = true }, ""},
	} {
		in(t, c.rule, func(t *testing.T) {
			r := newRing(t, two, func(r *ring) {
				for n, change := range map[*network]func(*network){r.network: c.first, r.second: c.second} {
					if change != nil {
						change(n)
					}
				}
			})
			synctest.Wait() // each network was asked
			a := r.post(paid.OpRegister, ada)
			if c.want == "" {
				a.is(503, api.PaymentsUnavailable)
				if r.scorer.count() != 0 {
					t.Error("the scorer was asked although nobody could pay")
				}
				return
			}
			var got []string
			for _, ch := range a.is(402, api.PaymentRequired).challenges() {
				got = append(got, ch.Method)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("offers %v, want %s", got, c.want)
			}
		})
	}
}

// A network that comes back is offered again, and is not asked for its clock
// by every request.
func TestClockIsAskedOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, func(r *ring) { r.network.down = true })
		for range 20 {
			r.post(paid.OpRegister, ada).is(503, api.PaymentsUnavailable)
		}
		r.network.change(func() { r.network.down = false })
		if n := r.network.questions("clock"); n != 1 {
			t.Errorf("twenty requests at once asked for the clock %d times", n)
		}
		time.Sleep(5 * time.Second)
		r.post(paid.OpRegister, ada).is(402, api.PaymentRequired)
	})
}

// While the clock is ahead of the chain's, nobody is asked for money or a proof, and nothing is
// written by it: neither by payers and owners nor by the operator. Then all goes on, as if the
// clock had never been wrong.
func TestAClockThatIsAheadStampsNothing(t *testing.T) {
	for _, ahead := range []time.Duration{2 * time.Minute, 48 * time.Hour, 365 * 24 * time.Hour} {
		in(t, ahead.String(), func(t *testing.T) {
			o := newOwned(t)
			size, promised, proven := o.size(), o.challenge(paid.OpRegister, another), o.challengeFor(paid.OpChange, "ada", `{"name":"Ada Two"}`)
			o.back.Store(int64(-ahead))
			o.post(paid.OpRegister, another).is(503, api.PaymentsUnavailable)
			o.post(paid.OpRegister, another, o.sign(promised, "carol", 100)).is(503, api.PaymentsUnavailable)
			o.call(paid.OpChange, "ada", `{"name":"Ada Two"}`).is(503, api.PaymentsUnavailable)
			o.call(paid.OpChange, "ada", `{"name":"Ada Two"}`, o.prove(proven, alice)).is(503, api.PaymentsUnavailable)
			if err := o.remove("bob", false); !errors.Is(err, ledger.ErrClock) {
				t.Errorf("the operator removes a member: %v", err)
			}
			if o.network.charged("carol") != 0 || o.size() != size {
				t.Errorf("charged %d, ledger %s, was %s", o.network.charged("carol"), o.size(), size)
			}
			o.back.Store(0)
			o.post(paid.OpRegister, another, o.sign(promised, "carol", 100)).is(201, "")
			o.call(paid.OpChange, "ada", `{"name":"Ada Two"}`, o.prove(proven, alice)).is(200, "")
			o.look(func(v *ledger.View) {
				if last := time.UnixMilli(v.State().LastStamp()); last.After(time.Now()) {
					t.Errorf("an event is stamped %s", last)
				}
			})
		})
	}
}

// another is a registration of nobody else's.
const another = `{"name":"Another","url":"https://another.dev","kind":"agent"}`

// A machine that is not ready asks nobody to pay, and does not send what was
// asked for before: 503 before any money moves. What was taken is finished.
func TestMachineThatIsNotReadyTakesNoPayments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		r := newRing(t, func(r *ring) {
			r.config = func(c *paid.Config) {
				c.Ready = func() error {
					if full.Load() {
						return errors.New("the disk is full")
					}
					return nil
				}
			}
		})
		r.join(ada, "alice")
		r.network.change(func() { r.network.fates["carol"] = fate{after: 5 * time.Second} })
		ch := r.challenge(paid.OpBid, fund)
		under := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(r.challenge(paid.OpBid, fund), "carol", 150)}})
		synctest.Wait()
		full.Store(true)
		size, asked := r.size(), r.network.questions("simulate", "broadcast")
		scored := r.scorer.count()
		r.post(paid.OpRegister, bob).is(503, api.PaymentsUnavailable)
		r.post(paid.OpBid, fund).is(503, api.PaymentsUnavailable)
		r.post(paid.OpBid, fund, r.sign(ch, "bob", 150)).is(503, api.PaymentsUnavailable)
		if now := r.size(); now != size || r.network.questions("simulate", "broadcast") != asked || r.scorer.count() != scored {
			t.Errorf("the ledger went from %s to %s; somebody was asked", size, now)
		}
		if !strings.Contains(r.log.String(), "the disk is full") {
			t.Errorf("the log does not say why: %s", r.log)
		}
		under.wait().is(200, "")
		full.Store(false)
		r.post(paid.OpBid, fund, r.sign(ch, "bob", 150)).is(200, "")
		if r.total("ada") != 400 {
			t.Errorf("ada has %d", r.total("ada"))
		}
	})
}

// While the ledger can write nothing, nobody is bound; what was bound before is
// neither given up nor half done, and has its one effect when there is room. All
// that was granted can be read.
func TestNothingIsWrittenWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		r.join(ada, "alice")
		r.network.change(func() { r.network.fates["carol"] = fate{after: 5 * time.Second} })
		credential := r.sign(r.challenge(paid.OpBid, fund), "carol", 150)
		late := r.sign(r.challenge(paid.OpBid, fund), "bob", 150, func(tx *transaction) { tx.ValidBefore += 60 })
		under := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}})
		synctest.Wait()
		r.full.Store(true)
		rows := fmt.Sprint(r.rows())
		sent := r.network.questions("broadcast")
		r.post(paid.OpBid, fund, late).is(503, api.PaymentsUnavailable)
		if r.network.questions("broadcast") != sent {
			t.Error("a payment was sent without a reservation")
		}
		under.wait().is(503, api.PaymentPending)
		if r.network.charged("carol") != 150 {
			t.Errorf("carol paid %d", r.network.charged("carol"))
		}
		r.post(paid.OpBid, fund, credential).is(503, api.PaymentPending)
		time.Sleep(time.Hour)
		if fmt.Sprint(r.rows()) != rows || len(r.open()) != 1 || r.total("ada") != 100 {
			t.Errorf("written: ada has %d, %d open", r.total("ada"), len(r.open()))
		}
		err := r.books.Do(t.Context(), func(tx *ledger.Tx) error {
			rules := *tx.State().Rules()
			rules.Stamp = tx.Stamp()
			_, err := tx.Append(&rules, nil)
			return err
		})
		if !errors.Is(err, ledger.ErrNoRoom) {
			t.Errorf("the operator's events: %v", err)
		}
		// Nor does a new process give up, or write.
		r.restart()
		time.Sleep(time.Minute)
		if fmt.Sprint(r.rows()) != rows {
			t.Error("the next process has written")
		}
		r.full.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		r.post(paid.OpBid, fund, credential).is(200, "")
		r.post(paid.OpBid, fund, credential).is(409, api.CredentialReused)
		if r.total("ada") != 250 || r.network.charged("carol") != 150 || r.network.charged("bob") != 0 {
			t.Errorf("ada has %d, carol paid %d, bob %d", r.total("ada"), r.network.charged("carol"), r.network.charged("bob"))
		}
	})
}
