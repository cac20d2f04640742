package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"webring/server/backup"
	"webring/server/ledger/cluster"
	"webring/server/ledger/ledgertest"
)

// next waits until another payment is answered as done.
func (c *faultyCluster) next(after string) {
	c.t.Helper()
	paid := c.seen.applied()
	eventually(c.t, "a payment after "+after, longEnough, func() bool { return c.seen.applied() > paid })
}

// TestARingOutlivesItsMachines has buyers pay all the time: at an only origin, which becomes
// a cluster of three; while its leader hands over, is killed, or sleeps; while the
// leader's machine is lost with its disk, with payments in flight and no edge alive, and
// another one takes its place; while a node comes back after so long that the log has been
// trimmed; and while the cluster becomes an only origin again. In the end nothing that
// was acknowledged is missing.
func TestARingOutlivesItsMachines(t *testing.T) {
	t.Parallel()
	var buyers *crowdOfBuyers
	c := startFaulty(t, faultyOptions{nodes: 3, edges: 2, early: func(c *faultyCluster) {
		buyers = c.buy(rand.Uint64(), 12, 0, 0)
		c.next("the first start")
	}})
	c.logsIfFailed()
	c.next("the beginning of the cluster")
	c.writesGoOn()

	kept := c.payOnce()
	c.loseMachine()
	kept.repeated(c)
	for _, e := range c.edges {
		e.begin()
	}
	c.comeBackLate()
	kept.repeated(c)

	ended, only := c.endCluster()
	c.next("the end of the cluster")
	kept.repeated(c)
	buyers.dismiss(t)
	only.confirmed()
	alike(t, only.origin, c.edges[0].origin, c.edges[1].origin)
	c.seen.endReads()
	for _, p := range append(append([]*process{}, c.edges...), only) {
		p.stop()
	}
	c.seen.close()
	c.nodes = []*process{only}
	c.tell()
	h := &c.seen.History
	h.Begin, h.Log, h.Writes, h.Broadcasts = nil, nil, nil, nil // of the cluster alone
	for _, v := range append(ended, c.check()...) {
		t.Error(v)
	}
}

// keptAnswer is an answer to a payment, which stays the answer to the same request.
type keptAnswer struct {
	credential, body string
	answer           reply
}

const onceKey = "the-key-of-one-bid-0001"

// payOnce pays for a bid that can be repeated.
func (c *faultyCluster) payOnce() keptAnswer {
	c.t.Helper()
	k := keptAnswer{body: `{"member":"founder-0","amount":"1"}`}
	n := c.led()
	k.credential = n.sign(wallet(c.t), "/api/bid", k.body)
	k.answer = k.ask(c, n)
	if k.answer.Status != http.StatusOK {
		c.t.Fatalf("a bid: %d %s", k.answer.Status, k.answer.Body)
	}
	return k
}

// ask presents the payment until there is an answer that says what became of it.
func (k keptAnswer) ask(c *faultyCluster, n *process) (r reply) {
	c.t.Helper()
	id, transaction, err := c.seen.sign(k.credential)
	if err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, "an answer of "+n.name, longEnough, func() bool {
		r, err = n.try(http.MethodPost, "/api/bid", []byte(k.body), "Content-Type", "application/json", "Authorization", k.credential, "Idempotency-Key", onceKey)
		return err == nil && r.Status != http.StatusServiceUnavailable
	})
	a := answerAbout(&purchase{id: id, transaction: transaction, cents: 100}, n.name, r)
	c.seen.with(func() { c.seen.Answers = append(c.seen.Answers, a) })
	return r
}

// repeated holds that every node which runs gives the same answer again.
func (k keptAnswer) repeated(c *faultyCluster) {
	c.t.Helper()
	for _, n := range c.nodes {
		if n.down {
			continue
		}
		r := k.ask(c, n)
		if r.Status != k.answer.Status || !bytes.Equal(r.Body, k.answer.Body) || r.Header.Get(receiptField) != k.answer.Header.Get(receiptField) {
			c.t.Errorf("%s answers the bid of before with %d %s\nwant %d %s", n.name, r.Status, r.Body, k.answer.Status, k.answer.Body)
		}
	}
}

