package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"webring/core"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// A payment enters the ledger in two transactions. The first reserves, before
// anything is sent to a payment network. Once the network has settled, the
// second stores the event, the answer and the end of the reservation as one.
func Example() {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	now := time.Date(2026, 1, 2, 8, 0, 0, 0, time.UTC)
	l, err := ledger.Open(ledger.Config{Store: ledgertest.NewStore(), HeadPath: filepath.Join(dir, "head"), Capacity: 100,
		Now: func() time.Time { return now }})
	if err != nil {
		panic(err)
	}
	defer l.Close()

	// do runs fn as one turn of the writer; when it returns nil, the turn is durable.
	do := func(fn func(tx *ledger.Tx) error) {
		if err := l.Do(context.Background(), fn); err != nil {
			panic(err)
		}
	}
	do(func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Rules{Stamp: tx.Stamp(), Name: "Ring", BaseURL: "https://ring.example",
			Fee: 100, MinBid: 100, Grace: 30 * 86400, Decay: 90 * 86400}, nil)
		return err
	})

	// Reserve.
	payment := &ledger.Reservation{ID: "challenge-1", State: ledger.Reserved, Operation: ledger.OperationRegister,
		URLKey: "ada.example", Cents: 100, Payer: "did:pkh:eip155:42431:0x1111", ReplayKeys: []string{"challenge-1", "tempo:42431:abcd"},
		ValidBefore: now.Add(time.Minute)}
	do(func(tx *ledger.Tx) error { return tx.Reserve(payment) })

	// The same transaction cannot pay twice, whatever it is presented for.
	again := *payment
	again.ID, again.URLKey, again.ReplayKeys = "challenge-2", "bob.example", []string{"tempo:42431:abcd"}
	err = l.Do(context.Background(), func(tx *ledger.Tx) error { return tx.Reserve(&again) })
	var replayed *ledger.ReplayedError
	fmt.Println("presented again:", errors.As(err, &replayed), replayed.Reservation)

	// Here the payment is broadcast, and its network says that it settled. Then: apply.
	do(func(tx *ledger.Tx) (err error) {
		event := &core.Joined{Stamp: tx.Stamp(), Slug: "ada", Kind: core.Agent, Category: "general", Fee: 100,
			Payment: core.Payment{Method: "tempo", Network: "tempo:42431", Transaction: "0xabcd", Payer: payment.Payer}}
		words := &core.Texts{Name: core.Text{Value: "Ada"}, URL: core.Text{Value: "https://ada.example/"}}
		if payment.Seq, err = tx.Append(event, words); err != nil {
			return err
		}
		payment.State, payment.Member = ledger.Applied, "ada"
		payment.Response = &ledger.Response{Status: 201, Body: []byte(`{"joined":true}`)}
		return tx.Update(payment)
	})

	l.View(func(v *ledger.View) {
		kept, err := v.ByReplayKey("tempo:42431:abcd")
		if err != nil {
			panic(err)
		}
		fmt.Println("reservation:", kept.State, "by event", kept.Seq)
		fmt.Println("members:", v.State().Len(), "open payments:", v.OpenPayments())
	})
	// Output:
	// presented again: true challenge-1
	// reservation: applied by event 1
	// members: 1 open payments: 0
}
