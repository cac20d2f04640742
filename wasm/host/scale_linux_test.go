package host

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

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
	n := scale()
	runtime.LockOSThread() // for threadTime
	snapshot, now := realistic(b, n)
	each := func(bytes int) float64 { return float64(bytes) / float64(n) }
	const instances = 3
	newPool(b, PoolConfig{Capacity: 1 << 24, Instances: 1}) // compiles
	runtime.GC()
	for b.Loop() {
		began, used := time.Now(), processorTime()
		p := newPool(b, PoolConfig{Capacity: 1 << 24, Instances: instances, Snapshot: snapshot, Native: true})
		var r Response
		if p.Serve([]byte("/next?from=member-7"), &r); r.Status != 302 {
			b.Fatalf("status %d", r.Status)
		}
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "start-ms")
		b.ReportMetric(float64((processorTime() - used).Milliseconds()), "start-processor-ms")
		b.ReportMetric(each(len(snapshot)), "snapshot-B/member")
		var taken []*instance
		for range instances {
			taken = append(taken, anyOf(p))
		}
		b.ReportMetric(each(resident(b, p.kept.start())), "shared-B/member")
		in := taken[0]
		b.ReportMetric(each(dirty(b, in)), "fresh-B/member")

		var seconds, bids, joins, natively, first, hour, sorts times
		measure := func(into *times, f func() error) {
			began, used := time.Now(), threadTime()
			err := f()
			into.processor = append(into.processor, threadTime()-used)
			into.passed = append(into.passed, time.Since(began))
			if err != nil {
				b.Fatal(err)
			}
		}
		apply := func(into *times, in *instance, second int64, r Record) {
			encoded := [][]byte{abi.AppendRecord(nil, r)}
			measure(into, func() error {
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
		random := rand.New(rand.NewPCG(1, 1))
		measure(&first, func() error { return in.advance(now) })
		for second := range int64(3600) {
			measure(&seconds, func() error { return in.advance(now + 1 + second) })
			if err := in.serve(fmt.Appendf(nil, "/next?from=member-%d", random.IntN(n)), 1, &r); err != nil || r.Status != 302 {
				b.Fatal(err, r.Status)
			}
			if second%4 == 0 {
				apply(&bids, in, now+1+second, record(&core.Bid{Stamp: (now + 1 + second) * 1000, Member: fmt.Sprintf("member-%d", random.IntN(n)), Amount: 100}, nil))
			}
		}
		b.ReportMetric(each(dirty(b, in)), "worn-B/member")
		quantiles(b, "second", seconds)
		quantiles(b, "bid", bids)
		if err := taken[1].advance(now); err != nil {
			b.Fatal(err)
		}
		measure(&hour, func() error { return taken[1].advance(now + 3600) })
		b.ReportMetric(float64(hour.passed[0].Microseconds())/1000, "hour-ms")
		// Joins write to pages that bids leave shared. They are private by now. The first
		// of an instance takes longest, as the heap of the module gets its first spans.
		third := taken[2]
		if err := unix.Madvise(third.shared, unix.MADV_POPULATE_WRITE); err != nil {
			b.Fatal(err)
		}
		for i := range int64(5000) {
			if err := third.advance(now + i); err != nil {
				b.Fatal(err)
			}
			apply(&joins, third, now+i, join(fmt.Sprintf("late-%d", i), 100, (now+i)*1000))
		}
		quantiles(b, "join", joins)
		put := func(in *instance) { p.rack.put(in) }
		for _, in := range taken {
			put(in)
		}

		// The same natively, and what sorting anew would take.
		native, err := LoadNative(1<<24, snapshot)
		if err != nil {
			b.Fatal(err)
		}
		native.core.Advance(now)
		steps := 0
		for second := range int64(3600) {
			reply, _ := abi.DecodeReply(native.core.Call(abi.OpBehind, uint64(now+1+second), nil))
			steps += int(binary.LittleEndian.Uint32(reply.Rest))
			measure(&natively, func() error { native.core.Advance(now + 1 + second); return nil })
		}
		b.ReportMetric(float64(steps), "steps/hour")
		quantiles(b, "native-second", natively)
		keys, spare := make([]uint64, n), make([]uint64, n)
		for range 5 {
			for i := range keys {
				keys[i] = uint64(random.IntN(500))<<26 | uint64(i)
			}
			measure(&sorts, func() error { radix(keys, spare); return nil })
		}
		slices.Sort(sorts.processor)
		var sum time.Duration
		for _, d := range natively.processor {
			sum += d
		}
		b.ReportMetric(float64(sorts.processor[2].Microseconds())/1000, "sort-ms")
		b.ReportMetric(float64(sorts.processor[2])/(float64(sum)/float64(len(natively.processor))), "sort/native-second")
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
	}
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

// quantiles reports times; those of the processor end in cpu.
func quantiles(b *testing.B, name string, of times) {
	for suffix, of := range map[string][]time.Duration{"": of.passed, "-cpu": of.processor} {
		slices.Sort(of)
		b.ReportMetric(float64(of[len(of)/2].Nanoseconds())/1000, name+"-p50-µs"+suffix)
		b.ReportMetric(float64(of[len(of)*99/100].Nanoseconds())/1000, name+"-p99-µs"+suffix)
		b.ReportMetric(float64(of[len(of)-1].Nanoseconds())/1000, name+"-longest-µs"+suffix)
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

// resident is how much memory the file of an image takes. It has all of it mapped
// from then on, like an instance that has read everything, so that the kernel
// does not count what only one other has read as private.
func resident(b *testing.B, of *image) int {
	b.Helper()
	s, ok := of.memory.(*sealed)
	if !ok {
		b.Fatal("memory is not shared")
	}
	info, err := s.file.Stat()
	if err != nil {
		b.Fatal(err)
	}
	blocks := int(info.Sys().(*syscall.Stat_t).Blocks) * 512
	all, err := syscall.Mmap(int(s.file.Fd()), 0, s.size, syscall.PROT_READ, syscall.MAP_PRIVATE|syscall.MAP_POPULATE)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = syscall.Munmap(all) })
	return blocks
}

// dirty is how much of its memory an instance has written to, guest and all, and
// the answers that it keeps.
func dirty(b *testing.B, in *instance) (bytes int) {
	b.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	least := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(in.linear.all))))
	inside := false
	for s := bufio.NewScanner(f); s.Scan(); {
		var from, to uint64
		if n, _ := fmt.Sscanf(s.Text(), "%x-%x ", &from, &to); n == 2 {
			inside = from >= least && to <= least+uint64(len(in.linear.all))
		}
		if size, ok := strings.CutPrefix(s.Text(), "Private_Dirty:"); ok && inside {
			kilo, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(size), " kB"))
			bytes += kilo << 10
		}
	}
	k := in.answers
	return bytes + len(k.log) + len(k.sets)*int(unsafe.Sizeof(k.sets[0])) + len(k.places)*int(unsafe.Sizeof(k.places[0]))
}

// scale is how many members there are.
func scale() int {
	if n, err := strconv.Atoi(os.Getenv("SCALE")); err == nil {
		return n
	}
	return 1_000_000
}
