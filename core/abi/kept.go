package abi

import (
	"webring/core"
	"webring/core/api"
	"webring/core/flat"
)

// kept are replies to targets that were asked for before. Members' pages and
// the first page of the leaderboard ask the same again and again; between two
// events, and for timed documents between two seconds at which they change, the
// answer is the same bytes, and is written once.
//
// A reply is never stale: it counts at the position at which it was written, and
// for the seconds for which its document says that it holds. It is kept here and
// not by hosts because those that share no memory are handed it where it lies.
//
// The memory is fixed: a log that begins anew at its end, and two places for each
// of some hashes of targets, of which a new one takes the older. What is asked for
// once is not kept, so that a walk through the whole ring displaces nobody. The
// memory is made for the first answer by [Core.Call]; a core that is driven
// without it has none.
type kept struct {
	of     *core.State
	seed   *flat.Seed // secret: nobody can choose targets that displace others
	places [][2]place
	asked  []uint32 // parts of the hashes of targets that were asked for
	log    []byte
	end    uint64 // of what was ever written to the log
}

// place says where in the log target and reply stand, one after the other, and
// when the reply counts.
type place struct {
	hash          uint64 // of the target
	begin         uint64 // as if the log never began anew
	target, reply uint32 // their lengths
	seq           uint64
	since, until  int64 // until is 0 where there is none
}

// With these, an instance keeps the answers for the pages of a thousand members or
// two, and takes five megabytes of the memory that it may have.
const (
	keptPlaces = 1 << 13 // pairs
	keptAsked  = 1 << 14
	keptLog    = 4 << 20
	// longestTarget and longestReply are what is kept at most, in bytes.
	longestTarget = 128
	longestReply  = 256 << 10
)

// open makes the memory for the answers of a state, or empties it for those of
// another.
func (k *kept) open(st *core.State) {
	if k.of = st; k.log != nil {
		clear(k.places)
		return
	}
	k.seed, k.places, k.asked, k.log = flat.NewSeed(st.Secret()), make([][2]place, keptPlaces), make([]uint32, keptAsked), make([]byte, keptLog)
}

// find gives the reply to a target when there is one that counts now. Otherwise
// it gives the target's hash and the place that the reply is to take, nil when it
// is not to be kept.
func (k *kept) find(target []byte, st *core.State) (reply []byte, hash uint64, p *place) {
	if len(target) > longestTarget {
		return nil, 0, nil
	}
	hash = k.seed.Hash(flat.View(target))
	pair := &k.places[hash%keptPlaces]
	if p = &pair[0]; p.hash != hash {
		if p = &pair[1]; p.hash != hash {
			return nil, hash, k.first(hash, pair)
		}
	}
	now := st.Clock()
	if p.seq == st.Seq() && p.since <= now && now < p.until && k.end-p.begin <= keptLog {
		at := p.begin % keptLog
		both := k.log[at : at+uint64(p.target)+uint64(p.reply)]
		if flat.Equal(flat.View(both[:p.target]), flat.View(target)) {
			return both[p.target:], hash, p
		}
	}
	return nil, hash, p
}

// first gives the older place of a pair to a target that was asked for before,
// and remembers that it now was.
func (k *kept) first(hash uint64, pair *[2]place) *place {
	asked, part := &k.asked[hash>>16%keptAsked], uint32(hash>>32)
	if *asked != part {
		*asked = part
		return nil
	}
	if pair[0].begin <= pair[1].begin {
		return &pair[0]
	}
	return &pair[1]
}

// keep puts a copy of a reply into its place, unless it is long or chance had a
// part in it.
func (k *kept) keep(target []byte, hash uint64, p *place, r *Response, reply []byte) {
	if p == nil || r.Drawn || len(reply) > longestReply {
		return
	}
	size := uint64(len(target) + len(reply))
	if k.end%keptLog+size > keptLog {
		k.end += keptLog - k.end%keptLog
	}
	at := k.end % keptLog
	p.hash, p.begin, p.target, p.reply = hash, k.end, uint32(len(target)), uint32(len(reply))
	p.seq, p.since, p.until = r.Seq, 0, 1<<63-1
	if r.Validity == api.Timed {
		p.since, p.until = r.Since, r.Until
	}
	copy(k.log[at:], target)
	copy(k.log[at+uint64(len(target)):], reply)
	k.end += size
}
