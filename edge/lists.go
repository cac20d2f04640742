package edge

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"

	"webring/core/api"
	"webring/edge/uri"
)

const (
	// keptLists is how many lists a tenure keeps, and the bounds their length, in
	// bytes: below, writing one anew costs little more than copying it, and 500
	// members who say as much of themselves as they may are not above. The longest
	// target is twice what one with every parameter of lists takes.
	keptLists     = 64
	leastList     = 4 << 10
	longestList   = 2 << 20
	longestTarget = 256
	// leastCoded is the shortest list that is compressed, and then kept: a shorter one
	// is sent in one packet as it is.
	leastCoded = 1 << 10
	// maxListBytes is how much all of them take, in all their forms.
	maxListBytes = 32 << 20
)

// lists are long documents that were answered last, by their targets. An answer
// says by itself how long it is the answer: while the core stands at its
// position, and at a second for which it holds. So what is taken from here is
// what the core would write at that moment, and never old. Each is compressed when
// it is first asked for so; how it is sent is no cost to those who did not ask.
//
// The other documents of the core are of one to three members: they fit into one
// packet or two, and there are as many of them as members, so compressing them would
// cost more than it saves.
//
// Instances of the module keep answers, too, in wasm/host/answers.go, lists among
// them: where two share a place here, a copy from there takes a hundredth of the time
// in which the guest writes one. It displaces little there, for it is put there once
// for as long as it holds, and with a position everything that is kept ends.
type lists struct {
	seed maphash.Seed
	kept [keptLists]atomic.Pointer[list]

	mu    sync.Mutex // while kept changes, or the size of a list in it
	bytes int        // of all that are kept
}

// list is one of them. What is answered with it stays as it is.
type list struct {
	target   []byte
	response api.Response
	forms    forms
	size     int // bytes, under the mutex of lists
}

// isList says whether the document at a target may be a long one.
func isList(target []byte) bool {
	if len(target) > longestTarget {
		return false
	}
	switch path := uri.Path(target); string(path) {
	case "/api/leaderboard", "/api/ring", "/api/categories", "/api":
		return true
	}
	return false
}

// serve answers from the core into r, or gives what it has answered, and the body in
// the form that h asks for. What is not r is not the caller's to change, and stays as
// it is.
func (t *tenure) serve(target []byte, h fields, r *api.Response) (*api.Response, form) {
	if !isList(target) {
		t.ask(target, r)
		return r, form{body: r.Body}
	}
	at := t.lists.place(target)
	l := t.lists.kept[at].Load()
	if l == nil || !bytes.Equal(l.target, target) || !l.holds(t.core.Head()) {
		t.ask(target, r)
		if r.Validity == api.Never || len(r.Body) > longestList || len(r.Body) < leastCoded {
			return r, form{body: r.Body}
		}
		if len(r.Body) < leastList && !asksCoding(h) {
			return r, form{body: r.Body, varies: true}
		}
		l = newList(target, r)
		t.lists.keep(at, l)
	}
	f, made := l.forms.pick(&passingCodings, l.response.Body, h)
	if made > 0 {
		t.lists.grow(at, l, made)
	}
	return &l.response, f
}

// place is where a list for this target is kept, one of several.
func (l *lists) place(target []byte) int {
	place, _ := bits.Mul64(maphash.Bytes(l.seed, target), keptLists)
	return int(place)
}

// keep puts a list in its place.
func (l *lists) keep(at int, one *list) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.kept[at].Swap(one); before != nil {
		l.bytes -= before.size
	}
	l.bytes += one.size
	l.bound(at)
}

// grow counts a form that was added to a list, unless that is kept no more.
func (l *lists) grow(at int, one *list, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept[at].Load() == one {
		one.size += bytes
		l.bytes += bytes
		l.bound(at)
	}
}

// bound lets lists go, but for the one at a place, while all of them are too much.
func (l *lists) bound(but int) {
	for at := range l.kept {
		if l.bytes <= maxListBytes {
			return
		}
		if at != but {
			if gone := l.kept[at].Swap(nil); gone != nil {
				l.bytes -= gone.size
			}
		}
	}
}

// newList copies an answer, but for what the core keeps in it for itself.
func newList(target []byte, r *api.Response) *list {
	return &list{target: bytes.Clone(target), size: len(target) + len(r.Location) + len(r.Next) + len(r.Prev) + len(r.Body), response: api.Response{
		Status: r.Status, Media: r.Media, Validity: r.Validity, Seq: r.Seq, Since: r.Since, Until: r.Until, Unknown: r.Unknown,
		Location: bytes.Clone(r.Location), Next: bytes.Clone(r.Next), Prev: bytes.Clone(r.Prev), Body: bytes.Clone(r.Body),
	}}
}

// holds says whether the core would give this answer at a position and a second.
func (l *list) holds(seq uint64, second int64) bool {
	a := &l.response
	return a.Seq == seq && (a.Validity == api.Position || a.Since <= second && second < a.Until)
}
