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
	// Never: the answer is one of several, or an error, and must not be kept.
	Never Validity = iota
	// Position: the answer depends on the ledger position alone.
	Position
	// Timed: the answer also shows standings, ranks or quotes, and holds from
	// Response.Since until Response.Until.
	Timed
)

// Response is what [Serve] writes. The caller owns it and passes it again to
// reuse its buffers; slices in it hold until then.
type Response struct {
	Status   int
	Media    Media
	Validity Validity
	Seq      uint64 // ledger position at which the answer was given
	Since    int64  // second of the last change a Timed answer shows, 0 if time changed nothing yet
	Until    int64  // first second at which a Timed answer may differ; the highest int64 if never
	Unknown  bool   // from named no member, and the answer went on without it
	Drawn    bool   // random had a part in it: the same target gets other answers
	Location []byte // target of a redirect, otherwise empty
	Next     []byte // address of the next page, or empty
	Prev     []byte // address of the previous page, or empty
	Body     []byte

	scratch []byte         // pieces of the target, decoded
	key     []byte         // for resolving from
	found   []core.Ordinal // of a page
	links   links
}

// reset empties r for a new answer and keeps its buffers.
func (r *Response) reset() {
	// Field by field, which writes no pointer anew.
	r.Status, r.Media, r.Validity, r.Since, r.Until, r.Unknown, r.Drawn = 0, JSON, Never, 0, 0, false, false
	r.Location, r.Next, r.Prev, r.Body, r.scratch = r.Location[:0], r.Next[:0], r.Prev[:0], r.Body[:0], r.scratch[:0]
}
