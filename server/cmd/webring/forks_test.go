package main

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/pay/paytest"
)

// TestPayersOfLaterForks: current clients send a random nonce in the lane that does not count, as the
// chain takes it since T12, and a validBefore minutes ahead, since T11. The chain decides: one that does not take it yet refuses it before
// anything is reserved or sent, and the answer says what to sign.
func TestPayersOfLaterForks(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	node := httptest.NewServer(&paytest.Later{Chain: c.RPC})
	t.Cleanup(node.Close)
	o := start(t, "--tempo-rpc", node.URL)
	bid := fmt.Sprintf(`{"member":%q,"amount":"1.00"}`, o.join("Forks", "agent", ""))
	received := int64(100)
	w := wallet(t)
	for nonce, ahead := range map[uint64]int64{0: 270, 1: 20, 0x9e3779b97f4a7c15: 20, math.MaxUint64: 270} {
		ch := o.challenge(o.post("/api/bid", bid))
		credential := signedBy(w, ch, paytest.AnyNonce(nonce), paytest.EndsIn(ahead))
		r := o.post("/api/bid", bid, "Authorization", credential)
		if r.Status != http.StatusOK || r.Header.Get("Payment-Receipt") == "" {
			t.Fatalf("nonce %d: %d %s\n%s", nonce, r.Status, r.Body, o.log)
		}
		// Another number makes another transaction of it, and no second payment for one challenge.
		for name, again := range map[string]string{"the same": credential, "another number": signedBy(w, ch, paytest.AnyNonce(nonce-1))} {
			if r := o.post("/api/bid", bid, "Authorization", again); r.Status != http.StatusConflict || r.code(t) != "credential_reused" {
				t.Errorf("nonce %d, %s once more: %d %s", nonce, name, r.Status, r.Body)
			}
		}
		received += 100
	}
	// One that its payer has sent, under its hash, has its effect when it is shown.
	ch := o.challenge(o.post("/api/bid", bid))
	fork, err := rpc.Dial(node.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer fork.Close()
	var receipt struct{ Status, TransactionHash string }
	raw := paytest.Tempo{Key: w.Key}.Transaction(ch, paytest.AnyNonce(77))
	if err := fork.Call(&receipt, "eth_sendRawTransactionSync", hexutil.Bytes(raw)); err != nil || receipt.Status != "0x1" {
		t.Fatalf("%v, %v", receipt, err)
	}
	eventually(t, "a stray payment", longEnough, func() bool {
		out, err := o.operate("payments", "scan", "--since", "1h")
		return err == nil && strings.Contains(out, receipt.TransactionHash)
	})
	if r := o.post("/api/bid", bid, "Authorization", signedBy(w, ch, func(d *draft) { d.Wire = func([]byte) []byte { return raw } })); r.Status != http.StatusOK {
		t.Errorf("sent by its payer: %d %s", r.Status, r.Body)
	}
	received += 100
	if n := o.received(); n != received || at(t, o.boardRow("forks"), "paid_total_usd") != fmt.Sprintf("%d.00", received/100) {
		t.Errorf("%d cents, want %d; %v", n, received, o.boardRow("forks"))
	}
	o.confirmed()
	if out, err := o.operate("verify", "--chain"); err != nil || !strings.Contains(out, "everything agrees") {
		t.Errorf("verify: %v\n%s", err, out)
	}

	old := start(t, "--tempo-rpc", c.RPC)
	const joins = `{"name":"Forks","url":"https://forks.dev/","kind":"agent"}`
	for reason, change := range map[string]paytest.TempoAlter{"unsupported_form": paytest.AnyNonce(1), "valid_too_long": paytest.EndsIn(270)} {
		credential := signedBy(w, old.challenge(old.post("/api/register", joins)), change)
		r := old.post("/api/register", joins, "Authorization", credential)
		if r.Status != http.StatusPaymentRequired || at(t, r.document(t), "reason") != reason || r.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("a chain before T11 and T12: %d %s", r.Status, r.Body)
		}
	}
	if r := old.post("/api/register", joins); r.Status != http.StatusPaymentRequired { // the URL is free
		t.Errorf("after a refusal: %d %s", r.Status, r.Body)
	}
	if n := old.received(); n != 0 {
		t.Errorf("%d cents were received", n)
	}
}
