package host

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"webring/core"
)

// BenchmarkScaleWaits asks a pool all the while seconds pass, members join and are
// bid on, one at a time and once in a while as many as a block has, and an hour
// passes at once, in a ring of a million members, or SCALE of them. It says how long
// answers took, and what of that was due to what happened; see [asker.ask]. Before
// that it asks for as long while nothing happens: then nothing can be due, and all
// that takes long is the machine's.
func BenchmarkScaleWaits(b *testing.B) {
	n := scale()
	snapshot, now := realistic(b, n)
	p := newPool(b, PoolConfig{Capacity: 1 << 24, Instances: 2, Snapshot: snapshot})
	put(all(b, p))
	p.Tick(time.Unix(now, 0))
	random := rand.New(rand.NewPCG(2, 2))
	const seconds, events, block = 1000, 5, 256
	joined := 0
	some := func() Record {
		if random.IntN(4) > 0 {
			return record(&core.Bid{Stamp: now * 1000, Member: fmt.Sprintf("member-%d", random.IntN(n)), Amount: 100}, nil)
		}
		joined++
		return join(fmt.Sprintf("late-%d", joined), 100, now*1000)
	}
	for b.Loop() {
		waits(b, p, "still", func() { time.Sleep(seconds * events * time.Millisecond) })
		waits(b, p, "wait", func() {
			for second := range seconds {
				now++
				if second == seconds/2 {
					now += 3600
				}
				p.Tick(time.Unix(now, 0))
				for event := range events {
					time.Sleep(time.Millisecond)
					records := []Record{some()}
					for event == 0 && second%100 == 0 && len(records) < block {
						records = append(records, some())
					}
					if err := p.Apply(records); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// waits reports how long members' answers take while something happens, and how much
// of that is due to it.
func waits(b *testing.B, p *Pool, name string, happens func()) {
	var stop atomic.Bool
	a := &asker{b: b, p: p}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		random, n := rand.New(rand.NewPCG(1, 1)), scale()
		var target []byte
		for !stop.Load() {
			target = fmt.Appendf(target[:0], "/next?from=member-%d", random.IntN(n))
			a.ask(target)
		}
	}()
	happens()
	stop.Store(true)
	<-done
	a.report(name)
}

// asker asks a pool, and tells what it waits for work from what it waits for the
// machine.
type asker struct {
	b    *testing.B
	p    *Pool
	r    Response
	took times
	due  []time.Duration
}

// ask does as [Pool.Serve]. What is due to records and seconds is for how long it waits for
// an instance at the head, unless one is free. The answer itself is the same work at any time.
func (a *asker) ask(target []byte) {
	began, used := time.Now(), threadTime()
	var due time.Duration
	s := a.free()
	if s == nil {
		waits := time.Now()
		s, _ = a.p.acquire()
		due = time.Since(waits)
	}
	if !a.p.serve(s, target, &a.r) || a.r.Status != 302 {
		a.b.Errorf("status %d", a.r.Status)
	}
	a.took.processor, a.took.passed = append(a.took.processor, threadTime()-used), append(a.took.passed, time.Since(began))
	a.due = append(a.due, due)
}

// free locks a slot with an instance at the head, if one is free.
func (a *asker) free() *slot {
	for i := range a.p.slots {
		if s := &a.p.slots[i]; s.at.Load() == a.p.head.Load() && s.mu.TryLock() {
			if s.at.Load() != nil {
				return s
			}
			s.mu.Unlock()
		}
	}
	return nil
}

func (a *asker) report(name string) {
	a.took.report(a.b, name)
	a.b.ReportMetric(float64(len(a.due)), name+"-answers")
	for of, all := range map[string][]time.Duration{"": a.took.passed, "due-": a.due} {
		slices.Sort(all)
		over, _ := slices.BinarySearch(all, time.Millisecond)
		a.b.ReportMetric(float64(len(all)-over), name+"-"+of+"over-1ms")
		if len(all) > 0 {
			a.b.ReportMetric(float64(all[len(all)*999/1000].Nanoseconds())/1000, name+"-"+of+"p99.9-µs")
			a.b.ReportMetric(float64(all[len(all)-1].Nanoseconds())/1000, name+"-"+of+"longest-µs")
		}
	}
}
