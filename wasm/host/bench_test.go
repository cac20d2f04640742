package host

import (
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// crowd is the size of the ring that is measured.
const crowd = 100_000

// BenchmarkCall compares what one answer costs through the module with what it
// costs natively, in a ring of 100 000 members: medians of five rounds, taken in
// turn. The goal is a ratio of 2.5, and no allocation in the host.
//
// Instances keep answers to what is asked for again: "again" is what members'
// pages cost between two events, "anew" what a walk through the ring costs, in
// which nothing is asked twice. The native core keeps nothing in either.
func BenchmarkCall(b *testing.B) {
	records := ring(crowd)
	native := NewNative(crowd)
	wasm := newPool(b, PoolConfig{Capacity: crowd, Instances: 1})
	for _, n := range []tested{native, wasm} {
		if err := n.Apply(records); err != nil {
			b.Fatal(err)
		}
		n.Tick(time.Unix(epoch+crowd/1000, 0))
	}
	// Members are asked for in no order, as by visitors.
	froms := make([]string, crowd)
	for i := range froms {
		froms[i] = "m" + strconv.Itoa(i*7919*31%crowd)
	}
	for _, c := range []struct {
		name, path   string
		asked, calls int // targets that differ, and calls in a round
	}{
		{"next/again", "/next?from=", 1024, 50_000}, {"next/anew", "/next?from=", crowd, 50_000},
		{"api-next/again", "/api/ring/next?from=", 1024, 50_000}, {"api-next/anew", "/api/ring/next?from=", crowd, 50_000},
		{"widget/again", "/api/widget?from=", 1024, 20_000}, {"widget/anew", "/api/widget?from=", crowd, 20_000},
		{"detail/again", "/api/ring/", 1024, 20_000}, {"detail/anew", "/api/ring/", crowd, 20_000},
		{"leaderboard/again", "/api/leaderboard?limit=100&from=", 8, 500}, {"leaderboard/anew", "/api/leaderboard?limit=100&from=", crowd, 500},
	} {
		targets := make([][]byte, c.asked)
		for i, from := range froms[:c.asked] {
			targets[i] = []byte(c.path + from)
		}
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				var each [2][]float64
				for round := range 5 {
					for i, n := range []tested{native, wasm} {
						each[i] = append(each[i], perCall(n, targets, round*c.calls, c.calls))
					}
				}
				b.ReportMetric(median(each[0]), "native-ns/call")
				b.ReportMetric(median(each[1]), "wasm-ns/call")
				b.ReportMetric(median(each[1])/median(each[0]), "ratio")
				var r Response
				b.ReportMetric(testing.AllocsPerRun(100, func() { wasm.Serve(targets[0], &r) }), "host-allocs/call")
			}
		})
	}
}

// perCall asks for as many targets in turn, from one on.
func perCall(n tested, targets [][]byte, from, calls int) float64 {
	var r Response
	n.Serve(targets[0], &r)
	began := processorTime()
	for i := range calls {
		n.Serve(targets[(from+i)%len(targets)], &r)
	}
	return float64((processorTime() - began).Nanoseconds()) / float64(calls)
}

// processorTime is how long this process has run, on a machine that may have
// others to run.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}

// BenchmarkStart measures how long a pool takes from a snapshot of 100 000
// members to its first answer, with the compiled code at hand, and the memory
// that an instance then has.
func BenchmarkStart(b *testing.B) {
	n := NewNative(crowd)
	if err := n.Apply(ring(crowd)); err != nil {
		b.Fatal(err)
	}
	snapshot := n.Snapshot()
	newPool(b, PoolConfig{Capacity: crowd, Instances: 1}) // compiles
	for b.Loop() {
		began := processorTime()
		p := newPool(b, PoolConfig{Capacity: crowd, Instances: 1, Snapshot: snapshot})
		var r Response
		p.Serve([]byte("/next?from=m7"), &r)
		if r.Status != 302 {
			b.Fatalf("status %d", r.Status)
		}
		b.ReportMetric(float64((processorTime() - began).Milliseconds()), "processor-ms")
		b.StopTimer()
		in := anyOf(p)
		b.ReportMetric(float64(in.memory.Size())/crowd, "B/member")
		p.rack.put(in)
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
		runtime.GC()
		b.StartTimer()
	}
	b.ReportMetric(float64(len(snapshot))/crowd, "snapshot-B/member")
}
