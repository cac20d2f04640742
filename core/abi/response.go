package abi

import (
	"encoding/binary"

	"webring/core/api"
	"webring/core/flat"
)

// responseHeader is the length of an encoded response without its texts.
const responseHeader = 4 + 8 + 8 + 8 + 6*4

// The flags of an encoded response.
const (
	flagUnknown = 1 << iota
	flagDrawn
)

// putResponse writes the header of a response with Location at that place of its texts. It
// writes whole words, since WebAssembly would write smaller numbers byte by byte. The last
// word ends where the texts begin, which are there already.
func putResponse(w flat.Pen, r *Response, at int) {
	flags := uint64(0)
	if r.Unknown {
		flags |= flagUnknown
	}
	if r.Drawn {
		flags |= flagDrawn
	}
	w = w.Put(uint64(uint16(r.Status))|uint64(r.Media)<<16|uint64(r.Validity)<<24, 4)
	w = w.Put(uint64(r.Since), 8).Put(uint64(r.Until), 8)
	w = w.Put(uint64(r.From)|uint64(r.To)<<32, 8)
	w = w.Put(uint64(uint32(len(r.Body)))|uint64(at)<<32, 8)
	w = w.Put(uint64(uint32(len(r.Location)))|uint64(len(r.Next))<<32, 8)
	w.Put(uint64(uint32(len(r.Prev)))|flags<<32, 8)
}

// DecodeResponse reads all of b into r and reuses the buffers of r. It does not set r.Seq:
// the position of an answer is in the reply's header. It reports false for anything but a
// response, and then r means nothing. Integers are little-endian:
//
//	response = status(u16) media(u8) validity(u8) since(i64) until(i64) from(u32) to(u32)
//	           body(u32) at(u32) location(u32) next(u32) prev(u32) flags(u32)
//	           and then the texts
//
// where flags are 1 for Unknown and 2 for Drawn. The texts are the body, then the location
// unless it is a part of the body, then next and prev. The header gives the length of each,
// and in at where the location begins among the texts, 0 if it is empty.
func DecodeResponse(b []byte, r *Response) bool {
	if len(b) < responseHeader || b[2] > byte(api.HTML) || b[3] > byte(api.Timed) {
		return false
	}
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	at, flags := api.Texts{Body: u32(28), LocationAt: u32(32), Location: u32(36), Next: u32(40), Prev: u32(44)}, u32(48)
	texts := b[responseHeader:]
	if flags > flagUnknown|flagDrawn || !at.Fit(len(texts)) {
		return false
	}
	r.Status = int(binary.LittleEndian.Uint16(b))
	r.Media, r.Validity = api.Media(b[2]), api.Validity(b[3])
	r.Unknown, r.Drawn = flags&flagUnknown != 0, flags&flagDrawn != 0
	r.Since = int64(binary.LittleEndian.Uint64(b[4:]))
	r.Until = int64(binary.LittleEndian.Uint64(b[12:]))
	r.From, r.To = u32(20), u32(24)
	r.Copy(texts, &at)
	return true
}

// Fail makes r the problem internal: what a host answers when its core cannot.
// seq is the position that the host is at, baseURL what links begin with.
func Fail(seq uint64, baseURL string, r *Response) {
	r.Status, r.Media, r.Validity = api.Internal.Status(), api.Problem, api.Never
	r.Seq, r.Since, r.Until, r.Unknown, r.Drawn = seq, 0, 0, false, false
	r.From, r.To = 0, 0
	r.Location, r.Next, r.Prev = r.Location[:0], r.Next[:0], r.Prev[:0]
	r.Body = api.AppendProblem(r.Body[:0], baseURL, api.Internal, "The document could not be made. Try again.", nil)
}
