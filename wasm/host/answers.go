package host

import (
	"bytes"
	"hash/maphash"
	"slices"

	"webring/core/abi"
)

// answers are those that an instance gave to targets it had been asked before.
// Members' pages and the first page of the leaderboard ask the same again and
// again; between two events, and for timed documents between two seconds at which
// they change, the answer is the same bytes, and the guest is asked for it once.
//
// None is ever stale. One counts at the position at which it was given, however
// the instance came there, and if it is timed, for the seconds for which it says
// that it holds: so nothing is to be done when records are applied and when the
// clock goes forwards or back. An instance begins with none when it takes over an
// image, so they end with those that trap or are replaced. What chance had a part
// in is not kept.
//
// They lie here and not in the guest, which a call into costs more than many an
// answer, and for each instance by itself, so that nothing is locked. The memory
// is bounded: a log that begins anew at its end, and a few places for each of some
// hashes of targets, of which a new one takes the oldest. All of it is had before the
// instance answers: what the system first gives a page for when it is written takes
// milliseconds by the megabyte, and a request would wait for them.
// What is asked for once is not kept, but for one in some thousands that is taken for
// another, so that a walk through the whole ring displaces hardly any.
type answers struct {
	seed   maphash.Seed // secret: nobody can choose targets that displace others
	sets   []answerSet
	places [][4]answer // of the sets
	log    []byte
	end    uint64 // of what was ever written to the log
}

// answerSet says whose places are those for targets whose hashes end alike, by
// other parts of these hashes. The places stand elsewhere: so what is looked through
// for targets that are not kept is little, and stays in the processor's cache.
type answerSet struct {
	kept  [4]uint16
	asked [8]uint16 // the last that were asked for once
}

// answer says where in the log a target and its response, as the guest encoded it,
// stand one after the other, and when they count.
type answer struct {
	begin        uint64 // as if the log never began anew
	seq          uint64
	since, until int64
	response     uint32 // length
	target       uint8
	validity     abi.Validity
}

// With these, an instance keeps the answers for the pages of some thousand members,
// in 10 MiB.
const (
	answerSets = 1 << 12
	logSize    = 8 << 20 // an answer lies in one piece
	// longestTarget and longestAnswer are what is kept at most, in bytes.
	longestTarget = 128
	longestAnswer = 256 << 10
)

// nowhere is no place.
const nowhere = -1

// newAnswers gives room for the answers of an instance.
func newAnswers() *answers {
	k := &answers{seed: maphash.MakeSeed(), sets: make([]answerSet, answerSets), places: make([][4]answer, answerSets), log: make([]byte, logSize)}
	// What was made may be pages that nobody has yet; these are written.
	clear(k.sets)
	clear(k.places)
	clear(k.log)
	return k
}

// find writes into r the answer to a target, if there is one that counts at seq
// and second. Otherwise it gives the target's hash and the place for its answer, of those
// in its set, or nowhere when that is not to be kept: as always where k is nil.
func (k *answers) find(target []byte, seq uint64, second int64, r *Response) (found bool, hash uint64, place int) {
	if k == nil || len(target) > longestTarget {
		return false, 0, nowhere
	}
	hash = maphash.Bytes(k.seed, target)
	set := &k.sets[hash%answerSets]
	for set.kept[place] != uint16(hash>>48) {
		if place++; place == len(set.kept) {
			return false, hash, k.first(hash)
		}
	}
	at := &k.places[hash%answerSets][place]
	if at.seq != seq || at.validity == abi.Timed && (second < at.since || second >= at.until) || k.end-at.begin > logSize {
		return false, hash, place
	}
	lies := k.log[at.begin%logSize:]
	if !bytes.Equal(lies[:at.target], target) {
		return false, hash, place
	}
	r.Seq = seq
	return abi.DecodeResponse(lies[at.target:][:at.response], r), hash, place
}

// first gives the oldest place of its set to a target that was asked for before,
// and remembers that it now was.
func (k *answers) first(hash uint64) (place int) {
	set, places := &k.sets[hash%answerSets], &k.places[hash%answerSets]
	if part := uint16(hash >> 32); !slices.Contains(set.asked[:], part) {
		copy(set.asked[1:], set.asked[:])
		set.asked[0] = part
		return nowhere
	}
	for i := range places {
		if places[i].begin < places[place].begin {
			place = i
		}
	}
	return place
}

// keep puts a copy of an answer, of which r was decoded, into the place that find
// gave, unless it is long or chance had a part in it.
func (k *answers) keep(target []byte, hash uint64, place int, encoded []byte, r *Response) {
	if place == nowhere || r.Drawn || len(encoded) > longestAnswer {
		return
	}
	size := len(target) + len(encoded)
	if k.end%logSize+uint64(size) > logSize {
		k.end += logSize - k.end%logSize
	}
	k.sets[hash%answerSets].kept[place] = uint16(hash >> 48)
	k.places[hash%answerSets][place] = answer{begin: k.end, seq: r.Seq, since: r.Since, until: r.Until,
		response: uint32(len(encoded)), target: uint8(len(target)), validity: r.Validity}
	to := k.log[k.end%logSize:]
	copy(to[copy(to, target):], encoded)
	k.end += uint64(size)
}
