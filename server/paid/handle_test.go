package paid_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"webring/core"
	"webring/server/ledger"
	"webring/server/ledger/memstore"
	"webring/server/paid"
	"webring/server/pay/mpp"
	"webring/server/sites/score"
)

// bare is a service on a ring with one member, ada, outside of any bubble.
func bare(b testing.TB) *paid.Service {
	b.Helper()
	books, err := ledger.Open(ledger.Config{Store: memstore.New(), HeadPath: filepath.Join(b.TempDir(), "head"), Capacity: 1000})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { books.Close() })
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
	b.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// What a challenge for a bid costs, without the connection that it goes over.
func BenchmarkChallenge(b *testing.B) {
	s := bare(b)
	call := paid.Call{Operation: paid.OpBid, Body: []byte(fund), Client: "192.0.2.1", Secure: true}
	b.ReportAllocs()
	for b.Loop() {
		if a := s.Handle(context.Background(), call); a.Status != 402 {
			b.Fatalf("%d %s", a.Status, a.Body)
		}
	}
}

// Whatever is sent, a paid request gets an answer of the kinds there are, and
// nothing is granted to who has not paid.
func FuzzHandle(f *testing.F) {
	s := bare(f)
	a := s.Handle(context.Background(), paid.Call{Operation: paid.OpBid, Body: []byte(fund), Secure: true})
	challenge := answer{&testing.T{}, a}.challenges()[0] // which does not fail on a 402
	payload, err := json.Marshal(transaction{Challenge: challenge.ID, Payer: "bob", Cents: 150, ValidBefore: 1})
	if err != nil {
		f.Fatal(err)
	}
	late, err := mpp.Credential{Challenge: challenge, Payload: payload}.Header()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(true, []byte(fund), late, "", "")
	f.Add(true, []byte(fund), "Payment e30", "coin/charge;q=0.5", "key")
	f.Add(false, []byte(bob), "", "*/*", "key")
	f.Fuzz(func(t *testing.T, bids bool, body []byte, authorization, accept, key string) {
		op := paid.OpRegister
		if bids {
			op = paid.OpBid
		}
		c := paid.Call{Operation: op, Body: body, AcceptPayment: accept, IdempotencyKey: key, Client: "192.0.2.1", Secure: true}
		if authorization != "" {
			c.Authorization = []string{authorization}
		}
		a := s.Handle(context.Background(), c)
		switch a.Status {
		case 400, 402, 404, 409, 410, 413, 422, 431, 503:
		default:
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		answer{t, a}.form()
	})
}
