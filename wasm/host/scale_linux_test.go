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
//
// Five pools live through the same, but for the secret of their indexes, one after the
// other. Quantiles of seconds, bids and joins are of all of them together; start-ms and
// hour-ms are medians, memory is that of the last pool, native figures are of one round.
// What ends in least is the 99th percentile of the least time that each second, bid and
// join took in any of the five: a lower bound, which leaves out the machine, and what
// bad luck in hashing costs. After each bid and join, a walk through memory is measured
// that takes as many steps each time: how far its quantiles lie apart is the machine's
// doing.
func BenchmarkScale(b *testing.B) {
	n := scale()
	runtime.LockOSThread() // for threadTime
	snapshot, now := realistic(b, n)
	newPool(b, PoolConfig{Capacity: 1 << 24, Instances: 1}) // compiles
	runtime.GC()
	for b.Loop() {
		var starts, seconds, bids, joins, hours, walks rounds
		circle := newCircle()
		for range 5 {
			p := lives{B: b, n: n, now: now, walk: walk{next: circle}, walks: walks.next()}
			p.start(&starts, snapshot)
			p.hour(seconds.next(), bids.next(), hours.next())
			p.joins(joins.next())
			p.end()
		}
		b.ReportMetric(float64(len(snapshot))/float64(n), "snapshot-B/member")
		b.ReportMetric(starts.median(passed).Seconds()*1000, "start-ms")
		b.ReportMetric(hours.median(passed).Seconds()*1000, "hour-ms")
		seconds.report(b, "second")
		bids.report(b, "bid")
		joins.report(b, "join")
		walks.report(b, "walk")
		natively(b, n, now, snapshot)
	}
}

// lives is a pool that lives through what [BenchmarkScale] measures.
type lives struct {
	*testing.B
	n     int
	now   int64
	pool  *Pool
	taken []*slot
	walk  walk
	walks *times
}

// start makes the pool and takes its three instances.
func (p *lives) start(starts *rounds, snapshot []byte) {
	const instances = 3
	starts.next().measure(p.B, func() error {
		p.pool = newPool(p.B, PoolConfig{Capacity: 1 << 24, Instances: instances, Snapshot: snapshot})
		var r Response
		if p.pool.Serve([]byte("/next?from=member-7"), &r); r.Status != 302 {
			return fmt.Errorf("status %d", r.Status)
		}
		return nil
	})
	p.taken = all(p.B, p.pool)
	in := p.taken[0].in
	p.each(mapped(p.B, in.shared, "Rss")-mapped(p.B, in.shared, "Anonymous"), "shared-B/member")
	p.each(private(p.B, in), "fresh-B/member")
}

// each reports so many bytes as what there are for a member.
func (p *lives) each(bytes int, name string) { p.ReportMetric(float64(bytes)/float64(p.n), name) }

// hour has an hour pass in the first instance second by second, with answers and
// bids, and in the second one at once.
func (p *lives) hour(seconds, bids, atOnce *times) {
	in, second := p.taken[0].in, p.taken[1].in
	random := rand.New(rand.NewPCG(1, 1))
	var r Response
	for _, s := range p.taken {
		if err := s.in.advance(p.now); err != nil {
			p.Fatal(err)
		}
	}
	for at := p.now + 1; at <= p.now+3600; at++ {
		seconds.measure(p.B, func() error { return in.advance(at) })
		if err := in.serve(fmt.Appendf(nil, "/next?from=member-%d", random.IntN(p.n)), 1, &r); err != nil || r.Status != 302 {
			p.Fatal(err, r.Status)
		}
		if at%4 == 0 {
			p.apply(bids, in, at, record(&core.Bid{Stamp: at * 1000, Member: fmt.Sprintf("member-%d", random.IntN(p.n)), Amount: 100}, nil))
		}
	}
	p.each(private(p.B, in), "worn-B/member")
	atOnce.measure(p.B, func() error { return second.advance(p.now + 3600) })
}

// joins has members join in the third instance. They write to pages that bids leave
// shared, and to some that nobody has used: all are private by now. The first of an
// instance takes longest, as the heap of the module gets its first spans.
func (p *lives) joins(joins *times) {
	in := p.taken[2].in
	if err := unix.Madvise(linear(in), unix.MADV_POPULATE_WRITE); err != nil {
		p.Fatal(err)
	}
	for i := range int64(5000) {
		if err := in.advance(p.now + i); err != nil {
			p.Fatal(err)
		}
		p.apply(joins, in, p.now+i, join(fmt.Sprintf("late-%d", i), 100, (p.now+i)*1000))
	}
}

