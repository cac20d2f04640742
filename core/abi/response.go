package abi

import (
	"encoding/binary"

	"webring/core/api"
)

// responseHead is the length of an encoded response without its four fields of
// bytes.
const responseHead = 2 + 3 + 8 + 8 + 4*4

// The flags of an encoded response.
const (
	flagUnknown = 1 << iota
	flagDrawn
)

// AppendResponse appends the encoding of r, integers little-endian:
//
//	response = status(u16) media(u8) validity(u8) flags(u8)
//	           since(i64) until(i64)
//	           location(u32) next(u32) prev(u32) body(u32), their lengths
//	           and then their bytes, in this order
//
// where flags are 1 for Unknown and 2 for Drawn. The position of an answer is
// not in it: it stands in the reply's head.
func AppendResponse(dst []byte, r *Response) []byte {
	n := len(dst)
	dst = append(dst, make([]byte, aheadOf(r))...)
	putAhead(dst[n:], r)
	return append(dst, r.Body...)
}

// aheadOf is the length of what stands ahead of the body.
func aheadOf(r *Response) int {
	return responseHead + len(r.Location) + len(r.Next) + len(r.Prev)
}

// putAhead writes it.
func putAhead(b []byte, r *Response) {
	head := b[:responseHead]
	binary.LittleEndian.PutUint16(head, uint16(r.Status))
	head[2], head[3], head[4] = byte(r.Media), byte(r.Validity), 0
	if r.Unknown {
		head[4] |= flagUnknown
	}
	if r.Drawn {
		head[4] |= flagDrawn
	}
	binary.LittleEndian.PutUint64(head[5:], uint64(r.Since))
	binary.LittleEndian.PutUint64(head[13:], uint64(r.Until))
	binary.LittleEndian.PutUint32(head[21:], uint32(len(r.Location)))
	binary.LittleEndian.PutUint32(head[25:], uint32(len(r.Next)))
	binary.LittleEndian.PutUint32(head[29:], uint32(len(r.Prev)))
	binary.LittleEndian.PutUint32(head[33:], uint32(len(r.Body)))
	b = b[copy(b[responseHead:], r.Location)+responseHead:]
	b = b[copy(b, r.Next):]
	copy(b, r.Prev)
}

// DecodeResponse reads all of b into r, whose buffers it reuses, and leaves
// r.Seq alone. It reports false, with r in pieces, for what
// [AppendResponse] does not write.
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
