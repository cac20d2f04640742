package flat

import "unsafe"

// MaxHashed is the longest text in bytes that [Seed.Hash] takes.
const MaxHashed = 320

// Seed keys the hash. Without the seed, texts cannot be chosen so that they collide more
// often than by chance. So it must be secret, and nothing that is shown may depend on it.
type Seed [MaxHashed / 8]uint64

// NewSeed makes a seed of 64 secret bits.
func NewSeed(secret uint64) *Seed {
	s := new(Seed)
	for i := range s {
		secret += 0x9e3779b97f4a7c15
		s[i] = mix(secret)
	}
	return s
}

// mix spreads every bit over all.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Hash hashes text, which is at most [MaxHashed] bytes long.
//
// It is NH, the sum of products of halves of words, each half with a key of its
// own: two texts of one length collide with a chance of one in 2^32, whatever
// they are (Black, Halevi, Krawczyk, Krovetz, Rogaway: UMAC, 1999). It needs one
// multiplication of 64 bits for 8 bytes, which WebAssembly has.
func (s *Seed) Hash(text string) uint64 {
	n, from := len(text), data(text)
	sum, k := uint64(n)*0x9e3779b97f4a7c15, 0
	if n-8 <= 8 && n >= 8 {
		// Most texts have this length, and in WebAssembly the jumps below are the cost.
		return mix(sum + product(load64(from, 0), s[0]) + product(load64(from, n-8), s[1]))
	}
	for i := 0; i < n-8; i, k = i+8, k+1 {
		sum += product(load64(from, i), s[k])
	}
	return mix(sum + product(last(from, n), s[k]))
}

// last is the last word of n bytes. It may have bytes of the word before it: with
// the length, that still is one text alone.
func last(from unsafe.Pointer, n int) (x uint64) {
	switch {
	case n >= 8:
		return load64(from, n-8)
	case n >= 4:
		return uint64(load32(from, 0)) | uint64(load32(from, n-4))<<32
	}
	for i := range n {
		x = x<<8 | uint64(*(*byte)(unsafe.Add(from, i)))
	}
	return x
}

// product is that of the halves of a word, each with its half of a key.
func product(x, key uint64) uint64 {
	const low = 1<<32 - 1
	return ((x + key) & low) * ((x>>32 + key>>32) & low)
}
