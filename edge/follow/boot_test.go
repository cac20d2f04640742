package follow

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

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
			if f.shown.Load() != 0 || f.Checkpoint() != nil {
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

func TestARestartWithReplayTrustsNoSnapshot(t *testing.T) {
	o := newOrigin(t)
	dir := onDisk(t, o)
	replay := func(c *Config) { c.Dir, c.Replay = dir, true }
	f := o.newReplica(replay)
	if f.shown.Load() != 0 {
		t.Error("a state from a snapshot is shown")
	}
	f.takes(o.signed)
	f.agrees(o)
	o.leave(true)
	f = o.newReplica(replay)
	<-f.Ready()
	f.agrees(o)
}
