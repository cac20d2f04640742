package front

import (
	"bytes"
	"net/netip"

	"github.com/savsgio/gotils/strconv"
)

// hop is one element of Forwarded: the address that sent the request on, and by which
// protocol.
type hop struct {
	addr  netip.Addr // not valid when it cannot be told
	proto []byte
}

// lastHop finds the last untrusted hop of X-Forwarded-For or, with parameters, of Forwarded.
// It reads from the right: the cost does not grow with what a stranger put on the left.
//
// In Forwarded, values are tokens or quoted strings. A line with a backslash, which no address
// needs, or with unbalanced quotes is unreadable as a whole.
func (p *Proxies) lastHop(lines [][]byte, parameters bool) (h hop) {
	for i := len(lines) - 1; i >= 0; i-- {
		rest := lines[i]
		if parameters && (bytes.IndexByte(rest, '\\') >= 0 || bytes.Count(rest, quote)%2 != 0) {
			return hop{}
		}
		for len(rest) > 0 {
			at := lastOutside(rest, ',')
			element := trim(rest[at+1:])
			rest = rest[:max(at, 0)]
			if len(element) == 0 {
				continue
			}
			if h = (hop{}); parameters {
				h = parseElement(element)
			} else {
				h.addr = parseNode(element)
			}
			if !h.addr.IsValid() || !p.Trusts(h.addr) {
				return h
			}
		}
	}
	return h
}

var quote = []byte(`"`)

// lastOutside finds the last sep outside quotes, -1 if there is none.
func lastOutside(b []byte, sep byte) int {
	quoted := false
	for i := len(b) - 1; i >= 0; i-- {
		switch {
		case b[i] == '"':
			quoted = !quoted
		case b[i] == sep && !quoted:
			return i
		}
	}
	return -1
}

// parseElement reads for and proto of a forwarded-element. An element with either of
// them twice says nothing.
func parseElement(b []byte) (h hop) {
	var node []byte
	for len(b) > 0 {
		at := lastOutside(b, ';')
		name, value, _ := bytes.Cut(trim(b[at+1:]), []byte("="))
		b = b[:max(at, 0)]
		value = bytes.Trim(value, `"`)
		switch {
		case bytes.EqualFold(name, []byte("for")):
			if node != nil {
				return hop{}
			}
			node = value
		case bytes.EqualFold(name, []byte("proto")):
			if h.proto != nil {
				return hop{}
			}
			h.proto = value
		}
	}
	h.addr = parseNode(node)
	return h
}

// parseNode reads an address with or without brackets and port. Anything else,
// such as "unknown" or an obfuscated name, is no valid Addr.
func parseNode(b []byte) netip.Addr {
	const longest = len("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:65535")
	if len(b) == 0 || len(b) > longest {
		return netip.Addr{}
	}
	if b[0] == '[' {
		end := bytes.IndexByte(b, ']')
		if end < 0 || end+1 < len(b) && b[end+1] != ':' {
			return netip.Addr{}
		}
		b = b[1:end]
	} else if host, _, ok := bytes.Cut(b, []byte(":")); ok && bytes.Count(b, []byte(":")) == 1 {
		b = host
	}
	// Not copied: the address does not keep the text.
	addr, err := netip.ParseAddr(strconv.B2S(b))
	if err != nil {
		return netip.Addr{}
	}
	return canonical(addr)
}

func trim(b []byte) []byte { return bytes.Trim(b, " \t") }
