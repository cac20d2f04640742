package edge

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/savsgio/gotils/strconv"
	"github.com/valyala/fasthttp"
)

// Proxies are the peers whose word is taken for whom they forward and whether
// TLS was spoken with them. They must replace or extend the forwarding fields
// of those who call them. The zero value trusts nobody.
type Proxies struct {
	prefixes []netip.Prefix
	unix     bool
}

// ParseProxies reads addresses, prefixes such as 10.0.0.0/8, and the word
// "unix", which stands for every peer without an address.
func ParseProxies(words []string) (Proxies, error) {
	var p Proxies
	for _, w := range words {
		if w == "unix" {
			p.unix = true
			continue
		}
		prefix, err := netip.ParsePrefix(w)
		if err != nil {
			addr, err := netip.ParseAddr(w)
			if err != nil || addr.Zone() != "" {
				return Proxies{}, fmt.Errorf("edge: trusted proxy %q is no address, prefix or \"unix\"", w)
			}
			addr = plain(addr)
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		if a := prefix.Addr(); a.Is4In6() && prefix.Bits() >= 96 {
			prefix = netip.PrefixFrom(a.Unmap(), prefix.Bits()-96)
		}
		p.prefixes = append(p.prefixes, prefix.Masked())
	}
	return p, nil
}

func (p *Proxies) trusts(a netip.Addr) bool {
	if !a.IsValid() {
		return p.unix
	}
	for i := range p.prefixes {
		if p.prefixes[i].Contains(a) {
			return true
		}
	}
	return false
}

// wasForwarded says whether a request shows any sign of a proxy.
func wasForwarded(h *fasthttp.RequestHeader) bool {
	for _, name := range [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if h.Peek(name) != nil {
			return true
		}
	}
	return false
}

// sender is who sent a request and how, as trusted proxies or an edge say.
type sender struct {
	client client
	https  bool
}

// hop is one element of a forwarding field: who handed the request on, and
// over which protocol.
type hop struct {
	addr  netip.Addr // not valid when it cannot be told
	proto []byte
	seen  bool // false when the field is not there
}

// fields are those of a request: the lines of one by its canonical name, which
// hold until the next is asked for.
type fields interface{ PeekAll(name string) [][]byte }

// forwarded reads what the trusted peer says of the request. The client is the
// last hop that is not itself a trusted proxy: what stands further left may be
// anything that this client wrote.
//
// A proxy sets Forwarded (RFC 7239) or the X-Forwarded fields and may pass the
// others on as a stranger sent them, so where they contradict each other
// neither is believed. A client that cannot be told is counted with its proxy.
func (p *Proxies) forwarded(h fields, peer client) sender {
	from := sender{client: peer}
	f := p.lastForwarded(h.PeekAll("Forwarded"))
	x := p.lastForwardedFor(h.PeekAll("X-Forwarded-For"))
	if f.seen && x.seen && (!f.addr.IsValid() || !x.addr.IsValid() || clientOf(f.addr) != clientOf(x.addr)) {
		return from
	}
	if f.addr.IsValid() {
		from.client = clientOf(f.addr)
	} else if x.addr.IsValid() {
		from.client = clientOf(x.addr)
	}
	said, https := false, true
	if f.proto != nil {
		said, https = true, bytes.EqualFold(f.proto, protoHTTPS)
	}
	for _, line := range h.PeekAll("X-Forwarded-Proto") {
		for len(line) > 0 {
			var word []byte
			word, line, _ = bytes.Cut(line, comma)
			said, https = true, https && bytes.EqualFold(trim(word), protoHTTPS)
		}
	}
	from.https = said && https
	return from
}

var (
	protoHTTPS = []byte("https")
	comma      = []byte(",")
)

// lastForwardedFor finds the last untrusted hop of X-Forwarded-For, from the
// right: the cost does not grow with what a stranger put on the left.
func (p *Proxies) lastForwardedFor(lines [][]byte) (h hop) {
	h.seen = len(lines) > 0
	for i := len(lines) - 1; i >= 0; i-- {
		for rest := lines[i]; len(rest) > 0; {
			var element []byte
			if at := bytes.LastIndexByte(rest, ','); at >= 0 {
				rest, element = rest[:at], rest[at+1:]
			} else {
				rest, element = nil, rest
			}
			if element = trim(element); len(element) == 0 {
				continue
			}
			if h.addr = parseNode(element); !h.addr.IsValid() || !p.trusts(h.addr) {
				return h
			}
		}
	}
	return h
}

// lastForwarded is the same for Forwarded, whose elements carry parameters.
// Values are tokens or quoted strings; backslashes, which no address needs,
// and unbalanced quotes make a line unreadable as a whole.
func (p *Proxies) lastForwarded(lines [][]byte) (h hop) {
	h.seen = len(lines) > 0
	for i := len(lines) - 1; i >= 0; i-- {
		rest := lines[i]
		if bytes.IndexByte(rest, '\\') >= 0 || bytes.Count(rest, quote)%2 != 0 {
			return unreadable
		}
		for len(rest) > 0 {
			at := lastOutside(rest, ',')
			element := trim(rest[at+1:])
			rest = rest[:max(at, 0)]
			if len(element) == 0 {
				continue
			}
			if h = parseElement(element); !h.addr.IsValid() || !p.trusts(h.addr) {
				return h
			}
		}
	}
	return h
}

var (
	quote = []byte(`"`)
	// unreadable names nobody, and a protocol that is none.
	unreadable = hop{seen: true, proto: []byte{}}
)

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

// parseElement reads for and proto of a forwarded-element. One that stands
// twice makes the element say nothing.
func parseElement(b []byte) hop {
	h := hop{seen: true}
	node := []byte(nil)
	for len(b) > 0 {
		at := lastOutside(b, ';')
		name, value, _ := bytes.Cut(trim(b[at+1:]), []byte("="))
		b = b[:max(at, 0)]
		value = bytes.Trim(value, `"`)
		switch {
		case bytes.EqualFold(name, []byte("for")):
			if node != nil {
				return unreadable
			}
			node = value
		case bytes.EqualFold(name, []byte("proto")):
			if h.proto != nil {
				return unreadable
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
	// Lent, not copied: the address does not keep it.
	addr, err := netip.ParseAddr(strconv.B2S(b))
	if err != nil {
		return netip.Addr{}
	}
	return plain(addr)
}

func trim(b []byte) []byte { return bytes.Trim(b, " \t") }
