package flat

import "math/bits"

// Digest is a hash of 128 bits without a key, over words. It detects mistakes, not attacks:
// collisions can be made on purpose. It takes three multiplications of 64 bits for 8 bytes,
// which WebAssembly has.
type Digest struct{ High, Low uint64 }

// NewDigest is the digest of nothing.
func NewDigest() Digest { return Digest{0x243f6a8885a308d3, 0x13198a2e03707344} }

// Word goes on with x. Each step is invertible in either half, so sequences that differ in
// one word never have the same digest.
func (d Digest) Word(x uint64) Digest {
	// The lower half of the product depends too little on the upper bits of x.
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 32
	high := (d.High ^ x) * 0xff51afd7ed558ccd
	low := (d.Low ^ bits.RotateLeft64(x, 32)) * 0xc4ceb9fe1a85ec53
	return Digest{high ^ high>>32, low ^ low>>29}
}

// Bytes goes on with b.
func (d Digest) Bytes(b []byte) Digest {
	n, from := len(b), Read(b).at
	d = d.Word(uint64(n))
	for i := 0; i < n-8; i += 8 {
		d = d.Word(load64(from, i))
	}
	return d.Word(last(from, n))
}

// End spreads what the last words changed over each half.
func (d Digest) End() Digest { return Digest{mix(d.High), mix(d.Low)} }
