package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/snap"
	log "webring/edge/tlog"
)

// spoiled is a cache that answers something wrong.
type spoiled struct {
	http.RoundTripper
	path string
}

func (c spoiled) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := c.RoundTripper.RoundTrip(req)
	if err != nil || !strings.HasPrefix(req.URL.Path, c.path) || req.Header.Get("Cache-Control") == "no-cache" {
		return res, err
	}
	b, err := io.ReadAll(res.Body)
	b[len(b)/2] ^= 1
	res.Body = io.NopCloser(bytes.NewReader(b))
	return res, err
}

// After a wrong answer, caches are bypassed.
func TestASpoiledCacheIsPassedBy(t *testing.T) {
	for _, path := range []string{entriesPath, textsPath, "/sync/snapshot/"} {
		o := newOrigin(t)
		o.join("a", "b")
		o.snapshot()
		o.join("c")
		o.sign()
		f := o.newReplica(func(c *Config) { c.Client = &http.Client{Transport: spoiled{o, path}} })
		if err := f.accept(t.Context(), o.signed); !errors.Is(err, ErrEvents) && !errors.Is(err, ErrSnapshot) {
			t.Errorf("%s: %v", path, err)
		}
		f.takes(o.signed)
		f.agrees(o)
	}
}

// cautious counts what is asked for past caches.
type cautious struct {
	http.RoundTripper
	past atomic.Int64
}

func (c *cautious) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Path != "/sync/checkpoint" && req.Header.Get("Cache-Control") == "no-cache" {
		c.past.Add(1)
	}
	return c.RoundTripper.RoundTrip(req)
}

// A core that cannot open what was signed is no fault of a cache, and no reason to fetch a
// long snapshot again and again.
func TestACacheIsNotBlamedForACore(t *testing.T) {
	o := newOrigin(t)
	o.join("a", "b")
	o.snapshot()
	o.sign()
	asks := &cautious{RoundTripper: o}
	f := o.newReplica(func(c *Config) {
		c.Client, c.Dir = &http.Client{Transport: asks}, t.TempDir()
		c.Open = func(context.Context, []byte) (Core, error) { return nil, errors.New("no memory") }
	})
	for range 10 {
		if err := f.accept(t.Context(), o.signed); !errors.Is(err, errOpen) {
			t.Fatal(err)
		}
	}
	if n := asks.past.Load(); n != 0 {
		t.Errorf("%d questions past caches", n)
	}
	if n := o.questions("/sync/snapshot/"); n > 2 {
		t.Errorf("the snapshot was fetched %d times", n)
	}
}

// A replica that is asked to wait asks for nothing in the meantime.
func TestAReplicaWaitsAsLongAsItIsAskedTo(t *testing.T) {
	followed(t, func(t *testing.T, o *fakeOrigin, f *follower) {
		o.mu.Lock()
		o.busy = func(path string, _ bool) string {
			if strings.HasPrefix(path, entriesPath) {
				return "7"
			}
			return ""
		}
		o.mu.Unlock()
		o.join("a")
		o.sign()
		synctest.Wait()
		asked := o.attempts()
		time.Sleep(6900 * time.Millisecond)
		if n := o.attempts() - asked; n != 0 {
			t.Errorf("%d questions within 7 s", n)
		}
		o.mu.Lock()
		o.busy = nil
		o.mu.Unlock()
		time.Sleep(2 * time.Second)
		f.agrees(o)
	})
}

func TestHowLongA429MayAskFor(t *testing.T) {
	for in, want := range map[string]time.Duration{"": time.Second, "0": time.Second, "-5": time.Second, "17": 17 * time.Second,
		"100000": time.Minute, "99999999999999999999": time.Second, "Fri, 01 Jan 2100 00:00:00 GMT": time.Second} {
		if l := (*busyError)(nil); !errors.As(busy(map[string][]string{"Retry-After": {in}}), &l) || l.after != want {
			t.Errorf("%q: %v, want %s", in, l, want)
		}
	}
}

