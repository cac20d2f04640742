package replica

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/snap"
)

func TestBootingFromASnapshotTakesTheEventsAfterIt(t *testing.T) {
	for _, replay := range []bool{false, true} {
		t.Run(fmt.Sprint("replay ", replay), func(t *testing.T) {
			o := newOrigin(t)
			o.join("a", "b", "c", "d", "e", "f", "g", "h", "i")
			o.snapshot()
			o.join("j", "k")
			o.sign()
			f := o.booted(func(c *Config) { c.Replay = replay })
			f.agrees(o)
			first := slices.IndexFunc(o.asked, func(p string) bool { return strings.HasPrefix(p, "/sync/events") })
			if want := map[bool]string{false: "/sync/events?from=10", true: "/sync/events?from=0"}[replay]; o.asked[first] != want {
				t.Errorf("asked for %q", o.asked)
			}
			if replay && slices.ContainsFunc(o.asked, func(p string) bool { return strings.HasPrefix(p, "/sync/snapshot") }) {
				t.Error("a snapshot was trusted")
			}
		})
	}
}

// A boot that fails shows nothing, and the next one may succeed.
func TestSnapshotsThatAreRefused(t *testing.T) {
	bendFile := func(change func([]byte) []byte) func(*fakeOrigin) {
		return func(o *fakeOrigin) {
			o.bend = func(path string, b []byte) []byte {
				if strings.HasPrefix(path, "/sync/snapshot") {
					return change(b)
				}
				return b
			}
		}
	}
	for _, c := range []struct {
		rule   string
		attack func(o *fakeOrigin)
		want   error
	}{
		{"altered", bendFile(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }), ErrSnapshot},
		{"cut", bendFile(func(b []byte) []byte { return b[:len(b)/2] }), ErrSnapshot},
		{"longer than signed", bendFile(func(b []byte) []byte { return append(b, 0) }), ErrSnapshot},
		{"longer than anything", func(o *fakeOrigin) { o.at.Snapshot.Bytes = 1 << 40 }, ErrSnapshot},
		{"longer than it may be once it is decompressed", func(o *fakeOrigin) { o.offer(make([]byte, 2<<20), 5) }, ErrSnapshot},
		{"of no form", func(o *fakeOrigin) { o.offer([]byte("x"), 5) }, ErrSnapshot},
		{"of another size than named", func(o *fakeOrigin) {
			o.offer(o.tree.Append(snap.Append(nil, o.state)), o.tree.Size()-1)
		}, ErrSnapshot},
		{"altered rows that are signed", func(o *fakeOrigin) {
			b := o.tree.Append(snap.Append(nil, o.state))
			o.offer(bytes.Replace(b, []byte("https://a.test"), []byte("https://x.test"), 1), o.tree.Size())
		}, ErrSnapshot},
		{"of another history", func(o *fakeOrigin) {
			b := o.tree.Append(snap.Append(nil, o.state))
			b[len(b)-1] ^= 1
			o.offer(b, o.tree.Size())
		}, ErrEvents},
		{"not there", bendFile(func([]byte) []byte { return nil }), errStatus},
	} {
		t.Run(c.rule, func(t *testing.T) {
			o := newOrigin(t)
			o.join("a", "b", "c", "d")
			o.snapshot()
			c.attack(o)
			o.sign()
			f := o.newReplica(func(c *Config) { c.MaxSnapshot = 1 << 20 })
			if err := f.accept(t.Context(), o.signed); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if len(f.shown) != 0 || f.Checkpoint() != nil {
				t.Error("something is shown")
			}
			select {
			case <-f.Ready():
				t.Error("it claims to be ready")
			default:
			}
			o.bend = nil
			o.snapshot()
			f.takes(o.sign())
			f.agrees(o)
			<-f.Ready()
		})
	}
}

// onDisk gives a folder in which a replica has left the origin's state.
func onDisk(t *testing.T, o *fakeOrigin) string {
	t.Helper()
	dir := t.TempDir()
	o.join("a", "b")
	o.snapshot()
	o.join("c")
	o.sign()
	f := o.booted(func(c *Config) { c.Dir = dir })
	for _, slug := range []string{"d", "e", "f"} {
		o.join(slug)
		f.takes(o.sign())
	}
	return dir
}

