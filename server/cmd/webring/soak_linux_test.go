package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// smallDisk gives a folder on a disk that can be full, if one can be mounted here.
func smallDisk(t *testing.T) (dir string, full func(bool)) {
	d, err := tryDisk(t)
	if err != nil {
		t.Logf("no disk will be full: none can be mounted here (%v)", err)
		return "", nil
	}
	return d.dir, func(full bool) {
		free := uint64(8 << 30)
		if full {
			free = 1 << 20
		}
		d.leave(free)
	}
}

// TestSoak has buyers pay at three origins on three members of etcd, and at edges, while
// processes are killed and stopped, links are cut and silent, and a disk is full, in an order
// that the seed gives. Clocks are up to ten seconds apart. In the end, nothing may violate what
// the cluster promises, and no read of an edge may have failed. A short run has few mishaps.
func TestSoak(t *testing.T) {
	t.Parallel()
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-soak.seed=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1<<32))
	o := faultyOptions{nodes: 3, edges: 3, evm: true, disk: smallDisk, clocks: func(i int) string { return fmt.Sprintf("%ds", (i-1)*5) }}
	tempo, evm, all := 8, 3, mishaps
	if *soakTime == 0 {
		o.edges, o.disk, tempo, evm = 1, nil, 5, 1
		all = slices.DeleteFunc(slices.Clone(mishaps), func(m mishap) bool { return !slices.Contains(few, m.name) })
	}
	c := startFaulty(t, o)
	c.logsIfFailed()
	buyers := c.buy(seed, tempo, evm, 1)
	eventually(t, "the first payments", longEnough, func() bool { return c.seen.applied() > 10 })
	order := random.Perm(len(all))
	var recovered []time.Duration
	for began := time.Now(); len(recovered) < len(all) || time.Since(began) < *soakTime; {
		m := all[order[len(recovered)%len(order)]]
		before := c.seen.applied()
		whom := m.do(c, random)
		lasts := time.Duration(random.IntN(2000)) * time.Millisecond
		if m.long {
			lasts += lease + time.Second
		}
		t.Logf("%s (%s), for %s; %d payments", m.name, whom, lasts.Round(10*time.Millisecond), before)
		pause(t.Context(), lasts)
		c.heal()
		healed, paid := time.Now(), c.seen.applied()
		eventually(t, "another payment after "+m.name, longEnough, func() bool { return c.seen.applied() > paid })
		recovered = append(recovered, time.Since(healed))
	}
	buyers.dismiss(t)
	for _, v := range c.settled() {
		t.Error(v)
	}
	for _, e := range c.edges {
		if failed, _ := c.seen.failures(e.name); len(failed) > 0 {
			t.Errorf("%d reads at %s failed: %s", len(failed), e.name, strings.Join(failed[:min(len(failed), 5)], "; "))
		}
	}
	slices.Sort(recovered)
	t.Logf("%d mishaps; the next payment came after %s (median), %s at most", len(recovered), recovered[len(recovered)/2].Round(time.Millisecond), recovered[len(recovered)-1].Round(time.Millisecond))
	c.tell()
}
