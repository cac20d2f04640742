package flat_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"webring/core/flat"
)

// The targets below read bytes as steps of a history, and hold each structure
// against the plainest thing that knows the same: a sorted slice or a map. Steps
// are two bytes, so that a short input is a long history.

// noise gives n steps at random, the same each time.
func noise(seed uint64, n int) []byte {
	random := rand.New(rand.NewPCG(seed, seed))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// FuzzTree inserts, deletes, looks and builds.
func FuzzTree(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 0, 3, 1, 1, 3, 0, 2, 2})
	long := make([]byte, 4000)
	for i := range long {
		long[i] = byte(i * 7 >> 3)
	}
	f.Add(long)
	f.Fuzz(func(t *testing.T, steps []byte) {
		steps = steps[:min(len(steps), 8<<10)]
		tree := flat.Tree{Nodes: make([]uint64, 400*flat.NodeWords)}
		var keys []uint64
		last := uint64(0)
		for ; len(steps) >= 2; steps = steps[2:] {
			op, arg := steps[0], uint64(steps[1])
			switch op % 8 {
			case 0, 1, 2: // a run of keys, near the last or far from it
				last = (last*31 + arg*257) % (1 << 20)
				for i := range uint64(op) / 8 * 3 {
					at, in := slices.BinarySearch(keys, last+i)
					if in {
						continue
					}
					if !tree.Room() {
						break
					}
					keys = slices.Insert(keys, at, last+i)
					tree.Insert(last + i)
				}
			case 3, 4: // a run of deletions
				for range int(op) / 8 {
					if len(keys) > 0 {
						i := int(arg) * len(keys) / 256
						tree.Delete(keys[i])
						keys = slices.Delete(keys, i, i+1)
					}
				}
			case 5:
				if flat.NodesFor(len(keys))*flat.NodeWords <= len(tree.Nodes) {
					tree.Build(slices.Clone(keys))
				}
			default:
				key := last + arg
				if want, _ := slices.BinarySearch(keys, key); tree.Rank(key) != want {
					t.Fatalf("rank of %d is %d, want %d", key, tree.Rank(key), want)
				}
				if len(keys) > 0 {
					i := int(arg) * len(keys) / 256
					if tree.At(i) != keys[i] {
						t.Fatalf("at %d is %d, want %d", i, tree.At(i), keys[i])
					}
				}
			}
			if tree.Len != len(keys) || !tree.Sound() {
				t.Fatalf("%d keys, want %d", tree.Len, len(keys))
			}
		}
		if got := tree.Append(nil, 0, len(keys)+1); !slices.Equal(got, keys) {
			t.Fatalf("%d other keys, want %d", len(got), len(keys))
		}
	})
}

// FuzzHeap pushes, moves, removes, counts and orders anew.
func FuzzHeap(f *testing.F) {
	f.Add([]byte{0, 9, 1, 4, 2, 7, 131, 1, 66, 0, 255, 255})
	f.Add(noise(13, 4<<10))
	f.Fuzz(func(t *testing.T, steps []byte) {
		const members = 64
		steps = steps[:min(len(steps), 4<<10)]
		h := flat.Heap{Entries: make([]uint64, members), Places: make([]uint32, members)}
		times := map[uint32]int64{}
		for ; len(steps) >= 2; steps = steps[2:] {
			member, time := uint32(steps[0]%members), int64(steps[1])
			_, in := times[member]
			switch {
			case steps[0] == 255:
				n := 0
				clear(h.Places)
				for member, time := range times {
					h.Entries[n] = uint64(time)<<flat.HeapBits | uint64(member)
					n++
				}
				h.Order(n)
			case steps[0] >= 192:
				h.Remove(member)
				delete(times, member)
			case in:
				h.Move(member, time)
				times[member] = time
			default:
				h.Push(member, time)
				times[member] = time
			}
			due := 0
			for _, at := range times {
				if at <= time {
					due++
				}
			}
			if h.Len != len(times) || h.Due(time, 0, members) != due {
				t.Fatalf("%d members, %d of them due; want %d and %d", h.Len, h.Due(time, 0, members), len(times), due)
			}
			if limit := 1 + int(steps[0])%5; min(h.Due(time, 0, limit), limit) != min(due, limit) {
				t.Fatalf("with the limit %d, %d are due", limit, h.Due(time, 0, limit))
			}
			if h.Len == 0 {
				continue
			}
			first, when := h.First()
			if at, in := times[first]; !in || at != when {
				t.Fatalf("%d is due first at %d, want %d", first, when, at)
			}
			for member, time := range times {
				if time < when || time == when && member < first {
					t.Fatalf("%d is due at %d, before %d at %d", member, time, first, when)
				}
			}
		}
	})
}

