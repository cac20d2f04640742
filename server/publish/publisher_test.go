package publish_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"webring/core"
	"webring/core/snap"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
	"webring/server/publish"
)

func TestWhatIsSignedIsWhatTheEventsLeadTo(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, store(t))
			c := r.present()
			if c.Origin != "ring.test" || c.Size != 2 || c.Core != sha256.Sum256([]byte("module")) || c.ABI != 7 {
				t.Errorf("the first checkpoint is %+v", c)
			}
			r.join("ada", "bob", "cyd")
			r.append(&core.Bid{Member: "bob", Amount: 250}, nil)
			r.append(&core.Removed{Member: "cyd", Reason: "asked"}, nil)
			c = r.present()
			r.reaches(c, core.NewState(capacity, 1), snap.Tree{}, r.all(0, c.Size))
		})
	}
}

func TestASnapshotAndTheEventsAfterItLeadToWhatIsSigned(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, store(t), func(c *publish.Config) { c.SnapshotEvery = 20 })
			r.joinMany("a", 25) // 26 events: the second snapshot goes on from the first
			first := r.withSnapshot(26)
			r.append(&core.Bid{Member: "a3", Amount: 500}, nil)
			r.joinMany("b", 22)
			r.withSnapshot(49)
			r.join("last")
			c := r.present()
			for _, s := range []snap.Snapshot{first.Snapshot, c.Snapshot} {
				rows, tree := r.file(s)
				st, err := snap.Open(capacity, 1, rows, core.Means{})
				if err != nil || st.Seq() != s.Size {
					t.Fatalf("at %d: %v", s.Size, err)
				}
				r.reaches(c, st, tree, r.all(s.Size, c.Size))
			}
		})
	}
}

func TestEventsBeyondTheCheckpointAreNotHandedOut(t *testing.T) {
	r := newRing(t, ledgertest.NewStore())
	r.joinMany("a", 9)
	r.present()
	for _, c := range []struct {
		from uint64
		n    int
		want int
		err  error
	}{{0, 5, 5, nil}, {9, 5, 2, nil}, {11, 5, 0, nil}, {3, 0, 0, nil}, {12, 5, 0, snap.ErrNotHeld}, {1 << 62, 1 << 30, 0, snap.ErrNotHeld}} {
		records, err := r.Events(c.from, c.n)
		if len(records) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%d from %d: %d, %v", c.n, c.from, len(records), err)
		}
	}
}

func TestWithoutEventsTheCheckpointIsRenewed(t *testing.T) {
	r := newRing(t, ledgertest.NewStore(), func(c *publish.Config) { c.Interval = time.Millisecond })
	c := r.present()
	for range 3 {
		later := r.until("a later time", func(x snap.Checkpoint) bool { return x.Time > c.Time })
		if later.Size != c.Size || later.Root != c.Root || later.State != c.State {
			t.Errorf("%+v after %+v", later, c)
		}
		c = later
	}
}

func TestTheTimeOfCheckpointsNeverGoesBack(t *testing.T) {
	r := newRing(t, ledgertest.NewStore(), func(c *publish.Config) { c.Interval = time.Millisecond })
	r.setTime(time.UnixMilli(2_000_000_000_000))
	c := r.until("the later time", func(c snap.Checkpoint) bool { return c.Time >= 2_000_000_000_000 })
	r.setTime(time.UnixMilli(1_000_000_000_000))
	for i := range 3 {
		r.join(fmt.Sprintf("m%d", i))
		next := r.present()
		if next.Time < c.Time {
			t.Errorf("time %d after %d", next.Time, c.Time)
		}
		c = next
	}
}

