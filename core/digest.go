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
	h.add(s.rows)
	var d [16]byte
	binary.BigEndian.PutUint64(d[:8], h.hi)
	binary.BigEndian.PutUint64(d[8:], h.lo)
	return d
}

// hashRow hashes the row of o together with o.
func (s *State) hashRow(o Ordinal) sum {
	s.scratch = binary.BigEndian.AppendUint32(s.scratch[:0], uint32(o))
	s.scratch = s.AppendRow(s.scratch, o)
	return hash128(s.scratch)
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
	// The prime is 2^88 + 0x13b.
	const low, shift = 0x13b, 24
	h := sum{0x6c62272e07bb0142, 0x62b821756295c58d}
	for _, c := range b {
		h.lo ^= uint64(c)
		hi, lo := bits.Mul64(h.lo, low)
		h.hi = hi + h.hi*low + h.lo<<shift
		h.lo = lo
	}
	return h
}
