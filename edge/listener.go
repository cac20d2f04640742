package edge

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"webring/edge/clientaddr"
	"webring/edge/metrics"
)

// How many connections may be open, and how many of one client.
const (
	maxConns          = 16384
	maxConnsPerClient = 256
)

// boundedListener accepts no more connections than a process can hold, and no more from
// one client than it needs. A connection beyond a bound is closed without an answer.
type boundedListener struct {
	net.Listener
	proxies   *clientaddr.Proxies
	max, each int
	metrics   *metrics.Metrics // of refusals

	closing sync.Once
	closed  error

	mu   sync.Mutex
	open int
	by   map[clientaddr.Client]int
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
		addr := clientaddr.Peer(c.RemoteAddr())
		// A proxy connects for many clients, and a process on this machine has other
		// ways to exhaust it.
		counted := addr.IsValid() && !addr.IsLoopback() && !l.proxies.Trusts(addr)
		if b := (&boundedConn{Conn: c, from: l, client: clientaddr.Of(addr), counted: counted}); l.admit(b) {
			return b, nil
		}
		l.metrics.Any().Refused(metrics.ByConnection)
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

func (l *boundedListener) admit(c *boundedConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.max || c.counted && l.by[c.client] >= l.each {
		return false
	}
	l.open++
	if c.counted {
		l.by[c.client]++
	}
	return true
}

func (l *boundedListener) release(c *boundedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if c.counted {
		if l.by[c.client]--; l.by[c.client] == 0 {
			delete(l.by, c.client)
		}
	}
}

// Close may be called more than once.
func (l *boundedListener) Close() error {
	l.closing.Do(func() { l.closed = l.Listener.Close() })
	return l.closed
}

// boundedConn gives its slot back when it is closed.
type boundedConn struct {
	net.Conn
	from    *boundedListener
	client  clientaddr.Client
	counted bool
	linger  bool // set by the goroutine that serves the connection
	closing sync.Once
	closed  error
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
		if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && c.linger && half.CloseWrite() == nil {
			c.Conn.SetReadDeadline(time.Now().Add(lingerTime))
			io.CopyN(io.Discard, c.Conn, lingerBytes)
		}
		c.closed = c.Conn.Close()
		c.from.release(c)
	})
	return c.closed
}

const (
	lingerTime  = time.Second
	lingerBytes = 256 << 10
)

// lingering has the connection under c read on for a moment when it is closed.
func lingering(c net.Conn) {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	if b, ok := c.(*boundedConn); ok {
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
