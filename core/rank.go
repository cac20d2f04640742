package core

import (
	"math/bits"
	"slices"

	"webring/core/flat"
)

// never is the second of a change that will not come.
const never = 1<<63 - 1

// standing gives the standing in cents of a member with this full total, elapsed
// seconds after its grace period ended: the total until then, then a straight line
// down to 0 over decay seconds, rounded down.
func standing(total, elapsed, decay int64) int64 {
	switch {
	case elapsed <= 0:
		return total
	case elapsed >= decay:
		return 0
	}
	if uint64(total)|uint64(decay) < 1<<32 {
		return int64(uint64(total) * uint64(decay-elapsed) / uint64(decay))
	}
	hi, lo := bits.Mul64(uint64(total), uint64(decay-elapsed))
	cents, _ := bits.Div64(hi, lo, uint64(decay)) // hi < decay: the quotient is below total
	return int64(cents)
}

// stepBelow gives the first elapsed second at which the standing is below cents,
// for cents from 1 to total. It is where the staircase of standings has its next
// step.
func stepBelow(total, cents, decay int64) int64 {
	// The longest remainder r with total×r < cents×decay, counted from the end.
	if uint64(cents)|uint64(decay) < 1<<32 {
		return decay - int64((uint64(cents)*uint64(decay)-1)/uint64(total))
	}
	hi, lo := bits.Mul64(uint64(cents), uint64(decay))
	q, rest := bits.Div64(hi, lo, uint64(total)) // hi < total: the quotient is at most decay
	if rest == 0 {
		q--
	}
	return decay - int64(q)
}

// latest is after every second that a state can reach.
const latest = 1<<(64-flat.HeapBits) - 1

// decline is how a member's standing falls in time.
type decline struct {
	total int64 // in cents
	start int64 // second at which the grace period ends, never without a bid
	decay int64 // seconds from the total to nothing
}

func (s *State) decline(o Ordinal) decline {
	total, lastBid := s.Paid(o)
	d := decline{total, never, s.rules.Decay}
	if s.has(o, funded) {
		d.start = lastBid/1000 + s.rules.Grace
	}
	return d
}

// worth is the standing at second now.
func (d decline) worth(now int64) (cents int64) {
	return standing(d.total, now-d.start, d.decay)
}

// since is the second at which time made the standing cents, 0 if it is the total.
func (d decline) since(cents int64) (second int64) {
	if cents >= d.total {
		return 0
	}
	return d.start + stepBelow(d.total, cents+1, d.decay)
}

// until is the second at which a standing of cents next falls, never if it does not.
func (d decline) until(cents int64) (second int64) {
	if d.start == never || cents == 0 {
		return never
	}
	return d.start + stepBelow(d.total, cents, d.decay)
}

// ranking is the order of the members in the ring by standing at one second,
// descending, then by join. It is derived: the rows and the clock determine it.
//
// The order is a counted tree of standing and ordinal. A heap holds the second of
// each member's next change. Both lie in the store. A second without changes costs
// nothing, and each change a few steps in tree and heap.
type ranking struct {
	pending []Ordinal // rows that events touched since the last Advance
	stale   bool      // everything must be derived anew
	recent  recent
	first   Ordinal // the leader
	leading int64   // its standing
	ahead   [len(ForecastDays)]Forecast
}

// touch notes that an event changed what the ranking of o rests on.
func (s *State) touch(o Ordinal) {
	k := &s.ranking
	switch {
	case k.stale:
	case len(k.pending) >= s.many():
		// A long ledger is being folded.
		k.stale, k.pending = true, nil
	default:
		k.pending = append(k.pending, o)
	}
}

// many is the most changes that are made one by one; for more, all is sorted anew.
func (s *State) many() int { return s.rows/8 + 64 }

// rankKey orders by standing, descending, and then by join.
func rankKey(cents int64, o Ordinal) uint64 {
	return uint64(MaxTotal-cents)<<flat.HeapBits | uint64(o)
}

func rankedAs(key uint64) (cents int64, o Ordinal) {
	return MaxTotal - int64(key>>flat.HeapBits), Ordinal(key & (maxRows - 1))
}

// Advance brings the clock to second now, if it is behind, and the ranking to
// the clock. Ranks, standings and quotes may only be read after it: events
// alone leave them behind, so that a long ledger loads without ranking at each
// step.
func (s *State) Advance(now int64) {
	s.clock = max(s.clock, now)
	k := &s.ranking
	if many := s.many(); k.stale || s.due.Due(s.clock, 0, many+1) > many {
		s.rankAll()
		return
	}
	for s.due.Len > 0 {
		o, due := s.due.First()
		if due > s.clock {
			break
		}
		s.step(Ordinal(o))
	}
	for _, o := range k.pending {
		s.rank(o)
	}
	s.lead()
	s.look(k.pending)
	k.pending = k.pending[:0]
	k.recent.complete(s)
}

