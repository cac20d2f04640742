package main

import (
	"context"
	"math/rand/v2"
	"time"

	"webring/server/devchain/faults"
)

// lease is how long a leader that does not answer still leads.
const lease = 3 * time.Second

// mishap is something that happens to a cluster. do makes it happen and says to whom;
// [faultyCluster.heal] ends it.
type mishap struct {
	name string
	do   func(c *faultyCluster, random *rand.Rand) string
	long bool // it lasts longer than a lease
}

var mishaps = []mishap{
	{"kill -9 of the leader", func(c *faultyCluster, _ *rand.Rand) string {
		n := c.led()
		n.end()
		return n.name
	}, false},
	{"SIGSTOP of the leader", func(c *faultyCluster, _ *rand.Rand) string {
		n := c.led()
		n.pause()
		return n.name
	}, true},
	{"kill -9 of etcd's leader", func(c *faultyCluster, _ *rand.Rand) string { return c.killMember(c.etcd.Leader()) }, false},
	{"SIGSTOP of etcd's leader", func(c *faultyCluster, _ *rand.Rand) string { return c.pauseMember(c.etcd.Leader()) }, true},
	{"kill -9 of both leaders", func(c *faultyCluster, _ *rand.Rand) string {
		n := c.led()
		m := c.killMember(c.etcd.Leader())
		n.end()
		return n.name + " and " + m
	}, false},
	{"SIGSTOP of both leaders", func(c *faultyCluster, _ *rand.Rand) string {
		n := c.led()
		m := c.pauseMember(c.etcd.Leader())
		n.pause()
		return n.name + " and " + m
	}, true},
	{"kill -9 of a standby", func(c *faultyCluster, random *rand.Rand) string {
		n := c.standby(random)
		n.end()
		return n.name
	}, false},
	{"SIGSTOP of a standby", func(c *faultyCluster, random *rand.Rand) string {
		n := c.standby(random)
		n.pause()
		return n.name
	}, true},
	{"kill -9 of all origins", func(c *faultyCluster, _ *rand.Rand) string {
		for _, n := range c.nodes {
			n.end()
		}
		return "all"
	}, false},
	{"SIGSTOP of all origins", func(c *faultyCluster, _ *rand.Rand) string {
		for _, n := range c.nodes {
			n.pause()
		}
		return "all"
	}, true},
	{"kill -9 of all of etcd", func(c *faultyCluster, _ *rand.Rand) string {
		for i := range c.etcd.Members {
			c.killMember(i)
		}
		return "all"
	}, false},
	{"kill -9 of everything but edges", func(c *faultyCluster, _ *rand.Rand) string {
		for _, n := range c.nodes {
			n.end()
		}
		for i := range c.etcd.Members {
			c.killMember(i)
		}
		return "all"
	}, false},
	{"the leader does not reach etcd, silently", func(c *faultyCluster, _ *rand.Rand) string {
		return c.isolate(c.led(), (*faults.Link).Silence)
	}, true},
	{"the leader is cut off from etcd", func(c *faultyCluster, _ *rand.Rand) string {
		return c.isolate(c.led(), (*faults.Link).Cut)
	}, true},
	{"the leader does not reach etcd's leader", func(c *faultyCluster, _ *rand.Rand) string {
		n := c.led()
		c.doors[c.index(n)][c.etcd.Leader()].Silence()
		return n.name
	}, true},
	{"a standby does not reach etcd", func(c *faultyCluster, random *rand.Rand) string {
		return c.isolate(c.standby(random), (*faults.Link).Silence)
	}, true},
	{"nobody reaches the leader", func(c *faultyCluster, _ *rand.Rand) string {
		n := c.led()
		c.hide(n, (*faults.Link).Silence)
		return n.name
	}, true},
	{"the leader's machine is cut off from everything", func(c *faultyCluster, _ *rand.Rand) string {
		n := c.led()
		c.hide(n, (*faults.Link).Cut)
		return c.isolate(n, (*faults.Link).Silence)
	}, true},
	{"etcd's leader does not reach the other members", func(c *faultyCluster, _ *rand.Rand) string {
		return c.part(c.etcd.Leader(), (*faults.Link).Silence)
	}, true},
	{"etcd's leader is cut off from the other members", func(c *faultyCluster, _ *rand.Rand) string {
		return c.part(c.etcd.Leader(), (*faults.Link).Cut)
	}, true},
	{"each member of etcd is alone", func(c *faultyCluster, _ *rand.Rand) string {
		for _, m := range c.etcd.Members {
			m.Peer.Silence()
		}
		return "all"
	}, true},
	{"edges do not reach origins", func(c *faultyCluster, random *rand.Rand) string {
		i := random.IntN(len(c.ways))
		for _, l := range c.ways[i] {
			l.Silence()
		}
		return c.edges[i].name
	}, true},
	{"a full disk", func(c *faultyCluster, _ *rand.Rand) string {
		if c.full == nil {
			return "left out"
		}
		c.full(true)
		return c.nodes[len(c.nodes)-1].name
	}, true},
	{"payment networks do not answer the leader", func(c *faultyCluster, _ *rand.Rand) string {
		n := c.led()
		c.loseAnswers(n)
		return n.name
	}, true},
	{"a hand-over", func(c *faultyCluster, _ *rand.Rand) string {
		n := c.led()
		c.handOver()
		return n.name
	}, false},
}

// few are the mishaps of a short run. TestARingOutlivesItsMachines has the simple ones.
var few = []string{"kill -9 of everything but edges", "SIGSTOP of both leaders", "the leader does not reach etcd, silently"}

// handOver has the leader hand over to any other node.
func (c *faultyCluster) handOver() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), longEnough)
	defer cancel()
	eventually(c.t, "a hand-over", longEnough, func() bool {
		c.led()
		return c.witness.Handover(ctx, "") == nil // it fails at once while none leads
	})
}

// killMember kills a member of etcd.
func (c *faultyCluster) killMember(i int) string {
	c.etcd.Members[i].Kill()
	c.still[i] = false
	return c.etcd.Members[i].Name
}

// pauseMember stops one.
func (c *faultyCluster) pauseMember(i int) string {
	c.etcd.Members[i].Pause()
	c.still[i] = true
	return c.etcd.Members[i].Name
}

// standby is a node that does not lead.
func (c *faultyCluster) standby(random *rand.Rand) *process {
	at := c.index(c.led()) + 1 + random.IntN(len(c.nodes)-1)
	return c.nodes[at%len(c.nodes)]
}

// isolate keeps a node from etcd.
func (c *faultyCluster) isolate(n *process, how func(*faults.Link, ...string)) string {
	for _, l := range c.doors[c.index(n)] {
		how(l)
	}
	return n.name
}

// hide keeps nodes and edges from a node.
func (c *faultyCluster) hide(n *process, how func(*faults.Link, ...string)) {
	at := c.index(n)
	how(c.fronts[at])
	for i, ways := range c.ways {
		how(ways[(at-i+len(c.nodes))%len(c.nodes)])
	}
}

// part keeps a member of etcd from the others, in both directions.
func (c *faultyCluster) part(i int, how func(*faults.Link, ...string)) string {
	id := c.etcd.Members[i].ID()
	for k, m := range c.etcd.Members {
		if k == i {
			how(m.Peer)
		} else {
			how(m.Peer, id)
		}
	}
	return c.etcd.Members[i].Name
}
