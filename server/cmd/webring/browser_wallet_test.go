package main

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/paytest"
)

// TestAWalletPaysInABrowser joins, bids and changes a member in real browsers, with a wallet
// that is a real signer, against a real chain: through an origin that ends in the middle, and
// through an edge. What the chain has moved is what the ledger counts, once each. What a person
// has to do for it is counted: at most six actions to join, and three to bid.
func TestAWalletPaysInABrowser(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	sites, secret := newOwnSites(t), secretFile(t)
	sites.show(sites.pages, "by-hand.strangers.test", "<title>&lt;img src=x onerror=alert(1)&gt;</title>")
	s := evmShop(t, append([]string{"--edge-secret-file", secret, "--fetch-map", "*.test=" + sites.server.Listener.Addr().String()}, sites.args()...)...)
	e := s.follow(t, s.verifier(), "--core", "native", "--edge-secret-file", secret)
	owner, payer, poor := s.payer(), s.payer(), freshWallet(t)
	key := func(w paytest.EVM) string { return "0x" + hex.EncodeToString(crypto.FromECDSA(w.Key)) }
	plan := map[string]any{"chromium": chromium, "base": s.base, "edge": e.base, "owner": key(owner), "payer": key(payer), "poor": key(poor), "smart": s.smart(payer).Hex()}
	if path := firefox(); path != "" && *wholeBrowser {
		plan["firefox"] = path
	} else {
		t.Log("Firefox pays only with -browser.whole, as in make soak, and where it is installed: it does again a part of what Chromium does")
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the origin's log:\n%s", s.log)
		}
	})
	drive(t, "pay.mjs", plan, 1, func(do string) {
		switch word, rest, _ := strings.Cut(do, " "); word {
		case "kill":
			s.kill()
		case "launch":
			s.launch()
		case "doom":
			s.doomed("receipt")
		case "relaunch":
			s.waitGone()
			s.launch()
		case "show": // a token, which the site of the member shows
			sites.show(sites.files, "by-hand.strangers.test", rest)
		case "pay": // another payer comes first
			path, body, _ := strings.Cut(rest, " ")
			if r := s.present(path, body, s.payer().Header(s.offer(path, body))); r.Status/100 != 2 {
				t.Errorf("POST %s %s: %d %s", path, body, r.Status, r.Body)
			}
		case "note": // actions and seconds of a person
			t.Log(rest)
		case "count":
			paid, count, _ := strings.Cut(rest, " ")
			total := 0
			for _, row := range at(t, s.get("/api/leaderboard").document(t), "leaderboard").([]any) {
				var dollars, cents int
				if _, err := fmt.Sscanf(at(t, row, "paid_total_usd").(string), "%d.%d", &dollars, &cents); err != nil {
					t.Error(err)
				}
				total += 100*dollars + cents
			}
			if got := fmt.Sprintf("%d.%02d", total/100, total%100); got != paid {
				t.Errorf("the ledger counts %v, %s was paid", got, paid)
			}
			if got := fmt.Sprintf("%d.%02d", s.authorized()/100, s.authorized()%100); got != paid {
				t.Errorf("the chain has moved %s, not %s", got, paid)
			}
			if got := fmt.Sprint(s.submissions()); got != count {
				t.Errorf("%s submissions, not %s", got, count)
			}
		default:
			t.Errorf("the program asks for %q", do)
		}
	})
}