// loseMachine ends all edges, and the leader with its disk while it waits for what became
// of payments that it has sent. Then another machine takes its place.
func (c *faultyCluster) loseMachine() {
	t := c.t
	t.Helper()
	for _, e := range c.edges {
		e.end()
	}
	var lost *process
	var sent int
	eventually(t, "a payment in flight", longEnough, func() bool {
		if n := c.led(); n != lost { // on a busy machine, another one may lead meanwhile
			if lost != nil {
				c.answersAgain(lost)
			}
			lost, sent = n, c.seen.sent(n)
			for _, proxy := range c.proxies(n) {
				proxy.Follow(silentOnceSent())
			}
		}
		return c.seen.sent(lost) > sent
	})
	lost.end()
	if err := os.RemoveAll(lost.data); err != nil {
		t.Fatal(err)
	}
	c.next("the loss of " + lost.name)
	c.answersAgain(lost)
	c.remove(lost)
	c.add(lost)
	c.follows(lost)
	c.next("another machine in place of " + lost.name)
}

// comeBackLate takes out a node for so long that the log has been trimmed. It then says what it
// needs, and answers reads, and goes on with a backup.
func (c *faultyCluster) comeBackLate() {
	t := c.t
	t.Helper()
	at := c.index(c.led()) + 1
	n := c.nodes[at%len(c.nodes)]
	n.end()
	c.remove(n)
	has := c.readPosition(n)
	eventually(t, "a log that is trimmed", longEnough, func() bool { return c.tailBegins() > has.Serial+1 })
	if out, err := n.operate(append([]string{"cluster", "init"}, c.etcdArgs(c.index(n))...)...); err == nil || !strings.Contains(out, "restore a backup of another node") {
		t.Errorf("webring cluster init: %v: %s", err, out)
	}
	c.operate(n, "add", n.name)
	n.begin() // without a backup
	eventually(t, "a node that is refused", longEnough, func() bool { return n.role() == cluster.RoleRefused })
	if _, rows := n.readiness(); rows["role"].OK || !strings.Contains(fmt.Sprint(rows["role"]), "restore a backup of another node") {
		t.Errorf("it says %v", rows["role"])
	}
	if r := n.get("/api/ring/founder-0"); r.Status != http.StatusOK {
		t.Errorf("a refused node answers a read with %d %s", r.Status, r.Body)
	}
	n.end()
	c.remove(n)
	n.data = filepath.Join(t.TempDir(), "data")
	c.add(n)
	c.follows(n)

	// The leader was cut off for a moment, and etcd has nothing of its election any more.
	leads := c.doors[c.index(c.led())]
	for _, l := range leads {
		l.Cut()
	}
	for _, l := range leads {
		l.Open()
	}
	c.handOver()
}

// endCluster makes the leader an only origin again. It gives what the history of the
// cluster violates, and that origin.
func (c *faultyCluster) endCluster() (found []ledgertest.Violation, only *process) {
	t := c.t
	t.Helper()
	eventually(t, "the end of the cluster", longEnough, func() bool {
		only = c.led()
		out, err := only.operate("cluster", "leave")
		if err != nil {
			t.Logf("webring cluster leave: %v: %s", err, out)
		}
		return err == nil
	})
	for _, n := range c.nodes {
		n.stop()
		n.down = n != only
	}
	var ended ledgertest.History
	c.seen.with(func() {
		s := &c.seen.History
		ended = ledgertest.History{Begin: s.Begin, Log: s.Log, Writes: s.Writes, Broadcasts: s.Broadcasts}
	})
	for _, n := range c.nodes {
		books, err := backup.OpenCopy(n.data, t.TempDir(), 100_000, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer books.Close()
		ended.Nodes = append(ended.Nodes, ledgertest.Node{Name: n.name, Books: books.Ledger, Behind: n != only})
	}
	found, err := ended.Check()
	if err != nil {
		t.Fatal(err)
	}
	only.args = c.alone(c.index(only))
	only.begin()
	return found, only
}
