package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/edge/forward"
	"webring/server/pay/paytest"
	"webring/server/sites/score"
)

// Clients who have sites scored leave others' payments and requests for challenges
// places at their edge.
func TestQuestionsAreFewerThanThePlacesOfAnEdge(t *testing.T) {
	if score.MaxUnderWay >= min(forward.MaxAsks, forward.MaxPayments) {
		t.Errorf("%d questions at a time, of %d requests for challenges and %d payments", score.MaxUnderWay, forward.MaxAsks, forward.MaxPayments)
	}
}

// TestOneCredentialAtManyNodes presents one credential at the origin and two edges
// at once, many times. One copy is granted, whichever
// it is; the others are told so, and nobody pays twice.
func TestOneCredentialAtManyNodes(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	secret := secretFile(t)
	o := start(t, "--tempo-rpc", c.RPC, "--core", "native", "--edge-secret-file", secret)
	near := o.follow(t, o.verifier(), "--core", "native", "--edge-secret-file", secret)
	far := o.follow(t, o.verifier(), "--core", "native", "--edge-secret-file", secret)
	const body = `{"name":"Copied","url":"https://copied.dev/","kind":"agent","bid":"1.50"}`
	credential := signedBy(wallet(t), far.challenge(far.post("/api/register", body)))
	var copies sync.WaitGroup
	var mu sync.Mutex
	told := map[string]int{}
	for i := range 24 { // a node takes no more than 16 from one address
		node := []*origin{o, near, far}[i%3]
		copies.Go(func() {
			r, err := node.try(http.MethodPost, "/api/register", []byte(body), "Authorization", credential, "Content-Type", "application/json")
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			what := fmt.Sprint(r.Status)
			if r.Status >= 300 {
				what += " " + r.code(t)
			}
			told[what]++
		})
	}
	copies.Wait()
	if told["201"] != 1 || told["409 credential_reused"] != 23 {
		t.Errorf("answers: %v", told)
	}
	for _, node := range []*origin{o, near, far} {
		if r := node.post("/api/register", body, "Authorization", credential); r.Status != 409 || r.code(t) != "credential_reused" {
			t.Errorf("later: %d %s", r.Status, r.Body)
		}
		if r := node.post("/api/register", body); r.Status != 409 || r.code(t) != "already_registered" {
			t.Errorf("unpaid: %d %s", r.Status, r.Body)
		}
	}
	o.confirmed()
	o.balanced()
	if got := o.received(); got != 250 {
		t.Errorf("%d cents were received", got)
	}
	alike(t, o, near, far)
}

// TestRecipientMayChange holds that payments to an earlier recipient stay what
// they are, and that new ones go to the new one: also those of events that no
// stored payment speaks of, what the operator credited and what an edge kept.
func TestRecipientMayChange(t *testing.T) {
	t.Parallel()
	o := ring(t, "--core", "native")
	o.join("Mover", "agent", "")
	o.confirmed()
	if got := o.received(); got != 100 {
		t.Errorf("%d cents were received", got)
	}
	c, _ := chain(t)
	sentBy := func(amount, kind string) {
		t.Helper()
		raw := paytest.Tempo{Key: wallet(t).Key}.Transaction(o.challenge(o.post("/api/bid", `{"member":"mover","amount":"`+amount+`"}`)))
		var hash string
		if err := c.Call(t.Context(), &hash, "eth_sendRawTransaction", hexutil.Bytes(raw)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the transfer", time.Minute, func() bool {
			_, err := o.operate("payments", "adjust", hash, kind, "--reason", "sent by hand")
			return err == nil
		})
	}
	sentBy("2.50", "--unclaimed")
	file, restored := filepath.Join(t.TempDir(), "backup.tar"), filepath.Join(t.TempDir(), "data")
	if out, err := o.operate("backup", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sentBy("3.00", "--credit=mover")
	o.bid("mover", "1.50")
	o.confirmed()
	late := o.challenge(o.post("/api/bid", `{"member":"mover","amount":"1.00"}`))
	eventually(t, "the signature under all events", time.Minute, func() bool {
		out, err := o.operate("restore", file, "--data", restored, "--from", o.base)
		if err == nil && strings.Contains(out, "2 events that the backup lacked") {
			return true
		}
		_ = os.RemoveAll(restored)
		return false
	})
	o.stop()
	o.data = restored
	before := o.recipient
	o.recipient[0]++
	for i, a := range o.args {
		if a == before.Hex() {
			o.args[i] = o.recipient.Hex()
		}
	}
	o.launch()
	// A challenge names whom it pays; one of before is replaced, once it is known that
	// what answers it was not sent before.
	credential := signedBy(wallet(t), late, func(d *draft) { d.ValidBefore = uint64(time.Now().Add(6 * time.Second).Unix()) })
	eventually(t, "a block that decides", longEnough, func() bool {
		r := o.post("/api/bid", `{"member":"mover","amount":"1.00"}`, "Authorization", credential)
		if r.code(t) == "payment_pending" {
			return false
		}
		if r.Status != 402 || r.code(t) != "invalid_challenge" {
			t.Fatalf("a challenge of before: %d %s", r.Status, r.Body)
		}
		return true
	})
	o.bid("mover", "1.00")
	o.confirmed()
	if out, err := o.operate("verify", "--chain"); err != nil || !strings.Contains(out, "everything agrees") || !strings.Contains(out, "5 transactions asked for, 0 without an answer") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := o.operate("payments", "list", "--all")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range strings.Split(out, "\n") {
		if words := strings.Fields(line); len(words) > 2 && strings.Contains(line, "register") {
			if out, err := o.operate("payments", "adjust", words[len(words)-2], "--void", "--reason", "x"); err == nil || !strings.Contains(out, "nothing to take back") {
				t.Errorf("%v\n%s", err, out)
			}
		}
	}
	if got := o.received(); got != 100 {
		t.Errorf("%d cents were received", got)
	}
}
