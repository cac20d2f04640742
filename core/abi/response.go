package abi

import (
	"encoding/binary"

	"webring/core/api"
)

// responseHead is the length of an encoded response without its four fields of
// bytes.
const responseHead = 2 + 3 + 8 + 8 + 4*4

// AppendResponse appends the encoding of r, integers little-endian:
//
//	response = status(u16) media(u8) validity(u8) unknown(u8, 0 or 1)
//	           since(i64) until(i64)
//	           location(u32) next(u32) prev(u32) body(u32), their lengths
//	           and then their bytes, in this order
//
// The position of an answer is not in it: it stands in the reply's head.
func AppendResponse(dst []byte, r *Response) []byte {
	return append(appendAhead(dst, r), r.Body...)
}

// appendAhead appends what stands ahead of the body.
func appendAhead(dst []byte, r *Response) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, uint16(r.Status))
	unknown := byte(0)
	if r.Unknown {
		unknown = 1
	}
	dst = append(dst, byte(r.Media), byte(r.Validity), unknown)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.Since))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.Until))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(r.Location)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(r.Next)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(r.Prev)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(r.Body)))
	dst = append(dst, r.Location...)
	dst = append(dst, r.Next...)
	return append(dst, r.Prev...)
}

// DecodeResponse reads all of b into r, whose buffers it reuses, and leaves
// r.Seq alone. It reports false, with r in pieces, for what
// [AppendResponse] does not write.
func DecodeResponse(b []byte, r *Response) bool {
	if len(b) < responseHead || b[2] > byte(api.HTML) || b[3] > byte(api.Timed) || b[4] > 1 {
		return false
	}
	r.Status = int(binary.LittleEndian.Uint16(b))
	r.Media, r.Validity, r.Unknown = api.Media(b[2]), api.Validity(b[3]), b[4] == 1
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
	r.Seq, r.Since, r.Until, r.Unknown = seq, 0, 0, false
	r.Location, r.Next, r.Prev = r.Location[:0], r.Next[:0], r.Prev[:0]
	r.Body = api.AppendProblem(r.Body[:0], baseURL, api.Internal, "The document could not be made. Try again.", nil)
}
