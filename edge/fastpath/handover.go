package fastpath

import (
	"crypto/tls"
	"net"
	"os"
	"sync"
	"time"

	"webring/edge/front"
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
		peer := front.Peer(conn.RemoteAddr())
		c := &connection{Conn: conn, s: l.s, to: l, fd: -1, peer: front.ClientOf(peer), holder: holderOf(conn)}
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

// handOver gives the connection to fasthttp. Of it, unread has been read, and no more can
// be when the time for it is over.
func (c *connection) handOver(unread []byte, expired bool) {
	h := &handedConn{Conn: c.Conn, from: c, buf: unread}
	if expired {
		h.err = os.ErrDeadlineExceeded
	}
	if t, ok := c.Conn.(*tls.Conn); ok {
		c.to.hand(&handedTLS{t, h})
		return
	}
	c.to.hand(h)
}

// NetConn is the connection below.
func (c *handedConn) NetConn() net.Conn { return c.Conn }

// handedTLS shows fasthttp that it is TLS.
type handedTLS struct {
	*tls.Conn
	from *handedConn
}

func (c *handedTLS) Read(p []byte) (int, error) { return c.from.Read(p) }

func (c *handedTLS) SetReadDeadline(t time.Time) error { return c.from.SetReadDeadline(t) }
