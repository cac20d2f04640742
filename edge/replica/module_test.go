package replica

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/snap"
)

// own is the module that replicas of these tests are built with.
func own(c *Config) {
	c.Own = Module{Code: []byte("own"), Digest: sha256.Sum256([]byte("own")), ABI: 1}
}

func (f *follower) module() string { return string(f.Replica.shown.(*testCore).module) }

// withOwn gives an origin with one member, a replica that shows it from its own module
// and keeps it in a folder, and what another one needs to begin there.
func withOwn(t *testing.T) (o *fakeOrigin, f *follower, change func(*Config)) {
	t.Helper()
	o = newOrigin(t)
	o.join("a")
	o.at.ABI = 1
	dir := t.TempDir()
	change = func(c *Config) { own(c); c.Dir = dir }
	o.sign()
	f = o.newReplica(change)
	f.takes(o.signed)
	return o, f, change
}

func TestTheModuleThatACheckpointNamesIsShown(t *testing.T) {
	for _, atBoot := range []bool{false, true} {
		o := newOrigin(t)
		o.join("a", "b", "c")
		o.at.ABI = 1
		dir := t.TempDir()
		change := func(c *Config) { own(c); c.Dir = dir }
		o.sign()
		f := o.newReplica(change)
		if !atBoot {
			f.takes(o.signed)
			o.join("d")
			f.takes(o.sign())
		}
		o.at.Core = o.module("says more")
		f.takes(o.sign())
		f.agrees(o)
		if f.module() != "says more" || !strings.Contains(f.get("/api/ring"), `"more":1`) {
			t.Errorf("%s is shown\n%s", f.module(), f.log)
		}
		// It was loaded beside the one before, and goes on.
		o.join("e")
		f.takes(o.sign())
		f.agrees(o)
		// From disk, too, without the origin.
		o.leave(true)
		f = o.newReplica(change)
		f.agrees(o)
		if f.module() != "says more" {
			t.Errorf("%s is shown after a restart\n%s", f.module(), f.log)
		}
		o.leave(false)
		// And back to the one it was built with, which nobody needs to send.
		o.at.Core = sha256.Sum256([]byte("own"))
		f.takes(o.sign())
		f.agrees(o)
		if f.module() != "own" {
			t.Errorf("%s is shown in the end", f.module())
		}
	}
}

// A core for which the disk has no room is kept when there is some again: the rows beside
// it may make sense to no other.
func TestAModuleIsKeptOnceThereIsRoom(t *testing.T) {
	for _, code := range []string{"says more", "folds no more than 2"} {
		o, f, change := withOwn(t)
		o.at.Core = o.module(code)
		if err := os.Symlink("/dev/full", f.store.path(fmt.Sprintf("core-%x.new", o.at.Core))); err != nil {
			t.Fatal(err)
		}
		f.takes(o.sign())
		if log := f.log.String(); f.module() != code || !strings.Contains(log, "the core cannot be kept on disk") {
			t.Fatalf("%s is shown, and the log says %s", f.module(), log)
		}
		f.store.retried = time.Time{}
		o.join("b")
		f.takes(o.sign())
		o.leave(true)
		f = o.newReplica(change)
		f.agrees(o)
		want := map[string]string{"says more": code, "folds no more than 2": "own"}[code] // the other is given up
		if f.module() != want {
			t.Errorf("%s is shown after a restart\n%s", f.module(), f.log)
		}
		if kept := f.store.modules(); (len(kept) == 1) != (want == code) {
			t.Errorf("%s: %d modules are kept", code, len(kept))
		}
	}
}

func TestModulesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		rule, code string
		change     func(o *fakeOrigin)
		log        string
	}{
		{"another than named", "good", func(o *fakeOrigin) {
			o.bend = func(path string, b []byte) []byte {
				if strings.HasPrefix(path, "/sync/core") {
					return []byte("bad")
				}
				return b
			}
		}, "not the one that was signed"},
		{"not there", "good", func(o *fakeOrigin) { clear(o.files) }, "status 404"},
		{"cannot be loaded", "broken", nil, "module refused"},
		{"another ABI", "good", func(o *fakeOrigin) { o.at.ABI = 2 }, "cannot be hosted here"},
		{"traps", "traps", nil, "it answers 500"},
		{"panics", "panics", nil, "it panicked"},
		{"leads elsewhere", "lies", nil, "it answers 302 https://a.test/x, not 302 https://a.test/"},
		{"empties a document", "empties /api/leaderboard", nil, "/api/leaderboard: it has no"},
		{"empties a member's", "empties /api/ring/b", nil, "/api/ring/b: it has no"},
		{"empties a problem", "empties /api/ring/nobody", nil, "/api/ring/nobody: it has no"},
		{"empties a list", "lists nobody", nil, "/api/ring.members has not 2 items"},
		{"lists in another order", "turns around", nil, "/api/leaderboard.leaderboard"},
		{"counts otherwise", "counts", nil, "/api/widget.ring.count is not 2"},
		{"gives no document", "says too much", nil, "its answer is no document"},
		{"comes to another state", "folds otherwise", nil, "does not reach the signed state"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			o := newOrigin(t)
			o.join("a", "b")
			o.at.ABI = 1
			o.sign()
			f := o.booted(own)
			ring := f.get("/api/ring")[len("200 3 "):]
			o.at.Core = o.module(c.code)
			if c.change != nil {
				c.change(o)
			}
			for range 3 {
				f.takes(o.sign())
				f.agrees(o)
			}
			if f.module() != "own" || f.get("/api/ring")[len("200 3 "):] != ring {
				t.Errorf("%s is shown", f.module())
			}
			if log := f.log.String(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, c.log) || !strings.Contains(log, "going on with the") {
				t.Errorf("the log says %s", log)
			}
			o.join("c")
			f.takes(o.sign())
			f.agrees(o)
		})
	}
}

// A host that has only what was compiled in follows whatever core the origin
// has.
func TestANativeReplicaLoadsNoModule(t *testing.T) {
	o := newOrigin(t)
	o.at.Core, o.at.ABI = o.module("good"), 1
	o.sign()
	f := o.booted()
	o.join("a")
	f.takes(o.sign())
	f.agrees(o)
	for _, path := range o.asked {
		if strings.HasPrefix(path, "/sync/core") {
			t.Error("a module was fetched")
		}
	}
}

// Events that only a newer core can fold bring that core in first.
func TestACoreThatCannotFoldIsReplacedByTheNamedOne(t *testing.T) {
	o := newOrigin(t)
	o.join("a")
	o.at.ABI = 1
	o.sign()
	f := o.booted(own, func(c *Config) {
		c.Own = Module{Code: []byte("folds no more than 2"), Digest: sha256.Sum256([]byte("folds no more than 2")), ABI: 1}
	})
	f.agrees(o)
	o.join("b")
	o.at.Core = o.module("newer")
	f.takes(o.sign())
	f.agrees(o)
	if f.module() != "newer" {
		t.Errorf("%s is shown\n%s", f.module(), f.log)
	}
}

// A module that answers as it should is shown; when it cannot fold what comes
// then, the one before it does, and goes on, over a restart too.
func TestAModuleThatFailsLaterIsGivenUp(t *testing.T) {
	for _, wrong := range []string{"folds no more than 2", "folds another third"} {
		o, f, change := withOwn(t)
		o.at.Core = o.module(wrong)
		f.takes(o.sign())
		if f.module() != wrong {
			t.Fatalf("%s is shown\n%s", f.module(), f.log)
		}
		// What nobody can reach is no fault of the module.
		o.join("b")
		err := f.accept(t.Context(), o.sign(func(c *snap.Checkpoint) { c.State[1] ^= 1 }))
		if !errors.Is(err, ErrState) || f.module() != wrong {
			t.Fatalf("%v: %s is shown\n%s", err, f.module(), f.log)
		}
		f.takes(o.sign())
		f.agrees(o)
		o.join("c")
		f.takes(o.sign())
		f.agrees(o)
		if log := f.log.String(); f.module() != "own" || strings.Count(log, "going back to the core of this process") != 1 {
			t.Errorf("%s: %s is shown\n%s", wrong, f.module(), log)
		}
		o.leave(true)
		f = o.newReplica(change)
		if f.module() != "own" {
			t.Errorf("%s: %s is shown after a restart\n%s", wrong, f.module(), f.log)
		}
	}
}

