package core

import (
	"cmp"
	"math/bits"
	"slices"
)

// never is the second of a change that will not come.
const never = 1<<63 - 1

// standing gives what a member with this full total is worth, in cents, when
// elapsed seconds have passed since its grace period ended: the total until
// then, falling in a straight line to nothing over decay seconds.
func standing(total, elapsed, decay int64) int64 {
	switch {
	case elapsed <= 0:
		return total
	case elapsed >= decay:
		return 0
	}
	hi, lo := bits.Mul64(uint64(total), uint64(decay-elapsed))
	cents, _ := bits.Div64(hi, lo, uint64(decay)) // hi < decay: the quotient is below total
	return int64(cents)
}

// stepBelow gives the first elapsed second at which the standing is below
// cents, which lies between 1 and total. Standings are a staircase; this is
// where its next step is.
func stepBelow(total, cents, decay int64) int64 {
	// The longest remainder r with total×r < cents×decay, counted from the end.
	hi, lo := bits.Mul64(uint64(cents), uint64(decay))
	q, rest := bits.Div64(hi, lo, uint64(total)) // hi < total: the quotient is at most decay
	if rest == 0 {
		q--
	}
	return decay - int64(q)
}

// curve gives a member's standing at second now, the second at which it last
// changed by the passing of time (or before which it never did: 0), and the
// second at which it will next change.
func curve(m *Member, r *Rules, now int64) (cents, since, until int64) {
	total := m.Total()
	if m.Bids == 0 {
		return total, 0, never
	}
	start := m.LastBid/1000 + r.Grace
	cents = standing(total, now-start, r.Decay)
	until = never
	if cents > 0 {
		until = start + stepBelow(total, cents, r.Decay)
	}
	if cents < total {
		since = start + stepBelow(total, cents+1, r.Decay)
	}
	return cents, since, until
}

// ranking is the order of the members in the ring by standing at one second,
// descending, then by join. It is derived: the rows and the clock determine it.
//
// It is kept as a sorted slice, so an event costs one memory move and a second
// in which somebody's standing changes costs one sort.
type ranking struct {
	cents   []int64   // by ordinal: standing, as displayed and as compared
	since   []int64   // by ordinal: second at which time last changed it
	until   []int64   // by ordinal: second at which time next will
	place   []int32   // by ordinal: rank, 0 for members not in the ring
	order   []Ordinal // by rank − 1
	next    int64     // first second after the clock at which a standing changes
	last    int64     // last second up to the clock at which one did
	pending []Ordinal // rows that events touched since the last Advance
	stale   bool      // everything must be derived anew
}

// touch notes that an event changed what the ranking of o rests on.
func (k *ranking) touch(o Ordinal) { k.pending = append(k.pending, o) }

// Advance brings the clock to second now, if it is behind, and the ranking to
// the clock. Ranks, standings and quotes may only be read after it: events
// alone leave them behind, so that a long ledger loads without ranking at each
// step.
func (s *State) Advance(now int64) {
	s.clock = max(s.clock, now)
	k := &s.ranking
	if k.stale || s.clock >= k.next || len(k.pending) > len(s.members)/8+1 {
		s.rank()
		return
	}
	for _, o := range k.pending {
		s.rerank(o)
	}
	k.pending = k.pending[:0]
}

// Rewind sets the clock back to second now, but not before the last event, for
// hosts whose wall clock was wrong. Everything that depends on time is derived
// anew.
func (s *State) Rewind(now int64) {
	s.clock = max(now, s.stamp/1000)
	s.rank()
}

// rank derives the whole ranking.
func (s *State) rank() {
	k := &s.ranking
	k.stale, k.pending = false, k.pending[:0]
	k.grow(len(s.members))
	clear(k.place)
	k.next, k.last = never, 0
	k.order = append(k.order[:0], s.lists[Filter{}]...)
	for _, o := range k.order {
		cents, since, until := curve(&s.members[o], s.rules, s.clock)
		k.cents[o], k.since[o], k.until[o] = cents, since, until
		k.next, k.last = min(k.next, until), max(k.last, since)
	}
	slices.SortFunc(k.order, k.compare)
	for i, o := range k.order {
		k.place[o] = int32(i + 1)
	}
}

