package flat_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"webring/core/flat"
)

// seeded gives random numbers, and prints where they come from.
func seeded(t testing.TB, seed uint64) *rand.Rand {
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

func TestSectionsKeepTheirBytesWhenTheRegionGrows(t *testing.T) {
	var r flat.Region
	r.Resize([]int{1, 100, 8}, nil)
	copy(r.Bytes(1), "hundred")
	r.Uint64s(2)[0] = 7
	flat.Records[struct{ a, b int64 }](r.Bytes(2))[0].b = -1
	r.Resize([]int{64, 5000, 0}, nil)
	if string(r.Bytes(1)[:7]) != "hundred" || r.Uint64s(2)[0] != 7 || r.Uint64s(2)[1] != 1<<64-1 || r.Bytes(1)[4999] != 0 {
		t.Error("other bytes")
	}
	if r.Size(1) < 5000 || r.Size(0) != 64 || r.Len() < 5000+64+64 || len(r.Uint32s(0)) != 16 {
		t.Errorf("sizes %d %d %d", r.Size(0), r.Size(1), r.Len())
	}
}

func TestViewsAreTheSameText(t *testing.T) {
	if flat.View([]byte("abc")) != "abc" || flat.View("abc") != "abc" || flat.View([]byte(nil)) != "" ||
		string(flat.Bytes("abc")) != "abc" || len(flat.Bytes("")) != 0 {
		t.Error("another text")
	}
}

// Whichever bit of the hashes it is that buckets split by, entries are where their
// hashes say. Buckets behind the first have nothing in them here: what is written to
// is less than what is set aside.
func TestAnIndexSplitsByEachBitInTurn(t *testing.T) {
	const splits, each = 40, 30
	random := seeded(t, 15)
	for level := bits.Len(flat.LeastBuckets) - 1; level <= 20; level++ {
		first := 1 << level
		x := flat.Index{Buckets: make([]byte, (first+splits+1)*flat.BucketSize), Extra: make([]byte, splits*each*flat.BucketSize),
			Ahead: make([]uint16, splits*each+splits), Used: first}
		var hashes []uint64
		insert := func() {
			hash := random.Uint64() &^ (uint64(first) - 1) // of a bucket that is split here
			hash |= random.Uint64N(splits)
			x.Insert(hash, uint32(len(hashes)))
			hashes = append(hashes, hash)
		}
		for range splits * each {
			insert()
		}
		x.Count += 8 * x.Used // as if others were full
		for n := range splits {
			insert()
			if x.Used != first+n+1 {
				t.Fatalf("bit %d: %d buckets, want %d", level, x.Used, first+n+1)
			}
			for entry, hash := range hashes {
				found := false
				for p := x.Probe(hash); !found; {
					var got uint32
					var ok bool
					if p, got, ok = x.Next(p); !ok {
						t.Fatalf("bit %d, %d buckets: %d is not found", level, x.Used, entry)
					}
					found = got == uint32(entry)
				}
			}
		}
	}
}

// A tree grows in any order, and uses again what was given back. FuzzTree checks what it answers
// in between.
func TestATreeUsesAgainWhatWasGivenBack(t *testing.T) {
	const n = 8_000
	random := seeded(t, 12)
	for way, key := range map[string]func(i uint64) uint64{
		"random": func(uint64) uint64 { return random.Uint64N(1 << 40) }, "rising": func(i uint64) uint64 { return i },
		"falling": func(i uint64) uint64 { return n - i }, "clustered": func(i uint64) uint64 { return i%7<<32 + i },
	} {
		tree := flat.Tree{Nodes: make([]uint64, 4000*flat.NodeWords)}
		var keys []uint64
		check := func() {
			t.Helper()
			if tree.Len != len(keys) || !tree.Sound() || !slices.Equal(tree.Append(nil, 0, len(keys)+5), keys) {
				t.Fatalf("%s: %d other keys, want %d", way, tree.Len, len(keys))
			}
			for i := 0; i < len(keys); i += 97 {
				if tree.At(i) != keys[i] || tree.Rank(keys[i]) != i {
					t.Fatalf("%s: at %d is %d, want %d, of rank %d", way, i, tree.At(i), keys[i], tree.Rank(keys[i]))
				}
			}
		}
		for i := range uint64(n) {
			k := key(i)
			if at, in := slices.BinarySearch(keys, k); !in {
				keys = slices.Insert(keys, at, k)
				tree.Insert(k)
			}
		}
		check()
		used := tree.Used
		for len(keys) > 0 {
			i := random.IntN(len(keys))
			if random.IntN(3) > 0 {
				i = len(keys) / 3 // a hole that grows
			}
			tree.Delete(keys[i])
			keys = slices.Delete(keys, i, i+1)
			if len(keys)%2000 == 0 {
				check()
			}
		}
		for i := range uint64(n) {
			if !tree.Room() && tree.Free == 0 {
				t.Fatalf("%s: no room after all keys were deleted", way)
			}
			keys = append(keys, i)
			tree.Insert(i)
		}
		if check(); tree.Used > used+16 {
			t.Errorf("%s: %d nodes were in use, now %d", way, used, tree.Used)
		}
	}
}

func TestBuiltTreesOfAllSizes(t *testing.T) {
	for _, n := range []int{0, 1, 2, 110, 111, 112, 222, 223, 5994, 5995, 6104, 6105, 6106, 50_000, 400_000} {
		keys := make([]uint64, n)
		for i := range keys {
			keys[i] = uint64(i)*3 + 1
		}
		nodes := flat.NodesFor(n)
		tree := flat.Tree{Nodes: make([]uint64, nodes*flat.NodeWords)}
		tree.Build(keys)
		if tree.Len != n || tree.Used > nodes || !slices.Equal(tree.Append(nil, 0, n), keys) {
			t.Fatalf("%d keys: %d in %d nodes of %d", n, tree.Len, tree.Used, nodes)
		}
		for i := 0; i < n; i += max(1, n/1000) {
			if tree.Rank(keys[i]) != i || tree.Rank(keys[i]+1) != i+1 {
				t.Fatalf("%d keys: rank of key %d is %d", n, i, tree.Rank(keys[i]))
			}
		}
	}
}

// Every bit of a text counts, lengths do, and another secret is another hash.
func TestHashesDependOnEverything(t *testing.T) {
	seed, other := flat.NewSeed(1), flat.NewSeed(2)
	seen := map[uint64]string{}
	note := func(h uint64, what string) {
		t.Helper()
		if before, in := seen[h]; in {
			t.Fatalf("%s and %s have one hash", what, before)
		}
		seen[h] = what
	}
	digest := func(text []byte, what string) {
		t.Helper()
		d := flat.NewDigest().Bytes(text).End()
		note(d.High, what+", one half of the digest")
		note(d.Low, what+", the other half")
	}
	for n := 0; n <= flat.MaxHashed; n += 1 + n/20*5 {
		text := make([]byte, n)
		note(seed.Hash(string(text)), fmt.Sprint(n, " zeros"))
		digest(text, fmt.Sprint(n, " zeros"))
		if n == 0 {
			continue // nothing has no bits for a seed to hide
		}
		note(other.Hash(string(text)), fmt.Sprint(n, " zeros of another seed"))
		for bit := range 8 * n {
			text[bit/8] ^= 1 << (bit % 8)
			note(seed.Hash(string(text)), fmt.Sprint(n, " bytes, bit ", bit))
			digest(text, fmt.Sprint(n, " bytes, bit ", bit))
			text[bit/8] = 0
		}
		if n > 40 {
			seen = map[uint64]string{}
		}
	}
}
