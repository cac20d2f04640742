package follow

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core"
	"webring/core/snap"
)

// failing is a core that fails when it is given records, as often as is left: it takes
// none of them, or half, or all, or all and comes to another state unawares.
type failing struct {
	Core
	takes string
	left  *int
	wrong bool
}

func (c *failing) ApplyTo(records []snap.Record, digest [16]byte, last func() ([]byte, []snap.Record, error)) (refusal, err error) {
	if *c.left == 0 {
		return c.Core.ApplyTo(records, digest, last)
	}
	*c.left--
	n := len(records)
	switch c.takes {
	case "none":
		n = 0
	case "half":
		n /= 2
	case "other":
		c.wrong = true
		return nil, c.Core.Apply(records)
	}
	return nil, errors.Join(c.Core.Apply(records[:n]), errors.New("host: no instance of the module is free"))
}

func (c *failing) Digest() (uint64, [16]byte) {
	seq, digest := c.Core.Digest()
	if c.wrong {
		digest[0] ^= 1
	}
	return seq, digest
}

// straying is a replica with a folder that shows an origin's ring, and for how often the
// core that it shows fails from then on, and the opening of one in its place.
type straying struct {
	*follower
	applying, opening int
	in                func(*Config)
}

func strayingFrom(t *testing.T, o *fakeOrigin, takes string) *straying {
	t.Helper()
	s := &straying{}
	dir := t.TempDir()
	s.in = func(c *Config) {
		c.Dir = dir
		c.Open = func(ctx context.Context, snapshot []byte) (Core, error) {
			if s.opening > 0 {
				s.opening--
				return nil, errors.New("host: the ring does not fit")
			}
			return openCore(ctx, snapshot)
		}
	}
	o.join("a", "b")
	o.sign()
	s.follower = o.booted(s.in)
	s.Replica.shown = &failing{Core: s.Replica.shown, takes: takes, left: &s.applying}
	return s
}

// behind holds that the replica does not say that it is where the origin is.
func (s *straying) isBehind(o *fakeOrigin, err error) {
	s.t.Helper()
	if !errors.Is(err, errNotShown) {
		s.t.Errorf("%v, want %v", err, errNotShown)
	}
	if at := s.Position(); at >= o.at.Size || bytes.Equal(s.Checkpoint(), o.signed) {
		s.t.Errorf("it says that it is at %d of %d", at, o.at.Size)
	}
	gone, cancel := context.WithCancel(s.t.Context())
	cancel()
	if s.Reach(gone, o.at.Size) {
		s.t.Error("what is not shown counts as reached")
	}
}

// While neither the core that is shown takes what was signed nor another can be opened,
// nothing is said to be there that is not, and nothing comes onto the gap. Then all of it
// is shown, after a restart too.
func TestWhatCannotBeShownIsShownLater(t *testing.T) {
	for _, takes := range []string{"none", "half", "all", "other"} {
		for _, times := range []int{1, 3} {
			synctest.Test(t, func(t *testing.T) {
				o := newOrigin(t)
				s := strayingFrom(t, o, takes)
				s.applying, s.opening = times, times
				names := []string{"c", "d", "e", "f", "g", "h", "i", "j"}
				for range times {
					o.join(names[0], names[1])
					names = names[2:]
					s.isBehind(o, s.accept(t.Context(), o.sign()))
					time.Sleep(mostRest)
				}
				s.opening = 0
				s.takes(o.sign())
				s.agrees(o)
				if got := s.get("/next?from=b"); !strings.Contains(got, "https://c.test/") {
					t.Errorf("after b comes %s", got)
				}
				// And it goes on, over what is refused and over a restart.
				o.join(names[0])
				if err := s.accept(t.Context(), o.sign(func(c *snap.Checkpoint) { c.State[1] ^= 1 })); !errors.Is(err, ErrState) {
					t.Errorf("a state that nobody reaches: %v", err)
				}
				s.takes(o.sign())
				s.agrees(o)
				if records, err := s.Events(0, 100); err != nil || len(records) != len(o.records) {
					t.Errorf("%d records for followers, %v", len(records), err)
				}
				o.leave(true)
				o.newReplica(s.in).agrees(o)
				if t.Failed() {
					t.Fatalf("takes %s, fails %d times\n%s", takes, times, s.log)
				}
			})
		}
	}
}

