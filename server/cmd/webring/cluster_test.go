package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"webring/server/devchain"
	"webring/server/ledger"
)

// bidder pays for a member in dollars, as a client does that is told to wait: it repeats what
// it has sent until it gets an outcome, and never pays anew.
type bidder struct {
	t    *testing.T
	slug string
	paid int64 // cents, of all that was taken

	owner   devchain.Account // of the member
	renamed []string         // what it was called, in order

	next uint64   // since which number news are polled
	bids int      // that they have told of
	told []string // renames, by what they say
}

// sign has the owner sign a change of the member's name, for which a node asks.
func (b *bidder) sign(o *origin, name string) (body, credential string) {
	b.t.Helper()
	body = fmt.Sprintf(`{"name":%q}`, name)
	b.renamed = append(b.renamed, name)
	return body, o.signAs(b.owner, http.MethodPatch, "/api/ring/"+b.slug, body)
}

// rename sends a change through a node until it has its outcome.
func (b *bidder) rename(o *origin, body, credential string) error {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		r, err := o.try(http.MethodPatch, "/api/ring/"+b.slug, []byte(body), "Content-Type", "application/json", "Authorization", credential)
		switch {
		case err == nil && (r.Status == http.StatusOK || r.Status == http.StatusConflict && strings.Contains(string(r.Body), `"credential_reused"`)):
			return nil
		case err == nil && r.Status != http.StatusServiceUnavailable || time.Since(began) > longEnough:
			return fmt.Errorf("a change was not taken: %v, %d %s", err, r.Status, r.Body)
		}
	}
}

// poll reads the news of the ring at a node, from where it has stopped at another one.
func (b *bidder) poll(o *origin) {
	b.t.Helper()
	for more := true; more; {
		var d struct {
			Events []struct {
				ID           uint64
				Type, Member string
			}
			Next           uint64
			More, Complete bool
		}
		r := o.get(fmt.Sprintf("/api/events?since=%d", b.next))
		if r.Status != http.StatusOK || json.Unmarshal(r.Body, &d) != nil || !d.Complete {
			b.t.Fatalf("news since %d: %d %s", b.next, r.Status, r.Body)
		}
		for _, e := range d.Events {
			if e.ID <= b.next {
				b.t.Errorf("%+v comes after %d", e, b.next)
			}
			switch e.Type {
			case "bid":
				b.bids++
			case "changed":
				b.told = append(b.told, e.Member)
			}
		}
		b.next, more = d.Next, d.More
	}
}

func (b *bidder) body() string { return fmt.Sprintf(`{"member":%q,"amount":"1"}`, b.slug) }

