package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/server"
	"webring/server/devchain"
	"webring/server/pay/mpp"
	"webring/server/pay/paytest"
)

// confirmed waits until no network can undo a payment any more.
func (o *origin) confirmed() {
	o.t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		out, err := o.operate("version")
		if err == nil && strings.Contains(out, " 0 open reservations, 0 payments to confirm") {
			return
		}
		if time.Now().After(deadline) {
			list, _ := o.operate("payments", "list")
			o.t.Fatalf("not all payments are confirmed: %v\n%s\n%s\n%s", err, out, list, o.log)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// What settled without an effect is listed, unless the operator has decided so.
func TestPaymentsWithoutEffectAreListed(t *testing.T) {
	for _, tc := range []struct {
		row  server.PaymentRow
		want string
		odd  bool
	}{
		{server.PaymentRow{State: "failed", Outcome: "settled"}, "adjusted", false},
		{server.PaymentRow{State: "failed", Outcome: "settled", NoEffect: true}, "no effect", true},
		{server.PaymentRow{State: "failed", Outcome: "mismatched"}, "adjusted", false},
		{server.PaymentRow{State: "failed", Outcome: "mismatched", Diverted: true}, "diverted", true},
		{server.PaymentRow{State: "failed", Outcome: "gone"}, "failed", false},
	} {
		if state, odd := describePayment(tc.row); state != tc.want || odd != tc.odd || tc.row.NeedsAttention() != odd {
			t.Errorf("%+v: %s, %v", tc.row, state, odd)
		}
	}
}

// TestMoneyWithoutAnEventIsFoundAndPutRight holds what the operator can do about
// a payment that the ring never heard of: a transaction that answers a challenge
// and was sent by its payer, not by presenting it.
func TestMoneyWithoutAnEventIsFoundAndPutRight(t *testing.T) {
	t.Parallel()
	o := ring(t)
	c, _ := chain(t)
	slug := o.join("Found Money", "agent", "")
	o.confirmed()
	if out, err := o.operate("payments", "list"); err != nil || strings.Contains(out, "found-money") {
		t.Errorf("a payment in order is listed as one to look at: %v\n%s", err, out)
	}
	if out, err := o.operate("payments", "list", "--all"); err != nil || !strings.Contains(out, "found-money") {
		t.Errorf("list --all: %v\n%s", err, out)
	}

	w := wallet(t)
	raw := paytest.Tempo{Key: w.Key}.Transaction(o.challenge(o.post("/api/bid", fmt.Sprintf(`{"member":%q,"amount":"2.50"}`, slug))))
	var hash string
	if err := c.Call(context.Background(), &hash, "eth_sendRawTransaction", hexutil.Bytes(raw)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a stray transfer", time.Minute, func() bool {
		out, err := o.operate("payments", "scan", "--since", "1h")
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.Contains(out, hash) && strings.Contains(out, "2.50")
	})
	for _, bad := range [][]string{{"--credit", "nobody", "--reason", "x"}, {"--void", "--reason", "x"}, {"--credit", slug}, {"--credit", slug, "--void", "--reason", "x"}} {
		if out, err := o.operate(append([]string{"payments", "adjust", hash}, bad...)...); err == nil {
			t.Errorf("adjust %v: %s", bad, out)
		}
	}
	if out, err := o.operate("payments", "adjust", hash, "--credit", slug, "--reason", "sent by hand"); err != nil || !strings.Contains(out, "2.50") {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := o.operate("payments", "adjust", hash, "--credit", slug, "--reason", "again"); err == nil {
		t.Errorf("credited twice: %s", out)
	}
	if out, err := o.operate("payments", "scan", "--since", "1h", "--go-on"); err != nil || strings.Contains(out, hash) {
		t.Errorf("%v\n%s", err, out)
	}
	if total := at(t, o.boardRow(slug), "paid_total_usd"); total != "3.50" || o.received() != 350 {
		t.Errorf("total %v, received %d", total, o.received())
	}
	o.stop()
	o.launch()
	if total := at(t, o.boardRow(slug), "paid_total_usd"); total != "3.50" {
		t.Errorf("after a restart: total %v", total)
	}
}

// TestWhatNeedsANetworkFailsWithoutOne: an origin that takes no payments any more, or
// not yet again, can tell nothing of any chain.
func TestWhatNeedsANetworkFailsWithoutOne(t *testing.T) {
	t.Parallel()
	o := seededOrigin(t)
	for _, c := range []struct{ command, says string }{
		{"verify --chain", "0 transactions asked for, 16 without an answer\nwhat was answered agrees\nwebring: a payment network that is needed gave no answer"},
		{"payments scan", "webring: not everything was looked through: no payment network is configured"},
	} {
		if out, err := o.operate(strings.Fields(c.command)...); err == nil || !strings.Contains(out, c.says) {
			t.Errorf("%s: %v\n%s", c.command, err, out)
		}
	}
}

type draft = paytest.TempoDraft

// countedBy answers a challenge as the clients in Go and Python would (mpp-go, pympp), with the
// account's next nonce and no validBefore. They pay what the node says is the gas price.
func countedBy(t *testing.T, w devchain.Account, ch mpp.Challenge, changes ...paytest.TempoAlter) string {
	t.Helper()
	c, _ := chain(t)
	nonce, err := c.NextNonce(t.Context(), w.Address)
	var price hexutil.Big
	if err == nil {
		err = c.Call(t.Context(), &price, "eth_gasPrice")
	}
	if err != nil {
		t.Error(err) // payers are goroutines
	}
	like := func(d *paytest.TempoDraft) { d.MaxFee, d.MaxPriorityFee = price.ToInt(), price.ToInt() }
	return signedBy(w, ch, append([]paytest.TempoAlter{paytest.Counted(nonce), like}, changes...)...)
}

// counts has a payer like [countedBy]'s join, bid and change what it is at a node. Each answer has a
// receipt, and each credential is answered twice, with one effect. It gives the slug.
func (o *origin) counts(w devchain.Account, name, url string) (slug string) {
	o.t.Helper()
	slug = strings.ToLower(name)
	for _, x := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodPost, "/api/register", fmt.Sprintf(`{"name":%q,"url":%q,"kind":"agent"}`, name, url), http.StatusCreated},
		{http.MethodPost, "/api/bid", fmt.Sprintf(`{"member":%q,"amount":"2.00"}`, slug), http.StatusOK},
		{http.MethodPatch, "/api/ring/" + slug, `{"description":"Counts its nonces."}`, http.StatusOK},
	} {
		ch := o.challenge(o.send(x.method, x.path, []byte(x.body), "Content-Type", "application/json", "Accept-Payment", "tempo/charge"))
		var credential string
		proves := x.method == http.MethodPatch
		if proves {
			proof := paytest.Tempo{Key: w.Key}.Prove(ch)
			var err error
			if credential, err = proof.Header(); err != nil {
				o.t.Fatal(err)
			}
		} else {
			credential = countedBy(o.t, w, ch)
		}
		present := func() reply {
			return o.send(x.method, x.path, []byte(x.body), "Content-Type", "application/json", "Authorization", credential)
		}
		r := present()
		if r.Status != x.status || r.Header.Get("Payment-Receipt") == "" {
			o.t.Fatalf("%s %s: %d %s\n%s", x.method, x.path, r.Status, r.Body, o.log)
		}
		if !proves {
			checkReceipt(o.t, devchain.Payment{Exchange: devchain.Exchange{Header: r.Header}})
		}
		if r := present(); r.Status != http.StatusConflict || r.code(o.t) != "credential_reused" {
			o.t.Errorf("%s %s once more: %d %s", x.method, x.path, r.Status, r.Body)
		}
	}
	return slug
}

// signedBy answers a challenge as the reference client would, with changes.
func signedBy(w devchain.Account, ch mpp.Challenge, changes ...paytest.TempoAlter) string {
	return paytest.Tempo{Key: w.Key}.Header(ch, changes...)
}
