package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/server"
	"webring/server/devchain"
	"webring/server/devchain/faults"
	"webring/server/ledger/cluster"
)

// standing is what a node says that the one member of a ring stands at.
func (o *origin) standing() string {
	o.t.Helper()
	return at(o.t, o.get("/api/leaderboard").document(o.t), "leaderboard", 0, "effective_bid_usd").(string)
}

var signedAt = regexp.MustCompile(`(?m)^time (\d+)$`)

// signed is how far ahead of now the newest checkpoint of a node is signed.
func (o *origin) signedAhead() time.Duration {
	o.t.Helper()
	found := signedAt.FindSubmatch(o.get("/sync/checkpoint").Body)
	if found == nil {
		o.t.Fatal("there is no checkpoint")
	}
	ms, _ := strconv.ParseInt(string(found[1]), 10, 64)
	return time.Until(time.UnixMilli(ms))
}

// TestAWrongClockPoisonsNothing runs an origin with a clock that is a year ahead, and then two
// days. Neither a free request of an owner nor one of a newcomer, nor the operator, stamps
// anything; origin and edge show the same standings as ever, and nothing is signed for later. Once
// the clock is right, owner and payer go on at once.
func TestAWrongClockPoisonsNothing(t *testing.T) {
	t.Parallel()
	o := ring(t, "--core", "native")
	e := o.follow(t, o.verifier(), "--core", "native")
	owner := o.honest()
	for i, ahead := range []string{"8760h", "48h"} {
		o.stop()
		o.env = []string{"WEBRING_TEST_CLOCK=" + ahead}
		before := o.received()
		o.launch()
		position := o.position()
		o.prove(owner, http.MethodPatch, "/api/ring/honest", `{"description":"changed"}`).does(t, 503, "payments_unavailable")
		o.post("/api/register", `{"name":"New","url":"https://new.dev/","kind":"mcp"}`).does(t, 503, "payments_unavailable")
		o.post("/api/bid", `{"member":"honest","amount":"1.00"}`).does(t, 503, "payments_unavailable")
		if said, err := o.operate("members", "hide", "honest", "--reason", "a test"); err == nil || !strings.Contains(said, "set the clock") {
			t.Errorf("%s ahead, the operator hides a member: %v %s", ahead, err, said)
		}
		if said, err := o.operate("clock", "back"); err == nil || !strings.Contains(said, "nothing is to be set back") {
			t.Errorf("%s ahead, the clock is set back: %v %s", ahead, err, said)
		}
		if o.position() != position || o.standing() != fmt.Sprintf("%d.00", 6+i) || e.standing() != o.standing() || o.received() != before {
			t.Errorf("%s ahead: at %s, %s at the origin and %s at the edge", ahead, o.position(), o.standing(), e.standing())
		}
		if signed := o.signedAhead(); signed > time.Minute {
			t.Errorf("%s ahead, a checkpoint is signed for %s from now", ahead, signed)
		}
		o.stop()
		o.env = nil
		o.launch()
		o.prove(owner, http.MethodPatch, "/api/ring/honest", fmt.Sprintf(`{"description":"changed %d"}`, i)).does(t, 200, "")
		if p := o.pay(owner, "/api/bid", `{"member":"honest","amount":"1.00"}`); p.Status != http.StatusCreated && p.Status != http.StatusOK {
			t.Errorf("after %s ahead, a bid: %d %s", ahead, p.Status, p.Body)
		}
		alike(t, o, e) // before the origin ends again
	}
	alike(t, o, e)
}

