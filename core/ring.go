package core

import "webring/core/flat"

// List is a set of members in ring order. Lists taken from a state are valid
// until its next change. All functions are O(log n) or better, and none allocates.
type List struct {
	s     *State
	len   int
	marks *flat.Marks // nil for the list of a category
	// Of a category: its tree is that of all, in which it takes these places.
	id    uint64
	first int
}

// Select gives the members in the ring that match. A category that is not in
// use matches nothing.
func (s *State) Select(kind Kind, category []byte) List {
	if int(kind) >= kinds {
		return List{s: s}
	}
	if len(category) == 0 {
		return List{s: s, marks: &s.marks[kind], len: s.marks[kind].Len}
	}
	c, ok := s.categories.find(flat.View(category))
	if !ok {
		return List{s: s}
	}
	id := listKey(c, kind, 0)
	return List{s: s, id: id, first: s.lists.Rank(id), len: s.categories.all[c].members[kind]}
}

// sleepers gives those of [State.Select] that are asleep.
func (s *State) sleepers(kind Kind, category []byte) List {
	if int(kind) >= kinds {
		return List{s: s}
	}
	if len(category) == 0 {
		return List{s: s, marks: &s.asleep[kind], len: s.asleep[kind].Len}
	}
	c, ok := s.categories.find(flat.View(category))
	if !ok {
		return List{s: s}
	}
	l := List{s: s, id: asleepKey(c, kind, 0)}
	l.first = s.lists.Rank(l.id)
	l.len = s.lists.Rank(l.id+1<<32) - l.first
	return l
}

// listKey is the key of a member in the tree of all lists of categories, and asleepKey
// that in a list of those that are asleep.
func listKey(category int, kind Kind, o Ordinal) uint64 {
	return uint64(category*kinds+int(kind))<<32 | uint64(o)
}

func asleepKey(category int, kind Kind, o Ordinal) uint64 { return 1<<62 | listKey(category, kind, o) }

// dropOff notes that a member in the ring is asleep, and getUp that it is no longer.
func (s *State) dropOff(o Ordinal, kind Kind, category int) {
	for _, k := range [...]Kind{0, kind} {
		s.asleep[k].Insert(uint32(o), s.rows)
		s.lists.Insert(asleepKey(category, k, o))
	}
}

func (s *State) getUp(o Ordinal, kind Kind, category int) {
	for _, k := range [...]Kind{0, kind} {
		s.asleep[k].Remove(uint32(o), s.rows)
		s.lists.Delete(asleepKey(category, k, o))
	}
}

// Position is the 1-based place of a live member in the ring.
func (s *State) Position(o Ordinal) int { return s.marks[0].Rank(uint32(o)) + 1 }

// Len is the number of members in the list.
func (l List) Len() int { return l.len }

// At gives the member at place i of the list, from 0 on; there must be one.
func (l List) At(i int) Ordinal {
	if l.marks == nil {
		return Ordinal(uint32(l.s.lists.At(l.first + i)))
	}
	return Ordinal(l.marks.At(i, l.s.rows))
}

// Append appends up to count members from place i on to dst.
func (l List) Append(dst []Ordinal, i, count int) []Ordinal {
	for count = min(count, l.len-i); count > 0; {
		if l.marks != nil {
			return flat.AppendMarked(l.marks, dst, i, count, l.s.rows)
		}
		var some [64]uint64
		for _, key := range l.s.lists.Append(some[:0], l.first+i, min(count, len(some))) {
			dst = append(dst, Ordinal(uint32(key)))
			i++
			count--
		}
	}
	return dst
}

// find gives how many members of the list come before o, and whether o is in it.
func (l List) find(o Ordinal) (before int, found bool) {
	if int(o) >= l.s.rows || l.len == 0 {
		return l.len, false
	}
	if l.marks == nil {
		before = l.s.lists.Rank(l.id|uint64(o)) - l.first
		return before, before < l.len && l.At(before) == o
	}
	return l.marks.Rank(uint32(o)), l.marks.Has(uint32(o))
}

