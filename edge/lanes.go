package edge

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"sync"

	"webring/edge/clientaddr"
)

// lanes are those of a shell that are in work.
type lanes struct {
	mu      sync.Mutex
	open    map[*lane]struct{}
	closing bool
	empty   chan struct{} // closed when closing and none is open
}

func newLanes() *lanes { return &lanes{open: map[*lane]struct{}{}, empty: make(chan struct{})} }

// enter reports false when no more lanes are to begin.
func (ls *lanes) enter(l *lane) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closing {
		return false
	}
	ls.open[l] = struct{}{}
	return true
}

func (ls *lanes) leave(l *lane) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	delete(ls.open, l)
	if ls.closing && len(ls.open) == 0 {
		close(ls.empty)
	}
}

// shut makes all lanes end, and waits for them.
func (ls *lanes) shut(ctx context.Context) error {
	ls.mu.Lock()
	if !ls.closing {
		ls.closing = true
		if len(ls.open) == 0 {
			close(ls.empty)
		}
	}
	for l := range ls.open {
		go l.end() // to close takes a while when TLS says so to a peer that does not read
	}
	ls.mu.Unlock()
	select {
	case <-ls.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// laneListener begins a lane with each connection, and gives fasthttp those that
// lanes hand over.
type laneListener struct {
	net.Listener
	s      *Shell
	handed chan net.Conn
	ended  chan struct{}
	ending sync.Once
	err    error // why, once ended is closed
}

func (s *Shell) lanesOf(l net.Listener) *laneListener {
	ll := &laneListener{Listener: l, s: s, handed: make(chan net.Conn), ended: make(chan struct{})}
	go ll.begin()
	return ll
}

// begin accepts until the listener fails. When it was closed, connections that
// lanes still hand over are served until the shell has shut everything down.
func (l *laneListener) begin() {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			if !l.s.isClosed() {
				l.end(err)
			}
			return
		}
		peer := clientaddr.Peer(c.RemoteAddr())
		one := &lane{s: l.s, conn: c, fd: -1, client: clientaddr.Of(peer), to: l}
		if l.s.proxies.Trusts(peer) {
			one.named = l.s.proxies.Field()
		}
		if !l.s.lanes.enter(one) {
			c.Close()
			continue
		}
		go one.run()
	}
}

func (l *laneListener) end(err error) {
	l.ending.Do(func() {
		l.err = err
		close(l.ended)
	})
}

// Accept gives the next connection that was handed over.
func (l *laneListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.handed:
		return c, nil
	case <-l.ended:
		return nil, l.err
	}
}

// Close may be called more than once.
func (l *laneListener) Close() error {
	err := l.Listener.Close()
	l.end(net.ErrClosed)
	return err
}

func (l *laneListener) hand(c net.Conn) {
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

// handedTLS shows that it is TLS.
type handedTLS struct {
	*tls.Conn
	from *handedConn
}

// Read gives first what was read before.
func (c *handedTLS) Read(p []byte) (int, error) { return c.from.Read(p) }
