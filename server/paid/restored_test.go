package paid_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
	"webring/server/paid"
	"webring/server/pay/mpp"
)

// rows copies what the ledger holds, as a backup does.
func (r *ring) rows() (rows []ledger.Row) {
	r.t.Helper()
	r.must(r.books.Rows(func(row ledger.Row) error {
		rows = append(rows, ledger.Row{Key: bytes.Clone(row.Key), Value: bytes.Clone(row.Value)})
		return nil
	}))
	return rows
}

// restore ends the process and starts the next one on rows and on the events
// that came after them, as an edge kept those: all, or as many as are given. It
// gives how many payments were open in between.
func (r *ring) restore(rows []ledger.Row, events ...int) (open int) {
	r.t.Helper()
	records, err := r.books.Records(0, 1000)
	r.must(err)
	r.stop()
	store, head := ledgertest.NewStore(), filepath.Join(r.t.TempDir(), "head")
	r.must(ledger.Restore(store, head, func() (row ledger.Row, more bool, err error) {
		if len(rows) == 0 {
			return row, false, nil
		}
		row, rows = rows[0], rows[1:]
		return row, true, nil
	}))
	books, err := ledger.Open(ledger.Config{Store: store, HeadPath: head, Capacity: r.capacity, Now: r.now})
	r.must(err)
	r.must(books.Do(context.Background(), func(tx *ledger.Tx) error {
		records = records[books.Size():]
		if len(events) > 0 {
			records = records[:events[0]]
		}
		for _, x := range records {
			if err := tx.Adopt(x); err != nil {
				return err
			}
		}
		return nil
	}))
	a, err := books.Audit(context.Background())
	if err != nil || len(a.Findings) != 0 {
		r.t.Fatalf("%v, %+v", err, a)
	}
	books.View(func(v *ledger.View) { open = len(v.Open()) })
	r.must(books.Close())
	b, err := os.ReadFile(head)
	r.must(err)
	r.start(store, b)
	return open
}

// A backup remembers a payment as open whose event an edge brings back: it has
// had its effect, and gets no second one.
func TestRestoredReservationHasNoSecondEffect(t *testing.T) {
	for _, op := range []struct{ op, body, slug string }{{paid.OpRegister, bob, "bob"}, {paid.OpBid, fund, "ada"}} {
		inAdasRing(t, op.op, func(t *testing.T, r *ring) {
			r.network.fates["bob"] = fate{after: 3 * time.Second}
			cents := map[string]int64{paid.OpRegister: 100, paid.OpBid: 150}[op.op]
			credential := r.sign(r.challenge(op.op, op.body), "bob", cents)
			h := r.begin(paid.Call{Operation: op.op, Body: []byte(op.body), Authorization: []string{credential}})
			synctest.Wait()
			rows := r.rows()
			r.has(amounts{"open": 1})
			time.Sleep(5 * time.Second)
			h.wait()
			total := r.total(op.slug)
			if r.restore(rows) != 1 {
				t.Fatal("the backup does not know the payment")
			}
			time.Sleep(10 * time.Second)
			r.has(amounts{"open": 0, op.slug: total, "all": 100 + cents})
			r.post(op.op, op.body, credential).is(409, api.CredentialReused)
			its, _ := core.PaymentOf(r.last())
			r.look(func(v *ledger.View) {
				if _, left, err := v.Restored(its); left != nil || err != nil {
					t.Errorf("another payment could take the event: %v", err)
				}
			})
			a, err := r.books.Audit(context.Background())
			if err != nil || len(a.Findings) != 0 || a.Applied != 2 {
				t.Errorf("%v, %+v", err, a)
			}
		})
	}
}