// apply measures what it takes until one record is in what is answered, and a walk.
func (p *lives) apply(into *times, in *instance, second int64, r Record) {
	encoded := [][]byte{abi.AppendRecord(nil, r)}
	into.measure(p.B, func() error {
		reply, err := in.apply(encoded)
		if err == nil && reply.Refused {
			err = fmt.Errorf("refused: %s", reply.Rest)
		}
		if err == nil {
			err = in.advance(second)
		}
		return err
	})
	p.walks.measure(p.B, p.walk.steps)
}

// walk is one through memory, each step of which waits for the one before.
type walk struct {
	next []uint32 // by place
	at   uint32
}

// newCircle gives a circle through 256 MiB, about what a ring of a million members
// takes, in no order (Sattolo's).
func newCircle() (next []uint32) {
	next = make([]uint32, 64<<20)
	for i := range next {
		next[i] = uint32(i)
	}
	random := rand.New(rand.NewPCG(5, 5))
	for i := len(next) - 1; i > 0; i-- {
		j := random.IntN(i)
		next[i], next[j] = next[j], next[i]
	}
	return next
}

// steps goes on by as many steps as take about as long as an event where this was
// written: 15 µs, a bid 10 and a join 16.
func (w *walk) steps() error {
	for range 32 {
		w.at = w.next[w.at]
	}
	return nil
}

func (p *lives) end() {
	put(p.taken)
	if err := p.pool.Close(); err != nil {
		p.Fatal(err)
	}
	runtime.GC()
}

// natively measures a second of the native core, and what sorting anew would take.
func natively(b *testing.B, n int, now int64, snapshot []byte) {
	native, err := LoadNative(1<<24, snapshot)
	if err != nil {
		b.Fatal(err)
	}
	native.core.Advance(now)
	var seconds, sorts rounds
	one := seconds.next()
	for at := now + 1; at <= now+3600; at++ {
		one.measure(b, func() error { native.core.Advance(at); return nil })
	}
	seconds.report(b, "native-second")
	random := rand.New(rand.NewPCG(1, 1))
	keys, spare := make([]uint64, n), make([]uint64, n)
	for range 5 {
		for i := range keys {
			keys[i] = uint64(random.IntN(500))<<26 | uint64(i)
		}
		sorts.next().measure(b, func() error { radix(keys, spare); return nil })
	}
	var sum time.Duration
	for _, d := range one.processor {
		sum += d
	}
	sort := sorts.median(processor)
	b.ReportMetric(sort.Seconds()*1000, "sort-ms")
	b.ReportMetric(float64(sort)/(float64(sum)/float64(len(one.processor))), "sort/native-second")
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

func passed(t *times) []time.Duration    { return t.passed }
func processor(t *times) []time.Duration { return t.processor }

// rounds are the times of the same things, in the same order, again and again.
type rounds []*times

func (r *rounds) next() *times {
	*r = append(*r, &times{})
	return (*r)[len(*r)-1]
}

// median is that of what was measured once in each round.
func (r rounds) median(of func(*times) []time.Duration) time.Duration {
	var all []time.Duration
	for _, t := range r {
		all = append(all, of(t)[0])
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// report reports quantiles of all times, those of the processor in cpu, and the 99th
// percentile of the least of each in least.
func (r rounds) report(b *testing.B, name string) {
	var all times
	least := slices.Clone(r[0].passed)
	for _, t := range r {
		all.passed, all.processor = append(all.passed, t.passed...), append(all.processor, t.processor...)
		for i, d := range t.passed {
			least[i] = min(least[i], d)
		}
	}
	report := func(of []time.Duration, quantile int, what string) {
		slices.Sort(of)
		b.ReportMetric(float64(of[(len(of)-1)*quantile/100].Nanoseconds())/1000, name+"-"+what)
	}
	for suffix, of := range map[string][]time.Duration{"": all.passed, "-cpu": all.processor} {
		report(of, 50, "p50-µs"+suffix)
		report(of, 99, "p99-µs"+suffix)
		report(of, 100, "longest-µs"+suffix)
	}
	if len(r) > 1 {
		report(least, 99, "p99-µs-least")
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

// private is how much of its memory an instance has to itself, guest and all, and the
// answers that it keeps.
func private(b *testing.B, in *instance) (bytes int) {
	b.Helper()
	return mapped(b, linear(in), "Anonymous")
}

// scale is how many members there are.
func scale() int {
	if n, err := strconv.Atoi(os.Getenv("SCALE")); err == nil {
		return n
	}
	return 1_000_000
}
