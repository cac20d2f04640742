package main

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"webring/server/devchain"
	"webring/server/devchain/faults"
	"webring/server/paid/form"
	"webring/server/pay/paytest"
)

var (
	chaosTime    = flag.Duration("chaos.time", 15*time.Second, "how long wallets pay through a faulty chain while the origin is killed")
	chaosSeed    = flag.Uint64("chaos.seed", 0, "seed of the chaos; 0 draws one. Timing is not repeated by it")
	chaosWallets = flag.Int("chaos.wallets", 20, "wallets that pay at the same time")
)

// chaos is what the payers know: what they were told was granted.
type chaos struct {
	o     *origin
	nodes []*origin // where payers go: the origin, and an edge of it
	until time.Time

	mu         sync.Mutex
	totals     map[string]int64 // by slug, of what was granted
	references []string         // of receipts that were received
	asked      int              // requests that somebody wanted carried out
	refused    int              // of those, given up by their payer, with nothing charged
	sightings  int              // grants that their payer has read at the edge
	told       map[string]int   // answers by status
}

// wish is what one payer wants.
type wish struct {
	at               *origin
	path, body, slug string
	cents            int64
}

// TestChaos has many wallets register and bid, half of them at an edge, through a
// chain that fails and lies, while the origin is killed again and again. Whoever pays is as stubborn
// as the truth allows: it presents its credential until it is told what became
// of it, and signs another only when nothing was charged. Then the books must
// balance to the cent, member by member, and nothing may be stuck.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-chaos.seed=%d", seed)
	c, _ := chain(t)
	proxy, err := faults.New(c.RPC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	secret := secretFile(t)
	o := start(t, "--tempo-rpc", proxy.URL, "--core", "native", "--edge-secret-file", secret)
	edge := o.follow(t, o.verifier(), "--core", "native", "--edge-secret-file", secret)
	x := &chaos{o: o, nodes: []*origin{o, edge}, totals: map[string]int64{}, told: map[string]int{}}
	for i := range 3 {
		x.totals[o.join(fmt.Sprintf("Founder %d", i), "agent", "")] = 100
	}
	proxy.Follow(faults.Dice(seed, 5, append(append([]faults.Fault{faults.Swallow, faults.Later}, faults.Dull...), faults.Lies...)...))
	x.until = time.Now().Add(*chaosTime)

	var payers sync.WaitGroup
	for i := range *chaosWallets {
		w := wallet(t)
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		payers.Go(func() { x.pay(t, w, i, random) })
	}
	// What is still open at the end is settled by an honest chain.
	kills := 0
	random := rand.New(rand.NewPCG(seed, 1<<32))
	for time.Now().Before(x.until) {
		time.Sleep(time.Duration(1500+random.IntN(5000)) * time.Millisecond)
		o.kill()
		kills++
		time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
		o.boot()
	}
	proxy.Follow(faults.Pass)
	payers.Wait()
	if t.Failed() {
		t.Fatalf("proxy: %s\n%s", proxy.Summary(), o.log)
	}
	o.confirmed()
	o.balanced()
	x.agrees(t)
	eventually(t, "the edge at the end of the ledger", time.Minute, func() bool { return edge.position() == o.position() })
	alike(t, o, edge)
	t.Logf("%d kills; %d wishes, %d given up, %d seen at the edge; answers %v; faults: %s", kills, x.asked, x.refused, x.sightings, x.told, proxy.Summary())
}

// pay carries out one wish after the other.
func (x *chaos) pay(t *testing.T, w devchain.Account, payer int, random *rand.Rand) {
	for n := 0; time.Now().Before(x.until); n++ {
		var wanted wish
		switch cents := int64(100 + random.IntN(400)); random.IntN(3) {
		case 0:
			slug := fmt.Sprintf("payer-%d-%d", payer, n)
			wanted = wish{nil, "/api/register", fmt.Sprintf(`{"name":%q,"url":"https://%s.dev/","kind":"agent"}`, slug, slug), slug, 100}
		case 1:
			slug := fmt.Sprintf("bidder-%d-%d", payer, n)
			wanted = wish{nil, "/api/register", fmt.Sprintf(`{"name":%q,"url":"https://%s.dev/","kind":"mcp","bid":"%d.%02d"}`, slug, slug, cents/100, cents%100), slug, 100 + cents}
		default:
			slug := fmt.Sprintf("founder-%d", random.IntN(3))
			wanted = wish{nil, "/api/bid", fmt.Sprintf(`{"member":%q,"amount":"%d.%02d"}`, slug, cents/100, cents%100), slug, cents}
		}
		wanted.at = x.nodes[payer%len(x.nodes)]
		granted, err := x.carryOut(t, w, payer, wanted, random)
		if err != nil {
			t.Errorf("%s %s: %v", wanted.path, wanted.body, err)
			return
		}
		x.mu.Lock()
		x.asked++
		if granted {
			x.totals[wanted.slug] += wanted.cents
		} else {
			x.refused++
		}
		x.mu.Unlock()
	}
}