// A network may drop the block of a payment that the backup has as open and whose
// event an edge brings back, and settle it in another transaction: it is the same
// payment.
func TestPaymentThatMovedHasNoSecondEffectAfterARestore(t *testing.T) {
	for _, op := range []struct{ op, body, slug string }{{paid.OpRegister, bob, "bob"}, {paid.OpBid, fund, "ada"}} {
		inAdasRing(t, op.op, func(t *testing.T, r *ring) {
			cents := map[string]int64{paid.OpRegister: 100, paid.OpBid: 150}[op.op]
			r.network.fates["bob"] = fate{after: 3 * time.Second, shallow: true}
			h := r.begin(paid.Call{Operation: op.op, Body: []byte(op.body), Authorization: []string{r.sign(r.challenge(op.op, op.body), "bob", cents)}})
			synctest.Wait()
			rows := r.rows()
			h.wait()
			total, credited := r.total(op.slug), r.credited()
			moved := fate{by: "0xb0b", brought: cents, shallow: true}
			r.network.change(func() {
				maps.DeleteFunc(r.network.sent, func(_ string, s sent) bool { return s.payment.Payer == "bob" })
				p := mpp.Payment{Reference: "0xb0b", Payer: "bob", Cents: cents, ValidBefore: time.Now().Add(time.Hour)}
				r.network.sent["0xb0b"] = sent{p, time.Now(), r.network.payee}
				r.network.fates["bob"] = moved
			})
			if r.restore(rows) != 1 {
				t.Fatal("the backup does not know the payment")
			}
			// Its event names the same challenge, so no network has to be asked what became of it.
			last := r.last()
			if p, _ := core.PaymentOf(last); p.Payee == "" || !strings.HasPrefix(p.Binding, "of ") {
				t.Errorf("the event is %+v", last)
			}
			time.Sleep(time.Minute)
			r.has(amounts{"open": 0})
			moved.shallow = false
			r.network.change(func() { r.network.fates["bob"] = moved })
			time.Sleep(2 * time.Minute)
			if len(r.open()) != 0 || r.unconfirmed() != 0 || r.total(op.slug) != total || r.credited() != credited {
				t.Errorf("%d open, %d to confirm, total %d, want %d, credited %d, want %d",
					len(r.open()), r.unconfirmed(), r.total(op.slug), total, r.credited(), credited)
			}
			a, err := r.books.Audit(context.Background())
			if err != nil || len(a.Findings) != 0 || a.Alone != 0 {
				t.Errorf("%v, %+v", err, a)
			}
			r.finds(0)
		})
	}
}

// last gives the last event.
func (r *ring) last() core.Event {
	r.t.Helper()
	records, err := r.books.Records(r.books.Size()-1, 1)
	r.must(err)
	e, err := core.DecodeEvent(records[0].Event)
	r.must(err)
	return e
}

// An equal payment whose event came back is another one: it does not keep a payment
// from having its effect.
func TestEqualPaymentThatCameBackIsAnother(t *testing.T) {
	inAdasRing(t, "equal", func(t *testing.T, r *ring) {
		pay := func() *held {
			h := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(r.challenge(paid.OpBid, fund), "bob", 150)}})
			synctest.Wait()
			return h
		}
		r.network.fates["bob"] = fate{after: time.Hour}
		first := pay()
		rows := r.rows()
		r.network.change(func() { r.network.fates["bob"] = fate{} })
		pay().wait()
		r.has(amounts{"ada": 250})
		first.wait()
		if r.restore(rows, 1) != 1 {
			t.Fatal("the backup does not know the first one")
		}
		time.Sleep(time.Minute)
		r.has(amounts{"open": 0, "ada": 400})
	})
}

