package search

import (
	"math/bits"

	"webring/core"
)

// rowSet is a set of rows, a bit for each.
type rowSet []uint64

func newRowSet(rows int) rowSet { return make(rowSet, (rows+63)/64) }

// reach gives the set with room for a row.
func (s rowSet) reach(o core.Ordinal) rowSet {
	if n := int(o)/64 + 1 - len(s); n > 0 {
		s = append(s, make(rowSet, n)...)
	}
	return s
}

// has says whether a row is in the set. A row without room is not.
func (s rowSet) has(o core.Ordinal) bool {
	return int(o)/64 < len(s) && s[o/64]&(1<<(o%64)) != 0
}

func (s rowSet) add(o core.Ordinal)  { s[o/64] |= 1 << (o % 64) }
func (s rowSet) drop(o core.Ordinal) { s[o/64] &^= 1 << (o % 64) }

// keep drops what is not in other.
func (s rowSet) keep(other rowSet) {
	for i := range s {
		s[i] &= other[i]
	}
}

// rows ranges over the rows in order.
func (s rowSet) rows(yield func(core.Ordinal) bool) {
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			if !yield(core.Ordinal(64*i + bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}