// Nor does it when the clock was set back between two processes.
func TestTheTimeOfCheckpointsNeverGoesBackOverARestart(t *testing.T) {
	r := newRing(t, ledgertest.NewStore())
	const before = 1_900_000_000_000
	r.setTime(time.UnixMilli(before))
	r.join("a")
	last := r.present()
	// A snapshot is a day old by that clock: once there is another, the same events are
	// signed again, with a time of their own.
	if last.Time != before && last.Time != before+1 {
		t.Fatalf("signed for %d", last.Time)
	}
	for _, back := range []time.Duration{time.Millisecond, time.Hour, 24 * time.Hour} {
		r.close()
		r.setTime(time.UnixMilli(before).Add(-back))
		r.open()
		for _, c := range []snap.Checkpoint{r.checkpoint(r.Checkpoint()), func() snap.Checkpoint { r.join(fmt.Sprint("m", back.Milliseconds())); return r.present() }()} {
			if c.Time < last.Time {
				t.Errorf("time %d after %d", c.Time, last.Time)
			}
			last = c
		}
	}
	// Not by more than it must, however often.
	if last.Time > before+10_000 {
		t.Errorf("at %d, %d ms ahead of the latest clock", last.Time, last.Time-before)
	}
	if log := r.log.String(); !strings.Contains(log, "signed for later than it is now") {
		t.Errorf("the log says %s", log)
	}

	r.close()
	if err := os.WriteFile(filepath.Join(r.config.Dir, "signed-until"), []byte("soon"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := publish.New(r.config)
	if err != nil {
		t.Fatal(err)
	}
	books, err := ledger.Open(ledger.Config{Store: r.store, HeadPath: filepath.Join(r.dir, "head"), Capacity: capacity, Publish: p.Published})
	if err != nil {
		t.Fatal(err)
	}
	defer books.Close()
	if err := p.Start(context.Background(), books); err == nil || !strings.Contains(err.Error(), "signed-until is damaged") {
		t.Errorf("a damaged file: %v", err)
	}
}

// sharedUntil is an [publish.Until] that several publishers share, as the nodes of a cluster do. It
// can fail.
type sharedUntil struct {
	mu   sync.Mutex
	ms   int64
	fail error
	hold chan struct{} // when given, moves wait for it
}

func (u *sharedUntil) Until() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ms
}

func (u *sharedUntil) MoveUntil(ctx context.Context, ms int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.hold != nil {
		<-u.hold
	}
	if u.fail != nil {
		return u.fail
	}
	u.ms = max(u.ms, ms)
	return nil
}

func (u *sharedUntil) SetUntilBack(_ context.Context, ms int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ms = ms
	return u.fail
}

// Whoever signs next signs for later times than all before, although its clock is behind, and
// nobody signs for a time that is not covered. Neither readers nor the writer wait for that.
func TestTimesAreCoveredBeforeTheyAreSigned(t *testing.T) {
	u := &sharedUntil{}
	with := func(c *publish.Config) { c.Until, c.Interval = u, time.Millisecond }
	first := newRing(t, ledgertest.NewStore(), with)
	first.join("a")
	last := first.present()
	if last.Time > u.Until() {
		t.Errorf("signed for %d, and %d is covered", last.Time, u.Until())
	}
	second := newRing(t, ledgertest.NewStore(), with, func(c *publish.Config) {
		now := c.Now
		c.Now = func() time.Time { return now().Add(-time.Hour) }
	})
	if c, covered := second.checkpoint(second.Checkpoint()), u.Until(); c.Time <= last.Time || c.Time > covered {
		t.Errorf("the next one signs for %d, after %d; %d is covered", c.Time, last.Time, covered)
	}

	u.mu.Lock()
	u.fail, u.hold = errors.New("the lease is over"), make(chan struct{})
	covered := u.ms
	u.mu.Unlock()
	first.setTime(time.UnixMilli(covered).Add(time.Hour))
	before := first.checkpoint(first.Checkpoint())
	first.join("b") // returns while the time is still to be covered
	close(u.hold)
	first.join("c")
	if c := first.checkpoint(first.Checkpoint()); c.Time > covered || c.Size != before.Size {
		t.Errorf("signed %d events for %d without leave", c.Size, c.Time)
	}
	u.mu.Lock()
	u.fail = nil
	u.mu.Unlock()
	if c := first.present(); c.Time <= before.Time || c.Time > u.Until() {
		t.Errorf("later: %d after %d", c.Time, before.Time)
	}
}

func TestARestartKeepsKeyAndSnapshot(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			r := newRing(t, store(t), func(c *publish.Config) { c.SnapshotEvery = 5 })
			r.joinMany("a", 6)
			before := r.withSnapshot(7)
			verifier := r.key.Verifier()
			r.close()
			r.config.SnapshotEvery = 1 << 40
			r.open()
			if r.key.Verifier() != verifier {
				t.Errorf("the verifier is now %s, was %s", r.key.Verifier(), verifier)
			}
			// At once, without making it anew: the signed text names it already.
			if c := r.checkpoint(r.Checkpoint()); c.Snapshot != before.Snapshot || c.Root != before.Root || c.State != before.State {
				t.Errorf("%+v after %+v", c, before)
			}
			r.file(before.Snapshot)

			// What came since the last snapshot is in one soon after a start.
			r.join("late")
			r.present()
			r.close()
			r.open()
			r.withSnapshot(8)
		})
	}
}

func TestKeysAreTheirOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if _, err := publish.ReadKey(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	for _, name := range []string{"", "two words", "a+b", "ü"} {
		if _, err := publish.OpenKey(path, name); err == nil {
			t.Errorf("a key was named %q", name)
		}
	}
	k, err := publish.OpenKey(path, "127.0.0.1:8402")
	if err != nil {
		t.Fatal(err)
	}
	about, err := os.Stat(path)
	if err != nil || about.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", about.Mode(), err)
	}
	if again, err := publish.OpenKey(path, "another.name"); err != nil || again.Verifier() != k.Verifier() || again.Name() != "127.0.0.1:8402" {
		t.Errorf("opened again: %v", err)
	}
	secret, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range []string{"", "x", string(secret[:len(secret)-5]), strings.Replace(string(secret), "127", "128", 1)} {
		if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := publish.OpenKey(path, "a"); err == nil || strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%q: %v", broken, err)
		}
	}
}

// Every checkpoint that anybody sees while many write is true.
func TestCheckpointsUnderLoadAreAllTrue(t *testing.T) {
	r := newRing(t, ledgertest.NewStore(), func(c *publish.Config) { c.Interval, c.SnapshotEvery, c.Grace = time.Millisecond, 10, time.Millisecond })
	const writers, each = 4, 30
	seen := map[uint64]snap.Checkpoint{}
	done := make(chan struct{})
	var following sync.WaitGroup
	following.Go(func() {
		last := snap.Checkpoint{}
		for {
			changed := r.Changed()
			c := r.checkpoint(r.Checkpoint())
			if c.Size < last.Size || c.Time < last.Time || c.Snapshot.Size < last.Snapshot.Size {
				t.Errorf("%+v after %+v", c, last)
			}
			seen[c.Size], last = c, c
			select {
			case <-changed:
			case <-done:
				return
			}
		}
	})
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				e, texts := member(fmt.Sprintf("w%d-%d", w, i))
				if err := appendEvent(r.books, e, texts); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	c := r.present()
	close(done)
	following.Wait()
	seen[c.Size] = c

	st, tree := core.NewState(capacity, 1), snap.Tree{}
	for _, rec := range r.all(0, c.Size) {
		if err := st.Apply(rec.Event, rec.Texts); err != nil {
			t.Fatal(err)
		}
		tree.Add(rec.Event)
		if c, ok := seen[tree.Size()]; ok && (c.Root != tree.Root() || c.State != st.Digest()) {
			t.Errorf("at %d: %+v", tree.Size(), c)
		}
	}
}

func TestStartFailsWithALedgerThatHasEnded(t *testing.T) {
	r := newRing(t, ledgertest.NewStore())
	r.close()
	p, err := publish.New(r.config)
	if err != nil {
		t.Fatal(err)
	}
	books, err := ledger.Open(ledger.Config{Store: r.store, HeadPath: filepath.Join(r.dir, "head"), Capacity: capacity, Publish: p.Published})
	if err != nil {
		t.Fatal(err)
	}
	if err := books.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(context.Background(), books); !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("Start = %v", err)
	}
	if err := p.Close(); err != nil || p.Checkpoint() != nil {
		t.Errorf("%v, checkpoint %q", err, p.Checkpoint())
	}
}
