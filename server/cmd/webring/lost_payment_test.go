package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"webring/edge/describe"
	"webring/server/devchain"
	"webring/server/pay/mpp"
)

// shortly answers the challenge of a request with a transaction that is valid for
// some seconds, and says until when.
func (o *origin) shortly(w devchain.Account, path, body string) (credential string, until time.Time) {
	o.t.Helper()
	until = time.Now().Truncate(time.Second).Add(12 * time.Second)
	return signedBy(w, o.challenge(o.post(path, body)), func(d *draft) { d.ValidBefore = uint64(until.Unix()) }), until
}

// TestLostPaymentHasItsEffect: the origin's disk is lost with no edge alive, and a
// backup from before the payments is restored. Their credentials come after they have
// expired: each has its effect once, and its payer does not pay again. A payment that can
// have no effect is kept for the operator.
func TestLostPaymentHasItsEffect(t *testing.T) {
	t.Parallel()
	o := ring(t)
	member := o.join("Before", "agent", "")
	file := filepath.Join(t.TempDir(), "backup.tar")
	if out, err := o.operate("backup", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	payments := []struct{ path, body string }{
		{"/api/register", `{"name":"Lost","url":"https://lost.dev/","kind":"agent","bid":"1.50"}`},
		{"/api/bid", `{"member":"` + member + `","amount":"1.25"}`},
		{"/api/register", `{"name":"Late","url":"https://late.dev/","kind":"mcp"}`},
	}
	var credentials []string
	var over time.Time
	for _, p := range payments {
		credential, until := o.shortly(wallet(t), p.path, p.body)
		if r := o.post(p.path, p.body, "Authorization", credential); r.Status >= 300 {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
		credentials, over = append(credentials, credential), until
	}
	received := o.received()
	o.kill()
	restored := filepath.Join(t.TempDir(), "data")
	if out, err := o.operate("restore", file, "--data", restored, "--alone"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o.data = restored
	o.launch()
	o.pay(wallet(t), "/api/register", `{"name":"Quick","url":"https://late.dev/","kind":"mcp"}`)
	time.Sleep(time.Until(over.Add(2 * time.Second))) // the transactions' own time has to be over

	for i, status := range []int{http.StatusCreated, http.StatusOK} {
		p := payments[i]
		if r := o.post(p.path, p.body, "Authorization", credentials[i], "Idempotency-Key", "a-key-of-the-tests"); r.Status != status || r.Header.Get("Payment-Receipt") == "" {
			t.Fatalf("%s: %d %s\n%s", p.path, r.Status, r.Body, o.log)
		}
		if r := o.post(p.path, p.body, "Authorization", credentials[i]); r.Status != http.StatusConflict || r.code(t) != "credential_reused" {
			t.Errorf("%s once more: %d %s", p.path, r.Status, r.Body)
		}
	}
	o.confirmed()
	r := o.post(payments[2].path, payments[2].body, "Authorization", credentials[2])
	if r.Status != http.StatusConflict || r.code(t) != "payment_unapplied" {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	reference := at(t, r.document(t), "reference").(string)
	if out, err := o.operate("payments", "list"); err != nil || !strings.Contains(out, "no effect") || !strings.Contains(out, reference) {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := o.operate("payments", "adjust", reference, "--register", `{"name":"Late","url":"https://later.dev/","kind":"mcp"}`, "--reason", "its record was lost")
	if err != nil || !strings.Contains(out, "1.00 USD") || !strings.Contains(out, "late joined") {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := o.operate("payments", "list"); err != nil || strings.Contains(out, reference) {
		t.Errorf("%v\n%s", err, out)
	}
	for slug, total := range map[string]string{"lost": "2.50", member: "2.25", "late": "1.00"} {
		if got := at(t, o.boardRow(slug), "paid_total_usd"); got != total {
			t.Errorf("%s has %v, want %s", slug, got, total)
		}
	}
	if out, err := o.operate("verify", "--chain"); err != nil || !strings.Contains(out, "everything agrees") {
		t.Errorf("%v\n%s", err, out)
	}
	if got := o.received(); got != received+100 {
		t.Errorf("%d cents were received, want %d", got, received+100)
	}
}

// TestRefusedPaymentsSayWhy: what the payer can know is told by a reason, and each
// reason is explained.
func TestRefusedPaymentsSayWhy(t *testing.T) {
	t.Parallel()
	o := ring(t)
	body := fmt.Sprintf(`{"member":%q,"amount":"1.00"}`, o.join("Reasons", "agent", ""))
	w := wallet(t)
	first, second := countedBy(t, w, o.challenge(o.post("/api/bid", body))), countedBy(t, w, o.challenge(o.post("/api/bid", body)))
	if r := o.post("/api/bid", body, "Authorization", first); r.Status != http.StatusOK {
		t.Errorf("paid with the next nonce: %d %s", r.Status, r.Body)
	}
	o.confirmed() // until then it is not said that the second pays nothing
	for reason, credential := range map[string]string{
		"already_used":       second,
		"nonce_not_next":     countedBy(t, w, o.challenge(o.post("/api/bid", body)), func(d *draft) { d.Nonce = uint64(1_000_000) }),
		"insufficient_funds": signedBy(freshAccount(t), o.challenge(o.post("/api/bid", body))),
		"wrong_chain":        signedBy(wallet(t), o.challenge(o.post("/api/bid", body)), func(d *draft) { d.ChainID = uint64(1) }),
		"fee_too_low":        signedBy(wallet(t), o.challenge(o.post("/api/bid", body)), func(d *draft) { d.MaxFee, d.MaxPriorityFee = uint64(1), uint64(0) }),
		"expired":            signedBy(wallet(t), o.challenge(o.post("/api/bid", body)), func(d *draft) { d.ValidBefore = uint64(time.Now().Add(-time.Minute).Unix()) }),
	} {
		r := o.post("/api/bid", body, "Authorization", credential)
		if r.Status != http.StatusPaymentRequired || at(t, r.document(t), "reason") != reason || r.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %d %s", reason, r.Status, r.Body)
		}
	}
	var names []string
	page := string(o.get("/docs").Body)
	for _, r := range describe.Reasons() {
		names = append(names, r.Name)
		if !strings.Contains(page, "<code>"+r.Name+"</code>") {
			t.Errorf("/docs does not explain %s", r.Name)
		}
	}
	if want := mpp.Reasons(); !slices.Equal(names, want) {
		t.Errorf("explained are %q, given %q", names, want)
	}
}
