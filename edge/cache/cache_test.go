package cache

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

func put(c *Cache, target string, size int) *Entry {
	e := &Entry{Build: "b", Seq: 1, Until: Forever, Value: target}
	c.Put(c.Key([]byte(target)), e, size)
	return e
}

func get(c *Cache, target string) *Entry { return c.Get(c.Key([]byte(target))) }

func TestAnEntryHoldsForItsBuildPositionAndSeconds(t *testing.T) {
	e := &Entry{Build: "b", Seq: 7, Since: 100, Until: 200}
	for _, c := range []struct {
		build  string
		seq    uint64
		second int64
		want   bool
	}{
		{"b", 7, 100, true}, {"b", 7, 199, true}, {"b", 7, 99, false}, {"b", 7, 200, false},
		{"b", 6, 150, false}, {"b", 8, 150, false}, {"a", 7, 150, false},
	} {
		if got := e.Holds(c.build, c.seq, c.second); got != c.want {
			t.Errorf("at %q, %d, %d: %t", c.build, c.seq, c.second, got)
		}
	}
}

func TestATargetHasTheLastEntryThatWasPut(t *testing.T) {
	c := New(1 << 20)
	if get(c, "a") != nil {
		t.Error("an empty cache has an entry")
	}
	first, other, last := put(c, "a", 1), put(c, "b", 1), put(c, "a", 1)
	if get(c, "a") != last || get(c, "b") != other || first == last {
		t.Error("another entry than the last")
	}
}

// Two targets may have one hash, or one slot: neither gets the other's entry.
func TestTargetsOfOneHashAreTwo(t *testing.T) {
	c := New(1 << 20)
	a, b := c.Key([]byte("a")), c.Key([]byte("b"))
	b.hash = a.hash
	c.Put(a, &Entry{Value: "a"}, 1)
	if c.Get(b) != nil {
		t.Error("b has the entry of a")
	}
	c.Put(b, &Entry{Value: "b"}, 1)
	if c.Get(a).Value != "a" || c.Get(b).Value != "b" {
		t.Error("entries were confused")
	}
}

// Whatever is put, the bytes of all entries are bounded, and are those that are counted.
func TestTheBytesAreBounded(t *testing.T) {
	const max = 1 << 20
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	c := New(max)
	for i := range 10_000 {
		target := fmt.Sprint(random.IntN(20_000))
		e := put(c, target, random.IntN(2000)*random.IntN(100))
		if random.IntN(3) == 0 {
			c.Grow(e, random.IntN(5000))
		}
		if c.bytes > max {
			t.Fatalf("seed %d, step %d: %d bytes", seed, i, c.bytes)
		}
	}
	size, n := 0, 0
	for i := range c.sets {
		for p := range c.sets[i].entries {
			if e := c.sets[i].entries[p].Load(); e != nil {
				size += e.size
				n++
			}
		}
	}
	if size != c.bytes || n == 0 || size < max/4 {
		t.Errorf("seed %d: %d entries of %d bytes, counted as %d", seed, n, size, c.bytes)
	}
}

// A walk through everything evicts nothing that is read again.
func TestWhatIsReadStays(t *testing.T) {
	c := New(1 << 20)
	put(c, "read", 100)
	for i := range 30_000 {
		put(c, fmt.Sprint(i), 1000)
		if i%16 == 0 && get(c, "read") == nil {
			t.Fatalf("evicted after %d others", i)
		}
	}
}

func TestWhatIsAskedForOnceIsNotRemembered(t *testing.T) {
	c := New(1 << 20)
	again := 0
	for i := range 1000 {
		if c.Again(c.Key(fmt.Append(nil, i))) {
			again++
		}
	}
	if again > 10 {
		t.Errorf("%d of 1000 targets were taken for others", again)
	}
	if k := c.Key([]byte("x")); c.Again(k) || !c.Again(k) {
		t.Error("what is asked for twice is not known the second time")
	}
}

func TestAnEntryThatIsTooLargeIsNotCached(t *testing.T) {
	c := New(1 << 20)
	put(c, "small", 100)
	if put(c, "large", 1<<18); get(c, "large") != nil || get(c, "small") == nil {
		t.Error("a quarter of the cache was given to one entry")
	}
	if none := New(0); put(none, "a", 0) == nil || get(none, "a") != nil {
		t.Error("a cache of no bytes keeps something")
	}
}

func TestReadersAndWritersMayMeet(t *testing.T) {
	c := New(64 << 10)
	var all sync.WaitGroup
	for i := range 4 {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		all.Go(func() {
			for range 5000 {
				target := fmt.Sprint(random.IntN(300))
				if e := get(c, target); e != nil && e.Value != target {
					t.Errorf("%s has the entry of %v", target, e.Value)
				}
				if random.IntN(3) == 0 {
					c.Grow(put(c, target, random.IntN(4000)), 10)
				}
				c.Again(c.Key([]byte(target)))
			}
		})
	}
	all.Wait()
}
