package main

import (
	"flag"
	"fmt"
	"slices"
	"time"
)

var failovers = flag.Int("failover.rounds", 1, "how often TestARingOutlivesItsMachines kills the leader, and has it hand over")

// Bounds on how long nothing is written: after the leader's process has ended, and after
// it has handed over.
const (
	afterKill     = 5 * time.Second
	afterHandover = time.Second
)

// writesGoOn kills the leader under load, and has it hand over, and holds how long the
// ring then writes nothing. Meanwhile no read fails, but at the node that was killed. A
// leader that was stopped until another one has written does nothing when it wakes.
func (c *faultyCluster) writesGoOn() {
	t := c.t
	t.Helper()
	var kills, payments, handovers []time.Duration
	for range *failovers {
		old := c.led()
		began := time.Now()
		c.handOver()
		handovers = append(handovers, c.silence(old, began))
		c.next("a new leader")
	}
	for _, p := range append(c.edges, c.nodes...) {
		if failed, reads := c.seen.failures(p.name); len(failed) > 0 {
			t.Errorf("during %d hand-overs, %d of %d reads failed at %s: %s", len(handovers), len(failed), reads, p.name, failed[0])
		}
	}
	for range *failovers {
		old := c.led()
		began := time.Now()
		old.end()
		kills = append(kills, c.silence(old, began))
		var answered time.Duration
		eventually(t, "an answer", longEnough, func() (there bool) {
			c.seen.with(func() {
				last := c.seen.granted[len(c.seen.granted)-1]
				if there = last.After(began.Add(kills[len(kills)-1])); there {
					at, _ := slices.BinarySearchFunc(c.seen.granted, began.Add(kills[len(kills)-1]), time.Time.Compare)
					answered = c.seen.granted[at].Sub(began)
				}
			})
			return there
		})
		payments = append(payments, answered)
		old.begin()
		c.next("a new leader")
	}
	c.wakeZombie()
	for _, e := range c.edges {
		if failed, reads := c.seen.failures(e.name); len(failed) > 0 {
			t.Errorf("%d of %d reads failed at %s: %s", len(failed), reads, e.name, failed[0])
		}
	}
	for _, f := range []struct {
		name  string
		took  []time.Duration
		bound time.Duration
	}{{"kill", kills, afterKill}, {"handover", handovers, afterHandover}, {"paid-after-kill", payments, longEnough}} {
		slices.Sort(f.took)
		median, worst := f.took[len(f.took)/2], f.took[len(f.took)-1]
		t.Logf("%s: nothing for %s (median of %d), %s at worst", f.name, median.Round(time.Millisecond), len(f.took), worst.Round(time.Millisecond))
		measured("Failover/"+f.name, 3, inMilliseconds(median, "median"), inMilliseconds(worst, "worst"), fmt.Sprint(len(f.took), " rounds"))
		// One of a short run may meet a machine that does much else.
		if len(f.took) >= 10 && worst > f.bound {
			t.Errorf("%s: nothing for %s, at most %s is allowed", f.name, worst, f.bound)
		}
	}
}

// silence waits until another node than old has written, and gives how long after an
// instant that was.
func (c *faultyCluster) silence(old *process, since time.Time) (d time.Duration) {
	c.t.Helper()
	eventually(c.t, "a transaction of another leader", longEnough, func() (there bool) {
		c.seen.with(func() {
			for _, w := range slices.Backward(c.seen.commits) {
				if w.at.Before(since) || w.by == old.name {
					break
				}
				if w.by != "" {
					d, there = w.at.Sub(since), true
				}
			}
		})
		return there
	})
	return d
}

// wakeZombie stops the leader until another has written, and lets it go on.
func (c *faultyCluster) wakeZombie() {
	c.t.Helper()
	old := c.led()
	began := time.Now()
	old.pause()
	c.silence(old, began)
	c.next("a leader that sleeps")
	sent := c.seen.sent(old)
	old.goOn()
	c.follows(old)
	c.next("a leader that sleeps")
	if n := c.seen.sent(old); n > sent && c.led() != old {
		c.t.Errorf("%s led before it slept, and has sent %d payments after it woke", old.name, n-sent)
	}
}

// sent is how many payments a node has sent to networks.
func (s *seen) sent(n *process) (count int) {
	s.with(func() {
		for _, b := range s.Broadcasts {
			if b.Node == n.name {
				count++
			}
		}
	})
	return count
}

// logsIfFailed shows the logs of all nodes if the test fails.
func (c *faultyCluster) logsIfFailed() {
	c.t.Cleanup(func() {
		if !c.t.Failed() {
			return
		}
		for _, n := range c.nodes {
			text := n.log.String()
			c.t.Logf("%s ends with:\n%s", n.name, text[max(0, len(text)-20_000):])
		}
	})
}
