package flat

import "math/bits"

// Marks is a set of numbers from 0 on that knows, for each number, how many
// smaller ones are in it, and for each place the number that has it: a bit for
// each number, and a count for each 64.
//
// Asking takes constant or logarithmic time; inserting and removing takes one step for
// each 64 numbers above.
type Marks struct {
	Bits   []uint64 // bit n%64 of word n/64
	Before []uint32 // how many are in the words before
	Len    int      // how many numbers are in the set
}

// Add puts n, which is above all in the set, into it. All words up to that of n
// must have been reached by [Marks.Reach].
func (m *Marks) Add(n uint32) {
	m.Bits[n/64] |= 1 << (n % 64)
	m.Len++
}

// Reach says that numbers up to n may be asked for from now on. It is called
// for every number in turn.
func (m *Marks) Reach(n uint32) {
	if n%64 == 0 {
		m.Before[n/64] = uint32(m.Len)
	}
}

// Insert is [Marks.Add] for any n that is not in the set; reached is how many numbers
// have been reached.
func (m *Marks) Insert(n uint32, reached int) {
	m.Add(n)
	for w := int(n/64) + 1; w*64 < reached; w++ {
		m.Before[w]++
	}
}

// Remove takes n, which is in the set, out of it; reached is how many numbers
// have been reached.
func (m *Marks) Remove(n uint32, reached int) {
	m.Bits[n/64] &^= 1 << (n % 64)
	m.Len--
	for w := int(n/64) + 1; w*64 < reached; w++ {
		m.Before[w]--
	}
}

// Rank is how many numbers below n, which has been reached, are in the set.
func (m *Marks) Rank(n uint32) int {
	return int(m.Before[n/64]) + bits.OnesCount64(m.Bits[n/64]&(1<<(n%64)-1))
}

// Has says whether n, which has been reached, is in the set.
func (m *Marks) Has(n uint32) bool { return m.Bits[n/64]>>(n%64)&1 != 0 }

// At gives the number at place i, from 0 on, of a set of which reached numbers
// have been reached.
func (m *Marks) At(i, reached int) uint32 {
	lo, hi := i/64, (reached+63)/64 // the word that has it: numbers are no denser
	if hi-lo > 1 && int(m.Before[lo+1]) > i {
		hi = lo + 1
	}
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; int(m.Before[mid]) <= i {
			lo = mid
		} else {
			hi = mid
		}
	}
	return uint32(lo*64 + place(m.Bits[lo], i-int(m.Before[lo])))
}

// place gives the place of the bit of word that has n bits below it.
func place(word uint64, n int) int {
	at := 0
	for width := 32; width > 0; width /= 2 {
		if below := bits.OnesCount64(word & (1<<width - 1)); n >= below {
			n -= below
			word >>= width
			at += width
		} else {
			word &= 1<<width - 1
		}
	}
	return at
}

// AppendMarked appends count numbers of m from place i on to dst; there are as
// many.
func AppendMarked[T ~uint32](m *Marks, dst []T, i, count, reached int) []T {
	if count <= 0 {
		return dst
	}
	n := m.At(i, reached)
	w, word := n/64, m.Bits[n/64]>>(n%64)<<(n%64)
	for {
		for ; word != 0; word &= word - 1 {
			dst = append(dst, T(w*64+uint32(bits.TrailingZeros64(word))))
			if count--; count == 0 {
				return dst
			}
		}
		w++
		word = m.Bits[w]
	}
}
