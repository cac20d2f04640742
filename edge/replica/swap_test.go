package replica

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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
				o.at.ABI = 1
				o.sign()
				var f *follower
				f = o.newReplica(own, func(c *Config) {
					c.Open = func(ctx context.Context, m Module, snapshot []byte, readers bool) (Core, error) {
						core, err := openCore(ctx, m, snapshot, readers)
						if err != nil || !readers || string(m.Code) != "newer" || ahead != nil {
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
				o.at.Core = o.module("newer")
				f.takes(o.sign())
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
// ticks of a clock that steps back a little now and then, and other cores.
func TestReadersNeverGoBack(t *testing.T) {
	o := newOrigin(t)
	o.join("a")
	o.at.ABI = 1
	o.sign()
	type shownCore struct{ Core }
	var present atomic.Pointer[shownCore]
	f := o.newReplica(own, func(c *Config) {
		show := c.Show
		c.Show = func(core Core, m Module) { present.Store(&shownCore{core}); show(core, m) }
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
			f.pass(time.Now().Add(time.Duration(n%5-2) * time.Second))
		}
	})
	for n := range 30 {
		o.join(fmt.Sprint("m", n))
		o.at.Core = o.module(fmt.Sprint("build ", n))
		f.takes(o.sign())
		if f.module() != fmt.Sprint("build ", n) {
			t.Fatalf("%s is shown\n%s", f.module(), f.log)
		}
	}
	close(stop)
	beside.Wait()
	f.agrees(o)
}

// A module without which nothing could be shown is there after a restart, too, also
// when the origin has come to name another that cannot be run here.
func TestTheModuleOfABootIsKept(t *testing.T) {
	for _, named := range []string{"newer", "broken"} {
		t.Run("then "+named, func(t *testing.T) { keptOverARestart(t, named) })
	}
}

func keptOverARestart(t *testing.T, named string) {
	o := newOrigin(t)
	o.join("a", "b")
	o.at.ABI = 1
	o.at.Core = o.module("newer")
	o.sign()
	dir := t.TempDir()
	change := func(c *Config) {
		own(c)
		c.Dir = dir
		c.Own = Module{Code: []byte("folds no more than 2"), Digest: sha256.Sum256([]byte("folds no more than 2")), ABI: 1}
	}
	f := o.booted(change)
	if f.module() != "newer" {
		t.Fatalf("%s is shown\n%s", f.module(), f.log)
	}
	o.join("c")
	o.at.Core = o.module(named)
	f.takes(o.sign())
	o.leave(true)
	f = o.newReplica(change)
	if len(f.shown) == 0 {
		t.Fatalf("nothing is shown after a restart\n%s", f.log)
	}
	f.agrees(o)
	if f.module() != "newer" {
		t.Errorf("%s is shown after a restart\n%s", f.module(), f.log)
	}
}
