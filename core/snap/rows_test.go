package snap_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"webring/core"
	"webring/core/coretest"
	"webring/core/snap"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; look at the change, give what has another form another version, then run with -update:\n%s", file, got)
	}
}

// history folds the events of a seed that apply, and gives them.
func history(seed uint64, n int) (*core.State, []coretest.Step) {
	st := core.NewState(1000, 1)
	var applied []coretest.Step
	for _, s := range coretest.Generate(seed, n) {
		if s.Event != nil && st.Apply(s.EventBytes, s.TextBytes) == nil {
			applied = append(applied, s)
		}
	}
	return st, applied
}

// small has a member with every field, one with few, and a redacted one.
func small(t testing.TB) *coretest.Ring {
	r := registered(t)
	r.Do(&core.Claimed{Member: "bare", Owner: core.Account{1, 2, 3, 19: 20}, Proof: core.ByDNS}, nil)
	r.Do(&core.Asleep{Member: "full"}, nil)
	r.Do(&core.Changed{Member: "full", Cleared: true}, &core.Texts{Name: core.Text{Value: "Fuller"}})
	return r
}

// registered is small before an owner's or a visit's event.
func registered(t testing.TB) *coretest.Ring {
	r := coretest.NewRing(t)
	r.Join("full", "https://full.example/a", func(e *core.Joined, x *core.Texts) {
		e.Kind, e.Category, e.Bid = core.MCP, "news", 250
		e.Score = core.Score{Given: true, Value: 72, Provider: "is-agentic", Version: "3", ScannedAt: coretest.Start * 1000}
		e.Payment.Payer = "0x0102030405060708090a0b0c0d0e0f1011121314"
		x.Description.Value, x.Report.Value = "Ünï", "https://scores.example/1"
	})
	r.Join("bare", "https://bare.example/")
	r.Join("gone", "https://gone.example/")
	r.Bid("bare", 300)
	r.Remove("gone", true)
	return r
}

// inPieces loads a snapshot in pieces of random lengths, empty ones among them.
func inPieces(b []byte, seed uint64) (*core.State, error) {
	random := rand.New(rand.NewPCG(seed, seed))
	longest := 1 << (1 + random.IntN(8))
	l := snap.NewLoader(100, 1, len(b), core.Means{})
	_ = l.Add(nil) // State says what is wrong
	for len(b) > 0 {
		n := random.IntN(min(longest, len(b)) + 1)
		if l.Add(bytes.Clone(b[:n])) != nil {
			break
		}
		b = b[n:]
	}
	return l.State()
}

// A snapshot that is longer than its head is loaded from pieces of any length, each of which
// the caller may overwrite.
func TestALongSnapshotIsLoadedFromPieces(t *testing.T) {
	r := coretest.NewRing(t)
	for n := range 300 {
		r.Join(fmt.Sprintf("member-%d", n), fmt.Sprintf("https://member-%d.example/", n), func(_ *core.Joined, texts *core.Texts) {
			texts.Description.Value = strings.Repeat("x", core.MaxDescription)
		})
	}
	b := snap.Append(nil, r.State)
	if len(b) < 2*snap.HeadSize {
		t.Fatalf("%d bytes", len(b))
	}
	buffer := make([]byte, snap.HeadSize+1)
	for _, size := range []int{1, 7, 1000, snap.HeadSize - 1, snap.HeadSize, snap.HeadSize + 1} {
		l := snap.NewLoader(300, 1, len(b), core.Means{})
		for piece := range slices.Chunk(b, size) {
			if _, err := l.State(); !errors.Is(err, snap.ErrSnapshot) {
				t.Fatalf("a state before its end: %v", err)
			}
			if err := l.Add(buffer[:copy(buffer, piece)]); err != nil {
				t.Fatal(err)
			}
			clear(buffer)
		}
		st, err := l.State()
		if err != nil {
			t.Fatalf("%d bytes at a time: %v", size, err)
		}
		if !bytes.Equal(snap.Append(nil, st), b) {
			t.Errorf("%d bytes at a time: another state", size)
		}
		if err := l.Add([]byte{0}); !errors.Is(err, snap.ErrSnapshot) {
			t.Errorf("a byte more: %v", err)
		}
	}
	for _, size := range []int{0, 5, len(b) - 1, len(b) + 1} {
		l := snap.NewLoader(300, 1, size, core.Means{})
		err := l.Add(b)
		if _, err2 := l.State(); err == nil && size < len(b) || !errors.Is(err2, snap.ErrSnapshot) {
			t.Errorf("%d bytes are said to be %d: %v, %v", len(b), size, err, err2)
		}
	}
}

func TestAnEmptyStateHasASnapshot(t *testing.T) {
	st, err := snap.Open(10, 1, snap.Append(nil, core.NewState(10, 1)), core.Means{})
	if err != nil || st.Seq() != 0 || st.Rows() != 0 {
		t.Errorf("%v", err)
	}
}

