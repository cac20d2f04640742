package core

import (
	"encoding/binary"
	"math/bits"
)

// Digest is 128 bits over everything in the state that events determine: the
// base, and the sum of the hashes of all rows with their ordinals, which is
// kept with each event. Two folds that agree on it agree on every answer. It
// detects folds that went apart, not forgers: those are stopped by signatures.
func (s *State) Digest() [16]byte {
	s.scratch = AppendBase(s.scratch[:0], s.Base())
	h := hash128(s.scratch)
	h.add(s.digest)
	var d [16]byte
	binary.BigEndian.PutUint64(d[:8], h.hi)
	binary.BigEndian.PutUint64(d[8:], h.lo)
	return d
}

// hashRow hashes the row of o together with o.
func (s *State) hashRow(o Ordinal) sum {
	h, fee := s.hashHead(o)
	return s.hashTail(h, o, fee)
}

// hashHead begins the hash of a row with what of it does not change, and
// hashTail ends it with the rest.
func (s *State) hashHead(o Ordinal) (h sum, fee int64) {
	h = hashOrdinal(o)
	fee, head := s.row(o)
	h.write(head)
	return h, fee
}

// hashTail is described at [State.hashHead].
func (s *State) hashTail(h sum, o Ordinal, fee int64) sum {
	s.scratch = s.appendTail(s.scratch[:0], o, fee)
	h.write(s.scratch)
	return h
}

// hashOrdinal begins the hash of a row.
func hashOrdinal(o Ordinal) sum {
	h := start128
	h.write([]byte{byte(o >> 24), byte(o >> 16), byte(o >> 8), byte(o)})
	return h
}

// sum is a number modulo 2^128.
type sum struct{ hi, lo uint64 }

func (a *sum) add(b sum) {
	var carry uint64
	a.lo, carry = bits.Add64(a.lo, b.lo, 0)
	a.hi, _ = bits.Add64(a.hi, b.hi, carry)
}

func (a *sum) sub(b sum) {
	var borrow uint64
	a.lo, borrow = bits.Sub64(a.lo, b.lo, 0)
	a.hi, _ = bits.Sub64(a.hi, b.hi, borrow)
}

// hash128 is FNV-1a with 128 bits.
func hash128(b []byte) sum {
	h := start128
	h.write(b)
	return h
}

// start128 is where FNV-1a begins.
var start128 = sum{0x6c62272e07bb0142, 0x62b821756295c58d}

// writeBoth writes x to a and y to b, in little more than the time of one.
func writeBoth(a, b *sum, x, y []byte) {
	const low, shift = 0x13b, 24
	n := 0
	if wide {
		n = min(len(x), len(y))
		x, y := x[:n], y[:n]
		hi, lo, high, least := a.hi, a.lo, b.hi, b.lo
		for i, c := range x {
			lo ^= uint64(c)
			least ^= uint64(y[i])
			over, product := bits.Mul64(lo, low)
			hi, lo = hi*low+lo<<shift+over, product
			over, product = bits.Mul64(least, low)
			high, least = high*low+least<<shift+over, product
		}
		a.hi, a.lo, b.hi, b.lo = hi, lo, high, least
	}
	a.write(x[n:])
	b.write(y[n:])
}

// write goes on with FNV-1a. Its prime is 2^88 + 0x13b; where there is no
// multiplication that gives 128 bits, the product with the low part is made of
// halves. With one, a ring loads in nine tenths of the time.
func (a *sum) write(b []byte) {
	const low, shift, half = 0x13b, 24, 1<<32 - 1
	hi, lo := a.hi, a.lo
	if wide {
		for _, c := range b {
			lo ^= uint64(c)
			over, product := bits.Mul64(lo, low)
			hi = hi*low + lo<<shift + over
			lo = product
		}
		a.hi, a.lo = hi, lo
		return
	}
	for _, c := range b {
		lo ^= uint64(c)
		p := lo & half * low
		q := lo>>32*low + p>>32
		hi = hi*low + lo<<shift + q>>32
		lo = q<<32 | p&half
	}
	a.hi, a.lo = hi, lo
}
