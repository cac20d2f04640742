package follow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"webring/core"
	"webring/core/snap"
)

// node is one of several that serve a ring. One that is gone refuses connections, and one
// that is mute takes them and says nothing.
type node struct {
	*fakeOrigin
	deaf sync.Mutex // guards mute
	mute bool
}

// nodes are reached by their names.
type nodes map[string]*node

func (all nodes) RoundTrip(req *http.Request) (*http.Response, error) {
	n := all[req.URL.Hostname()]
	n.deaf.Lock()
	mute := n.mute
	n.deaf.Unlock()
	if mute {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return n.fakeOrigin.RoundTrip(req)
}

func (n *node) silence(mute bool) {
	n.deaf.Lock()
	defer n.deaf.Unlock()
	n.mute = mute
}

// beside makes a node of the same ring that has no events yet.
func (o *fakeOrigin) beside() *node { return &node{fakeOrigin: emptyOrigin(o.t, o.own())} }

// copies takes over what another has signed.
func (o *fakeOrigin) copies(from *fakeOrigin) {
	o.t.Helper()
	from.mu.Lock()
	records, at, signed := slices.Clone(from.records[:from.at.Size]), from.at, from.signed
	from.mu.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range records[len(o.records):] {
		if err := o.state.Apply(r.Event, r.Texts); err != nil {
			o.t.Fatal(err)
		}
		o.tree.Add(r.Event)
		o.records = append(o.records, r)
	}
	o.at, o.signed = at, signed
	close(o.changed)
	o.changed = make(chan struct{})
}

// Whichever of several nodes is there, the replica comes to what they have signed. It never
// shows less than it did, and nothing of another history, though of its six origins one
// stands still, one is on another history, one takes connections and says nothing, and
// the others come and go and are behind at times.
func TestOneOfSeveralOriginsIsFollowed(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				o := newOrigin(t)
				o.join("first")
				o.sign()
				all := nodes{"stale": o.beside(), "other": o.beside(), "mute": o.beside()}
				all["stale"].copies(o)
				all["other"].add(&core.Rules{Stamp: time.Now().UnixMilli(), Name: "Another", BaseURL: "https://ring.test", Fee: 100, MinBid: 100,
					Grace: 1000, Decay: 1000, Scorer: "fixed", RequiredScore: 40}, nil)
				all["mute"].copies(o)
				all["mute"].silence(true)
				live := []string{"a", "b", "c"}
				for _, name := range live {
					all[name] = o.beside()
					all[name].copies(o)
				}
				roots := map[uint64][32]byte{o.at.Size: o.at.Root}
				var urls []string
				for name := range all {
					urls = append(urls, "http://"+name)
				}
				slices.Sort(urls)
				random.Shuffle(len(urls), func(i, j int) { urls[i], urls[j] = urls[j], urls[i] })
				f := o.booted(func(c *Config) { c.Origins, c.Client = []string{"http://a"}, &http.Client{Transport: all} })
				if err := f.SetOrigins(urls...); err != nil {
					t.Fatal(err)
				}
				defer f.following(t)()
				watched := make(chan struct{})
				defer func() { close(watched); synctest.Wait() }()
				go func() { // what is shown goes forward only
					var last snap.Checkpoint
					for {
						changed := f.Changed()
						f.Replica.mu.RLock()
						at := f.at
						f.Replica.mu.RUnlock()
						if at.Size < last.Size || at.Time < last.Time {
							t.Errorf("it goes back from %d of %d to %d of %d", last.Size, last.Time, at.Size, at.Time)
						}
						last = at
						select {
						case <-changed:
						case <-watched:
							return
						}
					}
				}()
				for step := range 12 {
					leads := live[random.IntN(len(live))]
					for _, name := range live {
						n := all[name]
						n.silence(name != leads && random.IntN(4) == 0)
						if gone := name != leads && random.IntN(3) == 0; gone != n.gone {
							n.leave(gone)
						}
					}
					for range 1 + random.IntN(4) {
						o.join(fmt.Sprintf("m%d-%d", step, o.tree.Size()))
						roots[o.tree.Size()] = o.tree.Root()
						all["other"].join(fmt.Sprintf("x%d-%d", step, o.tree.Size()), fmt.Sprintf("y%d-%d", step, o.tree.Size()))
						all["other"].sign()
						o.sign()
						for _, name := range live {
							if name == leads || random.IntN(2) == 0 {
								all[name].copies(o)
							}
						}
						time.Sleep(time.Duration(random.IntN(20_000)) * time.Millisecond)
					}
					ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
					for { // the node that leads signs now and then
						o.sign()
						all[leads].copies(o)
						part, end := context.WithTimeout(ctx, 15*time.Second)
						reached := f.Reach(part, o.at.Size)
						end()
						if reached || ctx.Err() != nil {
							break
						}
					}
					cancel()
					f.agrees(o)
					f.Replica.mu.RLock()
					if root, ok := roots[f.at.Size]; !ok || f.at.Root != root {
						t.Errorf("step %d: at %d another history is shown", step, f.at.Size)
					}
					f.Replica.mu.RUnlock()
					if _, followed := f.Followed(); step > 0 && followed == "http://other" || followed == "http://mute" {
						t.Errorf("%s is followed", followed)
					}
					if t.Failed() {
						t.Fatalf("step %d, %s leads\n%s", step, leads, f.log)
					}
				}
			})
		})
	}
}

