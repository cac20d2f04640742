package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"

	"webring/server/devchain"
	"webring/server/pay/paytest"
)

// deeds are what an owner does at a crash, in an order in which each can be done after
// those before.
var deeds = []struct {
	method, path, body string
	by                 int // 0: the account that paid, 1: the one that the site names
}{
	{http.MethodPatch, "/api/ring/phoenix", `{"name":"Phoenix %d"}`, 0},
	{http.MethodPatch, "/api/ring/phoenix", `{"url":"http://p%d.strangers.test/","kind":"mcp"}`, 0},
	{http.MethodPost, "/api/ring/phoenix/claim", "", 1},
	{http.MethodDelete, "/api/ring/phoenix", "", 1},
}

// TestPowerFailsOnOwners ends the process with SIGKILL at each step of an owner's request.
// The next one does what the proof is for, unless it is done already, and once.
func TestPowerFailsOnOwners(t *testing.T) {
	t.Parallel()
	sites := newOwnSites(t)
	c, _ := chain(t)
	o := start(t, append([]string{"--tempo-rpc", c.RPC, "--core", "native"}, sites.args()...)...)
	payer, named := wallet(t), wallet(t)
	o.list(payer, "Phoenix", "p.strangers.test")
	o.confirmed()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	power := []string{"proved", "commit", "head", "publish", "applied"}
	random.Shuffle(len(power), func(i, j int) { power[i], power[j] = power[j], power[i] })
	order := []int{0, 1, random.IntN(2), 2, 3} // by their place among the deeds
	for n, step := range power {
		d := deeds[order[n]]
		o.env = nil
		o.settle()
		o.env = []string{"WEBRING_FAILPOINT=" + step}
		o.launch()
		body, w := d.body, []devchain.Account{payer, named}[d.by]
		switch d.method {
		case http.MethodPatch:
			body = fmt.Sprintf(body, n)
		case http.MethodPost:
			body = o.shownToken(sites, named)
		}
		send := func(credential string) (reply, error) {
			return o.try(d.method, d.path, []byte(body), "Content-Type", "application/json", "Authorization", credential)
		}
		asked := o.send(d.method, d.path, []byte(body), "Content-Type", "application/json")
		before := o.events()
		credential, err := paytest.Tempo{Key: w.Key}.Prove(o.challenge(asked)).Header()
		if err != nil {
			t.Fatal(err)
		}
		sentField("Authorization", credential)
		if r, err := send(credential); err == nil {
			t.Fatalf("%s %s at %s: %d %s", d.method, body, step, r.Status, r.Body)
		}
		o.waitGone()
		o.env = nil
		o.launch()
		o.told()
		events := 1
		if o.events() > before { // its effect was stored, so the start made a snapshot
			events++
		}
		r, err := send(credential)
		if err != nil {
			t.Fatal(err)
		}
		if stored := step != "proved" && step != "commit"; stored && r.code(t) != "credential_reused" || !stored && r.Status != 200 {
			t.Errorf("%s %s after %s: %d %s", d.method, body, step, r.Status, r.Body)
		}
		if r, err := send(credential); err != nil || r.Status != 409 || r.code(t) != "credential_reused" {
			t.Errorf("once more: %d %s, %v", r.Status, r.Body, err)
		}
		if d.body == deeds[1].body {
			events++
		}
		if now := o.events(); now != before+events {
			t.Errorf("%s %s at %s: %d events", d.method, body, step, now-before)
		}
	}
	o.get("/api/ring/phoenix").does(t, 410, "member_removed")
	o.balanced()
}

// events is how many events the ring has.
func (o *origin) events() int {
	o.t.Helper()
	n, err := strconv.Atoi(o.position())
	if err != nil {
		o.t.Fatal(err)
	}
	return n
}

// shownToken is a claim with a token that the site of the member shows.
func (o *origin) shownToken(sites *ownSites, w devchain.Account) string {
	o.t.Helper()
	r := o.post("/api/ring/phoenix/claim", fmt.Sprintf(`{"account":%q}`, w.Address.Hex())).does(o.t, 200, "").document(o.t)
	token := at(o.t, r, "token").(string)
	sites.show(sites.files, at(o.t, r, "host").(string), token)
	body, err := json.Marshal(map[string]string{"token": token})
	if err != nil {
		o.t.Fatal(err)
	}
	return string(body)
}