// rerank moves one member to its place.
func (s *State) rerank(o Ordinal) {
	k := &s.ranking
	k.grow(len(s.members))
	from, to := len(k.order), len(k.order)
	bounding := false // whether a bound of the ring rested on the member
	if at := k.place[o]; at != 0 {
		from = int(at - 1)
		k.order = slices.Delete(k.order, from, from+1)
		k.place[o] = 0
		bounding = k.until[o] == k.next && k.next != never || k.since[o] == k.last && k.last != 0
	}
	if m := &s.members[o]; m.live() {
		k.cents[o], k.since[o], k.until[o] = curve(m, s.rules, s.clock)
		to, _ = slices.BinarySearchFunc(k.order, o, k.compare)
		k.order = slices.Insert(k.order, to, o)
		k.next, k.last = min(k.next, k.until[o]), max(k.last, k.since[o])
	}
	for i := min(from, to); i < len(k.order) && i <= max(from, to); i++ {
		k.place[k.order[i]] = int32(i + 1)
	}
	if bounding {
		k.bounds()
	}
}

// bounds derives the seconds between which all standings hold.
func (k *ranking) bounds() {
	k.next, k.last = never, 0
	for _, o := range k.order {
		k.next, k.last = min(k.next, k.until[o]), max(k.last, k.since[o])
	}
}

func (k *ranking) grow(n int) {
	for len(k.cents) < n {
		k.cents = append(k.cents, 0)
		k.since = append(k.since, 0)
		k.until = append(k.until, never)
		k.place = append(k.place, 0)
	}
}

func (k *ranking) compare(a, b Ordinal) int {
	return cmp.Or(cmp.Compare(k.cents[b], k.cents[a]), cmp.Compare(a, b))
}

// settled gives the ranking to a reader.
func (s *State) settled() *ranking {
	if len(s.ranking.pending) > 0 || s.ranking.stale {
		panic("core: ranking read before Advance")
	}
	return &s.ranking
}

// Standing is the member's standing in cents at the state's clock: what is
// shown, and what is compared. It is 0 for members not in the ring.
func (s *State) Standing(o Ordinal) int64 {
	if k := s.settled(); k.place[o] != 0 {
		return k.cents[o]
	}
	return 0
}

// Rank is the member's 1-based rank, 0 for members not in the ring.
func (s *State) Rank(o Ordinal) int { return int(s.settled().place[o]) }

// Ranked gives the members in the ring by rank. The list stays the state's
// and holds until its next change; it is not in ring order.
func (s *State) Ranked() []Ordinal { return s.settled().order }

// ToTakeFirst gives the least single payment in cents that puts o at rank 1
// now, at least the minimum bid. It reports false for the leader itself and
// for members not in the ring.
func (s *State) ToTakeFirst(o Ordinal) (cents int64, ok bool) {
	k := s.settled()
	if k.place[o] <= 1 {
		return 0, false
	}
	leader := k.order[0]
	need := k.cents[leader]
	if o > leader {
		need++ // the earlier join wins ties
	}
	return max(s.rules.MinBid, need-s.members[o].Total()), true
}

// JoinAtFirst gives the least opening bid in cents that lets a new member join
// at rank 1 now: 0 when the fee alone does, otherwise at least the minimum bid.
func (s *State) JoinAtFirst() int64 {
	k := s.settled()
	if len(k.order) == 0 {
		return 0
	}
	need := k.cents[k.order[0]] + 1 - s.rules.Fee
	if need <= 0 {
		return 0
	}
	return max(s.rules.MinBid, need)
}

// ChangedAt is the last second at which time changed any standing in the ring,
// 0 if it never did; NextChange is the next one, or the highest int64 if there
// is none. Between two events, documents that show standings, ranks or quotes
// are the same bytes from ChangedAt until NextChange.
func (s *State) ChangedAt() int64 { return s.settled().last }

// NextChange is described at [State.ChangedAt].
func (s *State) NextChange() int64 { return s.settled().next }
