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
// of some hashes of targets, of which a new one takes the older. [Core.Call] makes
// both for its first answer; a core that is driven without it has none.
type kept struct {
	seed   *flat.Seed // secret: nobody can choose targets that displace others
	places []place
	log    []byte
	end    uint64 // of what was ever written to the log
}

// place says where in the log target and reply stand, one after the other, and
// when the reply counts. The target's length is 0 where there is none.
type place struct {
	begin         uint64 // as if the log never began anew
	target, reply uint32 // their lengths
	seq           uint64
	since, until  int64
}

const (
	keptPlaces = 1 << 13
	keptLog    = 4 << 20
	// longestTarget and longestReply are what is kept at most, in bytes.
	longestTarget = 128
	longestReply  = keptLog / 16
)

func (k *kept) open(secret uint64) {
	k.seed, k.places, k.log = flat.NewSeed(secret), make([]place, keptPlaces), make([]byte, keptLog)
}

// find gives the reply to a target when there is one that counts now, and its
// place, otherwise the place that the reply is to take. There is no place for targets that are too long.
func (k *kept) find(target []byte, st *core.State) (p *place, reply []byte) {
	if len(target) > longestTarget {
		return nil, nil
	}
	hash := k.seed.Hash(flat.View(target)) % (keptPlaces / 2)
	one, other := &k.places[2*hash], &k.places[2*hash+1]
	if reply = k.at(one, target, st); reply != nil {
		return one, reply
	}
	if reply = k.at(other, target, st); reply != nil || other.begin < one.begin {
		return other, reply
	}
	return one, nil
}

// at gives the reply of a place, if it is to target and counts now.
func (k *kept) at(p *place, target []byte, st *core.State) []byte {
	now := st.Clock()
	if p.seq != st.Seq() || int(p.target) != len(target) || now < p.since || now >= p.until || k.end-p.begin > keptLog {
		return nil
	}
	begin := p.begin % keptLog
	both := k.log[begin : begin+uint64(p.target)+uint64(p.reply)]
	if !flat.Equal(flat.View(both[:p.target]), flat.View(target)) {
		return nil
	}
	return both[p.target:]
}

// keep takes a copy of a reply, unless it is long or chance had a part in it.
func (k *kept) keep(target []byte, p *place, r *Response, reply []byte) {
	if p == nil || r.Drawn || len(reply) > longestReply {
		return
	}
	size := uint64(len(target) + len(reply))
	if k.end%keptLog+size > keptLog {
		k.end += keptLog - k.end%keptLog
	}
	at := k.end % keptLog
	*p = place{begin: k.end, target: uint32(len(target)), reply: uint32(len(reply)), seq: r.Seq, until: 1<<63 - 1}
	if r.Validity == api.Timed {
		p.since, p.until = r.Since, r.Until
	}
	copy(k.log[at:], target)
	copy(k.log[at+uint64(len(target)):], reply)
	k.end += size
}

// forget is for when the state becomes another one.
func (k *kept) forget() { clear(k.places) }
