package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"webring/core"
	"webring/core/coretest"
	"webring/core/snap"
)

// behind gives a replica whose first event at hand is not the first there is.
func behind(t *testing.T, dir string) (*fakeOrigin, *follower) {
	t.Helper()
	o := newOrigin(t)
	o.each = snap.BlockEvents
	o.join("a", "b", "c", "d", "e", "f", "g", "h")
	o.snapshot()
	o.join("i", "j")
	o.sign()
	f := o.booted(func(c *Config) { c.Dir = dir })
	if f.base != 9 {
		t.Fatalf("the first event at hand is %d", f.base)
	}
	return o, f
}

// Early events are fetched once, however many ask for them.
func TestEarlyEventsAreAskedForOnce(t *testing.T) {
	o, f := behind(t, t.TempDir())
	var asking sync.WaitGroup
	for i := range 100 {
		asking.Go(func() {
			from := uint64(i % 9)
			records, err := f.Events(from, snap.BlockEvents)
			if err != nil || len(records) < int(9-from) || !bytes.Equal(records[0].Event, o.records[from].Event) {
				t.Errorf("from %d: %d records, %v", from, len(records), err)
			}
		})
	}
	asking.Wait()
	if n := o.questions("/sync/events?from=0"); n != 1 {
		t.Errorf("the origin was asked %d times", n)
	}
	// They are there when the origin is not, but not for ever.
	o.leave(true)
	if _, err := f.Events(0, 5); err != nil {
		t.Error(err)
	}
	f.blocks.cached[0].came = time.Now().Add(-blockLife - time.Second)
	if _, err := f.Events(0, 5); !errors.Is(err, snap.ErrNotHeld) {
		t.Errorf("a block that is too old: %v", err)
	}
}

// Early events that are not the signed ones, as followers see in the end, are asked
// for again when they do.
func TestAWrongBlockIsNotHandedOnForLong(t *testing.T) {
	o, f := behind(t, t.TempDir())
	made := coretest.NewStep(&core.Bid{Stamp: 1, Member: "a", Amount: 500}, nil)
	good := o.records[3]
	o.records[3] = snap.Record{Event: made.EventBytes}
	for _, want := range [][]byte{made.EventBytes, good.Event} {
		if records, err := f.Events(3, 1); err != nil || !bytes.Equal(records[0].Event, want) {
			t.Errorf("%q, %v", records, err)
		}
		o.records[3] = good
		f.blocks.cached[0].came = time.Now().Add(-blockLife - time.Second)
	}
}

// spoiled is a cache that has got something wrong, for whoever takes it from there.
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