// An edge leaves an origin that answers nothing within seconds if there is another, and one
// without new checkpoints within half a minute. Readers never see stale answers for it.
func TestASilentOriginIsLeftForTheNext(t *testing.T) {
	for name, quiet := range map[string]func(n *node){
		"mute from the beginning": func(n *node) { n.silence(true) },
		"without news":            func(*node) {},
		"behind a proxy that holds streams back": func(n *node) {
			n.drips = "/sync/checkpoint"
			n.streams = false
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := newOrigin(t)
			o.sign()
			all := nodes{"a": o.beside(), "b": o.beside()}
			for _, n := range all {
				n.copies(o)
			}
			quiet(all["a"])
			f := o.newReplica(func(c *Config) {
				c.Origins, c.Client = []string{"http://a", "http://b"}, &http.Client{Transport: all}
			})
			defer f.following(t)()
			for range 12 {
				time.Sleep(10 * time.Second)
				o.join(fmt.Sprint("m", o.tree.Size()))
				o.sign()
				all["b"].copies(o)
				if _, shown := f.Age(); shown && f.Stale() {
					t.Errorf("%s: stale", name)
				}
			}
			synctest.Wait()
			f.agrees(o)
			if origins, followed := f.Followed(); followed != "http://b" || !slices.Equal(origins, []string{"http://b", "http://a"}) {
				t.Errorf("%s: %s of %s is followed\n%s", name, followed, origins, f.log)
			}
		})
	}
}

// Origins can be exchanged. Without any, the last good state is served.
func TestOriginsAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrigin(t)
		o.sign()
		all := nodes{"a": o.beside(), "b": o.beside()}
		all["a"].copies(o)
		f := o.newReplica(func(c *Config) { c.Origins, c.Client = nil, &http.Client{Transport: all} })
		defer f.following(t)()
		time.Sleep(time.Minute)
		if _, err := f.link.Get(t.Context(), "/sync/keys", 1, false); !errors.Is(err, errNoOrigin) {
			t.Errorf("asked for the keys: %v", err)
		}
		set := func(urls ...string) {
			t.Helper()
			if err := f.SetOrigins(urls...); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		set("http://a")
		f.agrees(o)
		o.join("late")
		o.sign()
		all["b"].copies(o)
		set("http://b")
		f.agrees(o)
		set()
		if origins, followed := f.Followed(); len(origins) != 0 || followed != "http://b" || f.Position() != o.at.Size {
			t.Errorf("%s of %s is followed, at %d", followed, origins, f.Position())
		}
		if err := f.SetOrigins("b"); err == nil || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("no URL: %v", err)
		}
	})
}

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

// All nodes show a second as it begins, whenever they were started.
func TestNodesTickTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(440 * time.Millisecond)
		o := newOrigin(t)
		o.join("a")
		o.sign()
		f := o.newReplica()
		defer f.following(t)()
		for range 100 {
			time.Sleep(990 * time.Millisecond)
			synctest.Wait()
			if _, second := f.Replica.shown.Head(); second != time.Now().Unix() {
				t.Fatalf("it shows second %d at %s", second, time.Now())
			}
		}
	})
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
