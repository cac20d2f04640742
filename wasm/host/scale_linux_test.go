package host

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"webring/core"
	"webring/core/abi"
	"webring/core/coretest"
	"webring/core/snap"
)

// realistic gives the snapshot of a ring of n members with names of 24 bytes, URLs
// of 32 and descriptions of 80, all of which decay, with totals of 4 USD on
// average; and the second of its last event.
func realistic(b *testing.B, n int) (snapshot []byte, now int64) {
	b.Helper()
	const seed = 31
	b.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	st := core.NewState(n, 1)
	st.Expect(n, 300*n)
	apply := func(e core.Event, texts *core.Texts) {
		step := coretest.NewStep(e, texts)
		if err := st.Apply(step.EventBytes, step.TextBytes); err != nil {
			b.Fatal(err)
		}
	}
	apply(&core.Rules{Stamp: epoch * 1000, Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100,
		Decay: 90 * 86400, Scorer: "fixed", RequiredScore: 40}, nil)
	const month = 30 * 86400
	for i := range int64(n) {
		texts := &core.Texts{Name: core.Text{Value: fmt.Sprintf("The member of number %08d", i)[:24]},
			URL:         core.Text{Value: fmt.Sprintf("https://member-%08d.example/", i)[:32]},
			Description: core.Text{Value: strings.Repeat("what it is for ", 6)[:80]}}
		apply(&core.Joined{Stamp: epoch*1000 + i*month*1000/int64(n), Slug: fmt.Sprintf("member-%d", i), Kind: core.Kind(1 + i%3), Category: fmt.Sprintf("category-%d", i%20),
			Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL), Description: coretest.Commit(texts.Description),
			Fee: 100, Bid: 100 + random.Int64N(400)}, texts)
	}
	return snap.Append(nil, st), epoch + month
}

// BenchmarkScale measures a pool in a ring of a million members, or SCALE of them:
// its start from a snapshot; the memory that instances share, and that each has to
// itself at first and after an hour of answers, steps and bids; what a second
// costs, a bid, a join, and an hour at once, in the module, and a second natively,
// against a radix sort of all members.
func BenchmarkScale(b *testing.B) {
	const instances = 3
	n := scale()
	runtime.LockOSThread() // for threadTime
	snapshot, now := realistic(b, n)
	newPool(b, PoolConfig{Capacity: 1 << 24, Instances: 1}) // compiles
	each := func(bytes int, name string) { b.ReportMetric(float64(bytes)/float64(n), name) }
	for b.Loop() {
		var start, seconds, bids, joins, hour times
		var p *Pool
		start.measure(b, func() error {
			p = newPool(b, PoolConfig{Capacity: 1 << 24, Instances: instances, Snapshot: snapshot})
			var r Response
			if p.Serve([]byte("/next?from=member-7"), &r); r.Status != 302 {
				return fmt.Errorf("status %d", r.Status)
			}
			return nil
		})
		taken := all(b, p)
		worn, rested, grown := taken[0].in, taken[1].in, taken[2].in
		each(len(snapshot), "snapshot-B/member")
		each(mapped(b, worn.shared, "Rss")-mapped(b, worn.shared, "Anonymous"), "shared-B/member")
		each(mapped(b, linear(worn), "Anonymous"), "fresh-B/member")

		// An hour passes in one instance second by second, with answers and bids, and in
		// another at once.
		random := rand.New(rand.NewPCG(1, 1))
		var r Response
		for _, s := range taken {
			if err := s.in.advance(now); err != nil {
				b.Fatal(err)
			}
		}
		for at := now + 1; at <= now+3600; at++ {
			seconds.measure(b, func() error { return worn.advance(at) })
			if err := worn.serve(fmt.Appendf(nil, "/next?from=member-%d", random.IntN(n)), 1, &r); err != nil || r.Status != 302 {
				b.Fatal(err, r.Status)
			}
			if at%4 == 0 {
				bids.apply(b, worn, at, record(&core.Bid{Stamp: at * 1000, Member: fmt.Sprintf("member-%d", random.IntN(n)), Amount: 100}, nil))
			}
		}
		each(mapped(b, linear(worn), "Anonymous"), "worn-B/member")
		hour.measure(b, func() error { return rested.advance(now + 3600) })

		// Members that join write to pages that bids leave shared, and to some that nobody
		// has used: all are private by now. The first of an instance takes longest, as the
		// heap of the module gets its first spans.
		if err := unix.Madvise(linear(grown), unix.MADV_POPULATE_WRITE); err != nil {
			b.Fatal(err)
		}
		for i := range int64(5000) {
			if err := grown.advance(now + i); err != nil {
				b.Fatal(err)
			}
			joins.apply(b, grown, now+i, join(fmt.Sprintf("late-%d", i), 100, (now+i)*1000))
		}
		put(taken)
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(start.passed[0].Seconds()*1000, "start-ms")
		b.ReportMetric(hour.passed[0].Seconds()*1000, "hour-ms")
		seconds.report(b, "second")
		bids.report(b, "bid")
		joins.report(b, "join")
		natively(b, n, now, snapshot)
	}
}

