package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// azureHost is the address of the host's own services on Azure's machines. By the
// registries it is an ordinary public address.
var azureHost = netip.MustParsePrefix("168.63.129.16/32")

// maxSockets is how many addresses of a name are tried for one connection. The owner of
// a name may list thousands that are not its own.
const maxSockets = 8

// errForbidden is for this package alone: callers get [ErrUnreachable].
var errForbidden = errors.New("fetch: a forbidden address")

// socketsKey is where a context has the number of sockets of its connection.
type socketsKey struct{}

// dialer connects to public addresses, and to what the development map names.
type dialer struct {
	net.Dialer
	plain  net.Dialer // for mapped hosts only
	client *Client
	guard  *ssrf.Guardian

	mu    sync.Mutex
	own   map[netip.Addr]bool
	until time.Time // when own is to be read again
}

func newDialer(c *Client) *dialer {
	d := &dialer{client: c, guard: ssrf.New(
		ssrf.WithPorts(c.ports...),
		ssrf.WithDeniedV4Prefixes(azureHost),
	)}
	d.Dialer = net.Dialer{Timeout: dialTime, Resolver: c.cfg.Resolver, ControlContext: d.control, KeepAlive: -1}
	d.plain = net.Dialer{Timeout: dialTime, KeepAlive: -1}
	return d
}

// dial makes a connection for the transport; address is a host name and a port. Once
// connected, it counts the request that the connection is for.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	conn, err := d.connect(ctx, network, host, address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoConnection, err)
	}
	if err := d.client.count(ctx, host, conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func (d *dialer) connect(ctx context.Context, network, host, address string) (net.Conn, error) {
	if to, ok := d.client.mapped(host); ok {
		return d.plain.DialContext(ctx, network, to.String())
	}
	return d.DialContext(context.WithValue(ctx, socketsKey{}, new(atomic.Int32)), network, address)
}

// control checks the address of each socket, after the name was resolved and before
// anything is sent.
func (d *dialer) control(ctx context.Context, network, address string, raw syscall.RawConn) error {
	if n, counted := ctx.Value(socketsKey{}).(*atomic.Int32); counted && n.Add(1) > maxSockets {
		return errForbidden
	}
	if err := d.guard.Safe(network, address, raw); err != nil {
		return errForbidden
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil || d.ours(to.Addr().Unmap().WithZone("")) {
		return errForbidden
	}
	return nil
}

// ours reports whether an address leads back to this machine: it is that of an
// interface, or one that the operator named.
func (d *dialer) ours(a netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); !now.Before(d.until) {
		d.own, d.until = map[netip.Addr]bool{}, now.Add(time.Minute)
		for _, own := range d.client.cfg.Own {
			d.own[own.Unmap()] = true
		}
		// Without the interfaces there are still the operator's own.
		list, _ := net.InterfaceAddrs()
		for _, i := range list {
			if p, err := netip.ParsePrefix(i.String()); err == nil {
				d.own[p.Addr().Unmap()] = true
			}
		}
	}
	return d.own[a]
}

// mapped gives where a host is fetched from in development.
func (c *Client) mapped(host string) (netip.AddrPort, bool) {
	if to, ok := c.cfg.Map[host]; ok {
		return to, true
	}
	var longest string
	for pattern := range c.cfg.Map {
		if len(pattern) > len(longest) && MatchHost(pattern, host) {
			longest = pattern
		}
	}
	to, ok := c.cfg.Map[longest]
	return to, ok
}
