package flat

import (
	"math/bits"
	"unsafe"
)

// Index finds numbers by the hashes of what they stand for. It is a table of
// buckets that grows by linear hashing: when it gets full, one bucket is split
// in two, so that no insertion pays for more than the few entries of one.
//
// A bucket has room for 12 entries in a line of 64 bytes; further ones stand in extra
// buckets that it links to. Eight bits of each hash are stored with the entries, so few entries
// with another hash are looked at. Ahead has, by entry, the bits of the hash by which later
// splits divide buckets: to hash all entries of a bucket again would take a hundred times
// as long as the rest of a split. It is apart from the buckets because lookups, which read
// the buckets, do not need it.
type Index struct {
	Buckets []byte   // for buckets in use, [BucketSize] bytes each
	Extra   []byte   // for those that buckets lead to
	Ahead   []uint16 // by entry: the bits of its hash that splits go by
	Count   int      // entries
	Used    int      // of Buckets, in buckets; at least [LeastBuckets]
	Spare   int      // of Extra, in buckets: how many were ever used
	Free    int      // of Extra: the first of a chain of free ones, + 1
	// Late delays splits by so many entries. Indexes that grow together have different
	// ones, so that one insertion into all does not split a bucket in each.
	Late int
}

// BucketSize is the size of a bucket in bytes.
const BucketSize = 64

// LeastBuckets is how many buckets are in use from the beginning: Ahead does not have the
// bits of hashes that tell these apart.
const LeastBuckets = 1 << firstAhead

const (
	bucketEntries = 12
	// full is how many entries there are for each bucket before one is split.
	full = 8

	// firstAhead is the first bit of a hash in Ahead, and mostBuckets how many buckets the
	// bits there can tell apart: enough for 2^27 entries. Beyond that, buckets are not
	// split.
	firstAhead  = 8
	mostBuckets = 1 << (firstAhead + 16)
)

// bucket is the form of a bucket. A tag of 0 means no entry.
type bucket struct {
	tags    [bucketEntries]uint8
	more    uint32 // in Extra, + 1
	entries [bucketEntries]uint32
}

// BucketsFor is how many buckets an index of count entries uses.
func BucketsFor(count int) int { return max(count/full+1, LeastBuckets) }

func at(b []byte, i int) *bucket { return &Records[bucket](b)[i] }

// Room says whether an insertion has the room that it may need: one more bucket
// and as many of the extra ones as it could take.
func (x *Index) Room() (buckets, extra bool) {
	return len(x.Buckets) >= (x.Used+1)*BucketSize, len(x.Extra) >= (x.Spare+4)*BucketSize
}

// Sound says whether the numbers of an index fit its memory. Of what lies there
// it says nothing.
func (x *Index) Sound() bool {
	return x.Used >= LeastBuckets && x.Used <= len(x.Buckets)/BucketSize && x.Spare <= len(x.Extra)/BucketSize && x.Free <= x.Spare && x.Count >= 0
}

// Presize has an empty index use the buckets that count entries will need.
func (x *Index) Presize(count int) { x.Used = BucketsFor(count) }

// tag is the part of a hash that is stored with an entry, and never 0.
func tag(hash uint64) uint8 {
	high := hash >> 56
	return uint8(high + (high-1)>>63)
}

// home is the bucket that a hash belongs to.
func (x *Index) home(hash uint64) int {
	mask := 1<<bits.Len(uint(x.Used)) - 1
	h := int(hash & uint64(mask))
	if h >= x.Used {
		h &= mask >> 1
	}
	return h
}

// Probe walks through the entries that may have the hash sought. It is a small value, passed
// and returned, so that it stays in registers.
type Probe struct {
	b       *bucket
	marked  uint64 // entries of b that are still to be looked at, 8 bits each
	high    uint64 // the last four of b
	pattern uint64 // the tag, eight times
}

// Touch reads from the bucket that a hash belongs to, and does nothing else. A caller that
// is about to look up many hashes touches them first, so that they are fetched from memory
// at the same time. The result means nothing.
func (x *Index) Touch(hash uint64) uint8 { return at(x.Buckets, x.home(hash)).tags[0] }

// Probe begins a walk; [Index.Next] goes on.
func (x *Index) Probe(hash uint64) Probe {
	return marked(at(x.Buckets, x.home(hash)), ones*uint64(tag(hash)))
}

// marked finds the entries of a bucket that have the tag. Read by encoding/binary, the
// tags have an answer to /next take 60 ns more in the module, a tenth of it.
func marked(b *bucket, pattern uint64) Probe {
	return Probe{
		b:       b,
		marked:  zeros(*(*uint64)(unsafe.Pointer(&b.tags[0])) ^ pattern),
		high:    zeros(uint64(*(*uint32)(unsafe.Pointer(&b.tags[8])))^pattern) & 0xffffffff,
		pattern: pattern,
	}
}

