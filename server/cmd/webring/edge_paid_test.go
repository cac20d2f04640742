package main

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"webring/edge/forward"
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
// it is; the others are told so, and no wallet pays twice. The payer counts nonces, as the
// clients in Go and Python do. Then it joins, bids and changes at an edge.
func TestOneCredentialAtManyNodes(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	secret := secretFile(t)
	o := start(t, "--tempo-rpc", c.RPC, "--core", "native", "--edge-secret-file", secret)
	near := o.follow(t, o.verifier(), "--core", "native", "--edge-secret-file", secret)
	far := o.follow(t, o.verifier(), "--core", "native", "--edge-secret-file", secret)
	const body = `{"name":"Copied","url":"https://copied.dev/","kind":"agent","bid":"1.50"}`
	w := wallet(t)
	credential := countedBy(t, w, far.challenge(far.post("/api/register", body)))
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
	near.counts(w, "Counting", "https://counting.dev/")
	o.confirmed()
	o.balanced()
	if got := o.received(); got != 550 {
		t.Errorf("%d cents were received", got)
	}
	alike(t, o, near, far)
}
