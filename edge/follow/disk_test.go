package follow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/snap"
)

// Whatever has become of the folder, what is shown is a state that was signed,
// or nothing, and the next checkpoint brings it to the newest.
func TestDamagedFoldersAreNeverServed(t *testing.T) {
	o := newOrigin(t)
	whole := onDisk(t, o)
	names, err := filepath.Glob(filepath.Join(whole, "*"))
	if err != nil || len(names) < 2 {
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
			if f.shown.Load() > 0 {
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
			if again.shown.Load() == 0 {
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
	for _, c := range []struct {
		name, dir string
		taken     string // the name of a folder, so that no file can have it
	}{
		{"no folder", filepath.Join(file, "folder"), ""},
		{"no room for the state", t.TempDir(), "state-2/x"},
		{"no room for a checkpoint", t.TempDir(), "checkpoint/x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOrigin(t)
			o.join("a")
			o.sign()
			f := o.newReplica(func(cfg *Config) { cfg.Dir = c.dir })
			if c.taken != "" {
				if err := os.MkdirAll(filepath.Join(c.dir, c.taken), 0o700); err != nil {
					t.Fatal(err)
				}
			}
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
			if left, _ := filepath.Glob(filepath.Join(c.dir, ".new-*")); len(left) > 0 {
				t.Errorf("%q is left over", left)
			}
			if c.taken == "" {
				return
			}
			if err := os.RemoveAll(filepath.Join(c.dir, filepath.Dir(c.taken))); err != nil {
				t.Fatal(err)
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

// Without a disk, a refused checkpoint changes nothing for readers either: the core goes
// back to what the origin and the memory have. Nor does it stop what comes after it.
func TestARefusalIsUndoneWithoutADisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", filepath.Join(file, "folder")} {
		for _, snapshot := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				o := newOrigin(t)
				o.join("a", "b")
				if snapshot {
					o.snapshot()
				}
				o.join("c")
				o.sign()
				f := o.booted(func(c *Config) { c.Dir = dir })
				o.join("d")
				f.takes(o.sign())
				want := f.get("/api/ring")
				o.join("e")
				if err := f.accept(t.Context(), o.sign(func(c *snap.Checkpoint) { c.State[0] ^= 1 })); !errors.Is(err, ErrState) {
					t.Errorf("dir %q, snapshot %v: %v", dir, snapshot, err)
				}
				if got := f.get("/api/ring"); got != want {
					t.Errorf("dir %q, snapshot %v: readers see %s", dir, snapshot, got)
				}
				f.takes(o.sign())
				f.agrees(o)
			})
		}
	}
}

// What was kept before the disk was full stands, and can be served from, also
// when nothing has come since that must be written anew.
func TestAFullDiskLeavesWhatWasWritten(t *testing.T) {
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
	taken := fmt.Sprintf("state-%d", o.tree.Size())
	if err := os.MkdirAll(filepath.Join(dir, taken, "x"), 0o700); err != nil {
		t.Fatal(err)
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
func TestTheFolderDoesNotGrowForEver(t *testing.T) {
	o := newOrigin(t)
	dir := onDisk(t, o)
	f := o.newReplica(func(c *Config) { c.Dir = dir })
	f.store.written = minJournal + 1
	o.join("g")
	f.takes(o.sign())
	if bases := f.store.bases(); len(bases) != 1 || bases[0] != o.tree.Size() {
		t.Errorf("states at %d", bases)
	}
	for _, name := range []string{".new-1", ".new-2"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o.join("h")
	f.takes(o.sign())
	f = o.newReplica(func(c *Config) { c.Dir = dir })
	f.agrees(o)
	if left, err := filepath.Glob(filepath.Join(dir, ".new-*")); len(left) > 0 || err != nil {
		t.Errorf("%q is left, %v", left, err)
	}
	// A backup can still be completed from it.
	records, err := f.Events(o.at.Snapshot.Size, 100)
	if err != nil || uint64(len(records)) != o.tree.Size()-o.at.Snapshot.Size {
		t.Errorf("%d records, %v", len(records), err)
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
	f.Add(whole, uint64(0))
	f.Add(whole[:20], uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, n uint64) {
		k, err := readState(bytes.NewReader(b), int64(len(b)), 3, 3+n)
		if err != nil {
			return
		}
		again := binary.BigEndian.AppendUint64(append(b[:0:0], b[0]), k.from)
		again = append(binary.BigEndian.AppendUint64(again, uint64(len(k.contents))), k.contents...)
		again = append(again, entries(k.tail)...)
		if uint64(len(k.tail)) != 3+n-k.from || !bytes.Equal(again, b[:stateHead+len(k.contents)+int(k.length)]) {
			t.Errorf("%x reads as %d records in %d bytes", b, len(k.tail), k.length)
		}
	})
}

// A slow disk does not hold up what is shown, and what waits to be written is bounded.
func TestADiskIsNotWaitedFor(t *testing.T) {
	o := newOrigin(t)
	dir := onDisk(t, o)
	f := o.newReplica(func(c *Config) { c.Dir = dir })
	// Writes to a full pipe wait.
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{4 << 10, 1} {
		for err = nil; err == nil; {
			writer.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			_, err = writer.Write(make([]byte, size))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	writer.SetWriteDeadline(time.Time{})
	f.store.journal.Close()
	f.store.journal = writer
	taken := func() bool {
		f.writes.mu.Lock()
		defer f.writes.mu.Unlock()
		return f.writes.next == nil
	}
	for i, slug := range []string{"g", "h", "i"} {
		o.join(slug)
		if err := f.accept(t.Context(), o.sign()); err != nil {
			t.Fatal(err)
		}
		f.agrees(o)
		for i == 0 && !taken() { // from then on it waits for the disk
			runtime.Gosched()
		}
	}
	f.accepting.Lock()
	f.persist(update{f.signed, make([]snap.Record, maxTail+1), false})
	f.accepting.Unlock()
	f.writes.mu.Lock()
	if next := f.writes.next; !f.writes.busy || next == nil || len(next.records) != 0 || !next.anew {
		t.Errorf("busy %v with %+v to come", f.writes.busy, next)
	}
	f.writes.mu.Unlock()
	if err := reader.Close(); err != nil { // a disk that fails
		t.Fatal(err)
	}
	f.writes.writing.Wait()
	f.store.resting = time.Time{}
	o.join("j")
	f.takes(o.sign())
	f = o.newReplica(func(c *Config) { c.Dir = dir })
	f.agrees(o)
}
