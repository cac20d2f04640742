package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/server/devchain/faults"
	"webring/server/pay/mpp"
	"webring/server/pay/paytest"
)

// steps are the places on the paid path at which the power may fail, in order.
// A step that is met twice is named by its turn: the first group commit of a
// payment is the reservation, the second the event.
var steps = []string{
	"simulated", // the chain said yes; nothing is stored
	"commit:1",  // about to store the reservation
	"head:1",    // stored, the head not yet written
	"publish:1", // head written, not yet published
	"reserved",  // about to send
	"broadcast", // sent
	"receipt",   // settled
	"commit:2",  // about to store event and answer
	"head:2",
	"publish:2",
	"applied", // stored, the answer not yet written
}

// fates are what becomes of the transaction, as the proxy in between has it.
var fates = []struct {
	name string
	plan faults.Plan
}{
	{"chain fine", faults.Pass},
	{"chain silent", faults.On(faults.Sends, faults.DropBefore)},
	{"mined, unheard", faults.On(faults.Sends, faults.DropAfter)},
	{"not mined", faults.On(faults.Sends, faults.Swallow)},
	{"mined later", faults.On(faults.Sends, faults.Later)},
}

// kinds are what payers sign: the expiring nonce of the reference client, or the next nonce of
// their account, with or without a validBefore.
const expiring, withEnd, endless = "the expiring nonce", "the next nonce, with an end", "the next nonce, without an end"

var kinds = []string{expiring, withEnd, endless}

// payable are the paid requests that the matrix is made of.
var payable = []struct {
	name, path, body string
	cents            int64
}{
	{"register", "/api/register", `{"name":"Phoenix","url":"https://phoenix.dev/","kind":"agent"}`, 100},
	{"register with bid", "/api/register", `{"name":"Phoenix","url":"https://phoenix.dev/","kind":"agent","bid":"2.00"}`, 300},
	{"bid", "/api/bid", `{"member":"phoenix","amount":"1.50"}`, 150},
}

var (
	crashRuns    = flag.Int("crash.runs", 10, "runs of the crash matrix; it has 165 cells, and with so many runs or more each is run in turn")
	crashSeed    = flag.Uint64("crash.seed", 0, "seed of the crash matrix; 0 draws one")
	crashWorkers = flag.Int("crash.workers", 4, "runs of the crash matrix at a time")
)

