package host

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"webring/wasm/host/sharedmem"
)

// One instance that traps at a question costs that answer and nothing else: the others
// answer meanwhile, and another one is built. So it is for each of them.
func TestATrapIsAnsweredCountedAndMended(t *testing.T) {
	const instances = 2
	p := newPool(t, PoolConfig{Capacity: 1000, Instances: instances})
	if err := p.Apply(ring(5)); err != nil {
		t.Fatal(err)
	}
	want := get(p, "/api/leaderboard")
	for n := range instances {
		taken := all(t, p)
		broken(t, taken[n])
		put(taken)
		failed := 0
		for try := 0; p.Traps() == uint64(n) && try < 100; try++ {
			others := &p.slots[1-n]
			others.mu.Lock() // so the broken one is asked
			var r Response
			p.Serve([]byte("/api/leaderboard"), &r)
			others.mu.Unlock()
			if r.Status == 500 && r.Seq == 6 && bytes.Contains(r.Body, []byte(`"type":"https://ring.example/problems/internal"`)) {
				failed++
			} else if string(r.Body) != want {
				t.Errorf("%d: %s", r.Status, r.Body)
			}
		}
		for range 10 {
			if got := get(p, "/api/leaderboard"); got != want {
				t.Errorf("after the trap: %s", got)
			}
		}
		if failed != 1 || p.Traps() != uint64(n)+1 {
			t.Errorf("%d answers failed, %d traps", failed, p.Traps())
		}
	}
	_, digest := follow(t, ring(5)).Digest()
	sameEverywhere(t, p, 6, digest)
	if p.native.Load() != nil {
		t.Error("the native core answers")
	}
}

// Records that an instance traps at are applied all the same.
func TestATrapInTheWriterLosesNothing(t *testing.T) {
	records := ring(50)
	_, want := follow(t, records).Digest()
	for _, instances := range []int{1, 2} {
		t.Run(fmt.Sprint(instances), func(t *testing.T) {
			p := newPool(t, PoolConfig{Capacity: 1000, Instances: instances})
			if err := p.Apply(records[:20]); err != nil {
				t.Fatal(err)
			}
			taken := all(t, p)
			broken(t, taken[0])
			put(taken)
			if err := p.Apply(records[20:]); err != nil {
				t.Fatal(err)
			}
			sameEverywhere(t, p, 51, want)
			if p.Traps() != 1 {
				t.Errorf("%d traps", p.Traps())
			}
		})
	}
}

// When every instance is lost at once and none can be built, the native core answers, at
// the head and from there on. Each trap costs one answer at most.
func TestTheNativeCoreAnswersWhenNoInstanceIsLeft(t *testing.T) {
	records := ring(30)
	for name, lose := range map[string]func(p *Pool) error{
		"by a record":  func(p *Pool) error { return p.Apply(records[20:]) },
		"by a second":  func(p *Pool) error { p.Tick(time.Unix(epoch+6, 0)); return p.Apply(records[20:]) },
		"by a request": func(p *Pool) error { get(p, "/api"); get(p, "/api"); return p.Apply(records[20:]) },
		"by a digest":  func(p *Pool) error { p.Digest(); return p.Apply(records[20:]) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, PoolConfig{Capacity: 1000, Instances: 2})
			if err := p.Apply(records[:20]); err != nil {
				t.Fatal(err)
			}
			p.Tick(time.Unix(epoch+5, 0))
			put(all(t, p))
			buildNone(t, p)
			breakAll(t, p)
			if err := lose(p); err != nil {
				t.Fatal(err)
			}
			p.Tick(time.Unix(epoch+7, 0))
			want := follow(t, records)
			want.Tick(time.Unix(epoch+7, 0))
			_, digest := want.Digest()
			for _, target := range []string{"/api/leaderboard", "/api/ring/m29", "/api"} {
				if got := get(p, target); got != get(want, target) {
					t.Errorf("%s: %s", target, got)
				}
			}
			if seq, got := p.Digest(); seq != 31 || got != digest || p.native.Load() == nil {
				t.Errorf("%d %x, want %x", seq, got, digest)
			}
			wantHead(t, p, 31, epoch+7)
			if p.BaseURL() != "https://ring.example" || !bytes.Equal(p.Snapshot(), want.Snapshot()) {
				t.Error("another snapshot or base URL")
			}
			all := make([]Response, 2)
			if p.ServeAll([][]byte{[]byte("/api"), []byte("/api/ring/m3")}, all); all[0].Status != 200 || all[1].Status != 200 {
				t.Errorf("%d and %d", all[0].Status, all[1].Status)
			}
		})
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

// Records that trap in the module because it has no room to grow are taken: instances
// begin anew behind them, where they need less. When even that has no room, the native
// core answers.
func TestARingThatOutgrowsItsInstancesIsShown(t *testing.T) {
	for mib, native := range map[uint32]bool{16: false, 8: true} {
		p := newPool(t, PoolConfig{Capacity: 1 << 20, Instances: 2, MemoryPages: mib << 4})
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
		if (p.native.Load() != nil) != native {
			t.Errorf("%d MiB: the native core answers: %t", mib, !native)
		}
		if !native {
			put(all(t, p))
		}
	}
}

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

// refusing is memory that the kernel refuses to map, with the room in ruins.
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
	put(taken)
	from := p.base.newest()
	refused := *from
	refused.memory = refusing{copies(from.memory.AppendTo(nil))}
	p.base.swap(from, &refused)
	for i := range p.slots {
		if err := p.fill(&p.slots[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range all(t, p) {
		if _, ok := s.in.from.memory.(copies); !ok || s.in.from != p.base.newest() || len(s.in.shared) > 0 {
			t.Error("an instance does not begin from the copy")
		}
		defer s.mu.Unlock()
	}
	var r Response
	for i := range p.slots {
		if err := p.slots[i].in.serve([]byte("/api/leaderboard"), 1, &r); err != nil || string(r.Body) != want {
			t.Errorf("%v: got %s\nwant %s", err, r.Body, want)
		}
	}
	if n := len(log.lines); n != 1 {
		t.Errorf("%d lines in the log, want 1", n)
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
			Snapshot: bytes.Clone(snapshot), Log: slog.New(slog.DiscardHandler)})
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
