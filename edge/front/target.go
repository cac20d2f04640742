package front

import (
	"bytes"
	"encoding/binary"

	"github.com/valyala/fasthttp"
)

// Target gives the target of a request in origin form, path and query as they were
// sent, also when it was sent in absolute form (RFC 9112, 3.2). It is not ok
// when it is in no form that GET has, or has a fragment. "*" is the target of
// OPTIONS alone.
func Target(h *fasthttp.RequestHeader) (target []byte, ok bool) {
	target = h.RequestURI()
	if bytes.IndexByte(target, '#') >= 0 {
		return target, false
	}
	if target[0] == '/' {
		return target, true
	}
	if h.IsOptions() && string(target) == "*" {
		return target, true
	}
	scheme, rest, found := bytes.Cut(target, []byte("://"))
	if !found || !bytes.EqualFold(scheme, []byte("http")) && !bytes.EqualFold(scheme, []byte("https")) {
		return target, false
	}
	at := bytes.IndexAny(rest, "/?")
	switch {
	case at < 0:
		return []byte("/"), len(rest) > 0
	case rest[at] == '?':
		return append([]byte("/"), rest[at:]...), at > 0
	}
	return rest[at:], at > 0
}

// Path is a target without its query.
func Path(target []byte) []byte {
	path, _, _ := bytes.Cut(target, []byte("?"))
	return path
}

// Parameter gives the value of the first parameter with this name in a query, as it was
// sent.
func Parameter(query []byte, name string) []byte {
	for len(query) > 0 {
		var one []byte
		one, query, _ = bytes.Cut(query, []byte("&"))
		if key, value, _ := bytes.Cut(one, []byte("=")); string(key) == name {
			return value
		}
	}
	return nil
}

// EscapesSlash reports whether a slash is escaped in a path. It separates no segments
// (RFC 3986, 2.2), and no path has a segment with one.
func EscapesSlash(path []byte) bool {
	return bytes.Contains(path, []byte("%2F")) || bytes.Contains(path, []byte("%2f"))
}

// DecodePath resolves the percent escapes of a path, as the core does. Broken ones
// stay: no path has them.
func DecodePath(path []byte) []byte {
	if bytes.IndexByte(path, '%') < 0 {
		return path
	}
	return fasthttp.AppendUnquotedArg(nil, bytes.ReplaceAll(path, []byte("+"), []byte("%2B")))
}

// AppendEscaped appends parts of a target as they were sent, but for bytes that no header
// field takes: these are escaped.
func AppendEscaped(dst []byte, parts ...[]byte) []byte {
	const hex = "0123456789ABCDEF"
	for _, part := range parts {
		for _, c := range part {
			if c <= ' ' || c > '~' {
				dst = append(dst, '%', hex[c>>4], hex[c&15])
			} else {
				dst = append(dst, c)
			}
		}
	}
	return dst
}

// IsPrintable reports whether b has no bytes but those from space to tilde, as targets
// and header fields have. It looks at eight at a time.
func IsPrintable(b []byte) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; len(b) >= 8; b = b[8:] {
		x := binary.LittleEndian.Uint64(b)
		// In a byte below 0x80: less than a space borrows from its top bit, and
		// a delete is carried into it.
		if (x|(x-0x20*ones)|(x+ones))&tops != 0 {
			return false
		}
	}
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}