// Stands says whether a row is of a member in the ring. The flags say the same, but take
// eight times the memory, so fewer of them stay in the processor's cache.
func (s *State) Stands(o Ordinal) bool { return s.marks[0].Has(uint32(o)) }

// enter puts a row with this key into the ring, and into the indexes of the ring.
func (s *State) enter(o Ordinal, kind Kind, name string, k *key) {
	s.flags[o] |= live
	s.marks[0].Insert(uint32(o), s.rows)
	s.marks[kind].Insert(uint32(o), s.rows)
	category := s.categories.join(name, kind)
	s.lists.Insert(listKey(category, 0, o))
	s.lists.Insert(listKey(category, kind, o))
	if s.has(o, sleeping) {
		s.dropOff(o, kind, category)
	}

	// The members on one host are linked in a circle. The index holds the one that the
	// bare host names: the least deep, and of several the earliest. A member that leaves
	// is searched along the circle, which is rare, and only the operator waits for it.
	first, ok := s.findHost(k.host, k.hostText())
	if !ok {
		s.hosts.Insert(k.host, uint32(o))
		s.hostNext[o] = uint32(o)
		return
	}
	s.link(k.host, first, o)
}

// link adds a row to the circle of a host with this hash. first is the member that
// the index holds for it.
func (s *State) link(host uint64, first, o Ordinal) {
	s.hostNext[o], s.hostNext[first] = s.hostNext[first], uint32(o)
	if depth, least := s.depth(o), s.depth(first); depth < least || depth == least && o < first {
		s.hosts.Replace(host, uint32(first), uint32(o))
	}
}

// unlink takes a member with this key out of the circle of its host.
func (s *State) unlink(k *key, o Ordinal) {
	before := o
	for s.hostNext[before] != uint32(o) {
		before = Ordinal(s.hostNext[before])
	}
	s.hostNext[before] = s.hostNext[o]
	first, _ := s.findHost(k.host, k.hostText())
	switch {
	case first != o:
	case before == o:
		s.hosts.Remove(k.host, uint32(o))
	default:
		s.hosts.Replace(k.host, uint32(o), uint32(s.leastDeep(before)))
	}
}

// leastDeep gives the member that the index must hold for the host of this one.
func (s *State) leastDeep(of Ordinal) Ordinal {
	first, least := of, s.depth(of)
	for o := Ordinal(s.hostNext[of]); o != of; o = Ordinal(s.hostNext[o]) {
		if depth := s.depth(o); depth < least || depth == least && o < first {
			first, least = o, depth
		}
	}
	return first
}

// depth is the depth of a member's key.
func (s *State) depth(o Ordinal) int {
	var k key
	k.spell(s.url(o))
	return k.depth()
}

// giveUp takes a member that is removed out of the ring, if it is there, and frees its
// URL.
func (s *State) giveUp(o Ordinal) {
	if !s.holdsURL(o) {
		return
	}
	m := s.Member(o)
	var k key
	k.of(s.seed, m.URL)
	s.keys.Remove(k.hash, uint32(o))
	if s.has(o, live) {
		s.leave(o, &m, &k)
	}
}

// leave takes a live member with this key out of the ring, and out of the indexes of
// the ring.
func (s *State) leave(o Ordinal, m *Member, k *key) {
	s.unlink(k, o)
	if s.has(o, sleeping) {
		category, _ := s.categories.find(m.Category)
		s.getUp(o, m.Kind, category)
	}
	category := s.categories.leave(m.Category, m.Kind)
	s.lists.Delete(listKey(category, 0, o))
	s.lists.Delete(listKey(category, m.Kind, o))
	s.marks[0].Remove(uint32(o), s.rows)
	s.marks[m.Kind].Remove(uint32(o), s.rows)
	s.flags[o] &^= live
}
