package core

import "slices"

// recentSeconds is how many of the last seconds with changes are known.
const recentSeconds = 64

// recent counts members by the second at which time gave them their present
// standing. The latest such second is when documents last changed without an
// event. A member counts for one second at most; a bid or a further step takes it
// out.
//
// Only the latest [recentSeconds] are kept. When bids have emptied all of them,
// they are counted anew from the rows, which takes at least as many events as
// there are seconds.
type recent struct {
	seconds [recentSeconds]int64 // rising
	counts  [recentSeconds]int
	len     int
	floor   int64 // seconds up to here are not known
}

// last is the latest second, 0 for none.
func (r *recent) last() int64 {
	if r.len == 0 {
		return 0
	}
	return r.seconds[r.len-1]
}

// add counts a member for a second, unless that is 0.
func (r *recent) add(second int64) {
	if second <= r.floor {
		return
	}
	i, found := slices.BinarySearch(r.seconds[:r.len], second)
	if found {
		r.counts[i]++
		return
	}
	if r.len == recentSeconds {
		// The earliest is forgotten.
		r.floor = r.seconds[0]
		if i == 0 {
			r.floor = second
			return
		}
		copy(r.seconds[:], r.seconds[1:i])
		copy(r.counts[:], r.counts[1:i])
		r.seconds[i-1], r.counts[i-1] = second, 1
		return
	}
	copy(r.seconds[i+1:], r.seconds[i:r.len])
	copy(r.counts[i+1:], r.counts[i:r.len])
	r.seconds[i], r.counts[i] = second, 1
	r.len++
}

// drop is the opposite of add.
func (r *recent) drop(second int64) {
	if second <= r.floor {
		return
	}
	i, _ := slices.BinarySearch(r.seconds[:r.len], second)
	if r.counts[i]--; r.counts[i] == 0 {
		r.len--
		copy(r.seconds[i:], r.seconds[i+1:r.len+1])
		copy(r.counts[i:], r.counts[i+1:r.len+1])
	}
}

// complete finds the seconds anew when those that are known have lost all
// their members.
func (r *recent) complete(s *State) {
	if r.len > 0 || r.floor == 0 {
		return
	}
	r.floor = 0
	for o := range Ordinal(s.rows) {
		if s.has(o, ranked) {
			r.add(s.decline(o).since(s.accounts[o].standing))
		}
	}
}