// What is on disk stays as good as it was, also when another file is due just then.
func TestACoreWithAnotherStateIsNotWrittenToDisk(t *testing.T) {
	for _, takes := range []string{"half", "all", "other"} {
		synctest.Test(t, func(t *testing.T) {
			o := newOrigin(t)
			s := strayingFrom(t, o, takes)
			kept, signed, bases := o.at.Size, o.signed, s.store.bases()
			s.applying, s.opening = 1, 1
			o.join("c", "d")
			s.isBehind(o, s.accept(t.Context(), o.sign()))
			s.store.written = minJournal + 1
			s.accepting.Lock()
			s.persist(update{signed: s.signed})
			s.accepting.Unlock()
			s.writes.writing.Wait()
			if now := s.store.bases(); len(now) != 1 || now[0] != bases[0] {
				t.Errorf("states at %d, and at %d before", now, bases)
			}
			o.leave(true)
			again := o.newReplica(s.in)
			if size := again.Position(); size != kept || !bytes.Equal(again.Checkpoint(), signed) {
				t.Errorf("a restart shows %d events, and %d were kept\n%s", size, kept, again.log)
			}
			o.leave(false)
			// What comes then is kept.
			time.Sleep(max(mostRest, storeRest))
			o.join("e")
			s.takes(o.sign())
			s.agrees(o)
			o.leave(true)
			o.newReplica(s.in).agrees(o)
		})
	}
}

// Opening a core takes as much memory as the ring. It is not tried at full speed, however
// often the replica is nudged.
func TestACoreIsNotOpenedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrigin(t)
		s := strayingFrom(t, o, "other")
		const many = 1000
		s.applying, s.opening = 1, many
		defer s.following(t)()
		synctest.Wait()
		o.join("c")
		o.sign()
		for range 600 {
			time.Sleep(time.Second)
			s.Nudge()
		}
		synctest.Wait()
		if n := many - s.opening; n < 10 || n > 20 {
			t.Errorf("%d attempts in ten minutes", n)
		}
		log := s.log.String()
		if n := strings.Count(log, "the core could not take what was signed"); n < 9 || n > 11 || strings.Contains(log, "refused") || strings.Contains(log, "upgrade") {
			t.Errorf("the log says %s", log)
		}
		if !s.Stale() {
			t.Error("fresh")
		}
		s.accepting.Lock()
		s.opening = 0
		s.accepting.Unlock()
		time.Sleep(mostRest + maxPause)
		synctest.Wait()
		s.agrees(o)
	})
}

// An origin that went on from an older backup signs another history, which no attempt
// reaches. When it is far ahead, each attempt opens a core, and that is not tried at full
// speed.
func TestAnotherHistoryIsNotFoldedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrigin(t)
		rules := o.records[0]
		o.join("a", "b")
		o.sign()
		opened := 0
		f := o.booted(func(c *Config) {
			c.Open = func(ctx context.Context, snapshot []byte) (Core, error) {
				opened++
				return openCore(ctx, snapshot)
			}
		})
		want := f.get("/api/ring")
		o.records, o.tree, o.state = []snap.Record{rules}, snap.Tree{}, core.NewState(capacity, 1)
		if err := o.state.Apply(rules.Event, rules.Texts); err != nil {
			t.Fatal(err)
		}
		o.tree.Add(rules.Event)
		o.join("c", "d", "e")
		far(o)
		o.sign()
		defer f.following(t)()
		for range 60 {
			time.Sleep(10 * time.Second)
			o.sign()
		}
		synctest.Wait()
		if opened < 10 || opened > 20 {
			t.Errorf("%d cores were opened in ten minutes", opened)
		}
		if got := f.get("/api/ring"); got != want || !f.Stale() || !strings.Contains(f.log.String(), "events that the checkpoint does not sign") {
			t.Errorf("stale %v, readers see %s\n%s", f.Stale(), got, f.log)
		}
	})
}

