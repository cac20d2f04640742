package replica

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"webring/core/snap"
)

// A replica is to its followers what the origin is to it.
func TestAReplicaCanBeFollowed(t *testing.T) {
	o := newOrigin(t)
	o.join("a", "b", "c")
	o.snapshot()
	o.join("d", "e")
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
		asked := len(o.asked)
		for _, none := range [][32]byte{{}, {1}} {
			if _, _, err := f.Snapshot(none); !errors.Is(err, snap.ErrNotHeld) {
				t.Errorf("a snapshot of no name: %v", err)
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
