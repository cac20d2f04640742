package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/paytest"
)

// TestAWalletPaysInABrowser joins, bids and changes a member in real browsers, with a wallet
// that is a real signer, against a real chain: through an origin that ends in the middle, and
// through an edge. What the chain has moved is what the ledger counts, once each.
func TestAWalletPaysInABrowser(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	sites, secret := newOwnSites(t), secretFile(t)
	s := evmShop(t, append([]string{"--edge-secret-file", secret}, sites.args()...)...)
	e := s.follow(t, s.verifier(), "--core", "native", "--edge-secret-file", secret)
	owner, payer, poor := s.payer(), s.payer(), freshWallet(t)
	key := func(w paytest.EVM) string { return "0x" + hex.EncodeToString(crypto.FromECDSA(w.Key)) }
	plan := map[string]any{"chromium": chromium, "base": s.base, "edge": e.base, "owner": key(owner), "payer": key(payer), "poor": key(poor)}
	if path, err := exec.LookPath("firefox-esr"); err == nil {
		plan["firefox"] = path
	} else {
		t.Log("Firefox is not looked at: apt install firefox-esr")
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the origin's log:\n%s", s.log)
		}
	})
	drive(t, "pay.mjs", plan, func(do string) {
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

// drive is look for a program that asks for things while it runs.
func drive(t *testing.T, program string, plan map[string]any, do func(what string)) {
	t.Helper()
	if dir := os.Getenv("WEBRING_SHOTS"); dir != "" {
		plan["shots"] = dir
	}
	if _, err := os.ReadFile(filepath.Join(browserFolder, program)); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", program, string(text))
	cmd.Dir = browserFolder
	errs := &logBuffer{}
	cmd.Stderr = errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var line struct {
		Do       string
		Checks   int
		Findings []struct{ Where, What, More string }
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line.Do = ""
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Errorf("%s: %s", program, lines.Text())
			continue
		}
		if line.Do != "" {
			do(line.Do)
			fmt.Fprintln(in, "done")
		}
	}
	if err := cmd.Wait(); err != nil || line.Checks == 0 {
		t.Fatalf("%s: %v: %s", program, err, errs)
	}
	for _, f := range line.Findings {
		t.Errorf("%s: not so: %s: %s", f.Where, f.What, f.More)
	}
	t.Logf("%s: %d checks", program, line.Checks)
}
