package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"webring/edge/forward"
	"webring/server/devchain"
	"webring/server/pay/mpp"
)

// TestFewPayersDoNotFillAnEdge has 14 wallets hold every place of an edge, with payments
// that the chain does not take, from seven clients, and another payer pay there all the
// while. A payment that is let go for that has its effect, and its answer, later.
func TestFewPayersDoNotFillAnEdge(t *testing.T) {
	t.Parallel()
	const wallets, each, rounds = forward.MaxPayments / 8, 8, 13
	g := newGate(t)
	var freed sync.Map // transactions that wait no longer
	g.waits = func(request []byte) bool {
		waits := bytes.Contains(request, fmt.Appendf(nil, "%064x", 1_500_000)) // the calldata of who pays 1.50
		freed.Range(func(raw, _ any) bool {
			waits = waits && !bytes.Contains(request, []byte(raw.(string)))
			return waits
		})
		return waits
	}
	secret := secretFile(t)
	o := start(t, "--tempo-rpc", g.URL, "--core", "native", "--edge-secret-file", secret)
	slug := o.join("Target", "agent", "")
	e := o.follow(t, o.verifier(), "--core", "native", "--edge-secret-file", secret, "--trusted-proxy", "127.0.0.1")

	bid := func(amount string) []byte { return []byte(`{"member":"` + slug + `","amount":"` + amount + `"}`) }
	from := func(client int, more ...string) []string {
		return append(more, "X-Forwarded-For", fmt.Sprint("192.0.2.", client), "X-Forwarded-Proto", "https", "Content-Type", "application/json")
	}
	type attempt struct {
		client     int
		wallet     devchain.Account
		challenge  mpp.Challenge
		credential string
	}
	// Two wallets more have the places taken again, from clients of their own.
	var all []attempt
	for i := range wallets + 2 {
		w, client := wallet(t), i/2
		for range each {
			ch := e.challenge(e.send(http.MethodPost, "/api/bid", bid("1.50"), from(client)...))
			all = append(all, attempt{client: client, wallet: w, challenge: ch})
		}
	}
	open := g.shut()
	var held sync.WaitGroup
	defer held.Wait()
	defer open()
	letGo := make(chan attempt, len(all))
	hold := func(a attempt) {
		// 30 s are the most that the chain takes.
		a.credential = signedBy(a.wallet, a.challenge, func(d *draft) { d.ValidBefore = uint64(time.Now().Unix() + 29) })
		held.Go(func() {
			r, err := e.try(http.MethodPost, "/api/bid", bid("1.50"), from(a.client, "Authorization", a.credential)...)
			if err == nil && r.Status == 503 && strings.Contains(string(r.Body), `"code":"payment_pending"`) {
				letGo <- a
			}
		})
	}
	for _, a := range all[:forward.MaxPayments] {
		hold(a)
	}
	eventually(t, "all places to be taken", time.Minute, func() bool {
		out, err := o.operate("version")
		return err == nil && strings.Contains(out, fmt.Sprintf(" %d open reservations", forward.MaxPayments))
	})

	payer, refused, most, slowest := wallet(t), 0, 0, time.Duration(0)
	for i := range rounds {
		r := e.send(http.MethodPost, "/api/bid", bid("1.00"), from(100)...)
		began := time.Now()
		r = e.send(http.MethodPost, "/api/bid", bid("1.00"), from(100, "Authorization", signedBy(payer, e.challenge(r)))...)
		slowest = max(slowest, time.Since(began))
		if r.Status == http.StatusOK {
			refused = 0
		} else if refused++; refused == 1 {
			t.Logf("%d %s", r.Status, r.Body)
		}
		most = max(most, refused)
		hold(all[forward.MaxPayments+i])
		if i > 0 {
			continue
		}
		a := await(t, "a payment that is let go", letGo)
		var payload struct{ Signature string }
		if cred, _, err := mpp.ParseAuthorization([]string{a.credential}); err != nil || json.Unmarshal(cred.Payload, &payload) != nil {
			t.Fatal(err)
		}
		freed.Store(payload.Signature, true)
		held.Go(func() {
			for first := time.Now(); ; time.Sleep(time.Second) {
				r, err := o.try(http.MethodPost, "/api/bid", bid("1.50"), "Content-Type", "application/json", "Authorization", a.credential)
				switch {
				case err == nil && r.Status == http.StatusOK && r.Header.Get("Payment-Receipt") != "":
					return
				case err != nil || r.Status != http.StatusServiceUnavailable || time.Since(first) > longEnough:
					t.Errorf("a payment that was let go: %v, %d %s", err, r.Status, r.Body)
					return
				}
			}
		})
	}
	t.Logf("%d payments of %d wallets held: %d refusals in a row of %d for another payer, who waited %s at most", forward.MaxPayments, wallets, most, rounds, slowest)
	if most > 0 {
		t.Errorf("%d payments in a row were refused", most)
	}
}

// TestACrowdOfFollowersLeavesRoomForEdges has 48 clients, each of a network of its own, take all the
// streams of checkpoints that they get. An edge that nobody knows begins beside them, and one that
// was there goes on: what a payer has bought is read at both.
func TestACrowdOfFollowersLeavesRoomForEdges(t *testing.T) {
	t.Parallel()
	const proxy = "127.0.0.9"
	o := ring(t, "--core", "native", "--trusted-proxy", proxy)
	slug := o.join("Target", "agent", "")
	old := o.follow(t, o.verifier(), "--core", "native")
	statuses := map[int]int{}
	for i := range 48 {
		for range 17 {
			from := net.Dialer{Timeout: longEnough, LocalAddr: &net.TCPAddr{IP: net.ParseIP(proxy)}}
			c, err := from.Dial("tcp", strings.TrimPrefix(o.base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			fmt.Fprintf(c, "GET /sync/checkpoint HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nX-Forwarded-For: 100.%d.0.1\r\n\r\n", i)
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			statuses[res.StatusCode]++
		}
	}
	t.Logf("statuses of the crowd: %v", statuses)
	if statuses[http.StatusOK] < 256 || statuses[http.StatusTooManyRequests] == 0 || len(statuses) != 2 {
		t.Errorf("statuses of the crowd: %v", statuses)
	}
	begins := o.follow(t, o.verifier(), "--core", "native")
	for range 3 {
		o.bid(slug, "1.00")
		alike(t, o, old, begins)
	}
	for _, e := range []*origin{old, begins} {
		if log := e.log.String(); strings.Contains(log, "429") {
			t.Errorf("an edge was refused:\n%s", log)
		}
	}
}