func TestARestartServesFromDiskWithoutTheOrigin(t *testing.T) {
	o := newOrigin(t)
	dir := onDisk(t, o)
	o.leave(true)
	asked := len(o.asked)
	for range 3 {
		f := o.newReplica(func(c *Config) { c.Dir = dir })
		<-f.Ready()
		f.agrees(o)
		if !bytes.Equal(f.Checkpoint(), o.signed) {
			t.Error("another checkpoint")
		}
	}
	if len(o.asked) != asked {
		t.Errorf("the origin was asked for %q", o.asked[asked:])
	}
	// It goes on from there, on disk too.
	o.leave(false)
	f := o.newReplica(func(c *Config) { c.Dir = dir })
	o.join("g")
	f.takes(o.sign())
	o.leave(true)
	f = o.newReplica(func(c *Config) { c.Dir = dir })
	f.agrees(o)
}

// unasked is a core that counts how often it has to give a snapshot of itself.
type unasked struct {
	Core
	snapshots *int
}

func (c unasked) Snapshot() []byte {
	*c.snapshots++
	return c.Core.Snapshot()
}

// The judge begins from what was read from disk, so that the core that is shown is
// there for readers, or from that one if it cannot.
func TestTheJudgeBeginsFromDisk(t *testing.T) {
	o := newOrigin(t)
	dir := onDisk(t, o)
	for _, broken := range []bool{false, true} {
		snapshots, failures := 0, 0
		f := o.newReplica(func(c *Config) {
			c.Dir = dir
			c.Open = func(ctx context.Context, m Module, snapshot []byte, readers bool) (Core, error) {
				if broken && !readers && failures == 0 {
					failures++
					return nil, errors.New("no memory")
				}
				core, err := openCore(ctx, m, snapshot, readers)
				return unasked{core, &snapshots}, err
			}
		})
		f.prepareJudge(t.Context())
		if f.judge == nil || f.read != nil || checkState(f.judge, f.at) != nil {
			t.Fatalf("broken %t: no judge\n%s", broken, f.log)
		}
		if snapshots != failures || broken != (failures > 0) {
			t.Errorf("broken %t: the core that is shown gave %d snapshots", broken, snapshots)
		}
		o.join(fmt.Sprint("new-", failures))
		f.takes(o.sign())
		f.agrees(o)
	}
}

func TestARestartWithReplayTrustsNoSnapshot(t *testing.T) {
	o := newOrigin(t)
	dir := onDisk(t, o)
	replay := func(c *Config) { c.Dir, c.Replay = dir, true }
	f := o.newReplica(replay)
	if len(f.shown) != 0 {
		t.Error("a state from a snapshot is shown")
	}
	f.takes(o.signed)
	f.agrees(o)
	o.leave(true)
	f = o.newReplica(replay)
	<-f.Ready()
	f.agrees(o)
}

