package main

import (
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/server/devchain"
	"webring/server/devchain/faults"
	"webring/server/pay/mpp"
	"webring/server/pay/paytest"
)

// endow gives an account so many base units of the currency, for a challenge of this
// ring's.
func (o *origin) endow(to devchain.Account, units int64) {
	o.t.Helper()
	c, _ := chain(o.t)
	give := paytest.Tempo{Key: wallet(o.t).Key}.Transaction(o.challenge(o.post("/api/register", registration(o.t, nil))),
		func(d *draft) { d.Recipient, d.Amount = to.Address, big.NewInt(units) })
	var receipt struct{ Status string }
	if err := c.Call(o.t.Context(), &receipt, "eth_sendRawTransactionSync", hexutil.Bytes(give)); err != nil || receipt.Status != "0x1" {
		o.t.Fatalf("%v, %v", receipt, err)
	}
}

// TestOneWalletDoesNotHoldManyURLs has one wallet sign eight registrations that are
// valid for nearly as long as they may be, and somebody else ask for each URL. With money
// for one of them it holds that one until its payment is mined. With money for the fees
// alone and a node that says yes to whatever is simulated, it holds one until the block
// is deep in which the payment is mined as a revert, not until that has run out: some
// seconds of the 29. A URL whose payment is refused is held while that is found out, which
// takes a busy machine seconds too.
func TestOneWalletDoesNotHoldManyURLs(t *testing.T) {
	t.Parallel()
	const brief = 5 * time.Second
	for _, attack := range []struct {
		name  string
		units int64
		fault faults.Fault
	}{{"money for one", 1_350_000, faults.None}, {"money for the fees, and a node that says yes", 900_000, faults.Assent}} {
		t.Run(attack.name, func(t *testing.T) {
			t.Parallel()
			c, _ := chain(t)
			p, err := faults.New(c.RPC)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			o := start(t, append(freely, "--tempo-rpc", p.URL)...)
			mallory := freshAccount(t)
			o.endow(mallory, attack.units)
			var bodies []string
			var challenges []mpp.Challenge
			for i := range 8 {
				bodies = append(bodies, registration(t, map[string]any{"url": fmt.Sprintf("https://site-%d.dev/", i)}))
				challenges = append(challenges, o.challenge(o.post("/api/register", bodies[i])))
			}
			p.Follow(faults.All(attack.fault))

			var all sync.WaitGroup
			held := make([]time.Duration, len(bodies))
			began := time.Now()
			for i, body := range bodies {
				all.Go(func() {
					// Tempo mines no transaction of this kind more than 30 s before its end.
					long := func(d *draft) { d.ValidBefore = uint64(time.Now().Unix() + 29) }
					o.post("/api/register", body, "Authorization", signedBy(mallory, challenges[i], long))
				})
				all.Go(func() {
					last := began
					for time.Since(began) < 8*time.Second || time.Since(last) > brief && time.Since(began) < 2*time.Minute {
						switch r := o.post("/api/register", body); {
						case r.Status == 402 || r.Status == 409 && r.code(t) == "already_registered":
							last = time.Now()
						case r.Status != 503 || strings.Contains(string(r.Body), "not pay again") || !strings.Contains(string(r.Body), "Somebody else is registering this address"):
							t.Errorf("%d %s", r.Status, r.Body)
						}
						held[i] = max(held[i], time.Since(last))
						time.Sleep(250 * time.Millisecond)
					}
				})
			}
			all.Wait()
			many, longest := 0, time.Duration(0)
			for _, d := range held {
				longest = max(longest, d)
				if d > brief {
					many++
				}
			}
			t.Logf("%d URLs were without a 402 for more than %v; the longest for %v", many, brief, longest.Round(100*time.Millisecond))
			if longest > 20*time.Second || many > 1 {
				t.Errorf("held: %v\n%s", held, o.log)
			}
		})
	}
}

// TestASiteEndsThatItsURLIsHeld has the payments of two wallets for a URL fail. A newcomer is
// kept out then, unless the site names its account: that joins at once. So does an account
// that has paid here, for another URL.
func TestASiteEndsThatItsURLIsHeld(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	p, err := faults.New(c.RPC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	sites := newOwnSites(t)
	o := start(t, append(append(append([]string{}, freely...), "--tempo-rpc", p.URL), sites.args()...)...)
	const mine, other = "mine.strangers.test", "other.strangers.test"
	body := func(host string) string {
		return fmt.Sprintf(`{"name":"Mine","url":"http://%s/","kind":"website"}`, host)
	}
	patron := wallet(t)
	o.list(patron, "Patron", "patron.strangers.test")
	p.Follow(faults.All(faults.Assent))
	var all sync.WaitGroup
	for _, host := range []string{mine, other} {
		all.Go(func() {
			for range 2 {
				mallory := freshAccount(t)
				o.endow(mallory, 900_000)
				r := o.post("/api/register", body(host), "Authorization", signedBy(mallory, o.challenge(o.post("/api/register", body(host)))))
				r.does(t, 402, "verification_failed")
			}
		})
	}
	all.Wait()
	p.Follow(faults.All(faults.None))

	owner := freshAccount(t)
	o.endow(owner, 2_000_000)
	told := o.post("/api/register", body(mine), "Wallet-Account", owner.Address.Hex()).does(t, 402, "payment_required")
	received := o.received()
	out := o.post("/api/register", body(mine), "Authorization", signedBy(owner, o.challenge(told))).does(t, 503, "payment_pending")
	detail, _ := out.document(t)["detail"].(string)
	_, token, found := strings.Cut(detail, "by the line ")
	if token, _, _ = strings.Cut(token, " "); !found || !strings.EqualFold(token, owner.Address.Hex()) {
		t.Fatalf("%s", out.Body)
	}
	sites.show(sites.files, mine, token+"\n")
	again := o.post("/api/register", body(mine), "Wallet-Account", owner.Address.Hex()).does(t, 402, "payment_required")
	o.post("/api/register", body(mine), "Authorization", signedBy(owner, o.challenge(again))).does(t, 201, "")
	o.list(patron, "Other", other)
	if got := o.received() - received; got != 200 {
		t.Errorf("%d cents were charged", got)
	}
}
