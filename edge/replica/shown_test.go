package replica

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

// failing is a core for readers that fails when it is given records, as often as is
// left: it takes none of them, or half, or all, or all and comes to another state.
type failing struct {
	Core
	takes string
	left  *int
	wrong bool
}

func (c *failing) Apply(records []snap.Record) error {
	if *c.left == 0 {
		return c.Core.Apply(records)
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
		return c.Core.Apply(records)
	}
	return errors.Join(c.Core.Apply(records[:n]), errors.New("host: no instance of the module is free"))
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
		c.Open = func(ctx context.Context, m Module, snapshot []byte, readers bool) (Core, error) {
			if readers && s.opening > 0 {
				s.opening--
				return nil, errors.New("host: the ring does not fit")
			}
			return openCore(ctx, m, snapshot, readers)
		}
	}
	o.join("a", "b")
	o.sign()
	s.follower = o.booted(s.in)
	s.Replica.shown = &failing{Core: s.Replica.shown, takes: takes, left: &s.applying}
	return s
}

// behind holds that the replica does not say that it is where the origin is, and that
// readers see what they saw or what was signed since, without a gap.
func (s *straying) behind(o *fakeOrigin, err error) {
	s.t.Helper()
	if !errors.Is(err, errNotShown) {
		s.t.Errorf("%v, want %v", err, errNotShown)
	}
	at := s.Position()
	seq, digest := s.Replica.shown.(*failing).Core.Digest()
	if at >= o.at.Size || seq < at || seq > o.at.Size || bytes.Equal(s.Checkpoint(), o.signed) {
		s.t.Errorf("it says that it is at %d of %d, and shows %d", at, o.at.Size, seq)
	}
	gone, cancel := context.WithCancel(s.t.Context())
	cancel()
	if s.Reach(gone, o.at.Size) {
		s.t.Error("what is not shown counts as reached")
	}
	prefix := core.NewState(capacity, 1)
	for _, r := range o.records[:min(seq, uint64(len(o.records)))] {
		if err := prefix.Apply(r.Event, r.Texts); err != nil {
			s.t.Fatal(err)
		}
	}
	if digest != prefix.Digest() {
		s.t.Errorf("the %d events that it shows are not the first ones", seq)
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
					s.behind(o, s.accept(t.Context(), o.sign()))
					time.Sleep(mostRest)
				}
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
func TestACoreThatWentAstrayIsNotKept(t *testing.T) {
	for _, takes := range []string{"half", "all", "other"} {
		synctest.Test(t, func(t *testing.T) {
			o := newOrigin(t)
			s := strayingFrom(t, o, takes)
			kept, signed, bases := o.at.Size, o.signed, s.store.bases()
			s.applying, s.opening = 1, 1
			o.join("c", "d")
			s.behind(o, s.accept(t.Context(), o.sign()))
			s.store.written = minJournal + 1
			s.accepting.Lock()
			s.keep(news{signed: s.signed})
			s.accepting.Unlock()
			s.keeping.writing.Wait()
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

// Opening a core takes as much memory as the ring: that is not tried at full speed,
// however often somebody has the origin asked.
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
		if n := strings.Count(log, "could not be replaced"); n < 9 || n > 11 || strings.Count(log, "went astray") != 1 || strings.Contains(log, "refused") {
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
