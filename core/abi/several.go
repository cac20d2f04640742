package abi

import (
	"encoding/binary"
	"slices"

	"webring/core/api"
	"webring/core/flat"
)

// longestTarget is the longest target that OpServeAll takes, in bytes.
const longestTarget = 1<<16 - 1

// AppendTarget appends a target to the input of [OpServeAll]. Integers are
// little-endian:
//
//	target = length(u16) bytes
//
// It reports false, and appends nothing, when the target is too long.
func AppendTarget(dst, target []byte) ([]byte, bool) {
	if len(target) > longestTarget {
		return dst, false
	}
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(target)))
	return append(dst, target...), true
}

// DecodeResponses reads all of b, what [OpServeAll] answered, into as many responses as
// there were targets, as [DecodeResponse] does each. It reports false for anything else,
// and then the responses mean nothing.
//
//	responses = (length(u32) response)...
func DecodeResponses(b []byte, all []Response) bool {
	for i := range all {
		if len(b) < 4 {
			return false
		}
		length := uint64(binary.LittleEndian.Uint32(b))
		b = b[4:]
		if length > uint64(len(b)) || !DecodeResponse(b[:length], &all[i]) {
			return false
		}
		b = b[length:]
	}
	return len(b) == 0
}

// serveAll performs OpServeAll.
func (c *Core) serveAll(random uint64, in []byte) (why string) {
	if !c.settled {
		c.Advance(0)
		c.settled = true
	}
	for n := 0; len(in) > 0; n++ {
		if n == MaxTargets {
			return "abi: too many targets"
		}
		if len(in) < 2 {
			return "abi: a target is cut short"
		}
		length := int(binary.LittleEndian.Uint16(in))
		if in = in[2:]; length > len(in) {
			return "abi: a target is cut short"
		}
		api.Serve(c.state, in[:length], random, &c.each)
		in = in[length:]
		if c.reply = appendResponse(c.reply, &c.each); len(c.reply) > replyHeader+MaxAnswers {
			return "abi: the answers are too long"
		}
	}
	return ""
}

// appendResponse appends a response after its length.
func appendResponse(dst []byte, r *Response) []byte {
	at, within := flat.Within(r.Body, r.Location)
	texts := [...][]byte{r.Body, r.Location, r.Next, r.Prev}
	if within {
		texts[1] = nil
	} else {
		at = len(r.Body)
	}
	length := responseHeader
	for _, text := range texts {
		length += len(text)
	}
	dst = slices.Grow(dst, 4+length)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(length))
	putResponse(flat.Write(dst), r, at)
	dst = dst[:len(dst)+responseHeader]
	for _, text := range texts {
		dst = append(dst, text...)
	}
	return dst
}