// Whatever has become of the folder, what is shown is a state that was signed,
// or nothing, and the next checkpoint brings it to the newest.
func TestDamagedFoldersAreNeverServed(t *testing.T) {
	o := newOrigin(t)
	whole := onDisk(t, o)
	names, err := filepath.Glob(filepath.Join(whole, "*"))
	if err != nil || len(names) < 3 {
		t.Fatalf("%q %v", names, err)
	}
	served, not := 0, 0
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		damages := map[string][]byte{"gone": nil, "empty": {}, "longer": append(bytes.Clone(content), 7, 7, 7)}
		for at := 0; at < len(content); at += 1 + len(content)/40 {
			flipped := bytes.Clone(content)
			flipped[at] ^= 1 << (at % 8)
			damages[fmt.Sprint("flipped at ", at)] = flipped
			damages[fmt.Sprint("cut at ", at)] = content[:at]
		}
		for damage, content := range damages {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(dir, filepath.Base(name))
			if os.Remove(at); content != nil {
				if err := os.WriteFile(at, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f := o.newReplica(func(c *Config) { c.Dir = dir })
			if len(f.shown) > 0 {
				served++
				f.agrees(o)
			} else {
				not++
				f.takes(o.signed)
				f.agrees(o)
			}
			if t.Failed() {
				t.Fatalf("%s %s", filepath.Base(name), damage)
			}
			// And what it leaves is whole again.
			again := o.newReplica(func(c *Config) { c.Dir = dir })
			if len(again.shown) == 0 {
				t.Fatalf("%s %s: not served again\n%s", filepath.Base(name), damage, again.log)
			}
		}
	}
	if served == 0 || not == 0 {
		t.Errorf("%d folders were served, %d were not", served, not)
	}
}

// A disk that takes nothing, from the beginning or from some moment on, is a
// line in the log.
func TestAFullDiskNeverStopsServing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	full := func(name string) func(t *testing.T, f *follower) {
		return func(t *testing.T, f *follower) {
			if err := os.Symlink("/dev/full", filepath.Join(f.store.dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name, dir string
		fill      func(t *testing.T, f *follower)
	}{
		{"no folder", filepath.Join(file, "folder"), func(*testing.T, *follower) {}},
		{"no room for the state", t.TempDir(), full("state-2.new")},
		{"no room for a checkpoint", t.TempDir(), full("checkpoint.new")},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOrigin(t)
			o.join("a")
			o.sign()
			f := o.newReplica(func(cfg *Config) { cfg.Dir = c.dir })
			c.fill(t, f)
			f.takes(o.signed)
			for _, slug := range []string{"b", "c"} {
				o.join(slug)
				f.takes(o.sign())
				f.agrees(o)
			}
			if log := f.log.String(); strings.Count(log, "cannot be kept on disk") != 1 {
				t.Errorf("the log says %s", log)
			}
			// Room again, and time enough: what is kept is whole.
			entries, _ := os.ReadDir(c.dir)
			for _, e := range entries {
				if e.Type() == os.ModeSymlink || strings.HasSuffix(e.Name(), ".new") {
					t.Errorf("%s is left over", e.Name())
				}
			}
			if c.name == "no folder" {
				return
			}
			f.store.resting = f.store.resting.Add(-storeRest)
			o.join("d")
			f.takes(o.sign())
			f = o.newReplica(func(cfg *Config) { cfg.Dir = c.dir })
			<-f.Ready()
			f.agrees(o)
		})
	}
}

// What was kept before the disk was full stands, and can be served from, also
// when nothing has come since that must be written anew.
func TestAFullDiskLeavesWhatWasKept(t *testing.T) {
	o := newOrigin(t)
	dir := onDisk(t, o)
	f := o.newReplica(func(c *Config) { c.Dir = dir })
	o.join("g")
	f.takes(o.sign())
	kept, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	device, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("needs /dev/full, which Linux has")
	}
	f.store.journal.Close()
	f.store.journal = device
	o.join("h")
	f.takes(o.sign())
	// And the next state finds no room either.
	f.store.resting = time.Time{}
	for _, name := range []string{"state-8.new", "state-9.new"} {
		if err := os.Symlink("/dev/full", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	f.takes(o.sign())
	f.agrees(o)
	again := o.newReplica(func(c *Config) { c.Dir = dir })
	if !bytes.Equal(again.Checkpoint(), kept) {
		t.Errorf("not what was kept\n%s", again.log)
	}
	again.takes(o.signed)
	again.agrees(o)
}

// When the events outgrow the core before them, a new file begins, and the old
// one goes. So does what a crash has left.
func TestWhatIsKeptDoesNotGrowForEver(t *testing.T) {
	o := newOrigin(t)
	dir := onDisk(t, o)
	f := o.newReplica(func(c *Config) { c.Dir = dir })
	f.store.written = minJournal + 1
	o.join("g")
	f.takes(o.sign())
	if bases := f.store.bases(); len(bases) != 1 || bases[0] != o.tree.Size() {
		t.Errorf("states at %d", bases)
	}
	for _, name := range []string{"state-7.new", "checkpoint.new"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o.join("h")
	f.takes(o.sign())
	f = o.newReplica(func(c *Config) { c.Dir = dir })
	f.agrees(o)
	if left, err := filepath.Glob(filepath.Join(dir, "*.new")); len(left) > 0 || err != nil {
		t.Errorf("%q is left, %v", left, err)
	}
	// Who follows it can still begin at the snapshot.
	records, err := f.Events(o.at.Snapshot.Size, 100)
	if err != nil || uint64(len(records)) != o.tree.Size()-o.at.Snapshot.Size {
		t.Errorf("%d records, %v", len(records), err)
	}
}

// Words that are redacted are neither kept on disk nor handed on.
func TestRedactedWordsAreForgotten(t *testing.T) {
	o := newOrigin(t)
	o.join("a", "unwanted", "b")
	o.sign()
	dir := t.TempDir()
	f := o.booted(func(c *Config) { c.Dir = dir })
	before, err := f.Events(2, 1)
	if err != nil || !bytes.Contains(before[0].Texts, []byte("unwanted.test")) {
		t.Fatalf("%q %v", before, err)
	}
	o.add(&core.Removed{Stamp: time.Now().UnixMilli(), Member: "unwanted", Reason: "asked", Redacted: true}, nil)
	f.takes(o.sign())
	f.agrees(o)
	records, err := f.Events(0, 100)
	if err != nil || len(records) != 5 || len(records[1].Texts) == 0 || len(records[2].Texts) != 0 {
		t.Errorf("%d records, %v", len(records), err)
	}
	if len(before[0].Texts) == 0 {
		t.Error("what was handed out has changed")
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte("unwanted.test")) {
			t.Errorf("%s still has the words", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	again := o.newReplica(func(c *Config) { c.Dir = dir })
	again.agrees(o)
}

// A snapshot with such words goes, too, before there is another. Whoever is reading it
// reads it to its end, and a restart without the origin shows what was shown.
func TestSnapshotsWithRedactedWordsAreForgotten(t *testing.T) {
	redact := func(o *fakeOrigin) {
		o.add(&core.Removed{Stamp: time.Now().UnixMilli(), Member: "unwanted", Reason: "asked", Redacted: true}, nil)
		o.records[2].Texts = nil
	}
	for name, c := range map[string]struct {
		onDisk bool
		comes  func(o *fakeOrigin)
	}{
		"on disk":   {true, redact},
		"in memory": {false, redact},
		// Of which nobody has looked at each event.
		"in a leap": {true, func(o *fakeOrigin) { far(o); o.snapshot() }},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t)
			o.join("a", "unwanted")
			o.snapshot()
			o.sign()
			dir := ""
			if c.onDisk {
				dir = t.TempDir()
			}
			in := func(cfg *Config) { cfg.Dir = dir }
			f := o.booted(in)
			old := o.at.Snapshot
			reading, _, err := f.Snapshot(old.Digest)
			if err != nil {
				t.Fatal(err)
			}
			defer reading.Close()

			c.comes(o)
			f.takes(o.sign())
			b, err := io.ReadAll(reading)
			if err != nil || sha256.Sum256(b) != old.Digest {
				t.Errorf("who was reading it got %d bytes, %v", len(b), err)
			}
			gone := func(f *follower) {
				t.Helper()
				if f.at.Snapshot == old && f.files.lacks(old) {
					t.Error("it would be fetched again")
				}
				if _, _, err := f.Snapshot(old.Digest); !errors.Is(err, snap.ErrNotHeld) {
					t.Errorf("it is handed out: %v", err)
				}
				if _, err := os.Stat(filepath.Join(dir, fmt.Sprintf("snapshot-%x", old.Digest))); !os.IsNotExist(err) {
					t.Errorf("it is on disk: %v", err)
				}
			}
			gone(f)
			f.keepFile(old, b) // one that was asked for before, and comes now
			gone(f)
			if c.onDisk {
				o.leave(true)
				f = o.newReplica(in)
				f.agrees(o)
				gone(f)
				o.leave(false)
			}
			o.snapshot()
			f.takes(o.sign())
			if err := f.hold(t.Context(), o.at.Snapshot, false); err != nil {
				t.Fatal(err)
			}
			file, _, err := f.Snapshot(o.at.Snapshot.Digest)
			if err != nil {
				t.Fatalf("the next one: %v", err)
			}
			file.Close()
		})
	}
}

// A replica is to its followers what the origin is to it.
func TestAReplicaCanBeFollowed(t *testing.T) {
	o := newOrigin(t)
	o.join("a", "b", "c")
	o.snapshot()
	o.join("d", "e")
	named := o.module("module")
	o.at.Core = named
	o.sign()
	for _, dir := range []string{"", t.TempDir()} {
		f := o.booted(func(c *Config) { c.Dir = dir })
		size := o.tree.Size()
		for from := range size + 1 {
			records, err := f.Events(from, 3)
			if err != nil || uint64(len(records)) != min(3, size-from) {
				t.Fatalf("from %d: %d, %v", from, len(records), err)
			}
			for i, r := range records {
				if want := o.records[int(from)+i]; !bytes.Equal(r.Event, want.Event) || !bytes.Equal(r.Texts, want.Texts) {
					t.Errorf("record %d is another", int(from)+i)
				}
			}
		}
		if _, err := f.Events(size+1, 1); !errors.Is(err, snap.ErrNotHeld) {
			t.Errorf("beyond the end: %v", err)
		}
		file, length, err := f.Snapshot(o.at.Snapshot.Digest)
		if err != nil || length != o.at.Snapshot.Bytes {
			t.Fatalf("%d, %v", length, err)
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(file); err != nil || !bytes.Equal(b.Bytes(), o.files[fmt.Sprintf("/sync/snapshot/%x", o.at.Snapshot.Digest)]) {
			t.Errorf("another file, %v", err)
		}
		file.Close()
		if code, err := f.Core(named); err != nil || string(code) != "module" {
			t.Errorf("module %q, %v", code, err)
		}
		asked := len(o.asked)
		for _, none := range [][32]byte{{}, {1}} {
			if _, _, err := f.Snapshot(none); !errors.Is(err, snap.ErrNotHeld) {
				t.Errorf("a snapshot of no name: %v", err)
			}
			if _, err := f.Core(none); !errors.Is(err, snap.ErrNotHeld) {
				t.Errorf("a module of no name: %v", err)
			}
		}
		if len(o.asked) != asked {
			t.Error("followers have the origin asked for anything")
		}
	}
}

func TestAFollowerOfAReplicaWithoutOriginBootsFromIt(t *testing.T) {
	o := newOrigin(t)
	dir := onDisk(t, o)
	f := o.newReplica(func(c *Config) { c.Dir = dir })
	o.leave(true)
	defer f.following(t)()
	file, _, err := f.Snapshot(o.at.Snapshot.Digest)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	if records, err := f.Events(o.at.Snapshot.Size, 100); err != nil || len(records) == 0 {
		t.Errorf("%d records, %v", len(records), err)
	}
	if _, err := f.Events(0, 1); !errors.Is(err, snap.ErrNotHeld) {
		t.Errorf("what only the origin has: %v", err)
	}
}

// The snapshot's file from before a restart is handed on as it lies there, unless it
// was damaged: then it is fetched again.
func TestASnapshotOnDiskIsHandedOnAsItWasSigned(t *testing.T) {
	for damage, spoil := range map[string]func(b []byte) []byte{
		"none":    func(b []byte) []byte { return b },
		"flipped": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"cut":     func(b []byte) []byte { return b[:len(b)-1] },
		"empty":   func([]byte) []byte { return nil },
	} {
		o := newOrigin(t)
		dir := onDisk(t, o)
		name := filepath.Join(dir, fmt.Sprintf("snapshot-%x", o.at.Snapshot.Digest))
		b, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, spoil(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		before, want := o.questions("/sync/snapshot/"), 0
		if damage != "none" {
			want = 1
		}
		f := o.newReplica(func(c *Config) { c.Dir = dir })
		stop := f.following(t)
		file, length, err := f.Snapshot(o.at.Snapshot.Digest)
		if err != nil {
			t.Fatalf("%s: %v", damage, err)
		}
		got, err := io.ReadAll(file)
		file.Close()
		if err != nil || int64(len(got)) != length || sha256.Sum256(got) != o.at.Snapshot.Digest {
			t.Errorf("%s: %d bytes, %v", damage, len(got), err)
		}
		if n := o.questions("/sync/snapshot/") - before; n != want {
			t.Errorf("%s: asked for it %d times, want %d", damage, n, want)
		}
		stop()
	}
}

// FuzzState: whatever has become of a file, it is read within its bounds, and
// nothing but whole records comes out of it.
func FuzzState(f *testing.F) {
	o := newOrigin(f)
	o.join("a", "b")
	s := &store{dir: f.TempDir()}
	if err := s.begin(3, []byte("core"), 1, o.records[1:]); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(s.path(stateName(3)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, uint64(2))
	f.Add(whole[:20], uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, n uint64) {
		kept, err := readState(bytes.NewReader(b), int64(len(b)), 3)
		if err != nil {
			return
		}
		records, length, err := kept.records(n)
		if err != nil {
			return
		}
		again := binary.BigEndian.AppendUint64(append(b[:0:0], b[0]), kept.from)
		again = append(binary.BigEndian.AppendUint64(again, uint64(len(kept.contents))), kept.contents...)
		for _, r := range records {
			one := snap.AppendRecord(nil, r)
			again = binary.BigEndian.AppendUint32(again, uint32(len(one)))
			again = append(binary.BigEndian.AppendUint32(again, crc32.Checksum(one, castagnoli)), one...)
		}
		if uint64(len(records)) != n || !bytes.Equal(again, b[:stateHead+len(kept.contents)+int(length)]) {
			t.Errorf("%x reads as %d records in %d bytes", b, len(records), length)
		}
	})
}
