package edge

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/valyala/fasthttp"
)

// client is who is counted: an IPv4 address, an IPv6 /64, which is the least
// that one subscriber gets, or all peers without an address together. A trusted proxy
// stands for two more: itself, and all clients that it does not name.
type client struct {
	net  uint64 // the address, or the upper half of it
	kind family
}

type family uint8

const (
	local family = iota
	ipv4
	ipv6

	// These are added to the family of an address: known for an edge of this ring,
	// itself for a trusted proxy that asks on its own account, nameless for the
	// clients that a trusted proxy does not name.
	known    family = 4
	itself   family = 8
	nameless family = 16
)

// kindBits is how many bits a kind takes.
const kindBits = 5

// unnamed gives the clients that a proxy does not name.
func (c client) unnamed() client { return client{c.net, c.kind | nameless} }

// clientOf takes an address that is unmapped and without a zone, or the zero
// Addr for a peer that has none.
func clientOf(a netip.Addr) client {
	switch {
	case a.Is4():
		b := a.As4()
		return client{uint64(binary.BigEndian.Uint32(b[:])), ipv4}
	case a.Is6():
		b := a.As16()
		return client{binary.BigEndian.Uint64(b[:8]), ipv6}
	}
	return client{}
}

// behindProxy begins the name of clients that a proxy does not name.
const behindProxy = "behind "

// String names the client as [Handler] says.
func (c client) String() string {
	if c.kind&nameless != 0 {
		return behindProxy + client{c.net, c.kind &^ nameless}.String()
	}
	switch c.kind & (ipv4 | ipv6) {
	case ipv4:
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(c.net))
		return netip.AddrFrom4(b).String()
	case ipv6:
		var b [16]byte
		binary.BigEndian.PutUint64(b[:8], c.net)
		return netip.PrefixFrom(netip.AddrFrom16(b), 64).String()
	}
	return "local"
}

// remoteAddr gives the address of a connection's other end: unmapped, without
// a zone, and the zero Addr where there is none, as on a Unix socket.
func remoteAddr(a net.Addr) netip.Addr {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr := plain(t.AddrPort().Addr())
	if addr.IsUnspecified() {
		return netip.Addr{}
	}
	return addr
}

// plain gives every spelling of an address the same value.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// client says whose request this is.
func (p *Proxies) client(ctx *fasthttp.RequestCtx) client {
	peer := remoteAddr(ctx.RemoteAddr())
	if !p.trusts(peer) {
		return clientOf(peer)
	}
	return p.behind(clientOf(peer), ctx.Request.Header.PeekAll(p.field()))
}

// clientOfUnread is client for a request that could not be read to its end. Of a header
// that cannot be read fasthttp keeps nothing, and a missing field does not mean then
// that the proxy asks on its own account.
func (p *Proxies) clientOfUnread(ctx *fasthttp.RequestCtx) client {
	peer := remoteAddr(ctx.RemoteAddr())
	if p.trusts(peer) && len(ctx.Request.Header.RawHeaders()) == 0 {
		return clientOf(peer).unnamed()
	}
	return p.client(ctx)
}

// secure says whether a payment may be asked for and taken on this request:
// over TLS that ends here or at a trusted proxy that says so; or from this
// very machine, unless the request was forwarded, and then nobody knows over
// what.
//
// Document: the decisions, "Paid requests".
func (p *Proxies) secure(ctx *fasthttp.RequestCtx) bool {
	peer := remoteAddr(ctx.RemoteAddr())
	passedOn := p.wasForwarded(&ctx.Request.Header)
	switch {
	case p.trusts(peer) && passedOn:
		return p.https(&ctx.Request.Header)
	case ctx.IsTLS():
		return true
	case p.trusts(peer):
		return false
	}
	return !passedOn && (peer.IsLoopback() || !peer.IsValid())
}