// An event that came back is taken for the effect of an open payment if it is just that. One of
// another binding or sum is another payment's, though one transaction paid for both.
func TestTheEventOfAnotherPaymentIsNotTaken(t *testing.T) {
	const withBid = `{"name":"Bob","url":"https://bob.dev","kind":"mcp","bid":"1.50"}`
	for _, c := range []struct {
		name, op, body string
		fee, bid       int64  // of the event
		binding        string // of the event; "own" stands for the payment's
		taken          bool
	}{
		{"the same bid", paid.OpBid, fund, 0, 150, "own", true},
		{"a higher bid", paid.OpBid, fund, 0, 151, "own", false},
		{"a lower bid, unbound", paid.OpBid, fund, 0, 149, "", false},
		{"an equal bid", paid.OpBid, fund, 0, 150, "another", false},
		{"the same registration", paid.OpRegister, withBid, 100, 150, "own", true},
		{"another opening bid", paid.OpRegister, withBid, 100, 151, "own", false},
		{"another opening bid, unbound", paid.OpRegister, withBid, 100, 149, "", false},
		{"another fee, unbound", paid.OpRegister, withBid, 101, 150, "", false},
		{"the same sum by another fee, unbound", paid.OpRegister, withBid, 150, 100, "", false},
		{"an equal registration", paid.OpRegister, withBid, 100, 150, "another", false},
	} {
		inAdasRing(t, c.name, func(t *testing.T, r *ring) {
			r.network.change(func() { r.network.fates["bob"] = fate{after: 3 * time.Second} })
			cents, slug, total := int64(150), "ada", 100+c.bid
			if c.op == paid.OpRegister {
				cents, slug, total = 250, "bob", c.fee+c.bid
			}
			asked := r.challenge(c.op, c.body)
			h := r.begin(paid.Call{Operation: c.op, Body: []byte(c.body), Authorization: []string{r.sign(asked, "bob", cents)}})
			synctest.Wait()
			payment := core.Payment{Method: "coin", Network: "coin:test", Transaction: r.reference("bob"), Payer: "bob", Payee: "purse ", Binding: c.binding}
			if c.binding == "own" {
				payment.Binding = "of " + asked.ID
			}
			r.must(r.books.Do(context.Background(), func(tx *ledger.Tx) (err error) {
				var record ledger.Record
				var e core.Event = &core.Bid{Stamp: tx.Stamp(), Member: "ada", Amount: c.bid, Payment: payment}
				if c.op == paid.OpRegister {
					texts := &core.Texts{Name: core.Text{Value: "Bob"}, URL: core.Text{Value: "https://bob.dev"}}
					e = &core.Joined{Stamp: tx.Stamp(), Slug: "bob", Kind: core.MCP, Category: "general", Fee: c.fee, Bid: c.bid, Payment: payment,
						Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL)}
					record.Texts = core.AppendTexts(nil, texts)
				}
				if record.Event, err = core.AppendEvent(nil, e); err != nil {
					return err
				}
				return tx.Adopt(record)
			}))
			code := api.PaymentUnapplied
			if c.taken {
				code = api.CredentialReused // whose answer is lost
			}
			h.wait().is(409, code)
			r.has(amounts{slug: total, "bob paid": cents, "open": 0})
			if applied := r.stored(asked).State == ledger.Applied; applied != c.taken {
				t.Errorf("applied: %t", applied)
			}
		})
	}
}

