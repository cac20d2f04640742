package main

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"webring/server/ledger/ledgertest"
)

var (
	soakTime = flag.Duration("soak.time", 0, "how long buyers pay at a cluster while everything in it fails in turn; 0 for a few faults")
	soakSeed = flag.Uint64("soak.seed", 0, "seed of the faults and their order; 0 draws one. Timing is not repeated by it")
)

// TestSoakFindsViolations takes out the comparisons that make the cluster safe. Then what
// a leader wrote that has been replaced since must be found.
func TestSoakFindsViolations(t *testing.T) {
	if *soakTime == 0 {
		t.Skip("whether two leaders meet depends on the machine: make soak runs this; the store's own histories have their control in every run")
	}
	t.Parallel()
	c := startFaulty(t, faultyOptions{nodes: 2, env: []string{"WEBRING_TEST_UNFENCED=yes"}})
	c.logsIfFailed()
	buyers := c.buy(rand.Uint64(), 8, 0, 0)
	// What a leader sends is on its way until another one leads and has written. What
	// comes of it may be that nobody leads any more, or that the log cannot be followed.
	twice := func() (found bool) {
		c.seen.with(func() { found = writtenTwice(c.seen.Writes) })
		return found
	}
	late := func(n *process, d time.Duration) {
		for _, l := range c.doors[c.index(n)] {
			l.Delay(d)
		}
	}
	for round, goesOn := 0, true; goesOn && round < 5; round++ {
		old := c.led()
		goesOn = c.paidInTime()
		late(old, 2*lease)
		goesOn = goesOn && inTime(func() bool { n := c.leader(); return n != nil && n != old }) && c.paidInTime() && !inTime(twice)
		late(old, 0)
		goesOn = goesOn && inTime(func() bool { return c.leader() != nil })
	}
	buyers.stop()
	buyers.paying.Wait()
	for _, n := range c.nodes {
		n.end()
	}
	c.seen.close()
	all := c.check()
	t.Logf("%d violations: %v", len(all), all[:min(len(all), 5)])
	if !slices.ContainsFunc(all, func(v ledgertest.Violation) bool {
		return v.Rule == ledgertest.OneContent || v.Rule == ledgertest.OneHistory
	}) {
		t.Error("transactions were not compared with anything, and nothing is found")
	}
}

// inTime waits a while for what may not come.
func inTime(holds func() bool) bool {
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}

// paidInTime waits a while for another payment.
func (c *faultyCluster) paidInTime() bool {
	before := c.seen.applied()
	return inTime(func() bool { return c.seen.applied() > before })
}

// writtenTwice says whether a serial number was written with two contents.
func writtenTwice(writes []ledgertest.Write) bool {
	values := map[uint64]string{}
	for _, w := range writes {
		if before, seen := values[w.Serial]; seen && before != w.Value {
			return true
		}
		values[w.Serial] = w.Value
	}
	return false
}
