package server_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"webring/core"
	"webring/server"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
	"webring/server/paid"
	"webring/server/pay/mpp"
	"webring/server/pay/x402"
	"webring/server/sites/score"
)

const (
	base = "https://ring.example"
	ada  = `{"name":"Ada","url":"https://ada.dev","kind":"agent","description":"Words of a member."}`
	fund = `{"member":"ada","amount":"1.50"}`
)

// coin is a payment method with outcomes that the test sets.
type coin struct {
	refuses bool          // every credential
	life    time.Duration // of a payment; 0: 25 s

	mu     sync.Mutex
	state  mpp.State
	oldest time.Time // since when it knows of transfers
}

func (c *coin) Name() string    { return "coin" }
func (c *coin) Network() string { return "coin:test" }

func (c *coin) Life() time.Duration { return paid.ChallengeLife }

func (c *coin) Request(cents int64) (string, error) { return mpp.EncodeJSON(cents) }

func (c *coin) Exact(string) (offer x402.Offer, ok bool) { return offer, false }

func (c *coin) Decode(cred mpp.Credential) (mpp.Payment, error) {
	var cents int64
	if err := mpp.DecodeJSON(cred.Challenge.Request, &cents); err != nil {
		return mpp.Payment{}, &mpp.Rejection{Code: "invalid_challenge", Detail: "no good"}
	}
	if c.refuses {
		return mpp.Payment{}, &mpp.Rejection{Code: mpp.CodeVerify, Detail: "no good"}
	}
	return mpp.Payment{Method: "coin", Cents: cents, Raw: cred.Payload, Reference: cred.Challenge.ID,
		ReplayKey: "coin:" + cred.Challenge.ID, Payer: "payer of " + cred.Challenge.ID, Payee: c.Payee(), ValidBefore: time.Now().Add(cmp.Or(c.life, 25*time.Second))}, nil
}

func (c *coin) TokenDomain() *mpp.TypedDomain { return nil }

func (c *coin) ToSign(mpp.Challenge, [20]byte) (*mpp.ToSign, error) { return nil, nil }

func (c *coin) Payer(account [20]byte) string { return core.Account(account).String() }

func (c *coin) Unused(context.Context, mpp.Payment) error { return nil }

func (c *coin) PaysGas() bool { return false }

func (c *coin) Pace() time.Duration { return 0 }

func (c *coin) InTime(mpp.Payment, time.Time, time.Time) *mpp.Rejection { return nil }

func (c *coin) Simulate(context.Context, mpp.Payment) error { return nil }

func (c *coin) Holds(context.Context, mpp.Payment, int64) error { return nil }

func (c *coin) Broadcast(ctx context.Context, p mpp.Payment, _ mpp.Expenses) (mpp.Outcome, error) {
	return c.Outcome(ctx, p, time.Time{})
}

func (c *coin) Outcome(_ context.Context, _ mpp.Payment, since time.Time) (mpp.Outcome, error) {
	if !since.IsZero() {
		return mpp.Outcome{}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return mpp.Outcome{State: c.state, Deep: true}, nil
}

func (c *coin) Clock(context.Context) (time.Time, error) { return time.Now(), nil }

func (c *coin) Transfers(_ context.Context, since time.Time, _ func(mpp.Transfer) error) (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since.Before(c.oldest) {
		return time.Time{}, mpp.ErrUnavailable
	}
	return since, nil
}

func (c *coin) Payee() string { return "purse" }

func (c *coin) Received(context.Context, string, string) (mpp.Transfer, error) {
	return mpp.Transfer{}, mpp.ErrNoTransfer
}

func (c *coin) becomes(state mpp.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = state
}

// origin is a service on a ledger in memory, and its operator.
type origin struct {
	t        testing.TB
	coin     *coin
	store    *ledgertest.Store
	books    *ledger.Ledger
	service  *paid.Service
	operator *server.Operator
	scorer   *always
	turns    chan struct{} // holds a token after turns of the writer
}

func newOrigin(t testing.TB) *origin {
	t.Helper()
	o := &origin{t: t, coin: &coin{state: mpp.Settled}, store: ledgertest.NewStore(), scorer: &always{score: 72}, turns: make(chan struct{}, 1)}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	var err error
	o.books, err = ledger.Open(ledger.Config{Store: o.store, HeadPath: filepath.Join(t.TempDir(), "head"), Capacity: 5000, Now: func() time.Time {
		select {
		case o.turns <- struct{}{}:
		default: // one token says that there was a turn
		}
		return time.Now()
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.books.Close() })
	o.do(func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Rules{Stamp: tx.Stamp(), Name: "Test Ring", BaseURL: base, Fee: 100, MinBid: 100, Grace: 1, Decay: 1}, nil)
		return err
	})
	o.service, err = paid.New(paid.Config{Ledger: o.books, Methods: []paid.Method{o.coin}, Scorer: o.scorer, Realm: "ring.example",
		Keys: mpp.Keys{Current: make([]byte, 32)}, Now: time.Now, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		o.service.Close(ended)
	})
	o.operator = &server.Operator{Ledger: o.books, Payments: o.service, Log: quiet}
	return o
}

type always struct {
	score  int
	report string
}

func (s *always) Score(context.Context, string, string) (score.Result, error) {
	return score.Result{Score: s.score, Report: s.report, Provider: "test"}, nil
}

// do runs fn in the writer.
func (o *origin) do(fn func(tx *ledger.Tx) error) {
	o.t.Helper()
	if err := o.books.Do(context.Background(), fn); err != nil {
		o.t.Fatal(err)
	}
}

var parameter = regexp.MustCompile(`([a-z]+)="([^"]*)"`)

// credential asks for a challenge and answers it.
func (o *origin) credential(op, body string) string {
	o.t.Helper()
	a := o.service.Handle(context.Background(), paid.Call{Operation: op, Body: []byte(body), Secure: true})
	for _, f := range a.Header {
		if f[0] != "WWW-Authenticate" {
			continue
		}
		challenge := map[string]string{}
		for _, p := range parameter.FindAllStringSubmatch(f[1], -1) {
			challenge[p[1]] = p[2]
		}
		text, err := json.Marshal(map[string]any{"challenge": challenge, "payload": map[string]string{"signature": "secret"}})
		if err != nil {
			o.t.Fatal(err)
		}
		return "Payment " + base64.RawURLEncoding.EncodeToString(text)
	}
	o.t.Fatalf("no challenge: %d %s", a.Status, a.Body)
	return ""
}

// pay sends a paid request and fails unless it is granted.
func (o *origin) pay(op, body, key string) paid.Call {
	o.t.Helper()
	call := paid.Call{Operation: op, Body: []byte(body), IdempotencyKey: key, Secure: true, Authorization: []string{o.credential(op, body)}}
	if a := o.service.Handle(context.Background(), call); a.Status >= 300 {
		o.t.Fatalf("%d %s", a.Status, a.Body)
	}
	return call
}

// waitOpen returns when a payment for a member is open.
func (o *origin) waitOpen(slug string) {
	for open := 0; open == 0; {
		<-o.turns
		o.books.View(func(v *ledger.View) { open, _ = v.OpenOnMember(slug) })
	}
}

// total is a member's full total in cents.
func (o *origin) total(slug string) (cents int64) {
	o.books.View(func(v *ledger.View) {
		if at, ok := v.State().BySlug([]byte(slug)); ok {
			cents = v.State().Member(at).Total()
		}
	})
	return cents
}