// counting is a core that counts the records that it folds.
type counting struct {
	Core
	folded *int
}

func (c counting) Apply(records []snap.Record) error {
	*c.folded += len(records)
	return c.Core.Apply(records)
}

func (c counting) ApplyTo(records []snap.Record, digest [16]byte, last func() ([]byte, []snap.Record, error)) (refusal, err error) {
	*c.folded += len(records)
	return c.Core.ApplyTo(records, digest, last)
}

// There is one core, and it folds each event once.
func TestEventsAreFoldedOnce(t *testing.T) {
	o := newOrigin(t)
	o.join("a", "b")
	o.sign()
	folded, opened := 0, 0
	f := o.booted(func(c *Config) {
		c.Dir = t.TempDir()
		c.Open = func(ctx context.Context, snapshot []byte) (Core, error) {
			opened++
			core, err := openCore(ctx, snapshot)
			return counting{core, &folded}, err
		}
	})
	for _, slug := range []string{"c", "d", "e"} {
		o.join(slug)
		f.takes(o.sign())
	}
	f.agrees(o)
	if folded != len(o.records) || opened != 1 {
		t.Errorf("%d events were folded %d times, in %d cores", len(o.records), folded, opened)
	}
}

// An edge with a core that computes another state than a newer one signs shows its last good
// state, marks it stale, says what to do, and does not try at full speed. When its state
// matches what is signed, all of that ends.
func TestAnEdgeThatIsToBeUpgradedSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		ahead func(o *fakeOrigin)
		bend  func(*snap.Checkpoint)
	}{
		"an event that it cannot fold": {func(o *fakeOrigin) {
			// Of a kind that only a newer core knows.
			event := []byte{250, 1, 2, 3}
			o.records = append(o.records[:len(o.records):len(o.records)], snap.Record{Event: event})
			o.tree.Add(event)
		}, func(*snap.Checkpoint) {}},
		"an event that is folded otherwise": {func(o *fakeOrigin) { o.join("b") }, func(c *snap.Checkpoint) { c.State[0] ^= 1 }},
		"the same events":                   {func(*fakeOrigin) {}, func(c *snap.Checkpoint) { c.State[0] ^= 1 }},
		"many events":                       {far, func(c *snap.Checkpoint) { c.State[0] ^= 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOrigin(t)
				o.join("a")
				o.sign()
				dir := t.TempDir()
				in := func(c *Config) { c.Dir, c.Module = dir, [32]byte{7} }
				f := o.booted(in)
				want, at := f.get("/api/ring"), f.Position()
				o.at.Core, o.at.ABI = [32]byte{9}, 1 // a newer one
				f.takes(o.sign())                    // and the same state
				if f.Stale() || strings.Contains(f.log.String(), "ERROR") {
					t.Errorf("a newer core that comes to the same state\n%s", f.log)
				}
				good, records, tree := o.at, o.records, o.tree
				stop := f.following(t)
				synctest.Wait()
				c.ahead(o)
				o.sign(c.bend)
				synctest.Wait()
				asked := o.questions(entriesPath)
				for range 60 {
					time.Sleep(10 * time.Second)
					o.sign(c.bend)
				}
				synctest.Wait()
				if got := f.get("/api/ring"); got != want || f.Position() != at || !f.Stale() {
					t.Errorf("stale %v at %d: %s", f.Stale(), f.Position(), got)
				}
				log := f.log.String()
				if n := strings.Count(log, "refused; readers see what they saw before"); n < 9 || n > 12 || !strings.Contains(log, "upgrade this edge: follow: the fold does not reach the signed state") || !strings.Contains(log, "0900000000") {
					t.Errorf("%d lines: the log says %s", n, log)
				}
				if n := o.questions(entriesPath) - asked; n > 12*34 {
					t.Errorf("events were asked for %d times in ten minutes", n)
				}
				if kept, err := Kept(dir); err != nil || kept != at {
					t.Errorf("%d events are on the disk, of %d: %v", kept, at, err)
				}
				said, err := Unreachable(dir)
				if err != nil || !strings.HasPrefix(said, "upgrade this edge: ") {
					t.Errorf("the folder says %q, %v", said, err)
				}
				stop()
				// A restart shows the same, and says the same.
				again := o.newReplica(in)
				if got := again.get("/api/ring"); got != want {
					t.Errorf("after a restart it shows %s\n%s", got, again.log)
				}
				if err := again.accept(t.Context(), o.signed); !errors.Is(err, errUpgrade) || !again.Stale() {
					t.Errorf("after a restart: %v", err)
				}
				// The upgrade: a core that comes to what is signed.
				o.mu.Lock()
				o.records, o.tree, o.at = records, tree, good
				if name == "an event that is folded otherwise" || name == "many events" {
					o.state = core.NewState(capacity, 1)
					for _, r := range records {
						if err := o.state.Apply(r.Event, r.Texts); err != nil {
							t.Fatal(err)
						}
					}
				}
				o.mu.Unlock()
				up := o.newReplica(in)
				o.join("z")
				up.takes(o.sign())
				up.agrees(o)
				if said, err := Unreachable(dir); up.Stale() || said != "" || err != nil {
					t.Errorf("stale %v: the folder says %q, %v", up.Stale(), said, err)
				}
			})
		})
	}
}

