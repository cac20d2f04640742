package core

import (
	"encoding/binary"
	"errors"

	"webring/core/flat"
)

// imageLayout is the version of how a state lies in memory. It grows with any
// change to the sections, to what is in them, or to the header below.
const imageLayout = 11

// Image gives the memory of the state, from which [Attach] makes another state in
// constant time. memory is everything that grows with the members; header is the
// rest, appended to dst. The ranking is brought up to date first.
//
// memory belongs to the state and is valid until the state's next change. A copy of
// it is valid anywhere.
//
// Images are for cores of one process. [Attach] does not check what lies in one, so
// an image must never come from a stranger.
//
// In the terms of encoding.go, a word being 8 bytes of any value:
//
//	header = layout(number) secret(word) size(number)… count(number)…
//	       digest(2 words) owners(2 words) clock(number) leading(number) first(number) forecast forecast recent
//	       count(number) category…
//	       base
//	forecast = at(number) first(number) standing(number)
//	recent   = floor(number) count(number) (second(number) count(number))…
//	category = name members(number)…
//
// The first section of the memory holds a hash of the header, so that a header is not
// attached to the memory of another.
func (s *State) Image(dst []byte) (header, memory []byte) {
	s.Advance(s.clock)
	header = appendNumber(dst, imageLayout)
	header = binary.BigEndian.AppendUint64(header, s.secret)
	for i := range sections {
		header = appendNumber(header, int64(s.region.Size(i)))
	}
	for _, n := range s.counts() {
		header = appendNumber(header, int64(*n))
	}
	for _, n := range [...]uint64{s.digest.hi, s.digest.lo, s.owners.hi, s.owners.lo} {
		header = binary.BigEndian.AppendUint64(header, n)
	}
	k := &s.ranking
	for _, n := range [...]int64{s.clock, k.leading, int64(k.first)} {
		header = appendNumber(header, n)
	}
	for _, f := range k.ahead {
		header = appendNumber(appendNumber(appendNumber(header, f.At), int64(f.First)), f.Standing)
	}
	header = appendNumber(appendNumber(header, k.recent.floor), int64(k.recent.len))
	for i := range k.recent.len {
		header = appendNumber(appendNumber(header, k.recent.seconds[i]), int64(k.recent.counts[i]))
	}
	header = appendNumber(header, int64(len(s.categories.all)))
	for _, c := range s.categories.all {
		header = appendString(header, c.name)
		for _, n := range c.members {
			header = appendNumber(header, int64(n))
		}
	}
	header = AppendBase(header, s.Base())
	h, mark := ended(flat.NewDigest().Bytes(header[len(dst):])), s.region.Uint64s(ofImage)
	mark[0], mark[1] = h.hi, h.lo
	return header, s.region.All()
}

// Lasting is the length in bytes of the part of an image's memory, from its
// beginning, that changes only when members join, leave or change. Bids, visits and the
// clock write behind it.
func (s *State) Lasting() int { return s.region.Offset(ofAccounts) }

// counts are the numbers that go with the region.
func (s *State) counts() []*int {
	list := []*int{&s.rows, &s.used, &s.waste, &s.due.Len}
	for k := range s.marks {
		list = append(list, &s.marks[k].Len, &s.asleep[k].Len)
	}
	for _, x := range s.indexes() {
		list = append(list, &x.Count, &x.Used, &x.Spare, &x.Free)
	}
	for _, t := range [...]*flat.Tree{&s.lists, &s.ranks} {
		list = append(list, &t.Used, &t.Free, &t.Root, &t.Depth, &t.Len)
	}
	return list
}

// ErrImage is wrapped by the errors of [Attach] about what is no image of a
// state of this build.
var ErrImage = errors.New("core: no image of a state")

// Attach makes a state from an image, with room for capacity members. memory is a
// copy of the image's memory at an address that is a multiple of 8; the state owns
// it from now on, unless Attach fails. Attach checks only that header and memory
// belong together and that all sizes fit. Errors wrap [ErrImage].
func Attach(capacity int, header, memory []byte) (*State, error) {
	r := reader{rest: header}
	if r.number() != imageLayout || r.failed {
		return nil, &reason{ErrImage, "layout"}
	}
	s := &State{capacity: min(capacity, maxRows), categories: newCategories()}
	s.secret = r.word()
	var sizes [sections]int
	for i := range sizes {
		sizes[i] = int(r.number())
	}
	for _, n := range s.counts() {
		*n = int(r.number())
	}
	s.digest, s.owners = sum{r.word(), r.word()}, sum{r.word(), r.word()}
	k := &s.ranking
	s.clock, k.leading, k.first = r.number(), r.number(), Ordinal(r.number())
	for i := range k.ahead {
		k.ahead[i] = Forecast{r.number(), Ordinal(r.number()), r.number()}
	}
	k.recent.floor, k.recent.len = r.number(), int(r.number())
	if k.recent.len > recentSeconds {
		return nil, &reason{ErrImage, "seconds"}
	}
	for i := range k.recent.len {
		k.recent.seconds[i], k.recent.counts[i] = r.number(), int(r.number())
	}
	all := r.number()
	for range all {
		if r.failed { // all may be any number
			break
		}
		c := category{name: r.string()}
		for i := range c.members {
			c.members[i] = int(r.number())
		}
		s.categories.restore(c)
	}
	if r.failed {
		return nil, &reason{ErrImage, "header"}
	}
	base, err := DecodeBase(r.rest)
	if err != nil {
		return nil, &reason{ErrImage, "base"}
	}
	s.seq, s.stamp, s.paid, s.voided, s.rules = base.Seq, base.Stamp, base.Paid, base.Voided, base.Rules
	switch {
	case !s.region.Adopt(memory, sizes[:]) || sizes[ofImage] < 16 || sizes[ofDue] < 8*flat.HeapAhead:
		return nil, &reason{ErrImage, "sizes"}
	case all > int64(s.rows) || !s.fits():
		return nil, &reason{ErrImage, "counts"}
	}
	if h, mark := ended(flat.NewDigest().Bytes(header)), s.region.Uint64s(ofImage); mark[0] != h.hi || mark[1] != h.lo {
		return nil, &reason{ErrImage, "header and memory do not belong together"}
	}
	s.seed = flat.NewSeed(s.secret)
	return s, nil
}

// fits takes the views of a region that was adopted, and says whether they are as
// long as the counts say.
func (s *State) fits() bool {
	s.view()
	rows := s.rows
	for _, n := range [...]int{len(s.at), len(s.hostNext), len(s.accounts), len(s.flags), len(s.statuses),
		len(s.due.Places), len(s.due.Entries), s.capacity} {
		if rows > n {
			return false
		}
	}
	for _, marks := range [...]*[kinds]flat.Marks{&s.marks, &s.asleep} {
		for k := range marks {
			if m := &marks[k]; m.Len > rows || len(m.Bits)*64 < rows || len(m.Before)*64 < rows {
				return false
			}
		}
	}
	for _, x := range s.indexes() {
		if !x.Sound() || rows > len(x.Ahead) {
			return false
		}
	}
	for _, f := range s.ranking.ahead {
		if rows > 0 && int(f.First) >= rows {
			return false
		}
	}
	return s.used <= len(s.texts) && s.waste <= s.used && s.due.Len <= rows && s.lists.Sound() && s.ranks.Sound() &&
		(s.rules != nil || rows == 0) && (rows == 0 || int(s.ranking.first) < rows)
}

// word reads 8 bytes of any value.
func (r *reader) word() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}