// carryOut tries until the wish is granted or, with nothing charged, cannot be.
func (x *chaos) carryOut(t *testing.T, w devchain.Account, payer int, wanted wish, random *rand.Rand) (granted bool, err error) {
	deadline := time.Now().Add(patient)
	for time.Now().Before(deadline) {
		r, ok := x.send(wanted)
		switch {
		case !ok || r.Status == http.StatusServiceUnavailable:
			continue
		case r.Status != http.StatusPaymentRequired:
			return false, fmt.Errorf("unpaid: %d %s", r.Status, r.Body)
		}
		ch, err := readChallenge(r)
		if err != nil {
			return false, err
		}
		ahead := int64(7 + random.IntN(15))
		credential := ""
		if payer%3 == 0 { // a client that counts nonces
			credential = countedBy(t, w, ch)
		} else {
			credential = signedBy(w, ch, func(d *paytest.TempoDraft) { d.ValidBefore = uint64(time.Now().Unix() + ahead) })
		}
		granted, final, err := x.present(wanted, credential, deadline)
		if final || err != nil {
			return granted, err
		}
	}
	return false, fmt.Errorf("not settled after %s", patient)
}

// present sends one credential until its fate is known. It is final unless
// another may be signed.
func (x *chaos) present(wanted wish, credential string, deadline time.Time) (granted, final bool, err error) {
	for time.Now().Before(deadline) {
		r, ok := x.send(wanted, "Authorization", credential)
		var doc struct{ Code, Outcome string }
		if ok && r.Status >= 300 {
			if err := json.Unmarshal(r.Body, &doc); err != nil {
				return false, false, err
			}
		}
		switch {
		case !ok:
			continue
		case r.Status < 300:
			raw, err := base64.RawURLEncoding.DecodeString(r.Header.Get("Payment-Receipt"))
			var receipt struct{ Reference string }
			if err == nil {
				err = json.Unmarshal(raw, &receipt)
			}
			x.mu.Lock()
			x.references = append(x.references, receipt.Reference)
			x.mu.Unlock()
			if err == nil {
				err = x.seen(wanted, r)
			}
			return true, true, err
		case r.Status == http.StatusServiceUnavailable:
			if wait := r.Header.Get("Retry-After"); len(wait) > 2 { // barred for minutes: one of its payments failed
				return false, true, nil
			}
		case r.Status == http.StatusPaymentRequired:
			return false, false, nil
		case doc.Code == "credential_reused" && doc.Outcome == "applied":
			return true, true, nil
		case doc.Code == "credential_reused" && doc.Outcome == "failed":
			return false, false, nil
		case doc.Code == "credential_reused" && doc.Outcome == "pending":
		default:
			return false, false, fmt.Errorf("presented: %d %s", r.Status, r.Body)
		}
	}
	return false, false, fmt.Errorf("a credential without an answer after %s", patient)
}

// seen holds that who has paid sees it at once where it was paid, unless the
// answer said that this node is behind.
func (x *chaos) seen(wanted wish, granted reply) error {
	if wanted.at == x.o || granted.Header.Get("Webring-Stale") != "" {
		return nil
	}
	r, err := wanted.at.try(http.MethodGet, "/api/ring/"+wanted.slug, nil)
	if err != nil {
		return err
	}
	at, _ := strconv.ParseUint(r.Header.Get("Webring-Seq"), 10, 64)
	want, err := strconv.ParseUint(granted.Header.Get("Webring-Seq"), 10, 64)
	if err != nil || r.Status != http.StatusOK || at < want {
		return fmt.Errorf("paid at position %d, %v; at %d the edge reads %d %s", want, err, at, r.Status, r.Body)
	}
	x.mu.Lock()
	x.sightings++
	x.mu.Unlock()
	return nil
}

// send asks once, and waits a little after what is no answer.
func (x *chaos) send(wanted wish, header ...string) (r reply, ok bool) {
	r, err := wanted.at.try(http.MethodPost, wanted.path, []byte(wanted.body), append(header, "Content-Type", "application/json")...)
	what := "none"
	if err == nil {
		what = fmt.Sprint(r.Status)
	}
	x.mu.Lock()
	x.told[what]++
	x.mu.Unlock()
	if err != nil || r.Status == http.StatusServiceUnavailable {
		time.Sleep(300 * time.Millisecond)
	}
	return r, err == nil
}

// agrees holds what payers were told against what the ring shows.
func (x *chaos) agrees(t *testing.T) {
	t.Helper()
	shown := map[string]int64{}
	for offset := 0; ; offset += 500 {
		rows := at(t, x.o.get(fmt.Sprintf("/api/leaderboard?limit=500&offset=%d", offset)).document(t), "leaderboard").([]any)
		if len(rows) == 0 {
			break
		}
		for _, row := range rows {
			shown[at(t, row, "slug").(string)] = usd(t, at(t, row, "paid_total_usd"))
		}
	}
	for slug, cents := range x.totals {
		if shown[slug] != cents {
			t.Errorf("%s has %d cents, and its payers were granted %d", slug, shown[slug], cents)
		}
	}
	if len(shown) != len(x.totals) {
		t.Errorf("%d members, and %d were granted", len(shown), len(x.totals))
	}
	out, err := x.o.operate("payments", "list", "--all")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	applied := map[string]bool{}
	for _, line := range strings.Split(out, "\n") {
		if strings.HasPrefix(line, "applied ") {
			for _, word := range strings.Fields(line) {
				applied[word] = true
			}
		}
	}
	for _, reference := range x.references {
		if !applied[reference] {
			t.Errorf("a receipt was given for %s, which is not in the ledger", reference)
		}
	}
}

// usd reads an amount of a document as cents.
func usd(t *testing.T, v any) int64 {
	t.Helper()
	text, _ := v.(string)
	cents, err := form.ParseUSD(text)
	if err != nil {
		t.Fatalf("%v is no amount", v)
	}
	return cents
}
