package front

import (
	"bytes"
	"crypto/rand"
	"encoding/base32"
	"strconv"
	"strings"
	"sync"
)

// IDField is the header field of requests and answers, and TraceField the one of W3C Trace
// Context, in their canonical spelling.
const (
	IDField    = "X-Request-Id"
	TraceField = "Traceparent"
)

// The lengths of an id from X-Request-Id, in bytes.
const (
	minLength = 8
	maxLength = 64
)

// ValidID reports whether an X-Request-Id is taken as it is.
func ValidID(id []byte) bool {
	if len(id) < minLength || len(id) > maxLength {
		return false
	}
	for _, c := range id {
		if !isIDByte[c] {
			return false
		}
	}
	return true
}

var isIDByte = func() (is [256]bool) {
	for c := range is {
		is[c] = '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' && c < 0x80 || c == '.' || c == '_' || c == '-'
	}
	return is
}()

// TraceID gives the trace id of a traceparent, and nil where it is not valid: of version 00
// it has exactly four parts, of a later one these four at its beginning.
func TraceID(parent []byte) []byte {
	const version, trace, span, flags = 2, 35, 52, 55 // where each part ends
	switch {
	case len(parent) < flags || !isHex(parent[:version]) || string(parent[:version]) == "ff",
		len(parent) > flags && (string(parent[:version]) == "00" || parent[flags] != '-'),
		parent[version] != '-' || parent[trace] != '-' || parent[span] != '-',
		!isHex(parent[version+1:trace]) || !isHex(parent[trace+1:span]) || !isHex(parent[span+1:flags]),
		isZero(parent[version+1:trace]) || isZero(parent[trace+1:span]):
		return nil
	}
	return parent[version+1 : trace]
}

func isHex(b []byte) bool  { return len(bytes.TrimLeft(b, "0123456789abcdef")) == 0 }
func isZero(b []byte) bool { return len(bytes.TrimLeft(b, "0")) == 0 }

// GivenID gives what a client calls its request, by the lines of both fields, and nil where
// one has to be made. A field with two lines says nothing.
func GivenID(ids, traces [][]byte) []byte {
	if len(ids) == 1 && ValidID(ids[0]) {
		return ids[0]
	}
	if len(traces) == 1 {
		return TraceID(traces[0])
	}
	return nil
}

// IDMaker makes ids that no other maker makes, in this process or another: 60 random bits
// and a number. It is not safe for concurrent use. The zero value is ready.
type IDMaker struct {
	prefix string
	made   uint64
}

// Append appends a new id.
func (m *IDMaker) Append(dst []byte) []byte {
	if m.prefix == "" {
		var random [10]byte
		rand.Read(random[:]) // never fails
		m.prefix = strings.ToLower(base32.StdEncoding.EncodeToString(random[:]))[:12] + "-"
	}
	m.made++
	return strconv.AppendUint(append(dst, m.prefix...), m.made, 36)
}

var makers = sync.Pool{New: func() any { return new(IDMaker) }}

// AppendID appends a new id. It may be called concurrently.
func AppendID(dst []byte) []byte {
	m := makers.Get().(*IDMaker)
	dst = m.Append(dst)
	makers.Put(m)
	return dst
}
