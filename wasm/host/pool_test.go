package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// ring gives the records of a ring with n members, all of them bidding.
func ring(n int) []Record {
	records := []Record{rules()}
	for i := range int64(n) {
		records = append(records, join(fmt.Sprintf("m%d", i), 100+i%1000, epoch*1000+i))
	}
	return records
}

// anyOf takes an instance out of the pool, when there is one.
func anyOf(p *Pool) *instance {
	return p.free.wait(&p.free.readers, time.After(time.Minute), nil, nil)
}

// all takes every instance out of the pool, when all have been built.
func all(t *testing.T, p *Pool) []*instance {
	t.Helper()
	var taken []*instance
	for range p.config.Instances {
		in := anyOf(p)
		if in == nil {
			t.Fatalf("%d of %d instances are in the pool", len(taken), p.config.Instances)
		}
		taken = append(taken, in)
	}
	return taken
}

// toHead takes an instance to the head, however far that is.
func toHead(t *testing.T, p *Pool, in *instance) {
	t.Helper()
	if err := p.follow(in, p.head.Load()); err != nil {
		t.Fatal("an instance cannot be brought to the head:", err)
	}
}

func put(p *Pool, instances []*instance) {
	for _, in := range instances {
		p.free.put(in)
	}
}

// breakAll makes the next call trap: what happens then is what happens after the
// guest has ended itself.
func breakAll(t *testing.T, p *Pool) {
	t.Helper()
	taken := all(t, p)
	for _, in := range taken {
		if err := in.module.CloseWithExitCode(background, 2); err != nil {
			t.Fatal(err)
		}
	}
	put(p, taken)
}

func TestServingAllocatesNothingInTheHost(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1000, Instances: 1})
	if err := p.Apply(ring(300)); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/next?from=m7", "/api/widget?from=m7", "/api/leaderboard", "/random", "/nothing"} {
		var r Response
		raw := []byte(target)
		for range 10 { // buffers grow, and so do the guest's
			p.Serve(raw, &r)
		}
		if n := testing.AllocsPerRun(200, func() { p.Serve(raw, &r) }); n != 0 {
			t.Errorf("%s: %v allocations", target, n)
		}
	}
}

func TestATrapIsAnsweredCountedAndMended(t *testing.T) {
	for _, instances := range []int{2, 3} { // the native core answers after the last one
		t.Run(fmt.Sprint(instances), func(t *testing.T) {
			p := newPool(t, PoolConfig{Capacity: 1000, Instances: instances})
			if err := p.Apply(ring(5)); err != nil {
				t.Fatal(err)
			}
			want := get(p, "/api/leaderboard")
			taken := all(t, p)
			defer func() { put(p, taken) }()
			for n := range instances { // one at a time, while no other can answer
				in := taken[0]
				toHead(t, p, in) // or it would trap on its way there
				taken = taken[1:]
				broken(t, p, in)
				var r Response
				p.Serve([]byte("/api/leaderboard"), &r)
				if r.Status != 500 || r.Seq != 6 || !bytes.Contains(r.Body, []byte(`"type":"https://ring.example/problems/internal"`)) {
					t.Errorf("%d at %d: %s", r.Status, r.Seq, r.Body)
				}
				if int(p.Traps()) != n+1 {
					t.Errorf("%d traps of %d instances", p.Traps(), n+1)
				}
				if in = anyOf(p); in == nil {
					t.Fatal("it is not mended")
				}
				p.free.put(in)
				if got := get(p, "/api/leaderboard"); got != want {
					t.Errorf("after mending: %s", got)
				}
				taken = append(taken, anyOf(p))
			}
			if int(p.Traps()) != instances {
				t.Errorf("%d traps of %d instances", p.Traps(), instances)
			}
		})
	}
}

func TestATrapInTheWriterLosesNothing(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1000, Instances: 2})
	records := ring(50)
	if err := p.Apply(records[:20]); err != nil {
		t.Fatal(err)
	}
	taken := all(t, p)
	broken(t, p, taken[0])
	if err := p.Apply(records[20:]); err != nil {
		t.Fatal(err)
	}
	p.free.put(taken[1])
	_, want := follow(t, records).Digest()
	for _, in := range all(t, p) { // the one that was mended, too
		toHead(t, p, in)
		if seq, digest, err := in.digest(); err != nil || digest != want || seq != 51 {
			t.Errorf("%d %x %v, want %x", seq, digest, err, want)
		}
		defer put(p, []*instance{in})
	}
	if p.Traps() != 1 {
		t.Errorf("%d traps", p.Traps())
	}
}

func follow(t *testing.T, records []Record) *Native {
	t.Helper()
	n := NewNative(1 << 20)
	if err := n.Apply(records); err != nil {
		t.Fatal(err)
	}
	return n
}

