package edge

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"webring/edge/front"
)

// boundedListener accepts connections into a room. One for which there is none is closed
// without an answer.
type boundedListener struct {
	net.Listener
	room    *room
	proxies *front.Proxies
	sealed  bool // TLS is spoken on the connections

	closing sync.Once
	closed  error
}

// Accept also outlasts shortages of descriptors and memory, which would end
// the server otherwise.
func (l *boundedListener) Accept() (net.Conn, error) {
	for pause := 5 * time.Millisecond; ; {
		c, err := l.Listener.Accept()
		if err != nil {
			if !isShortage(err) {
				return nil, err
			}
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
			continue
		}
		addr := front.Peer(c.RemoteAddr())
		b := &boundedConn{Conn: c, room: l.room, client: front.ClientOf(addr), sealed: l.sealed}
		// A proxy connects for many clients, and a process on this machine has other
		// ways to exhaust it.
		b.counted = b.client.IsOne() && !addr.IsLoopback() && !l.proxies.Trusts(addr)
		b.since.Store(time.Now().UnixNano())
		if l.room.enter(b) {
			return b, nil
		}
		c.Close()
	}
}

func isShortage(err error) bool {
	for _, e := range [...]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Close may be called more than once.
func (l *boundedListener) Close() error {
	l.closing.Do(func() { l.closed = l.Listener.Close() })
	return l.closed
}

// SyscallConn gives the socket below, if it is one.
func (c *boundedConn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Close reads on for a moment if the peer is still sending a request that was refused. To
// close with unread bytes would reset the TCP connection, and the peer would not get the
// answer.
func (c *boundedConn) Close() error {
	c.closing.Do(func() {
		c.Free()
		if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && c.linger && half.CloseWrite() == nil {
			c.Conn.SetReadDeadline(time.Now().Add(lingerTime))
			io.CopyN(io.Discard, c.Conn, lingerBytes)
		}
		c.closed = c.Conn.Close()
		c.room.leave(c)
	})
	return c.closed
}

const (
	lingerTime  = time.Second
	lingerBytes = 256 << 10
)

// bounded gives the connection of a room that is under c, or nil.
func bounded(c net.Conn) *boundedConn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	b, _ := c.(*boundedConn)
	return b
}

// lingering has the connection under c read on for a moment when it is closed.
func lingering(c net.Conn) {
	if b := bounded(c); b != nil {
		b.linger = true
	}
}

// acmeProtocol is what an authority speaks to see that a name is this node's (RFC 8737).
// It asks for nothing more once TLS has been agreed on.
const acmeProtocol = "acme-tls/1"

// spoken gives the protocols of which TLS may agree on one, of those that a
// configuration names.
func spoken(named []string) []string {
	protocols := []string{"http/1.1"}
	if slices.Contains(named, acmeProtocol) {
		protocols = append(protocols, acmeProtocol)
	}
	return protocols
}
