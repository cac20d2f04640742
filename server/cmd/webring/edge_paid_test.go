package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestOneCredentialAtManyNodes presents one credential at the origin and two edges
// at once, many times, one edge behind the other. One copy is granted, whichever
// it is; the others are told so, and nobody pays twice.
func TestOneCredentialAtManyNodes(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	secret := secretFile(t)
	o := start(t, "--tempo-rpc", c.RPC, "--core", "native", "--edge-secret-file", secret)
	near := o.follow(t, o.verifier(), "--core", "native", "--edge-secret-file", secret)
	far := near.follow(t, o.verifier(), "--core", "native", "--edge-secret-file", secret)
	const body = `{"name":"Copied","url":"https://copied.dev/","kind":"agent","bid":"1.50"}`
	credential := signedBy(wallet(t), far.challenge(far.post("/api/register", body)))
	var copies sync.WaitGroup
	var mu sync.Mutex
	told := map[string]int{}
	for i := range 30 {
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
	if told["201"] != 1 || told["409 credential_reused"] != 29 {
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
// they are, and that new ones go to the new one.
func TestRecipientMayChange(t *testing.T) {
	t.Parallel()
	o := ring(t, "--core", "native")
	o.join("Mover", "agent", "")
	o.confirmed()
	if got := o.received(); got != 100 {
		t.Errorf("%d cents were received", got)
	}
	late := o.challenge(o.post("/api/bid", `{"member":"mover","amount":"1.00"}`))
	o.stop()
	before := o.recipient
	o.recipient[0]++
	for i, a := range o.args {
		if a == before.Hex() {
			o.args[i] = o.recipient.Hex()
		}
	}
	o.launch()
	// A challenge names whom it pays; one of before is replaced.
	r := o.post("/api/bid", `{"member":"mover","amount":"1.00"}`, "Authorization", signedBy(wallet(t), late))
	if r.Status != 402 || r.code(t) != "invalid_challenge" {
		t.Errorf("a challenge of before: %d %s", r.Status, r.Body)
	}
	o.bid("mover", "1.00")
	o.confirmed()
	if out, err := o.operate("verify", "--chain"); err != nil || !strings.Contains(out, "everything agrees") || !strings.Contains(out, "2 transactions asked for, 0 without an answer") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := o.operate("payments", "list", "--all")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range strings.Split(out, "\n") {
		if words := strings.Fields(line); len(words) > 2 && strings.Contains(line, "register") {
			if out, err := o.operate("payments", "adjust", words[len(words)-2], "--void", "--reason", "x"); err == nil || !strings.Contains(out, "settled") {
				t.Errorf("%v\n%s", err, out)
			}
		}
	}
	if got := o.received(); got != 100 {
		t.Errorf("%d cents were received", got)
	}
}
