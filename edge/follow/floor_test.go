package follow

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"webring/core"
	"webring/core/coretest"
	"webring/core/snap"
)

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