// A pool that has cached many records takes an image in their place, and can
// still build instances and bring old ones along.
func TestCachedRecordsAreBounded(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1 << 20, Instances: 2})
	p.cache.most = 64 << 10
	records := ring(10_000)
	for from := 0; from < len(records); from += 777 {
		if err := p.Apply(records[from:min(from+777, len(records))]); err != nil {
			t.Fatal(err)
		}
	}
	p.cache.mu.RLock()
	if at := p.cache.image.at; at < 2*recordsBefore || p.cache.from+recordsBefore != at {
		t.Errorf("records from %d, image at %d", p.cache.from, at)
	}
	if p.cache.bytes > p.cache.most+300*777 {
		t.Errorf("%d bytes of records are cached", p.cache.bytes)
	}
	p.cache.mu.RUnlock()
	breakAll(t, p)
	_, want := follow(t, records).Digest()
	if seq, digest := p.Digest(); seq != 10_001 || digest != want {
		t.Errorf("rebuilt: %d %x, want %x", seq, digest, want)
	}
}

// long is memory of an image of any length, which nothing looks at.
type long struct {
	copies
	length int
}

func (l long) Len() int { return l.length }

// Records may grow with the image, within bounds.
func TestCachedRecordsGrowWithTheImage(t *testing.T) {
	for _, c := range []struct{ image, most int }{
		{0, leastRecords}, {16*leastRecords + 80, leastRecords + 5}, {16 * mostRecords, mostRecords}, {1 << 32, mostRecords},
	} {
		k := cache{image: &image{memory: long{length: c.image}}, most: mostRecords}
		k.append([][]byte{make([]byte, c.most)})
		before := k.full()
		k.append([][]byte{{1}})
		if before || !k.full() || k.overlong() != (c.most == mostRecords) {
			t.Errorf("for an image of %d bytes, %d of records are not the most", c.image, c.most)
		}
	}
}

func TestHostsGoOnFromEachOthersSnapshots(t *testing.T) {
	records := ring(100)
	want := follow(t, records)
	want.Tick(time.Unix(epoch+500, 0))
	_, digest := want.Digest()
	eachHost(t, 1000, func(t *testing.T, n tested) {
		if err := n.Apply(records[:60]); err != nil {
			t.Fatal(err)
		}
		snapshot := n.Snapshot()
		native, err := LoadNative(1000, snapshot)
		if err != nil {
			t.Fatal(err)
		}
		for name, next := range map[string]tested{"native": native, "pool": newPool(t, PoolConfig{Capacity: 1000, Instances: 2, Snapshot: snapshot})} {
			if seq, _ := next.Head(); seq != 60 || next.BaseURL() != "https://ring.example" {
				t.Errorf("%s begins at %d", name, seq)
			}
			if err := next.Apply(records[60:]); err != nil {
				t.Fatal(err)
			}
			next.Tick(time.Unix(epoch+500, 0))
			if seq, d := next.Digest(); seq != 101 || d != digest {
				t.Errorf("%s: %d %x, want %x", name, seq, d, digest)
			}
			if got, want := get(next, "/api/leaderboard"), get(want, "/api/leaderboard"); got != want {
				t.Errorf("%s: %s", name, got)
			}
		}
	})
}

func TestDamagedSnapshotsAreRefused(t *testing.T) {
	snapshot := follow(t, ring(20)).Snapshot()
	for _, b := range [][]byte{snapshot[:len(snapshot)-1], snapshot[:10], append(bytes.Clone(snapshot), 0)} {
		if _, err := LoadNative(1000, b); err == nil {
			t.Errorf("native takes %d of %d bytes", len(b), len(snapshot))
		}
		if p, err := NewPool(context.Background(), PoolConfig{Module: guest(t), CacheDir: compiled(), Capacity: 1000, Instances: 1, Snapshot: b}); err == nil {
			t.Errorf("the pool takes %d of %d bytes", len(b), len(snapshot))
			p.Close()
		}
	}
}

