package badgerstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"webring/core"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
)

func do(b *testing.B, l *ledger.Ledger, fn func(tx *ledger.Tx) error) {
	if err := l.Do(context.Background(), fn); err != nil {
		b.Error(err)
	}
}

// found opens a ring with one member.
func found(b *testing.B, l *ledger.Ledger) {
	do(b, l, func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Rules{Stamp: tx.Stamp(), Name: "Ring", BaseURL: "http://ring.test", Fee: 100, MinBid: 100, Decay: 10}, nil)
		return err
	})
	do(b, l, func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Joined{Stamp: tx.Stamp(), Slug: "ada", Kind: core.Agent, Category: "general", Fee: 100},
			&core.Texts{Name: core.Text{Value: "Ada"}, URL: core.Text{Value: "https://ada.org"}})
		return err
	})
}

var ids atomic.Int64 // of payments

// bid makes the two transactions of a payment.
func bid(b *testing.B, l *ledger.Ledger) {
	id := fmt.Sprint(ids.Add(1))
	r := &ledger.Reservation{ID: "id" + id, State: ledger.Reserved, Operation: ledger.OperationBid, Member: "ada",
		Cents: 100, ReplayKeys: []string{"id" + id, "tx" + id}, Body: make([]byte, 200)}
	do(b, l, func(tx *ledger.Tx) error { return tx.Reserve(r) })
	do(b, l, func(tx *ledger.Tx) (err error) {
		r.Seq, err = tx.Append(&core.Bid{Stamp: tx.Stamp(), Member: "ada", Amount: 100}, nil)
		r.State = ledger.Applied
		return errors.Join(err, tx.Update(r))
	})
}

// slowStore takes 5 ms more for each commit, as a disk far away would.
type slowStore struct{ ledger.Store }

func (s slowStore) Commit(b ledger.Batch) error {
	time.Sleep(5 * time.Millisecond)
	return s.Store.Commit(b)
}

// BenchmarkSlowCommits counts durable bids a second, each a reservation and an
// event, by 64 payers on a store that takes 5 ms more for each commit. Settlement
// is stubbed: no payment is made or checked between the two. The goal is 2 000.
func BenchmarkSlowCommits(b *testing.B) {
	dir := b.TempDir()
	s, err := badgerstore.Open(dir+"/"+storeName, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	l, err := ledger.Open(ledger.Config{Store: slowStore{s}, HeadPath: dir + "/" + headName, Capacity: 1000})
	if err != nil {
		b.Fatal(err)
	}
	found(b, l)
	const payers = 64
	for b.Loop() {
		const bids = 10_000
		var next atomic.Int64
		var paying sync.WaitGroup
		began := time.Now()
		for range payers {
			paying.Go(func() {
				for next.Add(1) <= bids {
					bid(b, l)
				}
			})
		}
		paying.Wait()
		b.ReportMetric(bids/time.Since(began).Seconds(), "bids/s-settlement-stubbed")
	}
	if err := errors.Join(l.Close(), s.Close()); err != nil {
		b.Fatal(err)
	}
}