// FuzzIndex inserts, removes and replaces, under hashes of which the input says
// how many collide.
func FuzzIndex(f *testing.F) {
	f.Add([]byte{0, 0, 1, 3, 2, 3, 64, 1, 128, 2, 3, 3}, uint64(3))
	f.Add(make([]byte, 600), uint64(0))
	long := make([]byte, 800)
	for i := range long {
		long[i] = byte(i * 89)
	}
	f.Add(long, ^uint64(0))
	f.Add(noise(11, 700), ^uint64(0))
	f.Add(noise(15, 700), ^uint64(0xff)) // crowds in few buckets
	f.Fuzz(func(t *testing.T, steps []byte, mask uint64) {
		steps = steps[:min(len(steps), 4<<10)]
		x := flat.Index{Buckets: make([]byte, 600*flat.BucketSize), Extra: make([]byte, 2000*flat.BucketSize),
			Ahead: make([]uint16, 8*len(steps)), Used: flat.LeastBuckets}
		if len(steps) > 0 {
			x.Presize(8 * int(steps[0]))
		}
		hashes := map[uint32]uint64{}
		finds := func(hash uint64, entry uint32) (times int) {
			p := x.Probe(hash)
			for n := 0; n <= x.Count; n++ {
				var got uint32
				var ok bool
				if p, got, ok = x.Next(p); !ok {
					return times
				}
				if got == entry {
					times++
				}
			}
			t.Fatal("a walk without end")
			return 0
		}
		entries := uint32(0)
		for ; len(steps) >= 2; steps = steps[2:] {
			entry := uint32(steps[1]) * entries / 256
			hash, in := hashes[entry]
			switch {
			case steps[0] < 160 || !in: // a run, so that buckets split
				for i := range uint64(12) {
					if buckets, extra := x.Room(); !buckets || !extra {
						break
					}
					hashes[entries] = (i<<16 | uint64(steps[0])<<8 | uint64(steps[1]) + 1) * 0x9e3779b97f4a7c15 & mask
					x.Insert(hashes[entries], entries)
					entries++
				}
			case steps[0] < 224:
				x.Remove(hash, entry)
				delete(hashes, entry)
				if finds(hash, entry) != 0 {
					t.Fatalf("%d is found after its removal", entry)
				}
			default:
				x.Replace(hash, entry, entries)
				delete(hashes, entry)
				hashes[entries] = hash
				entries++
			}
		}
		if x.Count != len(hashes) || !x.Sound() || x.Used < len(hashes)/8 {
			t.Fatalf("%d entries in %d buckets, want %d", x.Count, x.Used, len(hashes))
		}
		for entry, hash := range hashes {
			if n := finds(hash, entry); n != 1 {
				t.Fatalf("%d is found %d times", entry, n)
			}
		}
	})
}

// FuzzMarks adds, removes and asks for places.
func FuzzMarks(f *testing.F) {
	f.Add([]byte{1, 1, 0, 1, 200, 1, 1, 210, 120, 0, 102})
	f.Add(noise(14, 2000))
	f.Fuzz(func(t *testing.T, steps []byte) {
		steps = steps[:min(len(steps), 2000)]
		m := flat.Marks{Bits: make([]uint64, len(steps)/64+1), Before: make([]uint32, len(steps)/64+1)}
		var in []uint32
		for i, step := range steps {
			n := uint32(i)
			m.Reach(n)
			if step%2 == 1 {
				m.Add(n)
				in = append(in, n)
			}
			if back := uint32(step) * n / 256; step >= 100 && step < 150 && !m.Has(back) {
				m.Insert(back, i+1)
				at, _ := slices.BinarySearch(in, back)
				in = slices.Insert(in, at, back)
			}
			if step >= 200 && len(in) > 0 {
				at := int(step-200) * len(in) / 56
				m.Remove(in[at], i+1)
				in = slices.Delete(in, at, at+1)
			}
			if want, found := slices.BinarySearch(in, n); m.Rank(n) != want || m.Has(n) != found {
				t.Fatalf("rank of %d is %d, want %d", n, m.Rank(n), want)
			}
		}
		for n := range uint32(len(steps)) {
			if want, found := slices.BinarySearch(in, n); m.Rank(n) != want || m.Has(n) != found {
				t.Fatalf("rank of %d is %d, want %d", n, m.Rank(n), want)
			}
		}
		for i, n := range in {
			if m.At(i, len(steps)) != n {
				t.Fatalf("at %d is %d, want %d", i, m.At(i, len(steps)), n)
			}
		}
		for from := 0; from <= len(in); from += 1 + len(in)/10 {
			if got := flat.AppendMarked[uint32](&m, nil, from, len(in)-from, len(steps)); m.Len != len(in) || !slices.Equal(got, in[from:]) {
				t.Fatalf("%d numbers from %d of %d, want %d", len(got), from, m.Len, len(in))
			}
		}
	})
}
