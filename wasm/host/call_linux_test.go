package host

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"
)

// BenchmarkCall compares what one answer costs through the module with what it
// costs natively, in rings of a thousand, 100 000 and a million realistic members:
// medians of five rounds, taken in turn. The goal is less of both, no allocation in
// the host, and little more in the largest ring than in the smallest.
//
// "again" asks for a hundred targets, whose members a processor's cache has; "anew" for
// members in no order, none twice.
func BenchmarkCall(b *testing.B) {
	for _, n := range []int{1000, 100_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { callIn(b, n) })
	}
}

// callIn is BenchmarkCall in a ring of n members.
func callIn(b *testing.B, n int) {
	snapshot, now := realistic(b, n)
	native, err := LoadNative(n, snapshot)
	if err != nil {
		b.Fatal(err)
	}
	wasm := newPool(b, PoolConfig{Capacity: n, Instances: 1, Snapshot: snapshot})
	native.Tick(time.Unix(now, 0))
	wasm.Tick(time.Unix(now, 0))
	order := rand.New(rand.NewPCG(1, 1)).Perm(n)
	for _, c := range []struct {
		name, target   string
		differ, rounds int // targets, and calls in a round
	}{
		{"next", "/next?from=member-%d", n, 50_000},
		{"api-next", "/api/ring/next?from=member-%d", n, 50_000},
		{"widget", "/api/widget?from=member-%d", n, 20_000},
		{"detail", "/api/ring/member-%d", n, 20_000},
		{"leaderboard", "/api/leaderboard?limit=100&offset=%d", n - 100, 500},
		{"ring", "/api/ring?limit=100&offset=%d", n - 100, 500},
	} {
		targets := make([][]byte, 0, 1<<18)
		for _, o := range order {
			if o < c.differ && len(targets) < cap(targets) {
				targets = append(targets, fmt.Appendf(nil, c.target, o))
			}
		}
		few := targets[:min(len(targets), 100)]
		b.Run(c.name+"/again", func(b *testing.B) { compareCalls(b, native, wasm, few, c.rounds) })
		b.Run(c.name+"/anew", func(b *testing.B) { compareCalls(b, native, wasm, targets, c.rounds) })
	}
	if err := wasm.Close(); err != nil {
		b.Fatal(err)
	}
}

// compareCalls reports what calls for targets cost.
func compareCalls(b *testing.B, native *Native, wasm *Pool, targets [][]byte, calls int) {
	runtime.LockOSThread() // for threadTime
	defer runtime.UnlockOSThread()
	asked := 0
	perCall := func(n tested) float64 {
		var r Response
		var took time.Duration
		for rest := calls; rest > 0; {
			some := targets[asked%len(targets):]
			some = some[:min(len(some), rest)]
			began := threadTime()
			for _, target := range some {
				n.Serve(target, &r)
			}
			took += threadTime() - began
			asked += len(some)
			rest -= len(some)
		}
		return float64(took.Nanoseconds()) / float64(calls)
	}
	for b.Loop() {
		asked = 0
		perCall(native)
		perCall(wasm)
		var natively, inside []float64
		for range 5 {
			from := asked
			natively = append(natively, perCall(native))
			asked = from // the same ones
			inside = append(inside, perCall(wasm))
		}
		b.ReportMetric(median(natively), "native-ns/call")
		b.ReportMetric(median(inside), "wasm-ns/call")
		var r Response
		b.ReportMetric(testing.AllocsPerRun(100, func() { wasm.Serve(targets[0], &r) }), "host-allocs/call")
	}
}

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}
