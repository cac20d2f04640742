package fastpath

import (
	"crypto/tls"
	"net"
	"os"
	"sync"
	"time"

	"webring/edge/clientaddr"
)

// listener serves the connections of another, and accepts those that are handed over.
type listener struct {
	net.Listener
	s      *Server
	handed chan net.Conn
	ended  chan struct{}
	ending sync.Once
	err    error // why, once ended is closed
}

// accept serves connections until the listener fails. When that is because the server
// closed it, connections can still be handed over until Close.
func (l *listener) accept() {
	defer l.s.accepted()
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			if !l.s.isDeaf() {
				l.end(err)
			}
			return
		}
		peer := clientaddr.Peer(conn.RemoteAddr())
		c := &connection{Conn: conn, s: l.s, to: l, fd: -1, peer: clientaddr.Of(peer)}
		if l.s.cfg.Proxies.Trusts(peer) {
			c.proxyField = l.s.cfg.Proxies.Field()
		}
		c.SetReadDeadline(time.Now().Add(l.s.cfg.ReadTimeout))
		l.s.enter(c)
		go c.run()
	}
}

func (l *listener) end(err error) {
	l.ending.Do(func() {
		l.err = err
		close(l.ended)
	})
}

// Accept gives the next connection that was handed over.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.handed:
		return c, nil
	case <-l.ended:
		return nil, l.err
	}
}

// Close may be called more than once.
func (l *listener) Close() error {
	err := l.Listener.Close()
	l.end(net.ErrClosed)
	return err
}

func (l *listener) hand(c net.Conn) {
	select {
	case l.handed <- c:
	case <-l.ended:
		c.Close()
	}
}

// handedOver gives a connection of which something has been read, and of which
// no more can be when the time for it is over.
func handedOver(c net.Conn, unread []byte, expired bool) net.Conn {
	h := &handedConn{Conn: c, unread: unread, expired: expired}
	if t, ok := c.(*tls.Conn); ok {
		return &handedTLS{t, h}
	}
	return h
}

type handedConn struct {
	net.Conn
	unread  []byte
	expired bool
}

// Read gives first what was read before.
func (c *handedConn) Read(p []byte) (int, error) {
	switch {
	case len(c.unread) > 0:
		n := copy(p, c.unread)
		if c.unread = c.unread[n:]; len(c.unread) == 0 {
			c.unread = nil
		}
		return n, nil
	case c.expired:
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Read(p)
}

// NetConn is the connection below.
func (c *handedConn) NetConn() net.Conn { return c.Conn }

// handedTLS shows fasthttp that it is TLS.
type handedTLS struct {
	*tls.Conn
	from *handedConn
}

// Read gives first what was read before.
func (c *handedTLS) Read(p []byte) (int, error) { return c.from.Read(p) }