// Where there is no place to wait for news, the replica asks now and then.
func TestWithoutASlotTheReplicaAsks(t *testing.T) {
	for _, streams := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			o := newOrigin(t)
			o.streams = streams
			o.sign()
			o.busy = func(_ string, waits bool) string {
				if waits {
					return "10"
				}
				return ""
			}
			f := o.newReplica()
			defer f.following(t)()
			for i := range 10 {
				o.join(fmt.Sprint("m", i))
				o.sign()
				time.Sleep(2*askEvery + maxPause)
				f.agrees(o)
			}
			if f.Stale() {
				t.Error("stale")
			}
			if n := o.attempts(); n > 120 {
				t.Errorf("%d questions in a minute", n)
			}
			// As soon as there is one, it is taken.
			o.mu.Lock()
			o.busy = nil
			o.mu.Unlock()
			time.Sleep(15 * time.Second)
			o.join("last")
			o.sign()
			if streams {
				synctest.Wait()
			} else {
				time.Sleep(2 * time.Second)
			}
			f.agrees(o)
		})
	}
}

// far brings an origin so far ahead of its last checkpoint that a replica does not hold what
// is between in memory.
func far(o *fakeOrigin) {
	for i := range maxGap + 100 {
		o.join(fmt.Sprint("n", i))
	}
}

func TestALongGapIsFoldedAsItComes(t *testing.T) {
	o := newOrigin(t)
	o.join("a")
	o.sign()
	dir := t.TempDir()
	var opened Core // last
	f := o.booted(func(c *Config) {
		c.Dir = dir
		c.Open = func(ctx context.Context, snapshot []byte) (Core, error) {
			c, err := openCore(ctx, snapshot)
			opened = c
			return c, err
		}
	})
	want := f.get("/api/ring")
	far(o)
	o.snapshot() // says nothing about how the history at hand goes on
	bundles := 0
	watch := func(path string, b []byte) []byte {
		if strings.HasPrefix(path, entriesPath) {
			if at, _ := opened.Head(); at != f.at.Size && at%log.TileWidth != 0 {
				t.Errorf("the next core is at %d", at)
			} else if at+2*log.Ahead*log.TileWidth < uint64(bundles)*log.TileWidth {
				t.Errorf("the next core is at %d when bundle %d is asked for", at, bundles)
			}
			bundles++
		}
		return b
	}
	// Another history, as is seen in the end alone.
	for name, c := range map[string]struct {
		bend func(*snap.Checkpoint)
		want error
	}{
		"another root":  {func(c *snap.Checkpoint) { c.Root[0] ^= 1 }, ErrEvents},
		"another state": {func(c *snap.Checkpoint) { c.State[0] ^= 1 }, ErrState},
	} {
		bundles, o.bend = 0, watch
		if err := f.accept(t.Context(), o.sign(c.bend)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if bundles != 1+(maxGap+100)/log.TileWidth+1 || f.get("/api/ring") != want {
			t.Errorf("%s: %d bundles; %s is shown", name, bundles, f.get("/api/ring"))
		}
		f.failed = nil // no wait before the next one
	}
	bundles = 0
	f.takes(o.sign())
	f.agrees(o)
	if n := o.questions("/sync/snapshot"); n > 0 {
		t.Error("a snapshot was taken instead of the events")
	}
	// It goes on from there, for followers and on disk too.
	o.bend = nil
	o.join("last")
	f.takes(o.sign())
	f.agrees(o)
	if records, err := f.Events(o.tree.Size()-5, 10); err != nil || len(records) != 5 {
		t.Errorf("%d records, %v", len(records), err)
	}
	again := o.newReplica(func(c *Config) { c.Dir = dir })
	again.agrees(o)
}

// slow is a core that takes its time.
type slow struct{ Core }

func (c slow) Apply(records []snap.Record) error {
	time.Sleep(75 * time.Millisecond)
	return c.Core.Apply(records)
}

// A wait for a position may end a connection, but not the checkpoint that came over it.
func TestAWaitDoesNotEndWhatIsBeingAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrigin(t)
		o.sign()
		f := o.newReplica(func(c *Config) {
			c.Open = func(ctx context.Context, snapshot []byte) (Core, error) {
				c, err := openCore(ctx, snapshot)
				return slow{c}, err
			}
		})
		defer f.following(t)()
		synctest.Wait()
		far(o)
		o.sign()
		for range 5 {
			ctx, cancel := timeout(2 * time.Second)
			f.Reach(ctx, o.tree.Size())
			cancel()
		}
		f.agrees(o)
		if n := o.questions(entriesPath); n > 36 {
			t.Errorf("%d bundles were asked for", n)
		}
	})
}

func timeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
