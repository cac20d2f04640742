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
	// bytes: below, writing one anew costs little more than copying it, and 500
	// members of the usual length have three quarters of the longest. The longest
	// target is twice what one with every parameter of lists takes.
	keptLists     = 64
	leastList     = 4 << 10
	longestList   = 512 << 10
	longestTarget = 256
)

// lists are long documents that were answered last, by their targets. An answer
// says by itself how long it is the answer: while the core stands at its
// position, and at a second for which it holds. So what is taken from here is
// what the core would write at that moment, and never old.
//
// Instances of the module keep answers, too, in wasm/host/answers.go, lists among
// them: where two share a place here, a copy from there takes a hundredth of the time
// in which the guest writes one. It displaces little there, for it is put there once
// for as long as it holds, and with a position everything that is kept ends.
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
	return len(target) <= longestTarget && (string(path) == "/api/leaderboard" || string(path) == "/api/ring" || string(path) == "/api/categories")
}

// serve answers from the core into r, or gives what it has answered. That is not
// the caller's to change, and stays as it is.
func (t *tenure) serve(target []byte, r *api.Response) *api.Response {
	if !isList(target) {
		t.core.Serve(target, r)
		return r
	}
	place := t.lists.place(target)
	if l := place.Load(); l != nil && bytes.Equal(l.target, target) && l.holds(t.core.Head()) {
		return &l.response
	}
	t.core.Serve(target, r)
	if r.Validity != api.Never && len(r.Body) >= leastList && len(r.Body) <= longestList {
		place.Store(newList(target, r))
	}
	return r
}

// place is where a list for this target is kept, one of several.
func (l *lists) place(target []byte) *atomic.Pointer[list] {
	place, _ := bits.Mul64(maphash.Bytes(l.seed, target), keptLists)
	return &l.kept[place]
}

// newList copies an answer, but for what the core keeps in it for itself.
func newList(target []byte, r *api.Response) *list {
	return &list{bytes.Clone(target), api.Response{
		Status: r.Status, Media: r.Media, Validity: r.Validity, Seq: r.Seq, Since: r.Since, Until: r.Until, Unknown: r.Unknown,
		Location: bytes.Clone(r.Location), Next: bytes.Clone(r.Next), Prev: bytes.Clone(r.Prev), Body: bytes.Clone(r.Body),
	}}
}

// holds says whether the core would give this answer at a position and a second.
func (l *list) holds(seq uint64, second int64) bool {
	a := &l.response
	return a.Seq == seq && (a.Validity == api.Position || a.Since <= second && second < a.Until)
}