func TestSnapshotsKeepTheirBytes(t *testing.T) {
	golden(t, "snapshot.txt", fmt.Appendf(nil, "%x\n", snap.Append(nil, small(t).State)))
}

func TestASnapshotBeyondTheCapacityIsRefusedAsThat(t *testing.T) {
	b := snap.Append(nil, small(t).State)
	if _, err := snap.Open(3, 1, b, core.Means{}); err != nil {
		t.Errorf("three rows fit: %v", err)
	}
	if _, err := snap.Open(2, 1, b, core.Means{}); !errors.Is(err, core.ErrCapacity) || !errors.Is(err, snap.ErrSnapshot) {
		t.Errorf("Open = %v", err)
	}
}

func TestEveryAlteredSnapshotIsRefused(t *testing.T) {
	b := snap.Append(nil, small(t).State)
	for at := range b {
		if _, err := snap.Open(10, 1, b[:at], core.Means{}); !errors.Is(err, snap.ErrSnapshot) {
			t.Fatalf("cut at %d: %v", at, err)
		}
		for bit := range 8 {
			altered := bytes.Clone(b)
			altered[at] ^= 1 << bit
			if _, err := snap.Open(10, 1, altered, core.Means{}); !errors.Is(err, snap.ErrSnapshot) {
				t.Fatalf("bit %d of byte %d: %v", bit, at, err)
			}
		}
	}
	if _, err := snap.Open(10, 1, append(bytes.Clone(b), 0), core.Means{}); !errors.Is(err, snap.ErrSnapshot) {
		t.Errorf("a byte more: %v", err)
	}
}

func TestAFileIsASnapshotAndTheTreeToGoOnFrom(t *testing.T) {
	for seed := range uint64(20) {
		st, steps := history(seed, int(seed)*3)
		var tree snap.Tree
		for _, s := range steps {
			tree.Add(s.EventBytes)
		}
		file := tree.Append(snap.Append(nil, st))
		rows, cut, err := snap.CutFile(file)
		if err != nil || cut != tree || !bytes.Equal(rows, snap.Append(nil, st)) {
			t.Errorf("seed %d: CutFile: %v", seed, err)
		}
	}
	file := snap.Append(nil, small(t).State)
	if _, _, err := snap.CutFile(file[:100]); !errors.Is(err, snap.ErrSnapshot) {
		t.Errorf("a file without its tree: %v", err)
	}
}

func TestAFileIsWrittenInPiecesAsItIsInOne(t *testing.T) {
	r := coretest.NewRing(t)
	var tree snap.Tree
	tree.Add([]byte("any tree will do"))
	for n := range 800 {
		var got []byte
		pieces := 0
		err := snap.WriteFile(func(piece []byte) (int, error) {
			pieces++
			got = append(got, piece...)
			return len(piece), nil
		}, r.State, &tree)
		if want := tree.Append(snap.Append(nil, r.State)); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d members: %d bytes in %d pieces, want %d: %v", n, len(got), pieces, len(want), err)
		}
		if len(got) > 128<<10 {
			if pieces < 2 {
				t.Fatalf("%d bytes in one piece", len(got))
			}
			break
		}
		r.Join(fmt.Sprintf("member-%d", n), fmt.Sprintf("https://member-%d.example/", n), func(_ *core.Joined, texts *core.Texts) {
			texts.Description.Value = strings.Repeat("x", core.MaxDescription)
		})
	}
	full := errors.New("full")
	for n := range 2 {
		err := snap.WriteFile(func(piece []byte) (int, error) {
			if n--; n < 0 {
				return 0, full
			}
			return len(piece), nil
		}, r.State, &tree)
		if err != full {
			t.Errorf("an error of piece %d is lost: %v", n, err)
		}
	}
}

// Whatever the bytes, Open answers, and what it takes is what it would write. In pieces, they
// are taken or refused as they are in one.
func FuzzOpen(f *testing.F) {
	for seed := range uint64(4) {
		st, _ := history(seed, 10)
		f.Add(snap.Append(nil, st), seed)
	}
	f.Add([]byte(nil), uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, pieces uint64) {
		_, _, _ = snap.CutFile(b)
		st, err := snap.Open(100, 1, b, core.Means{})
		if again, err2 := inPieces(b, pieces); (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() || err == nil && again.Digest() != st.Digest() {
			t.Fatalf("in one piece: %v; in several: %v", err, err2)
		}
		if err != nil {
			if !errors.Is(err, snap.ErrSnapshot) {
				t.Fatal(err)
			}
			return
		}
		if again := snap.Append(nil, st); !bytes.Equal(again, b) {
			t.Fatalf("two snapshots of one state: %x and %x", b, again)
		}
	})
}