// zeros marks the bytes of x that are 0 with their highest bits, and no others.
func zeros(x uint64) uint64 { return ^((x&^highs + ^uint64(highs)) | x | ^uint64(highs)) }

// Next returns the next entry that may have the hash sought, and the rest of the walk. ok is
// false after the last entry.
func (x *Index) Next(p Probe) (rest Probe, entry uint32, ok bool) {
	for {
		if p.marked != 0 {
			i := bits.TrailingZeros64(p.marked) / 8
			p.marked &= p.marked - 1
			return p, p.b.entries[i], true
		}
		if p.high != 0 {
			i := bits.TrailingZeros64(p.high)/8 + 8
			p.high &= p.high - 1
			return p, p.b.entries[i], true
		}
		if p.b.more == 0 {
			return p, 0, false
		}
		p = marked(at(x.Extra, int(p.b.more-1)), p.pattern)
	}
}

// Insert adds an entry. There must be [Index.Room], and Ahead must have a place for
// it.
func (x *Index) Insert(hash uint64, entry uint32) {
	x.Ahead[entry] = uint16(hash >> firstAhead)
	x.add(x.home(hash), tag(hash), entry)
	x.Count++
	if x.Count > x.Used*full+x.Late && x.Used < mostBuckets {
		x.split()
	}
}

// add puts an entry into a bucket, or one that it leads to.
func (x *Index) add(home int, tag uint8, entry uint32) {
	b := at(x.Buckets, home)
	for {
		for i := range b.tags {
			if b.tags[i] == 0 {
				b.tags[i], b.entries[i] = tag, entry
				return
			}
		}
		if b.more == 0 {
			b.more = x.take()
		}
		b = at(x.Extra, int(b.more-1))
	}
}

// take gives an extra bucket, empty.
func (x *Index) take() uint32 {
	if x.Free == 0 {
		x.Spare++
		return uint32(x.Spare)
	}
	n := x.Free
	b := at(x.Extra, n-1)
	x.Free = int(b.more)
	*b = bucket{}
	return uint32(n)
}

// split divides one bucket in two by one more bit of the hashes.
func (x *Index) split() {
	level := bits.Len(uint(x.Used)) - 1
	from := x.Used - 1<<level // the next bucket to split
	var halves [2]filling
	for i, n := range [...]int{from, x.Used} {
		halves[i].b = at(x.Buckets, n)
	}
	old := *halves[0].b
	*halves[0].b, *halves[1].b = bucket{}, bucket{}
	x.Used++
	shift := level - firstAhead
	for {
		// All are read before any is moved. The processor cannot predict where each goes,
		// and the next read should not wait for that.
		var upper [bucketEntries]uint8
		for i, t := range old.tags {
			if t != 0 {
				upper[i] = uint8(x.Ahead[old.entries[i]] >> shift & 1)
			}
		}
		for i, t := range old.tags {
			if t != 0 {
				x.fill(&halves[upper[i]], t, old.entries[i])
			}
		}
		if old.more == 0 {
			return
		}
		n := int(old.more)
		b := at(x.Extra, n-1)
		old = *b
		b.more, x.Free = uint32(x.Free), n
	}
}

// filling is a bucket that is filled anew, up to its entry n.
type filling struct {
	b *bucket
	n int
}

// fill puts the next entry into a bucket, or one that it comes to lead to.
func (x *Index) fill(f *filling, tag uint8, entry uint32) {
	if f.n == bucketEntries {
		f.b.more = x.take()
		*f = filling{b: at(x.Extra, int(f.b.more-1))}
	}
	f.b.tags[f.n], f.b.entries[f.n] = tag, entry
	f.n++
}

// Remove takes out an entry that was inserted with this hash.
func (x *Index) Remove(hash uint64, entry uint32) {
	for b := at(x.Buckets, x.home(hash)); ; b = at(x.Extra, int(b.more-1)) {
		for i := range b.tags {
			if b.tags[i] != 0 && b.entries[i] == entry {
				b.tags[i] = 0
				x.Count--
				return
			}
		}
		if b.more == 0 {
			return
		}
	}
}

// Replace puts another entry in the place of one with the same hash. Ahead must
// have a place for it.
func (x *Index) Replace(hash uint64, entry, with uint32) {
	for b := at(x.Buckets, x.home(hash)); ; b = at(x.Extra, int(b.more-1)) {
		for i := range b.tags {
			if b.tags[i] != 0 && b.entries[i] == entry {
				b.entries[i], x.Ahead[with] = with, x.Ahead[entry]
				return
			}
		}
		if b.more == 0 {
			return
		}
	}
}
