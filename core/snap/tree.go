package snap

import (
	"crypto/sha256"
	"math/bits"
)

// Tree is an RFC 6962 tree over the bytes of events, reduced to its right edge: the
// roots of its full subtrees. They are enough to add events and to compute the
// root. The zero value is the empty tree. Assignment copies a Tree, and == compares.
type Tree struct {
	size uint64
	full [64][32]byte // by level; zero where size has no bit
}

// OpenTree gives the tree of this size with these roots of full subtrees, in the
// order of [Tree.Append]. It is not ok if the size has another number of them. Only
// the root of the tree shows whether they are the right ones.
func OpenTree(size uint64, edge []byte) (t Tree, ok bool) {
	if len(edge) != bits.OnesCount64(size)*sha256.Size {
		return Tree{}, false
	}
	t.size = size
	for level := 63; level >= 0; level-- {
		if size>>level&1 == 1 {
			edge = edge[copy(t.full[level][:], edge):]
		}
	}
	return t, true
}

// Append appends the roots of the full subtrees, the largest first, 32 bytes
// each: one for each bit that is set in the size.
func (t *Tree) Append(dst []byte) []byte {
	for level := 63; level >= 0; level-- {
		if t.size>>level&1 == 1 {
			dst = append(dst, t.full[level][:]...)
		}
	}
	return dst
}

// Size is the number of events in the tree.
func (t *Tree) Size() uint64 { return t.size }

// Add adds the next event, in its encoding.
func (t *Tree) Add(event []byte) {
	hash := sha256.Sum256(append([]byte{0}, event...))
	level := 0
	for ; t.size>>level&1 == 1; level++ {
		hash = node(&t.full[level], &hash)
		t.full[level] = [32]byte{}
	}
	t.full[level] = hash
	t.size++
}

// Root is the RFC 6962 tree hash.
func (t *Tree) Root() [32]byte {
	if t.size == 0 {
		return sha256.Sum256(nil)
	}
	level := bits.TrailingZeros64(t.size)
	root := t.full[level]
	for level++; level < len(t.full); level++ {
		if t.size>>level&1 == 1 {
			root = node(&t.full[level], &root)
		}
	}
	return root
}

func node(left, right *[32]byte) [32]byte {
	var b [1 + 2*sha256.Size]byte
	b[0] = 1
	copy(b[1:], left[:])
	copy(b[1+sha256.Size:], right[:])
	return sha256.Sum256(b[:])
}
