package hops

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"

	"webring/edge/front"
)

// visitors tells which clients have been counted in the present hour, for which members. It
// keeps hashes with a key that is made anew each hour and kept nowhere, so after the hour
// it cannot be told of a client whether it was there. Its functions take no lock, and allocate
// only when an hour begins.
//
// It has places for 2^18 hashes in 2 MB. When the eight places of a hash are full, it takes
// the place of another of this hour. That client may then be counted once more.
type visitors struct {
	hour   atomic.Pointer[hour]
	places [rows][8]atomic.Uint64 // hashes, with the hour's mark in the lowest byte
}

const rows = 1 << 15

type hour struct {
	number int64
	seed   maphash.Seed
	factor uint64 // odd, and as secret as the seed
}

func newHour(number int64) *hour {
	h := &hour{number: number, seed: maphash.MakeSeed()}
	h.factor = maphash.Comparable(h.seed, number) | 1
	return h
}

// hash gives the hash of a client, and of with a member: one hash serves both members of a hop.
func (h *hour) hash(c front.Client) uint64 {
	net, kind := c.Key()
	return maphash.Comparable(h.seed, net) + uint64(kind)*h.factor
}

func (h *hour) with(hash uint64, row uint32, s side) uint64 {
	high, low := bits.Mul64(hash^uint64(row)<<1^uint64(s), h.factor)
	high, low = bits.Mul64(high^low, h.factor)
	return high ^ low
}

// mark tells hashes of one hour from older ones. Places of older ones are free. It is never 0.
func (h *hour) mark() uint64 { return uint64(h.number)%255 + 1 }

// side says in which part of a hop a member had.
type side uint8

const (
	sends side = iota
	receives
)

// at gives the hour of a time, or the one after it, if that has begun: requests at the turn
// of an hour must not begin hours in turns.
func (v *visitors) at(now time.Time) *hour {
	number := now.Unix() / 3600
	for {
		h := v.hour.Load()
		if h != nil && (h.number == number || h.number == number+1) {
			return h
		}
		v.hour.CompareAndSwap(h, newHour(number))
	}
}

// first reports whether a client with this hash has not been counted yet in an hour for the
// member in a row, and notes that it is now.
func (v *visitors) first(h *hour, client uint64, row uint32, s side) bool {
	hash := h.with(client, row, s)
	own := hash&^0xff | h.mark()
	places := &v.places[hash>>8%rows]
again:
	free := -1
	for i := range places {
		switch p := places[i].Load(); {
		case p == own:
			return false
		case free < 0 && p&0xff != h.mark():
			free = i
		}
	}
	if free < 0 {
		places[hash>>61].Store(own)
		return true
	}
	before := places[free].Load()
	if before&0xff == h.mark() || !places[free].CompareAndSwap(before, own) {
		goto again // it was taken meanwhile, perhaps for the same
	}
	return true
}