// An event that came back can have given the URL of an open payment to another member. The money of that
// payment is then kept for the operator.
func TestARestoredEventHasTheURLOfAPayment(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		r.network.change(func() { r.network.fates["bob"] = fate{after: 3 * time.Second, shallow: true} })
		asked := r.challenge(paid.OpRegister, bob)
		h := r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(bob), Authorization: []string{r.sign(asked, "bob", 100)}})
		synctest.Wait()
		r.must(r.books.Do(context.Background(), func(tx *ledger.Tx) error {
			texts := &core.Texts{Name: core.Text{Value: "Cyn"}, URL: core.Text{Value: "https://bob.dev"}}
			event, err := core.AppendEvent(nil, &core.Joined{Stamp: tx.Stamp(), Slug: "cyn", Kind: core.MCP, Category: "general", Fee: 100,
				Payment: core.Payment{Method: "coin", Network: "coin:test", Transaction: "0xcc", Payer: "cyn", Payee: "purse ", Binding: "of another"},
				Name:    coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL)})
			if err != nil {
				return err
			}
			return tx.Adopt(ledger.Record{Event: event, Texts: core.AppendTexts(nil, texts)})
		}))
		time.Sleep(10 * time.Second)
		if h.answered() {
			t.Error("answered before the block was final")
		}
		r.network.change(func() { r.network.fates["bob"] = fate{after: 3 * time.Second} })
		h.wait().is(409, api.PaymentUnapplied).shows("reference", r.reference("bob"))
		r.has(amounts{"cyn": 100, "bob": 0, "bob paid": 100, "open": 0})
		e, err := r.service.Adjust(context.Background(), paid.Adjustment{Kind: core.Credit, Transaction: r.reference("bob"), Member: "cyn", Reason: "test"})
		if err != nil || e.Amount != 100 || strings.Contains(r.log.String(), "not stored") {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

// Of a payment that the backup does not know at all, the event is enough to
// refuse its credential.
func TestCredentialOfARestoredEventIsRefused(t *testing.T) {
	inAdasRing(t, "unknown", func(t *testing.T, r *ring) {
		synctest.Wait()
		rows := r.rows()
		credential := r.sign(r.challenge(paid.OpBid, fund), "bob", 150)
		r.post(paid.OpBid, fund, credential).is(200, "")
		r.restore(rows)
		asked := r.network.questions("broadcast")
		if a := r.post(paid.OpBid, fund, credential).is(409, api.CredentialReused); a.member("outcome") != "applied" {
			t.Errorf("%s", a.Body)
		}
		if r.total("ada") != 250 || r.network.questions("broadcast") != asked {
			t.Errorf("ada has %d", r.total("ada"))
		}
		chain, err := r.service.VerifyChain(context.Background())
		if err != nil || chain.Asked != 2 || chain.Unknown != 0 || len(chain.Findings) != 0 {
			t.Errorf("%v, %+v", err, chain)
		}
		r.network.change(func() { clear(r.network.sent) })
		time.Sleep(time.Minute) // one that may yet be mined is no finding
		if chain, err = r.service.VerifyChain(context.Background()); err != nil || len(chain.Findings) != 2 {
			t.Errorf("two payments are not on the chain: %v, %+v", err, chain)
		}
	})
}

// Payments that somebody put into one transaction are told apart after a restore,
// whatever of their events an edge brings back: each has its own effect, once.
func TestPaymentsOfOneTransactionAreRestoredEachByItself(t *testing.T) {
	type order struct {
		op, body, payer string
		cents           int64
	}
	const fundBob = `{"member":"bob","amount":"2.50"}`
	for name, some := range map[string][]order{
		"bids":                   {{paid.OpBid, fund, "dora", 150}, {paid.OpBid, fundBob, "eve", 250}},
		"bids of one account":    {{paid.OpBid, fund, "dora", 150}, {paid.OpBid, fundBob, "dora", 250}},
		"equal bids":             {{paid.OpBid, fund, "dora", 150}, {paid.OpBid, fund, "dora", 150}, {paid.OpBid, fund, "dora", 150}},
		"registrations":          {{paid.OpRegister, cyn, "dora", 100}, {paid.OpRegister, `{"name":"Dan","url":"https://dan.dev","kind":"mcp"}`, "dora", 100}},
		"a bid, a registration":  {{paid.OpBid, fund, "dora", 150}, {paid.OpRegister, cyn, "eve", 100}},
		"equal sums of two ways": {{paid.OpBid, `{"member":"ada","amount":"1.00"}`, "dora", 100}, {paid.OpRegister, cyn, "dora", 100}},
	} {
		// One more than there are payments: the first registration is redacted then.
		for events := range len(some) + 2 {
			inAdasRing(t, fmt.Sprintf("%s, %d events", name, events), func(t *testing.T, r *ring) {
				r.join(bob, "alice")
				var brought int64
				for _, o := range some {
					brought += o.cents
				}
				for _, payer := range []string{"dora", "eve"} {
					r.network.fates[payer] = fate{after: 3 * time.Second, by: "0xba7c4", brought: brought}
				}
				var challenges []mpp.Challenge
				var under []*held
				for _, o := range some {
					c := r.challenge(o.op, o.body)
					under = append(under, r.begin(paid.Call{Operation: o.op, Body: []byte(o.body), Authorization: []string{r.sign(c, o.payer, o.cents)}}))
					synctest.Wait()
					challenges = append(challenges, c)
				}
				rows := r.rows()
				for _, h := range under {
					h.wait()
				}
				synctest.Wait()
				members := map[string]int64{}
				var before []string
				for i, c := range challenges {
					member := r.stored(c).Member
					before = append(before, member)
					members[member] = r.total(member)
					if some[i].op == paid.OpRegister && events > len(some) {
						r.must(r.remove(member, true))
						break
					}
				}
				credited := r.credited()
				if open := r.restore(rows, min(events, int(r.books.Size())-4)); open != len(some) {
					t.Fatalf("the backup has %d payments open", open)
				}
				time.Sleep(time.Minute)
				r.has(amounts{"open": 0, "all": credited})
				for member, total := range members {
					r.has(amounts{member: total})
				}
				for i, member := range before {
					if got := r.stored(challenges[i]); events >= len(some) && got.Member != member {
						t.Errorf("payment %d went to %s, want %s", i, got.Member, member)
					}
				}
				a, err := r.books.Audit(context.Background())
				if err != nil || len(a.Findings) != 0 || a.Applied != 2+len(some) || a.Alone != 0 {
					t.Errorf("%v, %+v", err, a)
				}
			})
		}
	}
}

// A backup may have as open a payment whose member was redacted since: its words
// are not kept with what an edge brings back.
func TestRedactedWordsDoNotComeBackWithARestore(t *testing.T) {
	for op, body := range map[string]string{paid.OpRegister: bob, paid.OpBid: `{"member":"https://ada.dev","amount":"1.00"}`} {
		inAdasRing(t, op, func(t *testing.T, r *ring) {
			r.network.fates["bob"] = fate{after: 3 * time.Second}
			c := r.challenge(op, body)
			h := r.begin(paid.Call{Operation: op, Body: []byte(body), Authorization: []string{r.sign(c, "bob", 100)}})
			synctest.Wait()
			rows := r.rows()
			h.wait()
			r.must(r.remove(r.stored(c).Member, true))
			if r.restore(rows) != 1 {
				t.Fatal("the backup does not know the payment")
			}
			time.Sleep(10 * time.Second)
			stored := r.stored(c)
			if stored.State != ledger.Applied || !stored.Redacted {
				t.Errorf("the payment is %s, redacted: %v", stored.State, stored.Redacted)
			}
			url := map[string]string{paid.OpRegister: "bob.dev", paid.OpBid: "ada.dev"}[op]
			for _, row := range r.rows() {
				if bytes.Contains(row.Value, []byte(url)) || bytes.Contains(row.Value, []byte(base64.StdEncoding.EncodeToString([]byte(body)))) {
					t.Errorf("row %q holds words of the member: %s", row.Key, row.Value)
				}
			}
		})
	}
}

// unconfirmed is how many applied payments may still be undone.
func (r *ring) unconfirmed() (n int) {
	r.look(func(v *ledger.View) { n = len(v.Unconfirmed()) })
	return n
}

// A payment is granted when it is seen, and asked for again until its block
// stays, by the next process too.
func TestAppliedPaymentsAreConfirmedAtDepth(t *testing.T) {
	inRing(t, "confirmed", func(t *testing.T, r *ring) {
		r.network.fates["alice"] = fate{shallow: true}
		r.join(ada, "alice")
		if r.unconfirmed() != 1 {
			t.Fatal("a payment in a block that may be dropped counts as confirmed")
		}
		time.Sleep(time.Minute)
		r.restart()
		if r.unconfirmed() != 1 {
			t.Fatal("the next process does not know that a payment is to be confirmed")
		}
		r.network.change(func() { r.network.fates["alice"] = fate{} })
		time.Sleep(5 * time.Second)
		if r.unconfirmed() != 0 {
			t.Fatal("a deep payment is not confirmed")
		}
		asked := r.network.questions("outcome")
		time.Sleep(time.Minute)
		same(t, r.network.questions("outcome")-asked, 0)
	})
}

// However many payments a network has forgotten, the younger ones have their turn.
func TestForgottenPaymentsDoNotKeepOthersWaiting(t *testing.T) {
	inAdasRing(t, "forgotten", func(t *testing.T, r *ring) {
		time.Sleep(time.Minute)
		const many = 40
		for i := range many + 1 {
			payer := fmt.Sprintf("payer-%d", i)
			r.network.change(func() { r.network.fates[payer] = fate{shallow: true} })
			r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), payer, 150)).is(200, "")
			time.Sleep(time.Second)
		}
		r.network.change(func() {
			for i := range many {
				r.network.fates[fmt.Sprintf("payer-%d", i)] = fate{forgotten: true}
			}
			r.network.fates[fmt.Sprintf("payer-%d", many)] = fate{}
		})
		time.Sleep(time.Minute)
		same(t, r.unconfirmed(), many)
	})
}

// A payment that its network drops is sent again while it can be mined.
func TestVanishedPaymentIsSentAgain(t *testing.T) {
	inRing(t, "sent again", func(t *testing.T, r *ring) {
		r.network.fates["alice"] = fate{shallow: true}
		r.join(ada, "alice")
		r.network.change(func() {
			clear(r.network.sent)
			r.network.fates["alice"] = fate{}
		})
		time.Sleep(20 * time.Second)
		if r.network.charged("alice") != 100 || r.unconfirmed() != 0 || r.total("ada") != 100 {
			t.Errorf("alice paid %d, %d to confirm, ada has %d", r.network.charged("alice"), r.unconfirmed(), r.total("ada"))
		}
	})
}
