package host

import (
	"errors"
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
	taken := []*instance{anyOf(p), anyOf(p)} // so both are there
	put(p, taken)
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
	a := &asker{b: b, p: p, twins: make([]*instance, p.config.Instances)}
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
	for _, twin := range a.twins {
		if twin != nil {
			twin.close()
		}
	}
}

// asker asks a pool, and tells what it waits for work from what it waits for the
// machine.
type asker struct {
	b     *testing.B
	p     *Pool
	r     Response
	twins []*instance // by slot: each has done what the pool's there has, and is no further on

	took     times
	waited   []time.Duration // for an instance, of those who had to
	due      []time.Duration
	repeated int // how often a twin was asked
}

// suspicious is what a request may take by itself before a twin is asked: half of what
// it may wait.
const suspicious = 500 * time.Microsecond

// ask does as [Pool.Serve]. What is due to records and seconds is for how long it waits
// until an instance is free, and the time of the processor from there on, which has
// the instance brought to the head. If that is long, a twin of the instance, as far
// behind as that one was, does it all once more. Work is the same each time, and
// interrupts, or the owner of the machine, hardly strike twice: the shorter is due.
func (a *asker) ask(target []byte) {
	began, used := time.Now(), threadTime()
	var waited time.Duration
	for {
		in := a.p.free.get()
		if in == nil {
			waits, before := time.Now(), threadTime()
			if in = a.p.wait(&a.p.free.readers, waitServe); in == nil {
				a.b.Error("no instance is free")
				return
			}
			waited += time.Since(waits)
			used += threadTime() - before
		}
		slot, from := in.slot, in.at
		if !a.p.catchUp(in) {
			continue
		}
		to := in.at
		if !a.p.serve(in, target, &a.r) || a.r.Status != 302 {
			a.b.Errorf("status %d", a.r.Status)
			return
		}
		work, passed := threadTime()-used, time.Since(began)
		// It takes milliseconds to make room for more, and counts for nothing.
		a.took.processor, a.took.passed = append(a.took.processor, work), append(a.took.passed, passed)
		if waited > 0 {
			a.waited = append(a.waited, waited)
		}
		if work > suspicious {
			work = min(work, a.repeat(slot, from, to, target))
		}
		a.due = append(a.due, waited+work)
		return
	}
}

// repeat has the twin of an instance go from one head to another and answer, and says
// how long that takes. It gives no bound when the twin cannot be where that began.
func (a *asker) repeat(slot int, from, to *head, target []byte) time.Duration {
	const unknown = time.Hour
	a.repeated++
	twin := a.twins[slot]
	var err error
	if twin != nil {
		if err = a.p.follow(twin, from); err != nil {
			twin.close()
		}
	}
	if twin == nil || errors.Is(err, errRecords) {
		if twin, err = a.p.build(slot); err == nil {
			a.twins[slot] = twin
			if twin.seq > from.seq {
				return unknown // there is an image from further on
			}
			err = a.p.follow(twin, from)
		}
	}
	var r Response
	began := threadTime()
	if err == nil {
		err = a.p.follow(twin, to)
	}
	if err == nil {
		err = twin.serve(target, 1, &r)
	}
	took := threadTime() - began
	if err != nil || r.Status != 302 {
		a.b.Errorf("a twin gives %d, %v", r.Status, err)
	}
	return took
}

func (a *asker) report(name string) {
	rounds{&a.took}.report(a.b, name)
	a.b.ReportMetric(float64(len(a.due)), name+"-answers")
	a.b.ReportMetric(float64(a.repeated), name+"-repeated")
	a.b.ReportMetric(float64(len(a.waited)), name+"-for-an-instance")
	for of, all := range map[string][]time.Duration{"": a.took.passed, "due-": a.due, "for-an-instance-": a.waited} {
		slices.Sort(all)
		over, _ := slices.BinarySearch(all, time.Millisecond)
		a.b.ReportMetric(float64(len(all)-over), name+"-"+of+"over-1ms")
		if len(all) > 0 {
			a.b.ReportMetric(float64(all[len(all)*999/1000].Nanoseconds())/1000, name+"-"+of+"p99.9-µs")
			a.b.ReportMetric(float64(all[len(all)-1].Nanoseconds())/1000, name+"-"+of+"longest-µs")
		}
	}
}