// Within a process no answer goes back in position or second, whichever
// instance gives it, while records arrive and the clock ticks and steps back by
// little.
func TestAnswersNeverGoBack(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 100_000, Instances: 3})
	// Standings fall every second, so that Since is the second of the answer.
	if err := p.Apply([]Record{rules(), join("lead", 5_000_000, epoch*1000)}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // orders the end of one answer before the beginning of another
	var seenSeq uint64
	var seenSince int64
	var stop atomic.Bool
	var readers sync.WaitGroup
	var answers atomic.Int64
	for range 6 {
		readers.Go(func() {
			var r Response
			for !stop.Load() {
				mu.Lock()
				seq, since := seenSeq, seenSince
				mu.Unlock()
				p.Serve([]byte("/api/leaderboard?limit=1"), &r)
				answers.Add(1)
				if r.Status != 200 || r.Seq < seq || r.Since < since {
					t.Errorf("status %d at %d, epoch%+d after %d, epoch%+d", r.Status, r.Seq, r.Since-epoch, seq, since-epoch)
					return
				}
				mu.Lock()
				seenSeq, seenSince = max(seenSeq, r.Seq), max(seenSince, r.Since)
				mu.Unlock()
			}
		})
	}
	for i := range int64(300) {
		now := epoch + 20 + i
		if err := p.Apply([]Record{join(fmt.Sprintf("m%d", i), 100, epoch*1000+i*100)}); err != nil {
			t.Fatal(err)
		}
		p.Tick(time.Unix(now, 0))
		p.Tick(time.Unix(now-i%5, 0)) // set right little by little
		for answers.Load() < i && !t.Failed() {
			runtime.Gosched() // readers are as fast as the machine lets them
		}
	}
	stop.Store(true)
	readers.Wait()
	wantHead(t, p, 302, epoch+319)
	if answers.Load() < 100 {
		t.Errorf("only %d answers were compared", answers.Load())
	}
	// A wrong clock takes all instances back.
	p.Tick(time.Unix(epoch+100, 0))
	for _, in := range all(t, p) {
		// One that was catching up elsewhere is taken back when it is used.
		if toHead(t, p, in); in.second != epoch+100 {
			t.Errorf("an instance at epoch%+d after a rewind", in.second-epoch)
		}
		defer put(p, []*instance{in})
	}
}

func TestCloseWaitsForCallsAndAnswersNoMore(t *testing.T) {
	p, err := NewPool(context.Background(), PoolConfig{Module: guest(t), CacheDir: compiled(), Capacity: 100, Instances: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(ring(20)); err != nil {
		t.Fatal(err)
	}
	var started, readers sync.WaitGroup
	for range 4 {
		started.Add(1)
		readers.Go(func() {
			started := sync.OnceFunc(started.Done)
			defer started() // whenever it ends
			var r Response
			for i := 0; ; i++ {
				p.Serve([]byte("/api/leaderboard"), &r)
				if i == 10 {
					started()
				}
				if r.Status == 500 {
					return
				}
			}
		})
	}
	started.Wait()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	readers.Wait()
	if err := p.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if err := p.Apply(nil); !errors.Is(err, ErrNoInstance) {
		t.Errorf("applying to a closed pool: %v", err)
	}
	if p.Traps() != 0 {
		t.Errorf("%d traps", p.Traps())
	}
}

func TestModulesThatAreNoCoreAreRefused(t *testing.T) {
	empty := []byte("\x00asm\x01\x00\x00\x00")
	for name, module := range map[string][]byte{"nothing": nil, "garbage": []byte("garbage"), "empty": empty, "cut": guest(t)[:100_000]} {
		p, err := NewPool(context.Background(), PoolConfig{Module: module, Capacity: 10, Instances: 1})
		if err == nil {
			t.Errorf("%s: taken", name)
			p.Close()
		}
	}
}

// broken lets an instance trap at its next call, and gives it back.
func broken(t *testing.T, p *Pool, in *instance) {
	t.Helper()
	if err := in.module.CloseWithExitCode(background, 2); err != nil {
		t.Fatal(err)
	}
	p.free.put(in)
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 30_000 {
		if holds() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

// With a native core beside them, readers and the writer notice nothing when
// every instance is lost at once.
func TestTheNativeCoreAnswersUntilInstancesAreBuilt(t *testing.T) {
	for _, instances := range []int{1, 3} {
		p := newPool(t, PoolConfig{Capacity: 1000, Instances: instances})
		records := ring(30)
		if err := p.Apply(records[:20]); err != nil {
			t.Fatal(err)
		}
		p.Tick(time.Unix(epoch+5, 0))
		want := follow(t, records)
		want.Tick(time.Unix(epoch+5, 0))
		breakAll(t, p)
		if err := p.Apply(records[20:]); err != nil { // through traps, and then natively
			t.Fatalf("%d instances: %v", instances, err)
		}
		for range 2*instances + 1 {
			if got := get(p, "/api/leaderboard"); got != get(want, "/api/leaderboard") {
				t.Fatalf("%d instances: %s", instances, got)
			}
		}
		wantHead(t, p, 31, epoch+5)
		if traps := p.Traps(); traps < uint64(min(instances, 2)) {
			t.Errorf("%d traps", traps)
		}
		_, digest := want.Digest()
		if seq, got := p.Digest(); seq != 31 || got != digest {
			t.Errorf("%d %x, want %x", seq, got, digest)
		}
		until(t, "instances answer again", func() bool {
			p.Tick(time.Unix(epoch+6, 0))
			return p.fallback.Load() == nil && p.working.Load() == int64(instances)
		})
		want.Tick(time.Unix(epoch+6, 0))
		for _, in := range all(t, p) {
			toHead(t, p, in)
			if seq, got, err := in.digest(); err != nil || got != digest || seq != 31 || in.second != epoch+6 {
				t.Errorf("%d %x %v at epoch%+d, want %x", seq, got, err, in.second-epoch, digest)
			}
			defer put(p, []*instance{in})
		}
	}
}

// Readers of a pool that has lost every instance do not wait for a writer.
func TestReadersFindTheNativeCore(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1000, Instances: 2})
	if err := p.Apply(ring(20)); err != nil {
		t.Fatal(err)
	}
	want := get(p, "/api/leaderboard")
	breakAll(t, p)
	var r Response
	failed := 0
	for range 50 {
		if p.Serve([]byte("/api/leaderboard"), &r); string(r.Body) != want {
			failed++
		}
	}
	if failed > 2 { // one for each instance: what it trapped on may have been the question
		t.Errorf("%d of 50 reads failed", failed)
	}
}

// Records that trap in the module and not natively are shown all the same; and
// when instances had only not had room to grow, they begin anew behind them.
func TestRecordsThatOnlyTheNativeCoreTakesAreShown(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1 << 20, Instances: 2, MemoryPages: 256}) // 16 MiB
	records := ring(20_000)
	if err := p.Apply(records[:11]); err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(records[11:]); err != nil {
		t.Fatal(err)
	}
	_, want := follow(t, records).Digest()
	if seq, digest := p.Digest(); seq != 20_001 || digest != want {
		t.Errorf("%d %x, want %x", seq, digest, want)
	}
	p.Tick(time.Unix(epoch+200, 0))
	if err := p.Apply([]Record{join("later", 0, (epoch+200)*1000)}); err != nil {
		t.Fatal(err)
	}
	wantHead(t, p, 20_002, epoch+200)
	if got := get(p, "/api/ring/later"); !strings.Contains(got, `"slug":"later"`) {
		t.Error(got)
	}
	put(p, all(t, p))
	p.Tick(time.Unix(epoch+201, 0))
	if p.fallback.Load() != nil {
		t.Error("the native core answers, though all instances are there")
	}
	if got := get(p, "/api/ring/later"); !strings.Contains(got, `"slug":"later"`) {
		t.Error(got)
	}
}

