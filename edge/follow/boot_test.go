package follow

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"webring/core"
	"webring/core/coretest"
	"webring/core/snap"
	log "webring/edge/tlog"
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
			first := slices.IndexFunc(o.asked, func(p string) bool { return strings.HasPrefix(p, entriesPath) })
			if want := map[bool]string{false: log.EntriesPath(0, 10), true: log.EntriesPath(0, 12)}[replay]; o.asked[first] != want {
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

// What was signed before a restart binds a boot, even if the state on disk is lost: nothing
// older is shown, and no other history.
func TestALostStateDoesNotLetAnOlderOneIn(t *testing.T) {
	for name, c := range map[string]struct {
		// attack gives what is sent to the restarted replica, from an origin that is
		// one member ahead of what it has.
		attack func(o *fakeOrigin, older []byte) []byte
		want   error
	}{
		"fewer events": {func(_ *fakeOrigin, older []byte) []byte { return older }, ErrShrunk},
		"an older one of as many events": {func(o *fakeOrigin, _ []byte) []byte {
			return o.signWith(o.signer, o.before(1))
		}, ErrOlder},
		"another history of as many events": {func(o *fakeOrigin, _ []byte) []byte {
			c := o.before(-1)
			c.Root[3] ^= 1
			return o.signWith(o.signer, c)
		}, ErrForked},
		"another history of more events": {func(o *fakeOrigin, _ []byte) []byte {
			s := coretest.NewStep(&core.Bid{Stamp: 1, Member: "a", Amount: 500}, nil)
			o.records[len(o.records)-2] = snap.Record{Event: s.EventBytes}
			o.tree = snap.Tree{}
			for _, r := range o.records {
				o.tree.Add(r.Event)
			}
			return o.sign()
		}, ErrForked},
		"events that nobody signed": {func(o *fakeOrigin, _ []byte) []byte {
			o.records[len(o.records)-2] = o.records[len(o.records)-1]
			return o.sign()
		}, ErrEvents},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t)
			dir := t.TempDir()
			o.join("a")
			older := o.sign()
			o.join("b")
			f := o.booted(func(c *Config) { c.Dir = dir })
			f.takes(o.sign())
			kept, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
			if err != nil {
				t.Fatal(err)
			}
			states, err := filepath.Glob(filepath.Join(dir, "state-*"))
			if err != nil || len(states) == 0 {
				t.Fatalf("%q %v", states, err)
			}
			for _, state := range states {
				if err := os.Truncate(state, 20); err != nil {
					t.Fatal(err)
				}
			}
			f = o.newReplica(func(c *Config) { c.Dir = dir })
			if f.shown.Load() != 0 {
				t.Fatal("a state that is not there is shown")
			}
			at := o.at
			o.join("c")
			whole, tree := slices.Clone(o.records), o.tree
			err = f.accept(t.Context(), c.attack(o, older))
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			f.link.logFailure(f.link.origins.Current(), err)
			if log := f.log.String(); !strings.Contains(log, "refused; readers see what they saw before") {
				t.Errorf("the log says %s", log)
			}
			now, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
			if err != nil || f.shown.Load() != 0 || !bytes.Equal(now, kept) {
				t.Errorf("%d cores are shown, and on disk is %q, %v", f.shown.Load(), now, err)
			}
			// The truth is taken, which is the same again or what comes after it.
			o.records, o.tree, o.at = whole, tree, at
			f.takes(o.sign())
			f.agrees(o)
		})
	}
}

// An edge that was upgraded with its origin, in a ring where nothing happens, may have
// kept a checkpoint with a state number of the previous version.
func TestAStateThatIsReckonedAnewIsNoOtherHistory(t *testing.T) {
	o := newOrigin(t)
	dir := t.TempDir()
	o.join("a", "b")
	o.sign()
	o.booted(func(c *Config) { c.Dir = dir })
	was := o.before(0)
	was.State[3] ^= 1
	if err := os.WriteFile(filepath.Join(dir, "checkpoint"), o.signWith(o.signer, was), 0o600); err != nil {
		t.Fatal(err)
	}
	f := o.newReplica(func(c *Config) { c.Dir = dir })
	if f.shown.Load() != 0 {
		t.Fatal("a state is shown that is not the one that was signed")
	}
	f.takes(o.sign())
	f.agrees(o)
}

// An edge is not said to need an upgrade because of events that were made up on the way.
func TestACoreIsNotBlamedForWhatNobodySigned(t *testing.T) {
	for name, begin := range map[string]func(o *fakeOrigin, f *follower){
		"over a long gap": func(o *fakeOrigin, f *follower) {
			o.join("a")
			f.takes(o.sign())
			far(o)
		},
		"at a boot": func(o *fakeOrigin, f *follower) { o.join("a", "b", "c") },
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrigin(t)
			o.at.Core = [32]byte{1}
			f := o.newReplica()
			begin(o, f)
			was := f.shown.Load()
			// An event that cannot apply, and is none of the origin's.
			made := coretest.NewStep(&core.Bid{Stamp: 1, Member: "nobody", Amount: 100}, nil)
			at := len(o.records) - 2
			good := o.records[at]
			o.records[at] = snap.Record{Event: made.EventBytes}
			if err := f.accept(t.Context(), o.sign()); !errors.Is(err, ErrEvents) || errors.Is(err, ErrState) || errors.Is(err, errUpgrade) {
				t.Errorf("%v, want %v", err, ErrEvents)
			}
			if f.shown.Load() != was || f.Unreached() != nil {
				t.Errorf("the core was blamed for it\n%s", f.log)
			}
			o.records[at] = good
			f.takes(o.sign())
			f.agrees(o)
		})
	}
}
