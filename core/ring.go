package core

import (
	"math/bits"
	"slices"
)

// Filter selects members. The zero value of a field selects all.
type Filter struct {
	Kind     Kind
	Category string
}

// List is a set of members in ring order. Lists taken from a state stay the
// state's and hold until its next change. All functions are O(log n) or better.
type List []Ordinal

// Select gives the members in the ring that match. A category that is not in
// use matches nothing. It does not allocate.
func (s *State) Select(kind Kind, category []byte) List {
	return s.lists[Filter{kind, string(category)}]
}

// Position is the 1-based place of a live member in the ring.
func (s *State) Position(o Ordinal) int {
	i, _ := slices.BinarySearch(s.lists[Filter{}], o)
	return i + 1
}

// After gives the nearest member after o in ring order, wrapping around; o
// need not be in the list. It reports false for an empty list.
func (l List) After(o Ordinal) (Ordinal, bool) {
	if len(l) == 0 {
		return 0, false
	}
	i, found := slices.BinarySearch(l, o)
	if found {
		i++
	}
	return l[i%len(l)], true
}

// Before is [List.After] in the other direction.
func (l List) Before(o Ordinal) (Ordinal, bool) {
	if len(l) == 0 {
		return 0, false
	}
	i, _ := slices.BinarySearch(l, o)
	return l[(i+len(l)-1)%len(l)], true
}

// Random picks uniformly by the 64 random bits given.
func (l List) Random(random uint64) (Ordinal, bool) {
	if len(l) == 0 {
		return 0, false
	}
	i, _ := bits.Mul64(random, uint64(len(l)))
	return l[i], true
}

// RandomOther is [List.Random] among all but o; o itself is picked only when
// it is the whole list.
func (l List) RandomOther(random uint64, o Ordinal) (Ordinal, bool) {
	at, found := slices.BinarySearch(l, o)
	if !found || len(l) == 1 {
		return l.Random(random)
	}
	i, _ := bits.Mul64(random, uint64(len(l)-1))
	if int(i) >= at {
		i++
	}
	return l[i], true
}

// filters are the four lists that a member stands in.
func filters(m *Member) [4]Filter {
	return [4]Filter{{}, {Kind: m.Kind}, {Category: m.Category}, {m.Kind, m.Category}}
}

// enter puts the newest row into the ring and its indexes.
func (s *State) enter(o Ordinal) {
	m := &s.members[o]
	s.keys[m.key] = o
	host := string(KeyHost([]byte(m.key)))
	s.hosts[host] = append(s.hosts[host], o)
	for _, f := range filters(m) {
		if f == (Filter{Category: m.Category}) && len(s.lists[f]) == 0 {
			i, _ := slices.BinarySearch(s.categories, m.Category)
			s.categories = slices.Insert(s.categories, i, m.Category)
		}
		s.lists[f] = append(s.lists[f], o)
	}
}

// leave takes a live member out of the ring and its indexes.
func (s *State) leave(o Ordinal) {
	m := &s.members[o]
	delete(s.keys, m.key)
	dropFrom(s.hosts, string(KeyHost([]byte(m.key))), o)
	for _, f := range filters(m) {
		dropFrom(s.lists, f, o)
	}
	if len(s.lists[Filter{Category: m.Category}]) == 0 {
		i, _ := slices.BinarySearch(s.categories, m.Category)
		s.categories = slices.Delete(s.categories, i, i+1)
	}
}

func dropFrom[K comparable](lists map[K]List, k K, o Ordinal) {
	l := lists[k]
	i, _ := slices.BinarySearch(l, o)
	if l = slices.Delete(l, i, i+1); len(l) == 0 {
		delete(lists, k)
	} else {
		lists[k] = l
	}
}