// TestPowerFailsOnThePaidPath ends the process with SIGKILL at the steps of a
// payment, or at a moment of its own where the chain's fate keeps it from the
// step. Then there is exactly one effect, or none and no transfer; the books
// balance; and the same credential gets the truth.
func TestPowerFailsOnThePaidPath(t *testing.T) {
	t.Parallel()
	seed := *crashSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-crash.seed=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	cells := len(payable) * len(steps) * len(fates)
	order := random.Perm(cells)
	room := make(chan struct{}, *crashWorkers)
	var group sync.WaitGroup
	chain(t)
	for run := range *crashRuns {
		cell, seed := order[run%cells], random.Uint64()
		name := fmt.Sprintf("%03d %s, %s, at %s", run, payable[cell%3].name, fates[cell/3%5].name, steps[cell/15])
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			t.Run(name, func(t *testing.T) { crash(t, cell, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
	group.Wait()
}

func crash(t *testing.T, cell int, random *rand.Rand) {
	c, _ := chain(t)
	op, fate, step := payable[cell%3], fates[cell/3%5], steps[cell/15]
	proxy, err := faults.New(c.RPC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	o := start(t, "--tempo-rpc", proxy.URL, "--core", "native") // which starts quickly
	defer func() {
		if t.Failed() {
			t.Logf("proxy: %s\n%s", proxy.Summary(), o.log)
		}
	}()
	if op.path == "/api/bid" {
		o.join("Phoenix", "agent", "")
		o.confirmed() // or the next process would begin with that
	}
	before := o.received()
	// A fresh process, so that the turns of the steps are counted from this
	// payment on.
	o.settle()
	o.env = []string{"WEBRING_FAILPOINT=" + step}
	o.launch()

	// On a busy machine the transaction can be looked at too late. Then nothing has happened yet:
	// the payer signs another if the ring knows that, and else asks again, as after a crash.
	var credential string
	var validBefore int64
	w, kind := wallet(t), kinds[random.IntN(len(kinds))]
	if fate.name == "not mined" && kind == endless {
		kind = expiring // nothing would end it
	}
	t.Log("paid by", kind)
	for answered := true; answered; {
		proxy.Follow(faults.Pass)
		ch := o.challenge(o.post(op.path, op.body))
		proxy.Follow(fate.plan)
		validBefore = time.Now().Unix() + 7
		ends := func(d *paytest.TempoDraft) { d.ValidBefore = uint64(validBefore) }
		switch kind {
		case expiring:
			credential = signedBy(w, ch, ends)
		case endless:
			credential = countedBy(t, w, ch)
		default:
			credential = countedBy(t, w, ch, ends)
		}
		got := make(chan reply, 1)
		go func() {
			r, err := o.try(http.MethodPost, op.path, []byte(op.body), "Authorization", credential, "Content-Type", "application/json")
			if err == nil {
				got <- r
			}
		}()
		answered = false
		select {
		case <-o.gone:
		case r := <-got:
			answered = r.Status == http.StatusPaymentRequired && r.code(t) == "payment_expired"
			pending := r.Status == http.StatusServiceUnavailable && r.code(t) == "payment_pending" && time.Until(time.Unix(validBefore, 0)) < mpp.MinAhead
			if !pending && r.Status != http.StatusPaymentRequired && r.Status/100 != 2 {
				t.Errorf("the first answer: %d %s\n%s", r.Status, r.Body, o.log)
			}
		case <-time.After(time.Duration(3000+random.IntN(6000)) * time.Millisecond):
		}
	}
	o.kill()
	if fate.name == "chain silent" {
		proxy.Follow(faults.All(faults.DropBefore))
		defer time.AfterFunc(time.Duration(random.IntN(10_000))*time.Millisecond, func() { proxy.Follow(faults.Pass) }).Stop()
	}

	o.env = nil
	o.launch()
	var r reply
	eventually(t, "the truth", 3*time.Minute, func() bool {
		var err error
		r, err = o.try(http.MethodPost, op.path, []byte(op.body), "Authorization", credential, "Content-Type", "application/json")
		if err != nil {
			t.Fatal(err)
		}
		if r.Status == 503 && r.Header.Get("Retry-After") == "" {
			t.Fatalf("503 %s", r.Body)
		}
		return r.Status != 503
	})
	granted := r.Status/100 == 2
	if r.Status == 409 {
		granted = at(t, r.document(t), "outcome") == "applied"
	}
	if !granted && r.Status != 402 && (r.Status != 409 || at(t, r.document(t), "outcome") != "failed") {
		t.Fatalf("the retry: %d %s", r.Status, r.Body)
	}

	// Nothing can be mined any more.
	eventually(t, "a later block", time.Minute, func() bool {
		var block struct{ Timestamp hexutil.Uint64 }
		err := c.Call(t.Context(), &block, "eth_getBlockByNumber", "latest", false)
		return err == nil && int64(block.Timestamp) > validBefore+2
	})
	proxy.Follow(faults.Pass)
	o.confirmed()
	want := int64(0)
	if granted {
		want = op.cents
	}
	if paid := o.received() - before; paid != want {
		t.Errorf("%d cents were paid, and the answer was %d %s", paid, r.Status, r.Body)
	}
	o.balanced()
	if r := o.post(op.path, op.body, "Authorization", credential); granted && (r.Status != 409 || r.code(t) != "credential_reused") {
		t.Errorf("once more: %d %s", r.Status, r.Body)
	}
}

var paidUSD = regexp.MustCompile(`paid ([0-9]+)\.([0-9]{2}) USD`)

// balanced holds the ledger against itself and against the chain: the sum of
// the events is what the recipient has, each event has its transfer, and each
// transfer its event.
func (o *origin) balanced() {
	o.t.Helper()
	out, err := o.operate("verify", "--chain")
	m := paidUSD.FindStringSubmatch(out)
	if err != nil || m == nil || !strings.Contains(out, "everything agrees") || !strings.Contains(out, " 0 without an answer") || !strings.Contains(out, " 0 open") {
		o.t.Errorf("%v\n%s", err, out)
		return
	}
	if booked, _ := strconv.ParseInt(m[1]+m[2], 10, 64); booked != o.received() {
		o.t.Errorf("the books hold %d cents, the recipient %d", booked, o.received())
	}
	if out, err := o.operate("payments", "scan", "--since", "2h"); err != nil || strings.Contains(out, "0x") {
		o.t.Errorf("money without an event: %v\n%s", err, out)
	}
}

// serves starts the origin, which may refuse, and gives what it answers.
func (o *origin) serves(path string) (body string, served bool) {
	o.t.Helper()
	o.boot()
	eventually(o.t, "a start or a refusal", time.Minute, func() bool {
		select {
		case <-o.gone:
			return true
		default:
		}
		r, err := o.try(http.MethodGet, path, nil)
		body, served = string(r.Body), err == nil && r.Status == http.StatusOK
		return served
	})
	return body, served
}
