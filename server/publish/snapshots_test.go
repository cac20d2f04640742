package publish_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"webring/core"
	"webring/core/snap"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
	"webring/server/publish"
)

// files are the names in the folder of the snapshots, but for the one that says
// until when was signed.
func (r *ring) files() (names []string) {
	r.t.Helper()
	entries, err := os.ReadDir(r.config.Dir)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "signed-until" {
			names = append(names, e.Name())
		}
	}
	return names
}

func (r *ring) path(s snap.Snapshot) string {
	return filepath.Join(r.config.Dir, fmt.Sprintf("%020d-%x.zst", s.Size, s.Digest))
}

// gated is a store that can be kept from giving rows in order, and from giving
// any by their keys.
type gated struct {
	ledger.Store
	scans chan struct{} // closed while they are let through
	fails atomic.Bool
}

func (g *gated) Scan(prefix, from []byte, fn func(key, value []byte) error) error {
	<-g.scans
	return g.Store.Scan(prefix, from, fn)
}

func (g *gated) Get(key []byte) ([]byte, error) {
	if g.fails.Load() {
		return nil, errors.New("no row can be read")
	}
	return g.Store.Get(key)
}

// A ledger without a snapshot, such as one that was restored or seeded, begins
// with one. That takes no event to be read: no edge begins before it is there.
func TestTheFirstCheckpointNamesASnapshot(t *testing.T) {
	for _, members := range []int{0, 1, 6, 7, 500} {
		g := &gated{Store: ledgertest.NewStore(), scans: make(chan struct{})}
		close(g.scans)
		r := newRing(t, g)
		r.joinMany("a", members)
		r.close()
		if err := os.RemoveAll(r.config.Dir); err != nil {
			t.Fatal(err)
		}
		r.prepare()
		g.scans = make(chan struct{})
		if err := r.Start(t.Context(), r.books); err != nil {
			t.Fatal(err)
		}
		c := r.checkpoint(r.Checkpoint())
		close(g.scans)
		if r.own(c.Size) != uint64(1+members) || c.Snapshot.Size != c.Size-1 {
			t.Fatalf("the first checkpoint, of %d events, names a snapshot of %d\n%s", c.Size, c.Snapshot.Size, &r.log)
		}
		rows, tree := r.file(c.Snapshot)
		st, err := snap.Open(capacity, 1, rows, core.Means{})
		if err != nil {
			t.Fatal(err)
		}
		r.reaches(c, st, tree, r.all(c.Snapshot.Size, c.Size))
	}
}

// Without one, a ring starts all the same, and makes it of the events.
func TestAFirstSnapshotThatCannotBeMade(t *testing.T) {
	g := &gated{Store: ledgertest.NewStore(), scans: make(chan struct{})}
	close(g.scans)
	r := newRing(t, g)
	r.join("ada")
	r.close()
	if err := os.RemoveAll(r.config.Dir); err != nil {
		t.Fatal(err)
	}
	r.prepare()
	g.fails.Store(true)
	if err := r.Start(t.Context(), r.books); err != nil {
		t.Fatal(err)
	}
	g.fails.Store(false)
	r.withSnapshot(2)
	if !strings.Contains(r.log.String(), "the first snapshot could not be made") {
		t.Errorf("the log says %s", &r.log)
	}
}