// Rewind sets the clock back to second now, but not before the last event, for a host
// with a wall clock that was wrong. Everything that depends on time is derived anew.
func (s *State) Rewind(now int64) {
	s.clock = max(now, s.stamp/1000)
	s.rankAll()
}

// step moves a member to its place at the clock after its standing time has changed.
func (s *State) step(o Ordinal) {
	was, d := s.accounts[o].standing, s.decline(o)
	s.ranking.recent.drop(d.since(was))
	cents := d.worth(s.clock)
	s.ranking.recent.add(d.since(cents))
	s.accounts[o].standing = cents
	s.ranks.Delete(rankKey(was, o))
	s.reserve(s.rows, s.used)
	s.ranks.Insert(rankKey(cents, o))
	if until := d.until(cents); until <= latest {
		s.due.Move(uint32(o), until)
	} else {
		s.due.Remove(uint32(o))
	}
}

// rank puts a member that is in the ring into the ranking.
func (s *State) rank(o Ordinal) {
	if s.flags[o]&(live|ranked) != live {
		return
	}
	d := s.decline(o)
	cents := d.worth(s.clock)
	s.flags[o] |= ranked
	s.accounts[o].standing = cents
	s.ranking.recent.add(d.since(cents))
	s.reserve(s.rows, s.used)
	s.ranks.Insert(rankKey(cents, o))
	if until := d.until(cents); until <= latest {
		s.due.Push(uint32(o), until)
	}
}

// unrank takes a member out of the ranking, before an event changes its row.
func (s *State) unrank(o Ordinal) {
	if s.ranking.stale || !s.has(o, ranked) {
		return
	}
	cents := s.accounts[o].standing
	s.flags[o] &^= ranked
	s.ranking.recent.drop(s.decline(o).since(cents))
	s.ranks.Delete(rankKey(cents, o))
	s.due.Remove(uint32(o))
}

// rankAll derives the whole ranking. It sorts by radix, and takes no memory but that of
// the ranking itself.
func (s *State) rankAll() {
	k := &s.ranking
	k.stale, k.pending = false, k.pending[:0]
	s.due.Len = 0
	s.ranks = flat.Tree{Nodes: s.ranks.Nodes}
	s.reserve(s.rows, s.used)
	clear(s.due.Places)
	k.recent = recent{}
	n := 0
	for o := range Ordinal(s.rows) {
		s.flags[o] &^= ranked
		if !s.has(o, live) {
			continue
		}
		s.flags[o] |= ranked
		d := s.decline(o)
		cents := d.worth(s.clock)
		k.recent.add(d.since(cents))
		s.accounts[o].standing = cents
		s.due.Entries[n] = rankKey(cents, o)
		n++
	}
	// The tree's memory, which is longer than its keys, serves as scratch space.
	sortKeys(s.due.Entries[:n], s.ranks.Nodes[:n])
	s.ranks.Build(s.due.Entries[:n])
	n = 0
	for o := range Ordinal(s.rows) {
		if s.has(o, live) {
			if until := s.decline(o).until(s.accounts[o].standing); until <= latest {
				s.due.Entries[n] = uint64(until)<<flat.HeapBits | uint64(o)
				n++
			}
		}
	}
	s.due.Order(n)
	s.lead()
	k.ahead = [len(ForecastDays)]Forecast{}
	s.look(nil)
}

// sortKeys sorts rank keys. Their ordinals rise already, so a stable radix sort by
// standing is enough, twelve bits at a time. spare is as long as keys, and is
// overwritten.
func sortKeys(keys, spare []uint64) {
	const digits, width, mask = 3, 12, 1<<12 - 1
	if len(keys) <= 512 {
		slices.Sort(keys)
		return
	}
	var counts [digits][mask + 1]uint32
	for _, key := range keys {
		key >>= flat.HeapBits
		counts[0][key&mask]++
		counts[1][key>>width&mask]++
		counts[2][key>>(2*width)]++
	}
	from, to := keys, spare
	for digit := range digits {
		shift, places := flat.HeapBits+digit*width, &counts[digit]
		if places[from[0]>>shift&mask] == uint32(len(from)) {
			continue // all are alike
		}
		at := uint32(0)
		for i, n := range places {
			places[i], at = at, at+n
		}
		for _, key := range from {
			place := &places[key>>shift&mask]
			to[*place] = key
			*place++
		}
		from, to = to, from
	}
	if &from[0] != &keys[0] {
		copy(keys, from)
	}
}

// lead notes the leader and its standing.
func (s *State) lead() {
	if s.ranks.Len > 0 {
		s.ranking.leading, s.ranking.first = rankedAs(s.ranks.At(0))
	}
}

