package badgerstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"webring/core"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
)

// BenchmarkDo is a payment's two transactions, reservation and event, by many
// payers at once, on the disk of the temporary folder.
func BenchmarkDo(b *testing.B) {
	dir := b.TempDir()
	s, err := badgerstore.Open(dir+"/"+storeName, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	l, err := ledger.Open(ledger.Config{Store: s, HeadPath: dir + "/" + headName, Capacity: 1000})
	if err != nil {
		b.Fatal(err)
	}
	do := func(fn func(tx *ledger.Tx) error) {
		if err := l.Do(context.Background(), fn); err != nil {
			b.Error(err)
		}
	}
	do(func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Rules{Stamp: tx.Stamp(), Name: "Ring", BaseURL: "http://ring.test", Fee: 100, MinBid: 100, Decay: 10}, nil)
		return err
	})
	do(func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Joined{Stamp: tx.Stamp(), Slug: "ada", Kind: core.Agent, Category: "general", Fee: 100},
			&core.Texts{Name: core.Text{Value: "Ada"}, URL: core.Text{Value: "https://ada.org"}})
		return err
	})
	var ids atomic.Int64
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id := fmt.Sprint(ids.Add(1))
			r := &ledger.Reservation{ID: "id" + id, State: ledger.Reserved, Operation: ledger.OperationBid, Member: "ada",
				Cents: 100, ReplayKeys: []string{"id" + id, "tx" + id}, Body: make([]byte, 200)}
			do(func(tx *ledger.Tx) error { return tx.Reserve(r) })
			do(func(tx *ledger.Tx) (err error) {
				r.Seq, err = tx.Append(&core.Bid{Stamp: tx.Stamp(), Member: "ada", Amount: 100}, nil)
				r.State = ledger.Applied
				return errors.Join(err, tx.Update(r))
			})
		}
	})
	b.StopTimer()
	if err := errors.Join(l.Close(), s.Close()); err != nil {
		b.Fatal(err)
	}
}
