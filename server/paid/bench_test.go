package paid_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"webring/core"
	"webring/server/ledger"
	"webring/server/ledger/memstore"
	"webring/server/mpp"
	"webring/server/paid"
	"webring/server/score"
)

// What a challenge for a bid costs, without the connection that it goes over.
func BenchmarkChallenge(b *testing.B) {
	books, err := ledger.Open(ledger.Config{Store: memstore.New(), HeadPath: filepath.Join(b.TempDir(), "head"), Capacity: 1000})
	if err != nil {
		b.Fatal(err)
	}
	defer books.Close()
	err = books.Do(context.Background(), func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Rules{Stamp: tx.Stamp(), Name: "Ring", BaseURL: base, Fee: 100, MinBid: 100, Grace: 1, Decay: 1, RequiredScore: 40}, nil)
		if err == nil {
			_, err = tx.Append(&core.Joined{Stamp: tx.Stamp(), Slug: "ada", Kind: core.Agent, Category: "general", Fee: 100},
				&core.Texts{Name: core.Text{Value: "Ada"}, URL: core.Text{Value: "https://ada.dev"}})
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	network := newNetwork()
	s, err := paid.New(paid.Config{Ledger: books, Methods: []paid.Method{&method{node{network, &new(process).dead}, "coin"}},
		Scorer: &scorer{results: map[string]score.Result{}}, Realm: realm, Keys: mpp.Keys{Current: challengeKey}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close(context.Background())
	call := paid.Call{Operation: paid.OpBid, Body: []byte(fund), Client: "192.0.2.1", Secure: true}
	b.ReportAllocs()
	for b.Loop() {
		if a := s.Handle(context.Background(), call); a.Status != 402 {
			b.Fatalf("%d %s", a.Status, a.Body)
		}
	}
}