// settled makes sure that the ranking may be read.
func (s *State) settled() {
	if len(s.ranking.pending) > 0 || s.ranking.stale {
		panic("core: ranking read before Advance")
	}
}

// Standing is the member's standing in cents at the state's clock: what is
// shown, and what is compared. It is 0 for members not in the ring.
func (s *State) Standing(o Ordinal) int64 {
	s.settled()
	if s.has(o, ranked) {
		return s.accounts[o].standing
	}
	return 0
}

// Rank is the member's 1-based rank, 0 for members not in the ring.
func (s *State) Rank(o Ordinal) int {
	s.settled()
	if !s.has(o, ranked) {
		return 0
	}
	return s.ranks.Rank(rankKey(s.accounts[o].standing, o)) + 1
}

// AppendRanked appends up to count members in the order of their ranks, from
// the one at rank from + 1 on, to dst.
func (s *State) AppendRanked(dst []Ordinal, from, count int) []Ordinal {
	s.settled()
	var some [64]uint64
	for count = min(count, s.ranks.Len-from); count > 0; {
		keys := s.ranks.Append(some[:0], from, min(count, len(some)))
		for _, key := range keys {
			dst = append(dst, Ordinal(key&(maxRows-1)))
		}
		from += len(keys)
		count -= len(keys)
	}
	return dst
}

// ToTakeFirst gives the least single payment in cents that puts o at rank 1
// now, at least the minimum bid. Above [MaxAmount] it takes several bids, which
// together do the same. It reports false for the leader itself, for members not in the
// ring, and where the member's total would go beyond [MaxTotal].
func (s *State) ToTakeFirst(o Ordinal) (cents int64, ok bool) {
	s.settled()
	return s.toLead(o, s.ranking.first, s.ranking.leading)
}

// toLead is ToTakeFirst against a leader with a standing.
func (s *State) toLead(o, first Ordinal, leading int64) (cents int64, ok bool) {
	if !s.has(o, ranked) || o == first {
		return 0, false
	}
	return s.toPass(o, first, leading)
}

// toPass gives the least single payment in cents that ranks o before another member with
// a standing: a payment restores the whole total first. It reports false where the total
// would go beyond [MaxTotal].
func (s *State) toPass(o, other Ordinal, standing int64) (cents int64, ok bool) {
	if o > other {
		standing++ // the earlier join wins ties
	}
	cents = max(s.rules.MinBid, standing-s.accounts[o].total)
	return cents, s.accounts[o].total+cents <= MaxTotal
}

// ToPass gives the least single payment in cents that ranks o before other now, at least
// the minimum bid, and the rank that it gives. Both stand in the ring, and other ranks
// before o. It reports false where the total of o would go beyond [MaxTotal].
func (s *State) ToPass(o, other Ordinal) (cents int64, rank int, ok bool) {
	s.settled()
	if cents, ok = s.toPass(o, other, s.accounts[other].standing); !ok {
		return 0, 0, false
	}
	return cents, s.ranks.Rank(rankKey(s.accounts[o].total+cents, o)) + 1, true
}

// JoinAtFirst gives the least opening bid in cents that lets a new member join
// at rank 1 now: 0 when the fee alone does, otherwise at least the minimum bid.
func (s *State) JoinAtFirst() int64 {
	s.settled()
	return s.joinBefore(s.ranking.leading)
}

// joinBefore is JoinAtFirst against a leader with a standing.
func (s *State) joinBefore(leading int64) (cents int64) {
	if s.ranks.Len == 0 {
		return 0
	}
	need := leading + 1 - s.rules.Fee
	if need <= 0 {
		return 0
	}
	return max(s.rules.MinBid, need)
}

// TotalForRank gives the least full total in cents with which a member that was
// paid for just now would have this rank, from 1, or a better one: o is its row, or
// [State.Rows] for one that is yet to join.
func (s *State) TotalForRank(o Ordinal, rank int) int64 {
	s.settled()
	at := rank - 1
	if int(o) < s.rows && s.has(o, ranked) && s.Rank(o) <= rank {
		at++ // it does not stand in its own way
	}
	if at >= s.ranks.Len {
		return 0
	}
	need, other := rankedAs(s.ranks.At(at))
	if o > other {
		need++ // the earlier join wins ties
	}
	return need
}

// ChangedAt is the last second at which time changed any standing in the ring,
// 0 if it never did; NextChange is the next one, or the highest int64 if there
// is none. Between two events, documents that show standings, ranks or quotes
// are the same bytes from ChangedAt until NextChange.
func (s *State) ChangedAt() int64 {
	s.settled()
	return s.ranking.recent.last()
}

// NextChange is the next second at which time changes a standing; see [State.ChangedAt].
func (s *State) NextChange() int64 {
	s.settled()
	if s.due.Len == 0 {
		return never
	}
	_, due := s.due.First()
	return due
}