// Readers get what a module makes of the ring only where one that can be
// interrupted has made it before, at a boot as well as later. One that does not
// come back, which its host makes a failure, leaves everything as it was.
func TestAModuleIsTriedBeforeReadersGetIt(t *testing.T) {
	opened := func(seen *[]string) func(*Config) {
		return func(c *Config) {
			own(c)
			c.Own.Code = []byte("folds no more than 2")
			c.Open = func(ctx context.Context, m Module, snapshot []byte, readers bool) (Core, error) {
				*seen = append(*seen, fmt.Sprint(string(m.Code), " ", readers))
				if strings.HasPrefix(string(m.Code), "hangs") && !readers {
					return nil, errors.New("a call took too long")
				}
				return openCore(ctx, m, snapshot, readers)
			}
		}
	}
	for _, code := range []string{"newer", "hangs"} {
		for _, atBoot := range []bool{false, true} {
			var seen []string
			o := newOrigin(t)
			o.join("a")
			o.at.ABI = 1
			f := o.newReplica(opened(&seen))
			if !atBoot {
				f.takes(o.sign())
			}
			o.join("b") // more than the own core can fold
			o.at.Core = o.module(code)
			err := f.accept(t.Context(), o.sign())
			tried, shown := slices.Index(seen, code+" false"), slices.Index(seen, code+" true")
			if good := code == "newer"; good != (err == nil) || tried < 0 || good != (shown > tried) {
				t.Errorf("%s, at boot %t: %v, opened %q\n%s", code, atBoot, err, seen, f.log)
			}
			if err != nil && !atBoot && f.module() != "folds no more than 2" {
				t.Errorf("%s is shown", f.module())
			}
		}
	}
}

// A module that cannot fold what an edge missed while it was away is given up
// as any other.
func TestAModuleThatCannotFoldAllThatWasMissedIsGivenUp(t *testing.T) {
	o := newOrigin(t)
	o.join("a")
	o.at.ABI = 1
	o.sign()
	f := o.booted(own)
	o.at.Core = o.module("folds no more than 2")
	f.takes(o.sign())
	if f.module() != "folds no more than 2" {
		t.Fatalf("%s is shown\n%s", f.module(), f.log)
	}
	far(o)
	f.takes(o.sign())
	f.agrees(o)
	if log := f.log.String(); f.module() != "own" || strings.Count(log, "going back to the core of this process") != 1 {
		t.Errorf("%s is shown\n%s", f.module(), log)
	}
}

// A newer core may say more, and say it in other words.
func TestAModuleThatSaysMoreOrOtherwiseIsShown(t *testing.T) {
	for _, code := range []string{"says more", "says otherwise"} {
		o := newOrigin(t)
		o.join("a", "b")
		o.at.ABI = 1
		o.sign()
		f := o.booted(own)
		before := f.get("/api") + f.get("/api/leaderboard") + f.get("/api/ring/nobody")
		o.at.Core = o.module(code)
		f.takes(o.sign())
		if after := f.get("/api") + f.get("/api/leaderboard") + f.get("/api/ring/nobody"); f.module() != code || after == before {
			t.Errorf("%s is shown\n%s", f.module(), f.log)
		}
	}
}

// An origin may go back to an earlier module, which says less than the one after it.
func TestAModuleThatWasShownMayComeBack(t *testing.T) {
	o := newOrigin(t)
	o.join("a")
	o.at.ABI = 1
	o.sign()
	f := o.booted(own)
	for _, code := range []string{"newer", "says more", "newer", "says more", "own"} {
		o.at.Core = o.module(code)
		f.takes(o.sign())
		if f.module() != code {
			t.Fatalf("%s is shown, not %s\n%s", f.module(), code, f.log)
		}
	}
}

// What was missing for a good module may be there later.
func TestAModuleThatFailedIsTriedAgainAfterALongTime(t *testing.T) {
	for _, readers := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := newOrigin(t)
			o.at.ABI = 1
			o.sign()
			var tried int
			f := o.booted(own, func(c *Config) {
				c.Open = func(ctx context.Context, m Module, snapshot []byte, forReaders bool) (Core, error) {
					if string(m.Code) == "newer" && forReaders == readers {
						if tried++; tried == 1 {
							return nil, errors.New("no memory")
						}
					}
					return openCore(ctx, m, snapshot, forReaders)
				}
			})
			o.at.Core = o.module("newer")
			for range 3 {
				time.Sleep(refusedForLong / 4)
				f.takes(o.sign())
			}
			if tried != 1 || f.module() != "own" {
				t.Errorf("tried %d times, %s is shown\n%s", tried, f.module(), f.log)
			}
			time.Sleep(refusedForLong)
			f.takes(o.sign())
			if f.module() != "newer" {
				t.Errorf("%s is shown\n%s", f.module(), f.log)
			}
		})
	}
}

// A module that answers, but takes long, does not keep what is new from readers.
func TestAModuleThatPondersIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrigin(t)
		for i := range examined {
			o.join(fmt.Sprint("m", i))
		}
		o.at.ABI = 1
		o.sign()
		f := o.booted(own)
		o.at.Core = o.module("ponders")
		began := time.Now()
		f.takes(o.sign())
		if took := time.Since(began); took < examTime || took > examTime+5*time.Second || f.module() != "own" {
			t.Errorf("%s is shown after %s\n%s", f.module(), took, f.log)
		}
	})
}