// TestARingIsSetBackAfterAWrongClock has a ledger and checkpoints of a clock that was a year
// ahead, as earlier versions wrote them. The operator sets the ring back, and nothing is lost: owner
// and payer go on, the edge follows, and a restart reads the same.
func TestARingIsSetBackAfterAWrongClock(t *testing.T) {
	t.Parallel()
	o := ring(t, "--core", "native")
	e := o.follow(t, o.verifier(), "--core", "native")
	owner := o.honest()
	o.stop()
	year := time.Now().Add(365 * 24 * time.Hour)
	o.write(func(f *founding) {
		f.now = year
		f.own(nil, func(now int64) core.Event { return &core.Verified{Stamp: now, Member: "honest", Proof: core.ByLink} })
	})
	if err := os.WriteFile(filepath.Join(server.SyncPath(o.data), "signed-until"), []byte(strconv.FormatInt(year.UnixMilli(), 10)), 0o600); err != nil {
		t.Fatal(err)
	}

	o.launch()
	alike(t, o, e)
	if o.standing() != "0.00" || e.standing() != "0.00" || o.signedAhead() < 300*24*time.Hour {
		t.Errorf("%s at the origin, %s at the edge, signed for %s from now: the ledger holds no later event", o.standing(), e.standing(), o.signedAhead())
	}
	patch := func(status int, code string) {
		t.Helper()
		o.prove(owner, http.MethodPatch, "/api/ring/honest", `{"description":"changed"}`).does(t, status, code)
	}
	patch(503, "payments_unavailable")
	o.post("/api/bid", `{"member":"honest","amount":"1.00"}`).does(t, 503, "payments_unavailable")
	o.logs("webring clock back")

	if said, err := o.operate("clock", "back", "--reason", "the clock was a year ahead"); err != nil || !strings.Contains(said, "nothing is lost") {
		t.Fatalf("%v %s", err, said)
	}
	patch(200, "")
	if p := o.pay(owner, "/api/bid", `{"member":"honest","amount":"1.00"}`); p.Status != http.StatusCreated && p.Status != http.StatusOK {
		t.Errorf("a bid: %d %s", p.Status, p.Body)
	}
	for range 2 {
		alike(t, o, e)
		if o.standing() != "7.00" || e.standing() != "7.00" || at(t, e.get("/api/ring/honest").document(t), "member", "verified") != "link" {
			t.Errorf("%s at the origin, %s at the edge", o.standing(), e.standing())
		}
		if signed := o.signedAhead(); signed > time.Minute {
			t.Errorf("a checkpoint is signed for %s from now", signed)
		}
		if said, err := o.operate("clock", "back"); err == nil || !strings.Contains(said, "nothing is to be set back") {
			t.Errorf("once more: %v %s", err, said)
		}
		o.stop()
		o.launch()
	}
	if said, err := o.operate("verify"); err != nil {
		t.Errorf("%v %s", err, said)
	}
}

// TestAnOperatorVouchesForAClock has a ring without a payment network that was off for forty days,
// and whose flags have changed: nothing confirms this machine's clock until its operator does. Then
// the ring starts, and an owner has its change.
func TestAnOperatorVouchesForAClock(t *testing.T) {
	t.Parallel()
	o, owner := prepare(t, nil, "--core", "native"), wallet(t)
	o.write(func(f *founding) {
		f.now = time.Now().Add(-40 * 24 * time.Hour)
		f.own(nil, func(now int64) core.Event {
			return &core.Rules{Stamp: now, Name: "Before", BaseURL: o.base, Fee: 100, MinBid: 100, Decay: 100, Scorer: "none"}
		})
		f.own(&core.Texts{Name: core.Text{Value: "Honest"}, URL: core.Text{Value: "https://honest.dev/"}}, func(now int64) core.Event {
			return &core.Joined{Stamp: now, Slug: "honest", Kind: core.Agent, Category: "general", Fee: 100, Payment: core.Payment{Payer: owner.Address.Hex()}}
		})
	})
	if err := os.Remove(clockPath(o.data)); err != nil {
		t.Fatal(err)
	}
	if _, served := o.serves("/api"); served || !strings.Contains(o.log.String(), "webring clock trust") {
		t.Fatalf("served %v\n%s", served, o.log)
	}
	o.kill()
	if said, err := o.operate("clock", "trust"); err != nil {
		t.Fatalf("%v %s", err, said)
	}
	o.launch()
	t.Cleanup(o.kill)
	o.prove(owner, http.MethodPatch, "/api/ring/honest", `{"description":"changed"}`).does(t, 200, "")
}

// TestANodeWithAWrongClockGivesWay has a node whose clock is two days ahead left alone by one that
// is killed: it stamps nothing. As soon as the other one is back, that leads, and owner and payer go on.
func TestANodeWithAWrongClockGivesWay(t *testing.T) {
	t.Parallel()
	c := makeCluster(t, 2, "--core", "native")
	good, bad := c.nodes[0], c.nodes[1]
	bad.env = []string{"WEBRING_TEST_CLOCK=48h"}
	c.launch()
	owner := bad.honest()
	alike(t, good, bad)
	position := bad.position()
	good.kill()
	eventually(t, "a node that should not lead", longEnough, func() bool {
		return bad.role() == cluster.RoleLeader || strings.Contains(bad.log.String(), "this node can take no payments")
	})
	for range 3 {
		if r := bad.send(http.MethodPatch, "/api/ring/honest", []byte(`{"description":"changed"}`), "Content-Type", "application/json"); r.Status != 503 {
			t.Errorf("%d %s", r.Status, r.Body)
		}
		if r := bad.post("/api/bid", `{"member":"honest","amount":"1.00"}`); r.Status != 503 {
			t.Errorf("%d %s", r.Status, r.Body)
		}
	}
	bad.logs("set the clock")
	if bad.position() != position || bad.standing() != "6.00" {
		t.Errorf("at %s, standing %s\n%s", bad.position(), bad.standing(), bad.log)
	}
	good.launch()
	eventually(t, "a leader with a right clock", longEnough, func() bool { return good.role() == cluster.RoleLeader })
	good.prove(owner, http.MethodPatch, "/api/ring/honest", `{"description":"changed"}`).does(t, 200, "")
	bad.takesPayments()
	if p := bad.pay(owner, "/api/bid", `{"member":"honest","amount":"1.00"}`); p.Status != http.StatusCreated && p.Status != http.StatusOK {
		t.Errorf("a bid: %d %s", p.Status, p.Body)
	}
	alike(t, good, bad)
}

