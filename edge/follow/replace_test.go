package follow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/snap"
)

// ticked is a core that does something when it has been told the time.
type ticked struct {
	Core
	then func()
}

func (c ticked) Tick(now time.Time) {
	c.Core.Tick(now)
	if c.then != nil {
		c.then()
	}
}

// gone is a core that takes no records any more.
type gone struct{ Core }

func (gone) ApplyTo([]snap.Record, [16]byte, func() ([]byte, []snap.Record, error)) (refusal, err error) {
	return nil, errors.New("host: no instance of the module is free")
}

func (gone) Digest() (uint64, [16]byte) { return 0, [16]byte{} }

// replaces has a core take the place of the one that is shown, as when no instance of
// that is left. It holds that the next checkpoint comes then.
func (f *follower) replaces(o *fakeOrigin) {
	f.t.Helper()
	was := f.shown.Load()
	f.accepting.Lock()
	f.mu.Lock()
	f.Replica.shown = gone{f.Replica.shown}
	f.mu.Unlock()
	f.accepting.Unlock()
	o.sign()
	f.takes(o.signed)
	if f.shown.Load() != was+1 {
		f.t.Fatalf("%d cores were shown, and then %d\n%s", was, f.shown.Load(), f.log)
	}
}

// From one core to the next, readers do not go back in time: not when the clock
// has stepped back by less than a core follows, and not when the core before has a
// tick while the next one has its first.
func TestACoreBeginsNoEarlierThanTheOneBefore(t *testing.T) {
	for name, ahead := range map[string]func(f *follower){
		"the clock stepped back": func(f *follower) { f.Replica.shown.Tick(time.Now().Add(4 * time.Second)) },
		"a tick in between":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // the clock stands still
				o := newOrigin(t)
				o.join("a")
				o.sign()
				var f *follower
				f = o.newReplica(func(c *Config) {
					c.Dir = t.TempDir()
					c.Open = func(ctx context.Context, snapshot []byte) (Core, error) {
						core, err := openCore(ctx, snapshot)
						if err != nil || f == nil || f.Replica.shown == nil || ahead != nil {
							return core, err
						}
						tick := sync.OnceFunc(func() { f.Replica.shown.Tick(time.Now().Add(2 * time.Second)) })
						return ticked{core, tick}, nil
					}
				})
				f.takes(o.signed)
				before := f.Replica.shown
				if ahead != nil {
					ahead(f)
				}
				f.replaces(o)
				_, was := before.Head()
				if _, second := f.Replica.shown.Head(); f.Replica.shown == before || second < was || was <= time.Now().Unix() {
					t.Errorf("readers saw second %d, and then %d\n%s", was, second, f.log)
				}
				// A clock that came back too far is believed, with the next tick.
				now := time.Now().Add(-time.Hour)
				f.Replica.shown.Tick(now)
				if _, second := f.Replica.shown.Head(); second >= was {
					t.Errorf("an hour earlier, it shows second %d after %d", second, was)
				}
			})
		})
	}
}

// Whatever comes, readers see positions and seconds that never decrease: events,
// ticks of a clock that steps back a little now and then, refusals, and other cores.
func TestReadersNeverGoBack(t *testing.T) {
	o := newOrigin(t)
	o.join("a")
	o.sign()
	type shownCore struct{ Core }
	var present atomic.Pointer[shownCore]
	f := o.newReplica(func(c *Config) {
		c.Dir = t.TempDir()
		show := c.Show
		c.Show = func(core Core) { present.Store(&shownCore{core}); show(core) }
	})
	f.takes(o.signed)
	stop := make(chan struct{})
	var beside sync.WaitGroup
	for range 2 {
		beside.Go(func() {
			var seq uint64
			var second int64
			for {
				select {
				case <-stop:
					return
				default:
				}
				now, at := present.Load().Head()
				if now < seq || at < second {
					t.Errorf("from %d at %d back to %d at %d", seq, second, now, at)
					return
				}
				seq, second = now, at
			}
		})
	}
	beside.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			f.tickCore(time.Now().Add(time.Duration(n%5-2) * time.Second))
		}
	})
	for n := range 30 {
		o.join(fmt.Sprint("m", n))
		if n%3 == 0 {
			if err := f.accept(t.Context(), o.sign(func(c *snap.Checkpoint) { c.State[0] ^= 1 })); !errors.Is(err, ErrState) {
				t.Errorf("a state that nobody reaches: %v", err)
			}
		}
		f.takes(o.sign())
		f.replaces(o)
	}
	close(stop)
	beside.Wait()
	f.agrees(o)
}
