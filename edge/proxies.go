package edge

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/savsgio/gotils/strconv"
	"github.com/valyala/fasthttp"
	"golang.org/x/net/http/httpguts"
)

// Proxies are the peers whose word is taken for whom they forward and whether TLS was
// spoken with them. They name their client in one field, which they must set or
// extend themselves, and the scheme in X-Forwarded-Proto, or with the client where that
// field is Forwarded. Nothing else that a request says of proxies is believed: they may
// pass it on as a stranger wrote it. The zero value trusts nobody.
type Proxies struct {
	prefixes []netip.Prefix
	unix     bool
	named    string // set by [Proxies.NameClientsIn]
}

// The fields that list hops, the client first.
const (
	forwarded    = "Forwarded"
	forwardedFor = "X-Forwarded-For"
)

// NameClientsIn has trusted proxies name their client in another field than
// X-Forwarded-For: in Forwarded (RFC 7239), or in one that holds a single address, such
// as CF-Connecting-IP.
func (p *Proxies) NameClientsIn(field string) error {
	if !httpguts.ValidHeaderFieldName(field) {
		return fmt.Errorf("edge: %q is not the name of a header field", field)
	}
	p.named = http.CanonicalHeaderKey(field)
	return nil
}

// field is the name of the one in which trusted proxies name their client.
func (p *Proxies) field() string { return cmp.Or(p.named, forwardedFor) }

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

// tells says by which fields proxies tell for whom and how they forward: the usual
// ones, and the one that is chosen here. Names are in canonical spelling.
func (p *Proxies) tells(name string) bool {
	switch name {
	case forwarded, "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Forwarded-For", "X-Envoy-External-Address",
		"True-Client-Ip", "Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Cf-Visitor", "Fastly-Client-Ip", "Fly-Client-Ip", p.field():
		return true
	}
	return strings.HasPrefix(name, "X-Forwarded-")
}

// wasForwarded says whether a request shows any sign of a proxy.
func (p *Proxies) wasForwarded(h *fasthttp.RequestHeader) bool {
	for name := range h.All() {
		if p.tells(strconv.B2S(name)) {
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

// hop is one element of a list of hops: who handed the request on, and over which
// protocol.
type hop struct {
	addr  netip.Addr // not valid when it cannot be told
	proto []byte
}

// fields are those of a request: the lines of one by its canonical name, which
// hold until the next is asked for.
type fields interface{ PeekAll(name string) [][]byte }

// behind says who is behind a trusted peer that sent these lines of the field in which
// it names its client. Of a list that is the last hop which is not itself a trusted
// proxy: what stands further left may be anything that this client wrote.
//
// Without the field, the request is the proxy's own. Where the field cannot be read,
// all such clients of the proxy count as one: they take nothing from the proxy, nor from
// the clients that it names.
func (p *Proxies) behind(peer client, lines [][]byte) client {
	if len(lines) == 0 {
		peer.kind |= itself
		return peer
	}
	var addr netip.Addr
	switch p.field() {
	case forwarded:
		addr = p.lastForwarded(lines).addr
	case forwardedFor:
		addr = p.lastForwardedFor(lines)
	default:
		if len(lines) == 1 {
			addr = parseNode(lines[0])
		}
	}
	if !addr.IsValid() {
		return peer.unnamed()
	}
	c := clientOf(addr)
	if p.trusts(addr) { // one proxy behind another, such as a health check of the outer one
		c.kind |= itself
	}
	return c
}

// https says whether a trusted peer tells that TLS was spoken with its client, and by
// all proxies that say over what they were asked.
func (p *Proxies) https(h fields) bool {
	if p.field() == forwarded {
		return bytes.EqualFold(p.lastForwarded(h.PeekAll(forwarded)).proto, protoHTTPS)
	}
	said, https := false, true
	for _, line := range h.PeekAll("X-Forwarded-Proto") {
		for len(line) > 0 {
			var word []byte
			word, line, _ = bytes.Cut(line, comma)
			said, https = true, https && bytes.EqualFold(trim(word), protoHTTPS)
		}
	}
	return said && https
}

var (
	protoHTTPS = []byte("https")
	comma      = []byte(",")
)

// lastForwardedFor finds the last untrusted hop of X-Forwarded-For, from the
// right: the cost does not grow with what a stranger put on the left.
func (p *Proxies) lastForwardedFor(lines [][]byte) (addr netip.Addr) {
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
			if addr = parseNode(element); !addr.IsValid() || !p.trusts(addr) {
				return addr
			}
		}
	}
	return addr
}

// lastForwarded is the same for Forwarded, whose elements carry parameters.
// Values are tokens or quoted strings; backslashes, which no address needs,
// and unbalanced quotes make a line unreadable as a whole.
func (p *Proxies) lastForwarded(lines [][]byte) (h hop) {
	for i := len(lines) - 1; i >= 0; i-- {
		rest := lines[i]
		if bytes.IndexByte(rest, '\\') >= 0 || bytes.Count(rest, quote)%2 != 0 {
			return hop{}
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

// parseElement reads for and proto of a forwarded-element. One that stands
// twice makes the element say nothing.
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
	// Lent, not copied: the address does not keep it.
	addr, err := netip.ParseAddr(strconv.B2S(b))
	if err != nil {
		return netip.Addr{}
	}
	return plain(addr)
}

func trim(b []byte) []byte { return bytes.Trim(b, " \t") }