// An edge that has lost what it could go back to is not said to need an upgrade for
// that: the state on disk is of other rows than those that were signed.
func TestAnEdgeThatCannotGoBackIsNotToBeUpgraded(t *testing.T) {
	o := newOrigin(t)
	s := strayingFrom(t, o, "other")
	s.Replica.cfg.Open = func(ctx context.Context, snapshot []byte) (Core, error) { return openCore(ctx, nil) }
	s.applying = 1
	o.join("c")
	if err := s.accept(t.Context(), o.sign(func(c *snap.Checkpoint) { c.Core = [32]byte{9} })); !errors.Is(err, errNotShown) || errors.Is(err, errUpgrade) || s.Unreached() != nil {
		t.Errorf("%v", err)
	}
}

// An edge that has the very core of its origin is not helped by an upgrade.
func TestTheSameCoreIsNotToBeUpgraded(t *testing.T) {
	o := newOrigin(t)
	o.at.Core = [32]byte{7}
	o.sign()
	f := o.booted(func(c *Config) { c.Dir, c.Module = t.TempDir(), [32]byte{7} })
	o.join("a")
	err := f.accept(t.Context(), o.sign(func(c *snap.Checkpoint) { c.State[0] ^= 1 }))
	if !errors.Is(err, ErrState) || errors.Is(err, errUpgrade) || !f.Stale() {
		t.Errorf("stale %v: %v", f.Stale(), err)
	}
}

// silent is a core that gives no snapshot, as when none of its instances works.
type silent struct{ Core }

func (silent) Snapshot() []byte { return nil }

func TestACoreWithoutSnapshotChangesNothingOnDisk(t *testing.T) {
	o := newOrigin(t)
	dir := onDisk(t, o)
	kept := o.tree.Size()
	f := o.newReplica(func(c *Config) { c.Dir = dir })
	f.Replica.shown = silent{f.Replica.shown}
	if err := f.store.close(); err != nil { // so that a new pair is due
		t.Fatal(err)
	}
	o.join("late")
	f.takes(o.sign())
	if log := f.log.String(); !strings.Contains(log, "cannot be kept on disk") {
		t.Errorf("the log says %s", log)
	}
	o.leave(true)
	again := o.newReplica(func(c *Config) { c.Dir = dir })
	if size := again.Position(); size != kept {
		t.Errorf("from disk: %d, and %d were kept", size, kept)
	}
}

func TestASilentCoreIsNotReopened(t *testing.T) {
	o := newOrigin(t)
	o.join("a")
	o.sign()
	f := o.booted()
	f.Replica.shown = silent{f.Replica.shown}
	if _, err := f.reopen(t.Context()); !errors.Is(err, errNoSnapshot) {
		t.Errorf("reopened: %v", err)
	}
}