// A panic in the middle of an answer loses no instance.
func TestAPanicGivesTheInstanceUp(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 100, Instances: 2})
	if err := p.Apply(ring(3)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		put(p, all(t, p))
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			p.Serve([]byte("/api"), nil)
		}()
	}
	if got := get(p, "/api/ring/m1"); !strings.Contains(got, `"slug":"m1"`) {
		t.Error(got)
	}
	if p.Traps() != 3 {
		t.Errorf("%d traps", p.Traps())
	}
}

// Answers go back neither when the native core takes over nor when it stands
// down again, under traps, records and ticks.
func TestAnswersNeverGoBackThroughTraps(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 100_000, Instances: 2})
	if err := p.Apply([]Record{rules(), join("lead", 5_000_000, epoch*1000)}); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	var stood atomic.Int64
	for range 4 {
		readers.Go(func() {
			var r Response
			var seq uint64
			var since int64
			for {
				select {
				case <-stop:
					return
				default:
				}
				p.Serve([]byte("/api/leaderboard?limit=1"), &r)
				if r.Status == 500 {
					continue // trapped under this very question
				}
				if r.Seq < seq || r.Since < since {
					t.Errorf("%d, epoch%+d after %d, epoch%+d", r.Seq, r.Since-epoch, seq, since-epoch)
					return
				}
				seq, since = r.Seq, r.Since
				if p.fallback.Load() != nil {
					stood.Add(1)
				}
			}
		})
	}
	for i := range int64(60) {
		if i%20 == 10 && p.fallback.Load() == nil {
			for range 2 {
				if in := p.free.get(); in != nil {
					broken(t, p, in)
				}
			}
		}
		if err := p.Apply([]Record{join(fmt.Sprintf("m%d", i), 100, epoch*1000+i*100)}); err != nil {
			t.Fatal(err)
		}
		p.Tick(time.Unix(epoch+20+i, 0))
		p.Tick(time.Unix(epoch+20+i-i%5, 0))
	}
	until(t, "instances answer again", func() bool { p.Tick(time.Unix(epoch+80, 0)); return p.fallback.Load() == nil })
	close(stop)
	readers.Wait()
	wantHead(t, p, 62, epoch+80)
}
