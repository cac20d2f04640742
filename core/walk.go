package core

import "math/bits"

// Walk is a list of members as traversal sees it: without those that are asleep. If all
// of the list are asleep, or the rules say so ([Rules.VisitAsleep]), none is left out. It
// is valid as long as a [List], and asking it costs O(log² n) at most.
type Walk struct {
	all    List
	asleep List // those that are left out
}

// Walk gives the members in the ring that match, as [State.Select] does, for traversal.
func (s *State) Walk(kind Kind, category []byte) Walk {
	w := Walk{all: s.Select(kind, category)}
	if s.asleep[0].Len == 0 || s.rules.VisitAsleep {
		return w
	}
	if w.asleep = s.sleepers(kind, category); w.asleep.len == w.all.len {
		w.asleep.len = 0
	}
	return w
}

// Len is the number of members that traversal can lead to.
func (w *Walk) Len() int { return w.all.len - w.asleep.len }

// At gives the member at place i, from 0 on, of those that are awake; there must be one.
func (w *Walk) At(i int) Ordinal {
	// Before a sleeping member there are as many that are awake as its place in all, less
	// its place among the sleeping. That number rises from one to the next, so those with
	// at most i of them before are found by halves.
	lo, hi := 0, w.asleep.len
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if at, _ := w.all.find(w.asleep.At(mid)); at-mid <= i {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return w.all.At(i + lo)
}

// find gives how many members that are awake come before o, and whether o is one of
// them.
func (w *Walk) find(o Ordinal) (before int, found bool) {
	before, found = w.all.find(o)
	if w.asleep.len > 0 {
		sleepers, sleeps := w.asleep.find(o)
		before, found = before-sleepers, found && !sleeps
	}
	return before, found
}

// After gives the nearest member after o in ring order, wrapping around; o
// need not be in the list. It reports false for an empty list.
func (w *Walk) After(o Ordinal) (Ordinal, bool) {
	if w.Len() == 0 {
		return 0, false
	}
	if next, ok := w.near(o, 1); ok {
		return next, true
	}
	i, found := w.find(o)
	if found {
		i++
	}
	if i >= w.Len() {
		i = 0
	}
	return w.At(i), true
}

// Before is [Walk.After] in the other direction.
func (w *Walk) Before(o Ordinal) (Ordinal, bool) {
	if w.Len() == 0 {
		return 0, false
	}
	if prev, ok := w.near(o, -1); ok {
		return prev, true
	}
	i, _ := w.find(o)
	if i == 0 {
		i = w.Len()
	}
	return w.At(i - 1), true
}

// nearWords is how far [Walk.near] looks, in words of 64 members each.
const nearWords = 8

// near looks for the nearest member in a direction, 1 or -1, among the next few hundred
// rows. That is a few instructions in a list that is not of a category, however many sleep.
func (w *Walk) near(o Ordinal, to int) (Ordinal, bool) {
	rows := w.all.s.rows
	at := int(o) + to
	if w.all.marks == nil || at < 0 || at >= rows {
		return 0, false
	}
	// The bits of the first word from at on, in the direction.
	mask := ^uint64(0) << (at % 64)
	if to < 0 {
		mask = ^uint64(0) >> (63 - at%64)
	}
	word := at / 64
	for range nearWords {
		awake := w.all.marks.Bits[word] & mask
		if w.asleep.len > 0 {
			awake &^= w.asleep.marks.Bits[word]
		}
		if awake != 0 && to > 0 {
			return Ordinal(word*64 + bits.TrailingZeros64(awake)), true
		} else if awake != 0 {
			return Ordinal(word*64 + 63 - bits.LeadingZeros64(awake)), true
		}
		if word, mask = word+to, ^uint64(0); word < 0 || word*64 >= rows {
			break
		}
	}
	return 0, false
}

// Random picks uniformly by the 64 random bits given.
func (w *Walk) Random(random uint64) (Ordinal, bool) {
	n := w.Len()
	if n == 0 {
		return 0, false
	}
	i, _ := bits.Mul64(random, uint64(n))
	return w.At(int(i)), true
}

// RandomOther is [Walk.Random] among all but o; o itself is picked only when
// it is the whole list.
func (w *Walk) RandomOther(random uint64, o Ordinal) (Ordinal, bool) {
	n := w.Len()
	if n <= 1 {
		return w.Random(random)
	}
	at, found := w.find(o)
	if !found {
		return w.Random(random)
	}
	i, _ := bits.Mul64(random, uint64(n-1))
	if int(i) >= at {
		i++
	}
	return w.At(int(i)), true
}

// Next is After in the walk of all members, for one of them.
func (s *State) Next(o Ordinal) Ordinal {
	// stands may only be asked about rows that exist.
	if next := o + 1; int(next) < s.rows && s.Stands(next) && !s.sleeps(next) {
		return next
	}
	w := s.Walk(0, nil)
	next, _ := w.After(o)
	return next
}

// Prev is [State.Next] in the other direction.
func (s *State) Prev(o Ordinal) Ordinal {
	if o > 0 && s.Stands(o-1) && !s.sleeps(o-1) {
		return o - 1
	}
	w := s.Walk(0, nil)
	prev, _ := w.Before(o)
	return prev
}

// sleeps reports whether a member in the ring is asleep. Most rings have none, and then
// it reads no memory of members.
func (s *State) sleeps(o Ordinal) bool { return s.asleep[0].Len > 0 && s.asleep[0].Has(uint32(o)) }

// Sleeping counts the members in the ring that are asleep.
func (s *State) Sleeping() int { return s.asleep[0].Len }
