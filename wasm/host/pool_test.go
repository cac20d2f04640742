package host

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
)

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

func TestHostsGoOnFromEachOthersSnapshots(t *testing.T) {
	records := ring(100)
	want := follow(t, records)
	want.Tick(time.Unix(epoch+500, 0))
	_, digest := want.Digest()
	eachHost(t, 1000, func(t *testing.T, n tested) {
		if n.BaseURL() != "" {
			t.Errorf("the base URL of an empty ledger is %q", n.BaseURL())
		}
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
	for _, b := range damaged(snapshot) {
		if _, err := LoadNative(1000, b); err == nil {
			t.Errorf("native takes %d of %d bytes", len(b), len(snapshot))
		}
		if p, err := NewPool(context.Background(), PoolConfig{Module: guest(t), CacheDir: compiled(), Capacity: 1000, Instances: 1, Snapshot: b}); err == nil {
			t.Errorf("the pool takes %d of %d bytes", len(b), len(snapshot))
			p.Close()
		}
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

// Where wazero cannot make a runtime, on a platform that it does not compile for or
// out of memory, what has been made until then is given back.
func TestWithoutARuntimeTheCacheIsReleased(t *testing.T) {
	cache, err := wazero.NewCompilationCacheWithDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Pool{compilation: cache}).closeRuntime(); err != nil {
		t.Error(err)
	}
}

// While one instance moves on, however far, the others answer at the old head. Then the
// head is published, and all follow before the next move.
func TestTheHeadWaitsForTheInstanceThatGoesAhead(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1 << 20, Instances: 2, Snapshot: follow(t, decaying(3000)).Snapshot()})
	put(all(t, p))
	p.Tick(time.Unix(epoch+10, 0))
	next := *p.head.Load()
	next.second += 3600
	var r Response
	p.writing.Lock()
	err := p.advance(nil, func(in *instance) (*head, error) {
		if err := in.setSecond(&next); err != nil {
			return nil, err
		}
		for range 10 {
			if p.Serve([]byte("/api/leaderboard?limit=1"), &r); r.Status != 200 || r.Since > epoch+10 {
				t.Errorf("status %d at epoch%+d, before the head is published", r.Status, r.Since-epoch)
			}
		}
		return &next, nil
	})
	p.writing.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.slots {
		if p.slots[i].at.Load() != &next {
			t.Errorf("instance %d has not followed", i)
		}
	}
	if p.Serve([]byte("/api/leaderboard?limit=1"), &r); r.Status != 200 || r.Since <= epoch+10 {
		t.Errorf("status %d at epoch%+d, after it", r.Status, r.Since-epoch)
	}
}

// While there are always more requests than instances, the head moves on and instances
// begin anew all the same.
func TestOverloadHoldsUpNeitherTheHeadNorNewInstances(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1000, Instances: 2})
	put(all(t, p))
	var stop atomic.Bool
	var readers sync.WaitGroup
	defer readers.Wait()
	defer stop.Store(true)
	var answers atomic.Int64
	for range 8 {
		readers.Go(func() {
			var r Response
			for !stop.Load() {
				p.Serve([]byte("/api/leaderboard"), &r)
				answers.Add(1)
			}
		})
	}
	records := ring(100)
	for i := range records {
		if err := p.Apply(records[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	p.writing.Lock()
	p.renew()
	p.writing.Unlock()
	until(t, "all instances begin from the newest image", func() bool { return complete(p) })
	p.Tick(time.Unix(epoch+5000, 0))
	wantHead(t, p, 101, epoch+5000)
	if answers.Load() == 0 || p.Traps() != 0 {
		t.Errorf("%d answers, %d traps", answers.Load(), p.Traps())
	}
}

// When many records have come since the image, there is a new one, and all instances
// begin anew from it; requests do not notice.
func TestInstancesShareMemoryAgain(t *testing.T) {
	const members = 40_000
	const half = members / 2
	records := ring(members)
	n := follow(t, records[:half])
	snapshot := n.Snapshot()
	if err := n.Apply(records[half:]); err != nil {
		t.Fatal(err)
	}
	_, want := n.Digest()
	p := newPool(t, PoolConfig{Capacity: 1 << 20, Instances: 2, Snapshot: snapshot})
	first := p.base.newest()
	put(all(t, p))
	for at := half; at < len(records); at += 5000 {
		if at == half+5000 && p.base.newest() != first {
			t.Error("an image is replaced that few records follow")
		}
		if err := p.Apply(records[at:min(at+5000, len(records))]); err != nil {
			t.Fatal(err)
		}
	}
	if p.base.newest() == first || p.base.full() {
		t.Error("there is no new image")
	}
	sameEverywhere(t, p, members+1, want) // all begin from it
	if p.Traps() != 0 {
		t.Errorf("%d traps", p.Traps())
	}
}

// long is memory of an image of any length, which nothing looks at.
type long struct {
	copies
	length int
}

func (l long) Len() int { return l.length }

// Records may grow with the image, within bounds.
func TestRecordsGrowWithTheImage(t *testing.T) {
	for _, c := range []struct{ image, most int }{
		{0, leastRecords}, {16*leastRecords + 80, leastRecords + 5}, {16 * mostRecords, mostRecords}, {1 << 32, mostRecords},
	} {
		b := base{image: &image{memory: long{length: c.image}}}
		b.append([][]byte{make([]byte, c.most)})
		before := b.full()
		b.append([][]byte{{1}})
		if before || !b.full() {
			t.Errorf("for an image of %d bytes, %d of records are not the most", c.image, c.most)
		}
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
	p.Tick(time.Unix(epoch, 0))
	if err := p.Apply(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("applying to a closed pool: %v", err)
	}
	if p.Traps() != 0 || p.native.Load() != nil {
		t.Errorf("%d traps", p.Traps())
	}
}

// A panic in the middle of an answer loses no instance.
func TestAPanicGivesTheInstanceUp(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 100, Instances: 2})
	if err := p.Apply(ring(3)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		put(all(t, p))
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
