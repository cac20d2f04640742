package front

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
)

// Client is what limits count by: an IPv4 address, an IPv6 /64, which is the least
// that one subscriber gets, or all peers without an address together. A trusted proxy
// has two more: one for itself, one for all clients that it does not name.
type Client struct {
	net  uint64 // the address, or the upper half of it
	kind uint8
}

// The families, and what is added to them.
const (
	local uint8 = iota
	ipv4
	ipv6

	edge     uint8 = 4  // an edge of this ring
	proxy    uint8 = 8  // a trusted proxy that asks on its own account
	nameless uint8 = 16 // the clients that a trusted proxy does not name
)

// KindBits is how many bits the second result of [Client.Key] takes.
const KindBits = 5

// Key gives two numbers that together identify the client.
func (c Client) Key() (net uint64, kind uint8) { return c.net, c.kind }

// AsEdge gives the client for an edge of this ring at this address. It is counted apart
// from other clients at the address.
func (c Client) AsEdge() Client { return Client{c.net, c.kind | edge} }

// IsProxy reports whether this is a trusted proxy that asks on its own account.
func (c Client) IsProxy() bool { return c.kind&proxy != 0 }

func (c Client) asProxy() Client    { return Client{c.net, c.kind | proxy} }
func (c Client) asNameless() Client { return Client{c.net, c.kind | nameless} }

// ClientOf gives the client at an address from [Peer]: local for the zero Addr.
func ClientOf(a netip.Addr) Client {
	switch {
	case a.Is4():
		b := a.As4()
		return Client{uint64(binary.BigEndian.Uint32(b[:])), ipv4}
	case a.Is6():
		b := a.As16()
		return Client{binary.BigEndian.Uint64(b[:8]), ipv6}
	}
	return Client{}
}

// behind begins the name of the clients that a proxy does not name.
const behind = "behind "

// String names the client: an IPv4 address, an IPv6 /64, "local", or "behind " and one
// of these for all clients that a proxy there does not name.
func (c Client) String() string {
	if c.kind&nameless != 0 {
		return behind + Client{c.net, c.kind &^ nameless}.String()
	}
	switch c.kind & (ipv4 | ipv6) {
	case ipv4:
		return c.addr().String()
	case ipv6:
		return netip.PrefixFrom(c.addr(), 64).String()
	}
	return "local"
}

// Widths is how many networks [Client.Within] tells apart, the client itself among them.
const Widths = 4

// shifts are how many bits the networks around a client leave open, by width.
var shifts4, shifts6 = [Widths]uint8{0, 8, 12, 16}, [Widths]uint8{0, 16, 24, 32}

// Within gives the network around the client: at width 0 the client, then its /24, /20 and
// /16, or /48, /40 and /32. A client without an address is its own network.
func (c Client) Within(width int) Client {
	switch c.kind {
	case ipv4:
		c.net = c.net >> shifts4[width] << shifts4[width]
	case ipv6:
		c.net = c.net >> shifts6[width] << shifts6[width]
	}
	return c
}

// IsOne reports whether this is the address of one client, and not a trusted proxy, the
// clients that a proxy does not name, or peers without an address.
func (c Client) IsOne() bool { return c.kind == ipv4 || c.kind == ipv6 }

// AppendNetwork appends a name of the network that the client is in: of String's names,
// an address is cut to its /24, or /48.
func (c Client) AppendNetwork(dst []byte) []byte {
	if c.kind&nameless != 0 {
		dst = append(dst, behind...)
	}
	network := Client{c.net, c.kind & (ipv4 | ipv6)}.Within(1)
	if !network.IsOne() {
		return append(dst, network.String()...)
	}
	return netip.PrefixFrom(network.addr(), bits[network.kind]).AppendTo(dst)
}

// bits are how long the prefix of a network in logs is, by the family.
var bits = [...]int{ipv4: 24, ipv6: 48}

// addr gives the first address of a client that is one.
func (c Client) addr() netip.Addr {
	if c.kind&ipv4 != 0 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(c.net))
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], c.net)
	return netip.AddrFrom16(b)
}

// ParseClient reads what [Client.String] writes, in that spelling alone.
func ParseClient(s string) (Client, bool) {
	if rest, ok := strings.CutPrefix(s, behind); ok {
		c, ok := parseNamed(rest)
		return c.asNameless(), ok
	}
	return parseNamed(s)
}

func parseNamed(s string) (Client, bool) {
	if s == (Client{}).String() {
		return Client{}, true
	}
	if addr, err := netip.ParseAddr(s); err == nil && addr.Is4() {
		return ClientOf(addr), true
	}
	prefix, err := netip.ParsePrefix(s)
	if err != nil || !prefix.Addr().Is6() || prefix.Bits() != 64 || prefix != prefix.Masked() {
		return Client{}, false
	}
	return ClientOf(prefix.Addr()), true
}

// Peer gives the address of a connection's other end: unmapped, without a zone, and
// the zero Addr where there is none, as on a Unix socket.
func Peer(a net.Addr) netip.Addr {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr := canonical(t.AddrPort().Addr())
	if addr.IsUnspecified() {
		return netip.Addr{}
	}
	return addr
}

// canonical gives every spelling of an address the same value.
func canonical(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
