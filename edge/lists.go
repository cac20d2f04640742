package edge

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"sync/atomic"

	"webring/core/api"
)

const (
	// keptLists is how many lists a tenure keeps, and the bounds their length, in
	// bytes: below, writing one anew costs little more than copying it.
	keptLists    = 64
	leastList    = 4 << 10
	longestList  = 256 << 10
	longestQuery = 256
)

// lists are long documents that were answered last, by their targets. An answer
// says by itself how long it is the answer: while the core stands at its
// position, and at a second for which it holds. So what is taken from here is
// what the core would write at that moment, and never old.
type lists struct {
	seed maphash.Seed
	kept [keptLists]atomic.Pointer[list]
}

// list is one of them. It is replaced, never changed.
type list struct {
	target   []byte
	response api.Response
}

// isList says whether the document at a target may be a long one.
func isList(target []byte) bool {
	path := pathOf(target)
	return len(target) <= longestQuery && (string(path) == "/api/leaderboard" || string(path) == "/api/ring" || string(path) == "/api/categories")
}

// serve answers from the core, or from what it has answered.
func (t *tenure) serve(target []byte, r *api.Response) {
	if !isList(target) {
		t.core.Serve(target, r)
		return
	}
	hash, _ := bits.Mul64(maphash.Bytes(t.lists.seed, target), keptLists)
	place := &t.lists.kept[hash]
	if l := place.Load(); l != nil && bytes.Equal(l.target, target) && l.holds(t.core.Head()) {
		l.copyTo(r)
		return
	}
	t.core.Serve(target, r)
	if r.Validity != api.Never && len(r.Body) >= leastList && len(r.Body) <= longestList {
		l := &list{target: bytes.Clone(target)}
		(&list{response: *r}).copyTo(&l.response)
		place.Store(l)
	}
}

// holds says whether the core would give this answer at a position and a second.
func (l *list) holds(seq uint64, second int64) bool {
	a := &l.response
	return a.Seq == seq && (a.Validity == api.Position || a.Since <= second && second < a.Until)
}

// copyTo makes r this answer, in r's own buffers.
func (l *list) copyTo(r *api.Response) {
	a := &l.response
	r.Status, r.Media, r.Validity = a.Status, a.Media, a.Validity
	r.Seq, r.Since, r.Until, r.Unknown = a.Seq, a.Since, a.Until, a.Unknown
	r.Location = append(r.Location[:0], a.Location...)
	r.Next = append(r.Next[:0], a.Next...)
	r.Prev = append(r.Prev[:0], a.Prev...)
	r.Body = append(r.Body[:0], a.Body...)
}