// bid pays through a node, and gives how long that took.
func (b *bidder) bid(o *origin, when string) time.Duration {
	b.t.Helper()
	began, w := time.Now(), wallet(b.t)
	for {
		p, err := o.tryPay(w, "/api/bid", b.body())
		r := reply{p.Status, p.Header, p.Body}
		for err == nil && p.Authorization != "" && (r.Status == http.StatusServiceUnavailable || r.Status == http.StatusConflict && strings.Contains(string(r.Body), `"outcome":"pending"`)) {
			r, err = o.try(http.MethodPost, "/api/bid", []byte(b.body()), "Content-Type", "application/json", "Authorization", p.Authorization)
			time.Sleep(50 * time.Millisecond)
			if time.Since(began) > longEnough {
				b.t.Fatalf("a bid %s was not taken: %d %s\n%s", when, r.Status, r.Body, o.log)
			}
		}
		switch {
		case err == nil && (r.Status == http.StatusOK || r.Status == http.StatusConflict && strings.Contains(string(r.Body), `"outcome":"applied"`)):
			b.paid += 100
			return time.Since(began)
		case err != nil || r.Status != http.StatusServiceUnavailable:
			b.t.Fatalf("a bid %s: %v, %d %s\n%s", when, err, r.Status, r.Body, o.log)
		case r.Header.Get("Retry-After") == "":
			b.t.Errorf("a bid %s is refused without a Retry-After: %s", when, r.Body)
		}
		if time.Since(began) > longEnough {
			b.t.Fatalf("a bid %s was not taken: %d %s\n%s", when, r.Status, r.Body, o.log)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// A ring of three origins goes on when its leader ends in the middle of a payment, when it is
// stopped past its lease and woken, when it hands over, when etcd has no majority for a
// while, and when the leader is ended by its operator. Payments through every node count,
// each once, an answer that was given is given again by whoever leads, and no read fails.
func TestAClusterOutlivesItsLeader(t *testing.T) {
	t.Parallel()
	c := makeCluster(t, 3)
	leads := c.nodes[0]
	// Its fourth payment has settled on the chain, and has no effect yet.
	leads.env = []string{"WEBRING_FAILPOINT=receipt:4"}
	c.launch()
	others := c.nodes[1:]
	readers := c.read()
	index := func(o *origin) int { return slices.Index(c.nodes, o) }

	checked, err := invoke(t, append(slices.Clone(others[0].args), "--check", "--data", others[0].data)...).CombinedOutput()
	if said := string(checked); err != nil || !strings.Contains(said, "the ring "+clusterRing+" is at transaction") || !strings.Contains(said, "others reach this node at "+others[0].base) {
		t.Errorf("a check beside a node: %v\n%s", err, said)
	}

	// A standby passes a payment on, and shows at once what was paid for.
	b := &bidder{t: t, paid: 300, owner: wallet(t)}
	joined := others[0].pay(b.owner, "/api/register", `{"name":"Ada","url":"https://ada.dev/","kind":"agent","bid":"2"}`)
	if joined.Status != http.StatusCreated {
		t.Fatalf("joining: %d %s", joined.Status, joined.Body)
	}
	b.slug = at(t, paidDocument(t, joined), "member", "slug").(string)
	if r := others[0].get("/api/ring/" + b.slug); r.Status != http.StatusOK {
		t.Errorf("a standby does not show who has joined through it: %d %s", r.Status, r.Body)
	}
	b.bid(leads, "at the leader")
	b.poll(leads)
	b.poll(others[1])
	credential := others[0].sign(wallet(t), "/api/bid", b.body())
	key := []string{"Authorization", credential, "Idempotency-Key", "the-key-of-one-bid-0001"}
	before := others[0].post("/api/bid", b.body(), key...)
	if before.Status != http.StatusOK {
		t.Fatalf("a bid: %d %s", before.Status, before.Body)
	}
	b.paid += 100

	// The leader ends in the middle of a payment.
	readers.absent[0].Store(true)
	took := b.bid(others[0], "in which the leader ended")
	leads.waitGone()
	t.Logf("a bid was taken %s after it began, and the leader ended meanwhile", took.Round(time.Millisecond))
	next, rest := c.leader(others...)
	for _, o := range []*origin{next, rest[0]} {
		if again := o.post("/api/bid", b.body(), key...); again.Status != http.StatusOK || string(again.Body) != string(before.Body) || again.Header.Get(receiptField) != before.Header.Get(receiptField) {
			t.Errorf("repeated, the bid gets another answer: %d %s; before: %s", again.Status, again.Body, before.Body)
		}
	}
	leads.env = nil
	leads.launch()
	readers.absent[0].Store(false)
	b.bid(leads, "through the node that came back")

	// Stopped past its lease: another one leads, and the one that wakes follows.
	// An owner's request that it has in hand is done once, by whichever.
	asleep, others := c.leader()
	body, proof := b.sign(others[1], "Ada as the leader slept")
	readers.absent[index(asleep)].Store(true)
	if err := asleep.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	changed := make(chan error, 1)
	go func() { changed <- b.rename(others[1], body, proof) }()
	took = b.bid(others[0], "after the leader was stopped")
	if err := <-changed; err != nil {
		t.Error(err)
	}
	b.poll(others[0])
	t.Logf("a bid was taken %s after the leader was stopped", took.Round(time.Millisecond))
	if err := asleep.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	b.bid(asleep, "through the leader of before, as it wakes")
	if err := b.rename(asleep, body, proof); err != nil {
		t.Error(err)
	}
	if leads, others = c.leader(); leads == asleep {
		t.Error("the node that slept leads")
	}
	readers.absent[index(asleep)].Store(false)

	// Handed over on purpose, to a node that is named.
	to := others[0]
	began := time.Now()
	c.handOver(to)
	t.Logf("handed over within %s", time.Since(began).Round(time.Millisecond))
	body, proof = b.sign(leads, "Ada after the leader has handed over")
	if err := b.rename(leads, body, proof); err != nil {
		t.Error(err)
	}
	b.bid(leads, "after the leader has handed over")
	b.poll(leads)
	if now, _ := c.leader(); now != to {
		t.Error("another node leads than the one that was named")
	}
	if said, err := leads.operate("members", "remove", b.slug, "--reason", "test"); err == nil || !strings.Contains(said, to.base) {
		t.Errorf("a standby takes what is for the leader, or does not say where that is: %s", said)
	}
	if said, err := to.operate("version"); err != nil || !strings.Contains(said, ": leader since ") {
		t.Errorf("%v: %s", err, said)
	}

	// Without a majority of etcd nothing can be paid, and readiness says so; reads go on.
	c.etcd.Members[0].Pause()
	c.etcd.Members[1].Pause()
	for _, o := range c.nodes {
		eventually(t, "a node that knows of no leader", longEnough, func() bool {
			r := o.post("/api/bid", b.body())
			return r.Status == http.StatusServiceUnavailable && r.code(t) == "not_leader" && r.Header.Get("Retry-After") != ""
		})
		eventually(t, "a node that is not ready", longEnough, func() bool {
			ready, rows := o.readiness()
			return !ready && !rows["role"].OK
		})
	}
	c.etcd.Members[0].Resume()
	c.etcd.Members[1].Resume()
	b.bid(c.nodes[0], "after etcd has come back")

	// Ended by its operator: it hands over first.
	leads, others = c.leader()
	readers.absent[index(leads)].Store(true)
	leads.stop()
	b.bid(others[0], "after the leader was ended")

	// The news have all bids and changes once, whichever node was asked.
	b.poll(others[1])
	b.poll(others[0])
	if bids := int(b.paid-300) / 100; b.bids != bids || len(b.told) != len(b.renamed) {
		t.Errorf("news tell of %d bids and of %d changes, and there were %d and %q", b.bids, len(b.told), bids, b.renamed)
	}
	if name := at(t, others[0].get("/api/ring/"+b.slug).document(t), "member", "name"); name != b.renamed[len(b.renamed)-1] {
		t.Errorf("the member is called %v", name)
	}

	readers.end()
	t.Logf("%d reads", readers.reads.Load())
	if got := others[0].received(); got != b.paid {
		t.Errorf("the ring has got %d cents, and members paid %d", got, b.paid)
	}
	for _, o := range others {
		o.stop()
	}
	c.oneHistory(b.paid)

	// The folder of a node is not served as that of an only origin.
	c.only.boot()
	c.only.waitGone()
	if said := c.only.log.String(); !strings.Contains(said, "belongs to the node a of the ring "+clusterRing) {
		t.Errorf("%s", said)
	}
}

// oneHistory holds the ledgers of stopped nodes against each other: each is a
// beginning of the longest, whose books have what was paid.
func (c *testCluster) oneHistory(paid int64) {
	c.t.Helper()
	type end struct {
		size uint64
		root string
	}
	var longest uint64
	ends := map[string]end{}
	for _, o := range c.nodes {
		books, done := c.readLedger(o.data)
		size, root := books.Root()
		ends[o.data] = end{size, root.String()}
		longest = max(longest, size)
		done()
	}
	for _, o := range c.nodes {
		if ends[o.data].size != longest {
			continue
		}
		books, done := c.readLedger(o.data)
		defer done()
		var cents int64
		books.View(func(v *ledger.View) { cents, _ = v.State().Books() })
		if cents != paid {
			c.t.Errorf("the books have %d cents, and %d were paid", cents, paid)
		}
		for data, e := range ends {
			if root, err := books.RootAt(e.size); err != nil || root.String() != e.root {
				c.t.Errorf("at %d events, %s has another history: %v", e.size, data, err)
			}
		}
		return
	}
}