func TestFilesThatAreNoSnapshotsOfThisLedgerAreNotTakenUp(t *testing.T) {
	// A snapshot of another history, as long as the ledger.
	other := newRing(t, ledgertest.NewStore(), func(c *publish.Config) { c.SnapshotEvery = 5 })
	other.joinMany("other", 5)
	foreign := other.withSnapshot(6)

	for name, spoil := range map[string]func(r *ring, s snap.Snapshot) string{
		"damaged": func(r *ring, s snap.Snapshot) string {
			b, err := os.ReadFile(r.path(s))
			if err != nil {
				r.t.Fatal(err)
			}
			b[len(b)/2] ^= 1
			if err := os.WriteFile(r.path(s), b, 0o600); err != nil {
				r.t.Fatal(err)
			}
			return "the file is damaged"
		},
		"of another history": func(r *ring, s snap.Snapshot) string {
			if err := os.Remove(r.path(s)); err != nil {
				r.t.Fatal(err)
			}
			copyFile(r.t, other.path(foreign.Snapshot), r.path(foreign.Snapshot))
			return "another history"
		},
		"ahead of the ledger": func(r *ring, s snap.Snapshot) string {
			ahead := s
			ahead.Size = 100
			copyFile(r.t, r.path(s), r.path(ahead))
			if err := os.Remove(r.path(s)); err != nil {
				r.t.Fatal(err)
			}
			return "ahead of the ledger"
		},
		"under another size": func(r *ring, s snap.Snapshot) string {
			lying := s
			lying.Size--
			if err := os.Rename(r.path(s), r.path(lying)); err != nil {
				r.t.Fatal(err)
			}
			return "not what its name says"
		},
		"of another form": func(r *ring, s snap.Snapshot) string {
			rows, tree := r.file(s)
			pack, err := zstd.NewWriter(nil)
			if err != nil {
				r.t.Fatal(err)
			}
			b := pack.EncodeAll(tree.Append(bytes.Replace(rows, []byte("snapshot 4\n"), []byte("snapshot 3\n"), 1)), nil)
			old := s
			old.Digest = sha256.Sum256(b)
			if err := errors.Join(pack.Close(), os.WriteFile(r.path(old), b, 0o600), os.Remove(r.path(s))); err != nil {
				r.t.Fatal(err)
			}
			return "malformed snapshot: version"
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, ledgertest.NewStore(), func(c *publish.Config) { c.SnapshotEvery = 5 })
			r.joinMany("a", 5)
			s := r.withSnapshot(6).Snapshot
			r.close()
			says := spoil(r, s)
			r.open()
			again := r.withSnapshot(6)
			rows, tree := r.file(again.Snapshot)
			st, err := snap.Open(capacity, 1, rows, core.Means{})
			if err != nil {
				t.Fatal(err)
			}
			r.reaches(again, st, tree, r.all(again.Snapshot.Size, again.Size))
			if !strings.Contains(r.log.String(), says) {
				t.Errorf("the log does not say %q:\n%s", says, &r.log)
			}
			for _, name := range r.files() {
				b, err := os.ReadFile(filepath.Join(r.config.Dir, name))
				if err != nil || !strings.HasSuffix(name, fmt.Sprintf("-%x.zst", sha256.Sum256(b))) {
					t.Errorf("%s is still there: %v", name, err)
				}
			}
		})
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatACrashLeftInTheFolderIsRemoved(t *testing.T) {
	r := newRing(t, ledgertest.NewStore())
	c := r.withSnapshot(1)
	r.close()
	for _, name := range []string{".new-123", "0.zst", strings.Repeat("0", 20) + "-00.zst", "notes"} {
		if err := os.WriteFile(filepath.Join(r.config.Dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.open()
	if files := r.files(); len(files) != 1 || files[0] != filepath.Base(r.path(c.Snapshot)) {
		t.Errorf("the folder holds %v", files)
	}
}

func TestAnOldSnapshotIsKeptForAWhile(t *testing.T) {
	r := newRing(t, ledgertest.NewStore(), func(c *publish.Config) { c.SnapshotEvery, c.Grace = 5, 24*time.Hour })
	first := r.withSnapshot(1)
	r.joinMany("a", 5)
	second := r.withSnapshot(6)
	r.file(first.Snapshot)

	r.setTime(time.Now().Add(25 * time.Hour))
	r.joinMany("b", 5)
	r.withSnapshot(11)
	r.holds(2) // pruned right after the signature
	if _, _, err := r.Snapshot(first.Snapshot.Digest); !errors.Is(err, snap.ErrNotHeld) {
		t.Errorf("the first after a day: %v", err)
	}
	r.file(second.Snapshot) // superseded just now
}

func TestADayOldSnapshotIsRenewed(t *testing.T) {
	r := newRing(t, ledgertest.NewStore(), func(c *publish.Config) { c.Interval = time.Millisecond })
	r.withSnapshot(1)
	r.join("ada")
	if c := r.present(); c.Snapshot.Size != 1 {
		t.Errorf("a snapshot at %d, long before it was due", c.Snapshot.Size)
	}
	r.setTime(time.Now().Add(25 * time.Hour))
	r.withSnapshot(2)
}

// After a redaction nothing that is handed out holds the words.
func TestRedactedWordsAreForgotten(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, store(t), func(c *publish.Config) { c.SnapshotEvery = 2 })
			r.join("ada", "bob")
			before := r.withSnapshot(3)
			rows, _ := r.file(before.Snapshot)
			if !bytes.Contains(rows, []byte("Name of bob")) {
				t.Fatal("the words were never there")
			}
			r.append(&core.Removed{Member: "bob", Reason: "asked", Redacted: true}, nil)
			after := r.withSnapshot(4)
			rows, tree := r.file(after.Snapshot)
			if bytes.Contains(rows, []byte("Name of bob")) || !bytes.Contains(rows, []byte("Name of ada")) {
				t.Error("the new snapshot has the wrong words")
			}
			r.holds(1)
			if _, _, err := r.Snapshot(before.Snapshot.Digest); !errors.Is(err, snap.ErrNotHeld) {
				t.Errorf("the old snapshot: %v", err)
			}
			for i, rec := range r.all(0, after.Size) {
				if bytes.Contains(rec.Texts, []byte("bob")) {
					t.Errorf("event %d still has its words", i)
				}
			}
			st, err := snap.Open(capacity, 1, rows, core.Means{})
			if err != nil {
				t.Fatal(err)
			}
			r.reaches(after, st, tree, r.all(after.Snapshot.Size, after.Size))
			// And from the beginning, as one that never saw the words.
			r.reaches(after, core.NewState(capacity, 1), snap.Tree{}, r.all(0, after.Size))
		})
	}
}

