package api

import "webring/core"

// Media is the type of a body.
type Media uint8

// The bodies that [Serve] writes.
const (
	JSON    Media = iota // application/json
	Problem              // application/problem+json
	HTML                 // text/html; charset=utf-8, the small page of a redirect
)

// Validity says how long the same target gets the same answer.
type Validity uint8

const (
	// Never: the answer is a redirect, a random one, or an error, and clients must not
	// cache it.
	Never Validity = iota
	// Position: the answer depends on the ledger position alone.
	Position
	// Timed: the answer also shows standings, ranks or quotes, and is valid from
	// Response.Since until Response.Until.
	Timed
)

// Response is what [Serve] writes. The caller owns it and passes it again to
// reuse its buffers; slices in it are valid until then. They are not to be appended to:
// Location may lie within Body.
type Response struct {
	Status   int
	Media    Media
	Validity Validity
	Seq      uint64 // ledger position at which the answer was given
	Since    int64  // second of the last change a Timed answer shows, 0 if time changed nothing yet
	Until    int64  // first second at which a Timed answer may differ; the highest int64 if never
	Unknown  bool   // from named no member, and the answer went on without it
	Drawn    bool   // random had a part in it: the same target gets other answers
	From     uint32 // of a redirect, the row of the member that from names, plus 1; otherwise 0
	To       uint32 // of a redirect, the row of the member that it leads to, plus 1; otherwise 0
	Location []byte // target of a redirect, otherwise empty
	Next     []byte // address of the next page, or empty
	Prev     []byte // address of the previous page, or empty
	Body     []byte

	lean    bool           // what rest clears is clear
	texts   []byte         // of an answer that was decoded
	site    []byte         // a Location that does not lie in Body
	scratch []byte         // pieces of the target, decoded
	key     []byte         // for resolving from
	found   []core.Ordinal // of a page
	links   links
}

// BufferSize is the length in bytes of the longest buffer that r has for bodies. To free
// the buffers, set r to its zero value: texts of the last answer may lie in any of them.
func (r *Response) BufferSize() int { return max(cap(r.Body), cap(r.texts)) }

// begin begins an answer with an empty body. It does not set the fields that rest sets.
func (r *Response) begin(status int, m Media, v Validity) {
	// Field by field, here and below: that writes no pointers, which the collector would
	// have to track.
	r.Status, r.Media, r.Validity, r.Since, r.Until = status, m, v, 0, 0
	r.From, r.To = 0, 0
	r.Location, r.Body = r.Location[:0], r.Body[:0]
}

// rest clears the fields that begin does not set. Most answers leave them clear.
func (r *Response) rest() {
	r.Unknown, r.Drawn, r.Next, r.Prev, r.scratch = false, false, r.Next[:0], r.Prev[:0], r.scratch[:0]
}

// Texts says where the texts of a Response stand among bytes: Body comes first,
// Next and Prev last, and Location somewhere. Lengths and places are in bytes.
type Texts struct{ Body, LocationAt, Location, Next, Prev uint32 }

// Fit says whether there are such texts among so many bytes, and nothing else:
// Location is a part of Body, or follows it, and an empty one is at 0.
func (t *Texts) Fit(size int) bool {
	if t.Location == 0 && t.LocationAt != 0 {
		return false
	}
	length := uint64(t.Body) + uint64(t.Next) + uint64(t.Prev)
	if uint64(t.LocationAt)+uint64(t.Location) > uint64(t.Body) {
		length += uint64(t.Location)
		if t.LocationAt != t.Body {
			return false
		}
	}
	return length == uint64(size)
}

// Copy gives r copies of texts, which lie where at says and [Texts.Fit]. What else r
// has stays.
func (r *Response) Copy(texts []byte, at *Texts) {
	r.lean = false
	r.texts = append(r.texts[:0], texts...)
	prev := len(texts) - int(at.Prev)
	next := prev - int(at.Next)
	r.Body = r.texts[:at.Body:at.Body]
	r.Location = r.texts[at.LocationAt:][:at.Location:at.Location]
	r.Next, r.Prev = r.texts[next:prev:prev], r.texts[prev:]
}
