package paid_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/ledger/memstore"
	"webring/server/paid"
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
// that came after them, as an edge kept those. It gives how many payments were
// open in between.
func (r *ring) restore(rows []ledger.Row) (open int) {
	r.t.Helper()
	records, err := r.books.Records(0, 1000)
	r.must(err)
	r.stop()
	store, head := memstore.New(), filepath.Join(r.t.TempDir(), "head")
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
		for _, x := range records[books.Size():] {
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
		in(t, op.op, func(t *testing.T) {
			r := newRing(t)
			r.join(ada, "alice")
			r.network.fates["bob"] = fate{after: 3 * time.Second}
			cents := map[string]int64{paid.OpRegister: 100, paid.OpBid: 150}[op.op]
			credential := r.sign(r.challenge(op.op, op.body), "bob", cents)
			h := r.begin(paid.Call{Operation: op.op, Body: []byte(op.body), Authorization: []string{credential}})
			synctest.Wait()
			rows := r.rows()
			if len(r.open()) != 1 {
				t.Fatal("the payment is not open")
			}
			time.Sleep(5 * time.Second)
			h.wait()
			total := r.total(op.slug)
			if r.restore(rows) != 1 {
				t.Fatal("the backup does not know the payment")
			}
			time.Sleep(10 * time.Second)
			if len(r.open()) != 0 || r.total(op.slug) != total || r.credited() != 100+cents {
				t.Errorf("%d open, total %d, want %d, credited %d", len(r.open()), r.total(op.slug), total, r.credited())
			}
			r.post(op.op, op.body, credential).is(409, api.CredentialReused)
			a, err := r.books.Audit(context.Background())
			if err != nil || len(a.Findings) != 0 || a.Applied != 2 {
				t.Errorf("%v, %+v", err, a)
			}
		})
	}
}

// Of a payment that the backup does not know at all, the event is enough to
// refuse its credential.
func TestCredentialOfARestoredEventIsRefused(t *testing.T) {
	in(t, "unknown", func(t *testing.T) {
		r := newRing(t)
		r.join(ada, "alice")
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
		if chain, err = r.service.VerifyChain(context.Background()); err != nil || len(chain.Findings) != 2 {
			t.Errorf("two payments are not on the chain: %v, %+v", err, chain)
		}
	})
}