// A process that dies between a redaction and the next snapshot makes up for it.
func TestARedactionBeforeACrashIsMadeUpFor(t *testing.T) {
	r := newRing(t, ledgertest.NewStore(), func(c *publish.Config) { c.SnapshotEvery = 2 })
	r.join("ada", "bob")
	before := r.withSnapshot(3)
	r.close()
	books, err := ledger.Open(ledger.Config{Store: r.store, HeadPath: filepath.Join(r.dir, "head"), Capacity: capacity})
	if err != nil {
		t.Fatal(err)
	}
	if err := appendEvent(books, &core.Removed{Member: "bob", Reason: "asked", Redacted: true}, nil); err != nil {
		t.Fatal(err)
	}
	if err := books.Close(); err != nil {
		t.Fatal(err)
	}
	r.open()
	r.withSnapshot(4)
	comes(t, "the end of the old snapshot", func() bool {
		_, _, err := r.Snapshot(before.Snapshot.Digest)
		return errors.Is(err, snap.ErrNotHeld)
	})
}

func TestASnapshotThatCannotBeKeptLeavesTheLast(t *testing.T) {
	r := newRing(t, ledgertest.NewStore(), func(c *publish.Config) { c.SnapshotEvery, c.Interval = 5, time.Millisecond })
	first := r.withSnapshot(1)
	aside := r.config.Dir + ".aside"
	if err := os.Rename(r.config.Dir, aside); err != nil {
		t.Fatal(err)
	}
	r.joinMany("a", 5)
	comes(t, "a word in the log", func() bool { return strings.Contains(r.log.String(), "the snapshot could not be made") })
	if c := r.present(); c.Snapshot != first.Snapshot {
		t.Errorf("the snapshot is %+v, was %+v", c.Snapshot, first.Snapshot)
	}
	if err := os.Rename(aside, r.config.Dir); err != nil {
		t.Fatal(err)
	}
	r.file(first.Snapshot)
}

func TestNewRefusesWhatItCannotWorkWith(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []publish.Config{
		{Name: "a", KeyPath: file, Dir: t.TempDir(), Capacity: 1},
		{Name: "a", KeyPath: key, Capacity: 1},
		{Name: "a", KeyPath: key, Dir: t.TempDir()},
		{Name: "a", KeyPath: key, Dir: file, Capacity: 1},
	} {
		if _, err := publish.New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}

// Each snapshot is in the ledger, with the digest of its state, before a checkpoint names it; and a
// ring in which nothing else happens adds no event, over restarts and days.
func TestSnapshotsAreEvents(t *testing.T) {
	r := newRing(t, ledgertest.NewStore(), func(c *publish.Config) { c.SnapshotEvery, c.Interval = 5, time.Millisecond })
	restart := func() {
		r.close()
		r.open()
	}
	idle := func(when string) {
		t.Helper()
		size := r.present().Size
		for range 3 {
			restart()
			for range 3 { // whether a snapshot is due is asked after each signature
				r.setTime(r.now().Add(25 * time.Hour))
				now := r.now().UnixMilli()
				r.until("a later time", func(c snap.Checkpoint) bool { return c.Time >= now })
			}
		}
		r.setTime(time.Time{})
		if now := r.books.Size(); now != size {
			t.Errorf("%s: %d events, and nothing happened after %d", when, now, size)
		}
	}
	idle("at first")
	r.joinMany("a", 5)
	r.withSnapshot(6)
	idle("later")
	r.join("late")
	r.present()
	restart()
	c := r.withSnapshot(7)
	idle("after the last member")

	st, told := core.NewState(capacity, 1), 0
	for i, record := range r.all(0, r.present().Size) {
		e, err := core.DecodeEvent(record.Event)
		if err != nil {
			t.Fatal(err)
		}
		if about, is := e.(*core.Snapshotted); is {
			told++
			if about.Size != uint64(i) || about.State != st.Digest() {
				t.Errorf("event %d tells of %d events with the state %x, not %x", i, about.Size, about.State, st.Digest())
			}
			if about.Size == c.Snapshot.Size && (about.Digest != c.Snapshot.Digest || about.Bytes != c.Snapshot.Bytes) {
				t.Errorf("event %d tells of %x, and %+v is named", i, about.Digest, c.Snapshot)
			}
		}
		if err := st.Apply(record.Event, record.Texts); err != nil {
			t.Fatal(err)
		}
	}
	if told != 3 {
		t.Errorf("%d events tell of snapshots", told)
	}
}
