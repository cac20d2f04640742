package main

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/server/devchain"
	"webring/server/devchain/faults"
	"webring/server/pay/paytest"
)

// ranOut says of an answer that the credential was not valid long enough when it was
// looked at, as on a machine that stands still: nothing has happened.
func ranOut(r reply) bool {
	return r.Status == 402 && strings.Contains(string(r.Body), `"payment_expired"`)
}

// behind starts a ring with one member behind a proxy, and gives what presents a
// credential for a bid of 1.00 that is valid for the seconds given.
func behind(t *testing.T, w devchain.Account, seconds int64) (o *origin, p *faults.Proxy, present func() reply) {
	c, _ := chain(t)
	p, err := faults.New(c.RPC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	o = start(t, "--tempo-rpc", p.URL)
	o.join("Target", "agent", "")
	o.confirmed()
	const body = `{"member":"target","amount":"1.00"}`
	credential := ""
	return o, p, func() (r reply) {
		if credential != "" {
			return o.post("/api/bid", body, "Authorization", credential)
		}
		eventually(t, "a look at a credential before it runs out", longEnough, func() bool {
			credential = signedBy(w, o.challenge(o.post("/api/bid", body)), func(d *draft) { d.ValidBefore = uint64(time.Now().Unix() + seconds) })
			r = o.post("/api/bid", body, "Authorization", credential)
			return !ranOut(r)
		})
		return r
	}
}

// TestMinedButReverted is number 38: it is found out before anything is granted,
// and the failed reservation stays as a record.
func TestMinedButReverted(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	poor, rich := freshAccount(t), wallet(t)
	o, p, present := behind(t, poor, 10)
	// Enough for the fees and not for the transfer; its simulation is answered
	// with a yes all the same.
	ch := o.challenge(o.post("/api/bid", `{"member":"target","amount":"1.00"}`))
	give := paytest.Tempo{Key: rich.Key}.Transaction(ch, func(d *draft) { d.Recipient, d.Amount = poor.Address, big.NewInt(900_000) })
	var receipt struct{ Status string }
	if err := c.Call(t.Context(), &receipt, "eth_sendRawTransactionSync", hexutil.Bytes(give)); err != nil || receipt.Status != "0x1" {
		t.Fatalf("%v, %v", receipt, err)
	}
	before := o.received()
	p.Follow(faults.All(faults.Assent))
	r := present()
	if r.Status != 402 || r.code(t) != "verification_failed" || r.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("%d %s\n%s", r.Status, r.Body, o.log)
	}
	if r := present(); r.Status != 409 || at(t, r.document(t), "outcome") != "failed" {
		t.Errorf("again: %d %s", r.Status, r.Body)
	}
	out, err := o.operate("payments", "list", "--all")
	for _, line := range strings.Split(out, "\n") {
		if words := strings.Fields(line); len(words) > 0 && words[0] == "failed" {
			if row, err := o.operate("payments", "show", words[len(words)-1]); err != nil || !strings.Contains(row, "mined, but reverted") {
				t.Errorf("%v\n%s", err, row)
			}
		}
	}
	if err != nil || !strings.Contains(out, "failed ") || o.received() != before || at(t, o.boardRow("target"), "paid_total_usd") != "1.00" {
		t.Errorf("%v, %d cents\n%s", err, o.received()-before, out)
	}
}

// TestTransferDiverted is number 39: status 1 proves nothing. Here the node lies
// about the logs, so the money is in fact there, and the scan finds it.
func TestTransferDiverted(t *testing.T) {
	t.Parallel()
	o, p, present := behind(t, wallet(t), 8)
	p.Follow(faults.All(faults.Diverted))
	r := present()
	if r.Status != 409 || r.code(t) != "payment_mismatch" || r.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("%d %s\n%s", r.Status, r.Body, o.log)
	}
	if total := at(t, o.boardRow("target"), "paid_total_usd"); total != "1.00" {
		t.Errorf("granted all the same: %v", total)
	}
	p.Follow(faults.Pass)
	if out, err := o.operate("payments", "list"); err != nil || !strings.Contains(out, "diverted") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := o.operate("payments", "scan", "--since", "1h"); err != nil || !strings.Contains(out, "1.00") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestChainSilentAfterSending is number 44: the request is held until the
// transaction can no longer be mined, then 503, and later there is exactly one
// effect.
func TestChainSilentAfterSending(t *testing.T) {
	t.Parallel()
	o, p, present := behind(t, wallet(t), 7)
	before := o.received()
	sent := false
	p.Follow(func(methods []string) faults.Fault {
		if f := faults.On(faults.Sends, faults.DropAfter)(methods); f != faults.None {
			sent = true
			return f
		}
		if sent {
			return faults.DropBefore
		}
		return faults.None
	})
	r := present()
	if r.Status != 503 || r.code(t) != "payment_pending" || r.Header.Get("Retry-After") == "" || r.Header.Get("WWW-Authenticate") != "" {
		t.Fatalf("%d %s\n%s", r.Status, r.Body, o.log)
	}
	if r := present(); r.Status != 503 || r.code(t) != "payment_pending" {
		t.Errorf("while it is silent: %d %s", r.Status, r.Body)
	}
	p.Follow(faults.Pass)
	eventually(t, "the effect", 2*time.Minute, func() bool { r = present(); return r.Status != 503 })
	if r.Status != 200 || r.Header.Get("Payment-Receipt") == "" {
		t.Errorf("afterwards: %d %s", r.Status, r.Body)
	}
	if r := present(); r.Status != 409 || r.code(t) != "credential_reused" {
		t.Errorf("again: %d %s", r.Status, r.Body)
	}
	o.confirmed()
	if paid := o.received() - before; paid != 100 {
		t.Errorf("%d cents were paid", paid)
	}
	o.balanced()
}
