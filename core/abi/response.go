package abi

import (
	"encoding/binary"

	"webring/core/api"
	"webring/core/flat"
)

// responseHead is the length of an encoded response without its four fields of
// bytes.
const responseHead = 2 + 3 + 8 + 8 + 4*4

// The flags of an encoded response.
const (
	flagUnknown = 1 << iota
	flagDrawn
)

// marks are the first five bytes of an encoded response.
func marks(r *Response) uint64 {
	flags := uint64(0)
	if r.Unknown {
		flags |= flagUnknown
	}
	if r.Drawn {
		flags |= flagDrawn
	}
	return uint64(uint16(r.Status)) | uint64(r.Media)<<16 | uint64(r.Validity)<<24 | flags<<32
}

// aheadOf is the length of what stands ahead of the body.
func aheadOf(r *Response) int {
	return responseHead + len(r.Location) + len(r.Next) + len(r.Prev)
}

// putAhead writes it as [DecodeResponse] says, but in words: WebAssembly would write
// numbers byte by byte, and calls for each copy.
func putAhead(w flat.Pen, r *Response) {
	w = w.Put(marks(r), 5).Put(uint64(r.Since), 8).Put(uint64(r.Until), 8)
	w = w.Put(uint64(uint32(len(r.Location)))|uint64(len(r.Next))<<32, 8)
	w = w.Put(uint64(uint32(len(r.Prev)))|uint64(len(r.Body))<<32, 8)
	if len(r.Location) > 0 {
		w = w.Copy(flat.View(r.Location)) // and no byte more: the body is there already
	}
	if len(r.Next)+len(r.Prev) > 0 {
		w.Copy(flat.View(r.Next)).Copy(flat.View(r.Prev))
	}
}

// DecodeResponse reads all of b into r, whose buffers it reuses, and leaves
// r.Seq alone: the position of an answer stands in the reply's head. It reports
// false, with r in pieces, for what is no response. Integers are little-endian:
//
//	response = status(u16) media(u8) validity(u8) flags(u8)
//	           since(i64) until(i64)
//	           location(u32) next(u32) prev(u32) body(u32), their lengths
//	           and then their bytes, in this order
//
// where flags are 1 for Unknown and 2 for Drawn.
func DecodeResponse(b []byte, r *Response) bool {
	if len(b) < responseHead || b[2] > byte(api.HTML) || b[3] > byte(api.Timed) || b[4] > flagUnknown|flagDrawn {
		return false
	}
	r.Status = int(binary.LittleEndian.Uint16(b))
	r.Media, r.Validity = api.Media(b[2]), api.Validity(b[3])
	r.Unknown, r.Drawn = b[4]&flagUnknown != 0, b[4]&flagDrawn != 0
	r.Since = int64(binary.LittleEndian.Uint64(b[5:]))
	r.Until = int64(binary.LittleEndian.Uint64(b[13:]))
	lengths, rest := b[21:responseHead], b[responseHead:]
	for _, part := range [...]*[]byte{&r.Location, &r.Next, &r.Prev, &r.Body} {
		n := binary.LittleEndian.Uint32(lengths)
		if uint64(n) > uint64(len(rest)) {
			return false
		}
		*part = append((*part)[:0], rest[:n]...)
		lengths, rest = lengths[4:], rest[n:]
	}
	return len(rest) == 0
}

// Fail makes r the problem internal: what a host answers when its core cannot.
// seq is the position that the host is at, baseURL what links begin with.
func Fail(seq uint64, baseURL string, r *Response) {
	r.Status, r.Media, r.Validity = api.Internal.Status(), api.Problem, api.Never
	r.Seq, r.Since, r.Until, r.Unknown, r.Drawn = seq, 0, 0, false, false
	r.Location, r.Next, r.Prev = r.Location[:0], r.Next[:0], r.Prev[:0]
	r.Body = api.AppendProblem(r.Body[:0], baseURL, api.Internal, "The document could not be made. Try again.", nil)
}