// honest has a member join that has paid for a bid, and gives its owner.
func (o *origin) honest() devchain.Account {
	o.t.Helper()
	o.takesPayments()
	owner := wallet(o.t)
	if p := o.pay(owner, "/api/register", `{"name":"Honest","url":"https://honest.dev/","kind":"agent","bid":"5.00"}`); p.Status != http.StatusCreated {
		o.t.Fatalf("%d %s", p.Status, p.Body)
	}
	return owner
}

// takesPayments waits until the node offers payments: it leads, or knows who does.
func (o *origin) takesPayments() {
	o.t.Helper()
	eventually(o.t, "a node that takes payments", longEnough, func() bool {
		return o.post("/api/register", `{"name":"Any","url":"https://any.dev/","kind":"agent"}`).Status == http.StatusPaymentRequired
	})
}

// TestAToleratedClockTakesPayments has payers with right clocks pay an origin whose clock is off by
// less than a minute: they have the time that their transactions have.
func TestAToleratedClockTakesPayments(t *testing.T) {
	t.Parallel()
	o := ring(t, "--core", "native")
	owner := o.honest()
	for _, off := range []string{"20s", "45s", "57s", "-45s", "-57s"} {
		o.stop()
		o.env = []string{"WEBRING_TEST_CLOCK=" + off}
		o.launch()
		o.takesPayments()
		if p := o.pay(owner, "/api/bid", `{"member":"honest","amount":"1.00"}`); p.Status != http.StatusOK {
			t.Errorf("%s ahead, a bid: %d %s", off, p.Status, p.Body)
		}
		eventually(t, "readiness", longEnough, func() bool { ready, _ := o.readiness(); return ready })
	}
}

// TestTheLeadIsWithANodeThatTakesPayments has three nodes: a, b, which is ten minutes behind, and c,
// and cuts a and c off from the chain. Whoever is killed or cut off, a node leads that takes
// payments, if there is one. If there is none, one leads all the same.
func TestTheLeadIsWithANodeThatTakesPayments(t *testing.T) {
	t.Parallel()
	x := makeCluster(t, 3, "--core", "native")
	a, b, c := x.nodes[0], x.nodes[1], x.nodes[2]
	b.env = []string{"WEBRING_TEST_CLOCK=-10m"}
	network, _ := chain(t)
	link, err := faults.New(network.RPC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)
	c.args = append(c.args, "--tempo-rpc", link.URL)
	for _, o := range x.nodes {
		o.launch()
		t.Cleanup(o.kill)
		if o == a {
			x.leader(a)
		}
	}
	owner := c.honest()
	before := a.received()
	pays := func(at *origin) {
		t.Helper()
		eventually(t, "a bid", longEnough, func() bool {
			p, err := at.tryPay(owner, "/api/bid", `{"member":"honest","amount":"1.00"}`)
			return err == nil && p.Status == http.StatusOK
		})
	}
	leads := func(want *origin, there ...*origin) {
		t.Helper()
		eventually(t, "the lead of a node that takes payments", longEnough, func() bool { return want.role() == cluster.RoleLeader })
		for _, at := range there {
			pays(at)
		}
	}
	leads(a, a, b, c)
	if said, err := b.operate("cluster", "handover", "b", "--etcd", strings.Join(x.etcd.Endpoints(), ","), "--cluster-id", clusterRing, "--cluster-key-file", x.keys); err == nil || !strings.Contains(said, "can take no payments") {
		t.Errorf("the lead is handed over to a node that is behind: %v %s", err, said)
	}
	a.kill()
	leads(c, b, c)
	a.launch()
	eventually(t, "a standby", longEnough, func() bool { return a.role() == cluster.RoleStandby })
	link.Follow(faults.All(faults.DropBefore))
	leads(a, b, c, a)
	a.kill()
	eventually(t, "a leader without payments", longEnough, func() bool { return b.role() == cluster.RoleLeader || c.role() == cluster.RoleLeader })
	if r := b.get("/api/leaderboard"); r.Status != http.StatusOK {
		t.Errorf("a read: %d", r.Status)
	}
	link.Follow(faults.Pass)
	a.launch()
	eventually(t, "a leader that takes payments", longEnough, func() bool { return a.role() == cluster.RoleLeader || c.role() == cluster.RoleLeader })
	for _, at := range x.nodes {
		pays(at)
	}
	alike(t, a, b)
	alike(t, a, c)
	if got := a.received() - before; got < 1100 || a.standing() != fmt.Sprintf("%d.00", 6+got/100) {
		t.Errorf("received %d cents, standing %s", got, a.standing())
	}
}