// What a cache has got wrong is had from behind it.
func TestASpoiledCacheIsPassedBy(t *testing.T) {
	for _, path := range []string{"/sync/events", "/sync/snapshot/"} {
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

// A core that cannot open what was signed is no fault of a cache, nor does anybody
// have to send a long snapshot again and again for it.
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
	for range 3 {
		if err := f.accept(t.Context(), o.signed); !errors.Is(err, errOpen) {
			t.Fatal(err)
		}
	}
	if n := asks.past.Load(); n != 0 {
		t.Errorf("%d questions past caches", n)
	}
	if n := o.questions("/sync/snapshot/"); n != 1 {
		t.Errorf("the snapshot was fetched %d times", n)
	}
}

// Whatever followers ask for, the replica can ask for what it needs itself.
func TestFollowersDoNotUseUpWhatAReplicaMayAsk(t *testing.T) {
	o, f := behind(t, "")
	busy := 0
	for i := range 1000 {
		f.blocks.forget()
		if _, err := f.Events(uint64(i%9), 5); errors.Is(err, snap.ErrBusy) {
			busy++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n := o.questions("/sync/events?from=0"); n > shareBurst+5 || n < shareBurst || busy != 1000-n {
		t.Errorf("the origin was asked %d times, and %d were refused", n, busy)
	}
	o.join("k")
	f.takes(o.sign())
	f.agrees(o)
}

func TestWordsThatWereRedactedAreNotCachedInBlocks(t *testing.T) {
	o, f := behind(t, t.TempDir())
	if records, err := f.Events(3, 1); err != nil || !bytes.Contains(records[0].Texts, []byte("c.test")) {
		t.Fatalf("%q %v", records, err)
	}
	_, asked := f.blocks.get(0)
	before := f.blocks.cached[0]
	o.add(&core.Removed{Stamp: time.Now().UnixMilli(), Member: "c", Reason: "asked", Redacted: true}, nil)
	o.records[3].Texts = nil
	f.takes(o.sign())
	// One that was asked for before, and comes now.
	f.blocks.put(before, asked)
	if n := len(f.blocks.cached); n != 0 {
		t.Errorf("%d blocks are still there", n)
	}
	if records, err := f.Events(3, 1); err != nil || len(records[0].Texts) != 0 {
		t.Errorf("%q %v", records, err)
	}
}

func TestCachedBlocksAreBounded(t *testing.T) {
	var b blocks
	for n := range uint64(9) {
		b.put(block{number: n, records: []snap.Record{{}}, size: maxBlocks / 4, came: time.Now()}, 0)
	}
	if len(b.cached) != 4 || b.cached[0].number != 5 || b.bytes != maxBlocks {
		t.Errorf("%d blocks of %d bytes, from %d on", len(b.cached), b.bytes, b.cached[0].number)
	}
	if records, _ := b.get(4); records != nil {
		t.Error("the oldest is still there")
	}
	if records, _ := b.get(8); records == nil {
		t.Error("the newest is gone")
	}
}

// A snapshot is fetched because a checkpoint names it. Followers wait for it,
// but do not have it asked for.
func TestFollowersWaitForTheSnapshotThatIsFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrigin(t)
		o.join("a")
		o.sign()
		f := o.newReplica()
		defer f.following(t)()
		synctest.Wait()
		o.mu.Lock()
		o.bend = func(path string, b []byte) []byte {
			if path == "/sync/checkpoint" || path == "/sync/events" {
				return b
			}
			return nil
		}
		o.mu.Unlock()
		o.snapshot()
		o.sign()
		synctest.Wait()
		for range 50 {
			if _, _, err := f.Snapshot(o.at.Snapshot.Digest); !errors.Is(err, snap.ErrNotHeld) {
				t.Errorf("what cannot be had: %v", err)
			}
		}
		if n := o.questions("/sync/snapshot/"); n != 1 {
			t.Errorf("asked %d times", n)
		}
		o.mu.Lock()
		o.bend = nil
		o.mu.Unlock()
		for range 5 {
			time.Sleep(20 * time.Second)
			o.sign()
		}
		synctest.Wait()
		file, _, err := f.Snapshot(o.at.Snapshot.Digest)
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
		// And one that is on its way is waited for.
		f.files.mu.Lock()
		f.files.held, f.files.tried = heldFile{}, [32]byte{}
		f.files.mu.Unlock()
		time.AfterFunc(time.Second, func() { f.saveFile(o.at.Snapshot, []byte("file")) })
		if file, _, err = f.Snapshot(o.at.Snapshot.Digest); err != nil {
			t.Fatal(err)
		}
		file.Close()
		f.files.mu.Lock()
		f.files.held = heldFile{}
		f.files.mu.Unlock()
		began := time.Now()
		if _, _, err := f.Snapshot(o.at.Snapshot.Digest); !errors.Is(err, snap.ErrNotHeld) || time.Since(began) != passOn {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// A replica that is asked to wait asks for nothing in the meantime.
func TestAReplicaWaitsAsLongAsItIsAskedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrigin(t)
		o.sign()
		f := o.newReplica()
		defer f.following(t)()
		synctest.Wait()
		o.mu.Lock()
		o.busy = func(path string, _ bool) string {
			if path == "/sync/events" {
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
		if _, err := f.block(3, 1); !errors.Is(err, snap.ErrBusy) {
			t.Errorf("a follower's question: %v", err)
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
		if l := (*laterError)(nil); !errors.As(later(nil, map[string][]string{"Retry-After": {in}}), &l) || l.after != want {
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

// far brings an origin so far ahead of its last checkpoint that nobody holds
// what is between in memory.
func far(o *fakeOrigin) {
	o.each = snap.BlockEvents
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
	ranges := 0
	watch := func(path string, b []byte) []byte {
		if path == "/sync/events" {
			if at, _ := opened.Head(); at != f.at.Size && at%snap.BlockEvents != 0 {
				t.Errorf("the next core is at %d", at)
			} else if ranges > 0 && at < uint64(ranges)*snap.BlockEvents {
				t.Errorf("the next core is at %d when range %d is asked for", at, ranges)
			}
			ranges++
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
		ranges, o.bend = 0, watch
		if err := f.accept(t.Context(), o.sign(c.bend)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if ranges != 9 || f.get("/api/ring") != want {
			t.Errorf("%s: %d ranges; %s is shown", name, ranges, f.get("/api/ring"))
		}
		f.failed = nil // no wait before the next one
	}
	ranges = 0
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
	time.Sleep(300 * time.Millisecond)
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
		if n := o.questions("/sync/events"); n > 11 {
			t.Errorf("%d ranges were asked for", n)
		}
	})
}

func timeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}
