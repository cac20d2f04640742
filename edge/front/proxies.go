package front

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/savsgio/gotils/strconv"
	"github.com/valyala/fasthttp"
	"golang.org/x/net/http/httpguts"
)

// Proxies are the trusted peers: those that are believed when they name the client of a
// request, and say whether that client used TLS. They name the client in one field, which
// they must set or extend themselves, and the scheme in X-Forwarded-Proto, or in Forwarded
// where that is the field. No other field about proxies is believed: a proxy may pass it on
// as a stranger wrote it. The zero value trusts no peer and cannot be replaced; copies of
// any other are replaced together. The functions but [Proxies.NameClientsIn] may be called
// concurrently.
type Proxies struct {
	trusted *atomic.Pointer[trusted]
	named   string // set by NameClientsIn
}

// trusted are the peers that are believed.
type trusted struct {
	prefixes []netip.Prefix
	unix     bool
}

// The fields that list hops, the client first.
const (
	forwarded    = "Forwarded"
	forwardedFor = "X-Forwarded-For"
)

// ParseProxies reads addresses, prefixes such as 10.0.0.0/8, and the word
// "unix", which stands for every peer without an address.
func ParseProxies(words []string) (Proxies, error) {
	var t trusted
	for _, w := range words {
		if w == "unix" {
			t.unix = true
			continue
		}
		prefix, err := netip.ParsePrefix(w)
		if err != nil {
			addr, err := netip.ParseAddr(w)
			if err != nil || addr.Zone() != "" {
				return Proxies{}, fmt.Errorf("front: trusted proxy %q is no address, prefix or \"unix\"", w)
			}
			addr = canonical(addr)
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		if a := prefix.Addr(); a.Is4In6() && prefix.Bits() >= 96 {
			prefix = netip.PrefixFrom(a.Unmap(), prefix.Bits()-96)
		}
		t.prefixes = append(t.prefixes, prefix.Masked())
	}
	p := Proxies{trusted: new(atomic.Pointer[trusted])}
	p.trusted.Store(&t)
	return p, nil
}

// Replace has the peers of other take the place of those that this and its copies trust,
// for connections that come from now on. Both are of [ParseProxies]. The field in which
// they name their client stays.
func (p *Proxies) Replace(other Proxies) { p.trusted.Store(other.trusted.Load()) }

// NameClientsIn has trusted proxies name their client in another field than
// X-Forwarded-For: in Forwarded (RFC 7239), or in one that holds a single address, such
// as CF-Connecting-IP.
func (p *Proxies) NameClientsIn(field string) error {
	if !httpguts.ValidHeaderFieldName(field) {
		return fmt.Errorf("front: %q is not the name of a header field", field)
	}
	p.named = http.CanonicalHeaderKey(field)
	return nil
}

// Field is the canonical name of the field in which trusted proxies name their client.
func (p *Proxies) Field() string { return cmp.Or(p.named, forwardedFor) }

// Trusts reports whether an address from [Peer] is a trusted proxy's.
func (p *Proxies) Trusts(a netip.Addr) bool {
	if p.trusted == nil {
		return false
	}
	t := p.trusted.Load()
	if !a.IsValid() {
		return t.unix
	}
	for i := range t.prefixes {
		if t.prefixes[i].Contains(a) {
			return true
		}
	}
	return false
}

// IsProxyField reports whether proxies name clients or schemes in a field: one of the usual
// fields, or the one that is chosen here. The name is canonical.
func (p *Proxies) IsProxyField(name string) bool {
	switch name {
	case forwarded, "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Forwarded-For", "X-Envoy-External-Address",
		"True-Client-Ip", "Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Cf-Visitor", "Fastly-Client-Ip", "Fly-Client-Ip", p.Field():
		return true
	}
	return strings.HasPrefix(name, "X-Forwarded-")
}

// Client gives the client of a request that was read whole.
func (p *Proxies) Client(ctx *fasthttp.RequestCtx) Client {
	peer := Peer(ctx.RemoteAddr())
	if !p.Trusts(peer) {
		return ClientOf(peer)
	}
	return p.Behind(ClientOf(peer), ctx.Request.Header.PeekAll(p.Field()))
}

// ClientOfUnread is Client for a request that could not be read to its end. Of a header
// that cannot be read fasthttp keeps nothing, so a missing field does not mean that the
// proxy asks on its own account.
func (p *Proxies) ClientOfUnread(ctx *fasthttp.RequestCtx) Client {
	peer := Peer(ctx.RemoteAddr())
	if p.Trusts(peer) && len(ctx.Request.Header.RawHeaders()) == 0 {
		return ClientOf(peer).asNameless()
	}
	return p.Client(ctx)
}

// Behind gives the client behind a trusted peer that sent these lines of [Proxies.Field].
// In a list, it is the last hop that is not itself a trusted proxy: the client may have
// written anything further left.
//
// Without the field, the request is the proxy's own. Where the field cannot be read, all
// such clients of the proxy are counted together, apart from the proxy and from the clients
// that it names.
func (p *Proxies) Behind(peer Client, lines [][]byte) Client {
	if len(lines) == 0 {
		return peer.asProxy()
	}
	var addr netip.Addr
	switch p.Field() {
	case forwarded:
		addr = p.lastHop(lines, true).addr
	case forwardedFor:
		addr = p.lastHop(lines, false).addr
	default:
		if len(lines) == 1 {
			addr = parseNode(lines[0])
		}
	}
	switch {
	case !addr.IsValid():
		return peer.asNameless()
	case p.Trusts(addr): // one proxy behind another, such as a health check of the outer one
		return ClientOf(addr).asProxy()
	}
	return ClientOf(addr)
}

// Secure reports whether a payment may be asked for and taken on this request: over TLS
// that ends here or at a trusted proxy that says so, or from this machine. A forwarded
// request from this machine is not secure: it may have come over any connection.
func (p *Proxies) Secure(ctx *fasthttp.RequestCtx) bool {
	peer := Peer(ctx.RemoteAddr())
	forwarded := p.wasForwarded(&ctx.Request.Header)
	switch {
	case p.Trusts(peer) && forwarded:
		return p.https(&ctx.Request.Header)
	case ctx.IsTLS():
		return true
	case p.Trusts(peer):
		return false
	}
	return !forwarded && (peer.IsLoopback() || !peer.IsValid())
}

// wasForwarded reports whether a request shows any sign of a proxy.
func (p *Proxies) wasForwarded(h *fasthttp.RequestHeader) bool {
	for name := range h.All() {
		if p.IsProxyField(strconv.B2S(name)) {
			return true
		}
	}
	return false
}

// https reports whether a trusted peer says that TLS was spoken with its client. With
// X-Forwarded-Proto, every proxy that says anything must say so.
func (p *Proxies) https(h *fasthttp.RequestHeader) bool {
	if p.Field() == forwarded {
		return bytes.EqualFold(p.lastHop(h.PeekAll(forwarded), true).proto, protoHTTPS)
	}
	said, https := false, true
	for _, line := range h.PeekAll("X-Forwarded-Proto") {
		for len(line) > 0 {
			var word []byte
			word, line, _ = bytes.Cut(line, []byte(","))
			said, https = true, https && bytes.EqualFold(trim(word), protoHTTPS)
		}
	}
	return said && https
}

var protoHTTPS = []byte("https")

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