// natively measures a second of the native core, and what sorting anew would take.
func natively(b *testing.B, n int, now int64, snapshot []byte) {
	native, err := LoadNative(1<<24, snapshot)
	if err != nil {
		b.Fatal(err)
	}
	native.core.Advance(now)
	var seconds, sorts times
	for at := now + 1; at <= now+3600; at++ {
		seconds.measure(b, func() error { native.core.Advance(at); return nil })
	}
	random := rand.New(rand.NewPCG(1, 1))
	keys, spare := make([]uint64, n), make([]uint64, n)
	for range 5 {
		for i := range keys {
			keys[i] = uint64(random.IntN(500))<<26 | uint64(i)
		}
		sorts.measure(b, func() error { radix(keys, spare); return nil })
	}
	var sum time.Duration
	for _, d := range seconds.processor {
		sum += d
	}
	slices.Sort(sorts.processor)
	sort := sorts.processor[2]
	b.ReportMetric(sort.Seconds()*1000, "sort-ms")
	b.ReportMetric(float64(sort)/(float64(sum)/float64(len(seconds.processor))), "sort/native-second")
	seconds.report(b, "native-second")
}

// radix is the sort that a second is held against: by the bits of standings alone.
func radix(keys, spare []uint64) {
	for shift := 26; shift < 36; shift += 8 {
		var at [257]int
		for _, k := range keys {
			at[k>>shift&255+1]++
		}
		for i := range 256 {
			at[i+1] += at[i]
		}
		for _, k := range keys {
			spare[at[k>>shift&255]] = k
			at[k>>shift&255]++
		}
		keys, spare = spare, keys
	}
}

// times are how long something took each time, and how long of that the thread
// ran: what it does not wait for others on the same machine.
type times struct{ passed, processor []time.Duration }

func (t *times) measure(b *testing.B, f func() error) {
	began, used := time.Now(), threadTime()
	err := f()
	t.processor = append(t.processor, threadTime()-used)
	t.passed = append(t.passed, time.Since(began))
	if err != nil {
		b.Fatal(err)
	}
}

// apply measures what it takes until one record is in what is answered.
func (t *times) apply(b *testing.B, in *instance, second int64, r Record) {
	encoded := [][]byte{abi.AppendRecord(nil, r)}
	t.measure(b, func() error {
		reply, err := in.apply(encoded)
		if err == nil && reply.Refused {
			err = fmt.Errorf("refused: %s", reply.Rest)
		}
		if err == nil {
			err = in.advance(second)
		}
		return err
	})
}

// report reports quantiles, those of the processor in cpu. It sorts the times.
func (t *times) report(b *testing.B, name string) {
	for suffix, of := range map[string][]time.Duration{"": t.passed, "-cpu": t.processor} {
		slices.Sort(of)
		for what, quantile := range map[string]int{"p50-µs": 50, "p99-µs": 99, "longest-µs": 100} {
			b.ReportMetric(float64(of[(len(of)-1)*quantile/100].Nanoseconds())/1000, name+"-"+what+suffix)
		}
	}
}

// threadTime is how long the thread that asks has run, faults of pages included.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// scale is how many members there are.
func scale() int {
	if n, err := strconv.Atoi(os.Getenv("SCALE")); err == nil {
		return n
	}
	return 1_000_000
}
