package host

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"webring/wasm/host/sharedmem"
)

// heard is a log that counts lines with some words in them.
type heard struct {
	words string
	lines chan string
}

func (h heard) Write(line []byte) (int, error) {
	if strings.Contains(string(line), h.words) {
		h.lines <- string(line)
	}
	return len(line), nil
}

// refusing is memory whose mapping the kernel refuses, with the room in ruins.
type refusing struct{ copies }

func (refusing) Place(room []byte, _ *sharedmem.Memory, _ int) (int, error) {
	clear(room)
	return 0, errors.New("no more mappings")
}

// Where an image was made but cannot be mapped, instances get copies of it, the
// first one too, and the operator is told once.
func TestInstancesThatCannotMapTheImageGetCopies(t *testing.T) {
	log := heard{"do not share memory", make(chan string, 100)}
	p := newPool(t, PoolConfig{Capacity: 1000, Instances: 2})
	if err := p.Apply(ring(50)); err != nil {
		t.Fatal(err)
	}
	want := get(p, "/api/leaderboard")
	taken := all(t, p)
	p.log = slog.New(slog.NewTextHandler(log, nil))
	put(p, taken)
	from := p.cache.newest()
	refused := *from
	refused.memory = refusing{copies(from.memory.AppendTo(nil))}
	p.cache.replace(&refused)
	for range 2 {
		fresh, err := p.build(0)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := p.cache.newest().memory.(copies); !ok || len(fresh.shared) > 0 {
			t.Error("the image is still one to be mapped")
		}
		fresh.close()
	}
	breakAll(t, p)
	for range 4 {
		_ = get(p, "/api/ring/m1") // builds both anew
	}
	if got := get(p, "/api/leaderboard"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if n := len(log.lines); n != 1 {
		t.Errorf("%d lines in the log, want 1", n)
	}
}

// buildNone has no instance be built from now on.
func buildNone(t *testing.T, p *Pool) {
	t.Helper()
	var err error
	if p.compiled, err = p.runtime.CompileModule(t.Context(), []byte("\x00asm\x01\x00\x00\x00")); err != nil {
		t.Fatal(err)
	}
}

// Instances that trap on their way to the head are missed like any others: when
// they are the last and none can be built, the native core answers readers.
func TestTheNativeCoreAnswersWhenAllTrapWhileTheyCatchUp(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1000, Instances: 2})
	taken := all(t, p)
	p.free.put(taken[0])
	if err := p.Apply(ring(50)); err != nil {
		t.Fatal(err)
	}
	want := get(p, "/api/leaderboard")
	taken[0] = anyOf(p)
	buildNone(t, p)
	h := costly(p)
	for _, in := range taken {
		if err := in.module.CloseWithExitCode(background, 2); err != nil {
			t.Fatal(err)
		}
		if !in.at.far(h) {
			t.Error("it would catch up in a request")
		}
		go p.restore(in)
	}
	until(t, "the native core answers", func() bool { return p.fallback.Load() != nil })
	if got := get(p, "/api/leaderboard"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// While there are always more requests than instances, so that none ever lies in
// its place, instances begin anew all the same.
func TestInstancesThatNeverRestBeginAnew(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1000, Instances: 1})
	if err := p.Apply(ring(50)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.newImage(); err != nil {
		t.Fatal(err)
	}
	var busy sync.WaitGroup
	var stop atomic.Bool
	var passed atomic.Int64
	for range 2 {
		busy.Go(func() {
			for !stop.Load() {
				in := anyOf(p)
				for p.free.readers.waiting.Load() == 0 && !stop.Load() {
					runtime.Gosched()
				}
				p.free.put(in)
				passed.Add(1)
			}
		})
	}
	for passed.Load() < 10 {
		runtime.Gosched()
	}
	done := make(chan error, 1)
	go func() { done <- p.renewInstance(0) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the instance is never taken")
	}
	stop.Store(true)
	busy.Wait()
	in := anyOf(p)
	defer p.free.put(in)
	if in.from != p.cache.newest() {
		t.Error("the instance is the old one")
	}
}

// A pool with too little memory for its ring says so before it serves, or serves:
// it never begins to and then fails whoever asks.
func TestMemoryThatDoesNotSufficeIsRefusedAtTheBeginning(t *testing.T) {
	n := follow(t, ring(20_000))
	snapshot, another := n.Snapshot(), []Record{join("another", 100, epoch*1000+30_000)}
	if err := n.Apply(another); err != nil {
		t.Fatal(err)
	}
	want := n.Snapshot()
	began, refused := 0, 0
	for _, mib := range []uint32{6, 8, 10, 12, 14, 16, 20, 64} {
		p, err := NewPool(t.Context(), PoolConfig{Module: guest(t), CacheDir: compiled(), Capacity: 1 << 20, Instances: 1, MemoryPages: mib << 4,
			Snapshot: append([]byte(nil), snapshot...), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			if t.Logf("%d MiB: %v", mib, err); !errors.Is(err, ErrMemory) {
				t.Errorf("%d MiB: %v", mib, err)
			}
			refused++
			continue
		}
		began++
		var r Response
		for range 3 {
			if p.Serve([]byte("/api/leaderboard"), &r); r.Status != 200 || p.Traps() > 0 {
				t.Errorf("%d MiB: %d, with %d traps", mib, r.Status, p.Traps())
			}
		}
		if err := p.Apply(another); err != nil {
			t.Errorf("%d MiB: %v", mib, err)
		}
		// That takes no memory of an instance.
		if got := p.Snapshot(); !bytes.Equal(got, want) || p.Traps() > 0 {
			t.Errorf("%d MiB: another snapshot of %d bytes, want %d, with %d traps", mib, len(got), len(want), p.Traps())
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if refused == 0 {
		t.Error("6 MiB suffice")
	}
	if began == 0 {
		t.Error("64 MiB do not suffice")
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
