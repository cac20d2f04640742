package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"webring/server/backup"
	"webring/server/devchain"
	"webring/server/devchain/faults"
	"webring/server/ledger"
	"webring/server/ledger/cluster"
	"webring/server/ledger/ledgertest"
)

// readPosition is that of a node that does not run.
func (c *faultyCluster) readPosition(n *process) ledger.Position {
	c.t.Helper()
	books, done := (&testCluster{t: c.t}).readLedger(n.data)
	defer done()
	return books.Position()
}

// tailBegins is the first transaction that is in etcd, 0 if there is none.
func (c *faultyCluster) tailBegins() uint64 {
	c.t.Helper()
	prefix := "/ring/" + c.ring + "/tail/"
	r, err := c.client.Get(c.t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithLimit(1))
	if err != nil || len(r.Kvs) == 0 {
		return 0
	}
	serial, err := strconv.ParseUint(strings.TrimPrefix(string(r.Kvs[0].Key), prefix), 16, 64)
	if err != nil {
		c.t.Fatal(err)
	}
	return serial
}

func (c *faultyCluster) index(n *process) int {
	for i, other := range c.nodes {
		if other == n {
			return i
		}
	}
	c.t.Fatalf("%s is no node", n.name)
	return -1
}

// withBooks gives the ledger of a node that does not run, as a copy.
func (c *faultyCluster) withBooks(n *process, fn func(*ledger.Ledger) error) error {
	books, err := backup.OpenCopy(n.data, c.t.TempDir(), 100_000, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return errors.Join(fn(books.Ledger), books.Close())
}

// leader is the node that leads; nil when none does.
func (c *faultyCluster) leader() *process {
	l, _ := c.witness.Leader()
	for _, n := range c.nodes {
		if n.name == l.Node {
			return n
		}
	}
	return nil
}

// led waits until a node leads.
func (c *faultyCluster) led() (n *process) {
	c.t.Helper()
	eventually(c.t, "a leader", longEnough, func() bool {
		n = c.leader()
		return n != nil
	})
	return n
}

// loseAnswers has a node get no answers from payment networks, which get what it sends.
func (c *faultyCluster) loseAnswers(n *process) {
	for _, proxy := range c.proxies(n) {
		proxy.Follow(faults.All(faults.DropAfter))
	}
}

// silentOnceSent has a payment network take transactions, and say nothing from the first one on.
func silentOnceSent() faults.Plan {
	sent := false
	return func(methods []string) faults.Fault {
		f := faults.On(faults.Sends, faults.DropAfter)(methods)
		if sent = sent || f != faults.None; sent && f == faults.None {
			return faults.DropBefore
		}
		return f
	}
}

// answersAgain ends loseAnswers.
func (c *faultyCluster) answersAgain(n *process) {
	for _, proxy := range c.proxies(n) {
		proxy.Follow(faults.Pass)
	}
}

// proxies are those before the payment networks of a node.
func (c *faultyCluster) proxies(n *process) []*faults.Proxy {
	each := len(c.chains) / len(c.nodes)
	return c.chains[c.index(n)*each:][:each]
}

// heal opens all links, and has every process run.
func (c *faultyCluster) heal() {
	c.t.Helper()
	for _, l := range c.links() {
		l.Open()
	}
	if c.full != nil {
		c.full(false)
	}
	for _, proxy := range c.chains {
		proxy.Follow(faults.Pass)
	}
	for i, m := range c.etcd.Members {
		if m.PID() == 0 {
			m.Start()
		} else if c.still[i] {
			m.Resume()
		}
		c.still[i] = false
	}
	for _, n := range c.nodes {
		if n.paused {
			n.goOn()
		}
		select {
		case <-n.gone:
			n.begin()
		default:
		}
	}
}

func (c *faultyCluster) links() (all []*faults.Link) {
	for _, m := range c.etcd.Members {
		all = append(all, m.Peer)
	}
	all = append(all, c.fronts...)
	for _, some := range append(append([][]*faults.Link{}, c.doors...), c.ways...) {
		all = append(all, some...)
	}
	return all
}

// settled waits until nothing is open and all nodes and edges show the same, then ends all
// of them and checks the whole history.
func (c *faultyCluster) settled() []ledgertest.Violation {
	c.t.Helper()
	c.led().confirmed()
	// The next leader after a node that stops may write: nothing reaches etcd from here on.
	eventually(c.t, "an end that is the same everywhere", longEnough, func() bool {
		last := c.even()
		for _, n := range c.nodes {
			c.isolate(n, (*faults.Link).Silence)
		}
		if head, err := c.witness.Current(c.t.Context()); err == nil && head.Serial == last {
			return true
		}
		c.heal()
		return false
	})
	c.seen.endReads()
	for _, e := range c.edges {
		e.stop()
	}
	for _, n := range c.nodes {
		n.end()
	}
	c.seen.close()
	if err := c.seen.ended; !errors.Is(err, context.Canceled) {
		c.t.Errorf("the log was followed until %v", err)
	}
	return c.check()
}

// follows waits until a node has everything that is committed now.
func (c *faultyCluster) follows(n *process) {
	c.t.Helper()
	head, err := c.witness.Current(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, n.name+" at the end of the log", longEnough, func() bool {
		s, err := c.witness.Status(c.t.Context())
		return err == nil && slices.ContainsFunc(s.Nodes, func(at cluster.Node) bool { return at.Name == n.name && at.Serial >= head.Serial })
	})
}

// even waits until every node has the whole log, and everything shows its last position. It
// gives the last transaction.
func (c *faultyCluster) even() (last uint64) {
	c.t.Helper()
	eventually(c.t, "all nodes at one transaction", longEnough, func() bool {
		s, err := c.witness.Status(c.t.Context())
		if err != nil {
			return false
		}
		last = s.Head.Serial
		for _, n := range c.nodes {
			if !slices.ContainsFunc(s.Nodes, func(at cluster.Node) bool { return at.Name == n.name && at.Serial == s.Head.Serial }) {
				return false
			}
		}
		return true
	})
	var all []*origin
	for _, p := range append(append([]*process{}, c.nodes...), c.edges...) {
		all = append(all, p.origin)
	}
	alike(c.t, all...)
	return last
}

// check checks the history with what the nodes, none of which runs, have.
func (c *faultyCluster) check() []ledgertest.Violation {
	t := c.t
	t.Helper()
	h := &c.seen.History
	h.Nodes = nil
	var damaged []ledgertest.Violation
	for _, n := range c.nodes {
		books, err := backup.OpenCopy(n.data, t.TempDir(), 100_000, slog.New(slog.DiscardHandler))
		if err != nil {
			damaged = append(damaged, ledgertest.Violation{Rule: ledgertest.OneHistory, What: n.name + ": " + err.Error()})
			continue
		}
		defer books.Close()
		audit, err := books.Audit(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", n.name, err)
		}
		for _, f := range audit.Findings {
			damaged = append(damaged, ledgertest.Violation{Rule: ledgertest.OneHistory, What: n.name + ": " + f})
		}
		h.Nodes = append(h.Nodes, ledgertest.Node{Name: n.name, Books: books.Ledger})
	}
	tempo, _ := chain(t)
	came, err := transfers(t.Context(), tempo, fmt.Sprint("tempo:", devchain.ChainID), devchain.PathUSD, c.payees.tempo)
	if err == nil && c.evm != nil {
		var more []ledgertest.Transfer
		more, err = transfers(t.Context(), c.evm, fmt.Sprint("evm:", devchain.BaseChainID), devchain.USDC, c.payees.evm)
		came = append(came, more...)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.Transfers = came
	if len(h.Nodes) == 0 {
		return damaged
	}
	found, err := h.Check()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range c.seen.strange {
		t.Errorf("%s sent a transaction that nobody has signed", name)
	}
	return append(damaged, found...)
}

// tell logs how much was seen.
func (c *faultyCluster) tell() {
	s := c.seen
	told := map[string]int{}
	for _, a := range s.Answers {
		told[a.String()]++
	}
	c.t.Logf("%d transactions, %d answers about payments %v, %d checkpoints, %d reads, %d broadcasts (%d unsure), %d transfers",
		len(s.Log), len(s.Answers), told, len(s.Checkpoints), s.reads, len(s.Broadcasts), s.unsure, len(s.Transfers))
}
