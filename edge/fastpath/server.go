package fastpath

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"webring/edge/front"
)

// Answerer answers one request at a time.
type Answerer interface {
	// Answer answers r, which has arrived now. The caller uses the answer before the
	// next call. It is not ok where fasthttp is to answer instead; then the call must
	// have had no effect.
	Answer(r *Request, now time.Time) (a Answer, ok bool)
	// AppendCommon appends the header fields that every answer carries, for the answer
	// just given.
	AppendCommon(dst []byte, now time.Time) []byte
	// Rest gives up buffers that are longer than most answers need.
	Rest()
}

// Answer is an answer without the common fields, and without Date, Connection,
// Content-Length and X-Request-Id.
type Answer struct {
	Status int
	Fields []byte // its own header fields, each line ended with CRLF
	Body   []byte
}

// Holder is a connection, or what is under one, that bounds what connections hold while
// they wait for their clients.
type Holder interface {
	// Hold says that memory is held for a request of this client, or for an answer of so
	// many bytes that the client has to read. It reports false if there is no room.
	Hold(of front.Client, answer int) bool
	// Free says that nothing is held any more.
	Free()
	// Await says that the answer has been sent, and that the next request may come.
	Await()
	// Evicted reports whether the connection had to make room for others. Then the
	// deadline for reading is over.
	Evicted() bool
}

// holderOf gives the holder that a connection is, or has under it.
func holderOf(c net.Conn) Holder {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	if h, ok := c.(Holder); ok {
		return h
	}
	return unbounded{}
}

// unbounded is the holder of connections that have none.
type unbounded struct{}

func (unbounded) Hold(front.Client, int) bool { return true }
func (unbounded) Free()                       {}
func (unbounded) Await()                      {}
func (unbounded) Evicted() bool               { return false }

// Config says how connections are served. Every field is needed.
type Config struct {
	// Serves reports whether a target may be answered here, and gives its route for
	// [Request.Route]. A long answer may take a while and memory, for which there must be
	// room beforehand.
	Serves func(target []byte) (route int, long, ok bool)
	// NewAnswerer is called as often as connections answer at a time.
	NewAnswerer func() Answerer
	// OnPanic is told of a panic that ended a connection.
	OnPanic func(v any)
	// Proxies name the client of a request that a trusted proxy sends.
	Proxies *front.Proxies
	// APIVersion is the one value of Api-Version that is answered here.
	APIVersion string
	// ReadTimeout bounds the reading of a request and the wait for the first one,
	// IdleTimeout the wait for each further one, WriteTimeout each write.
	ReadTimeout, IdleTimeout, WriteTimeout time.Duration
	// Now is the clock of answers.
	Now func() time.Time
}

// Server serves the connections of listeners. Its functions may be called concurrently.
type Server struct {
	cfg     Config
	scratch sync.Pool // of *scratch

	draining atomic.Bool

	mu        sync.Mutex
	open      map[*connection]struct{}
	listeners []net.Listener
	accepting int // listeners from which connections may still come
	closing   bool
	empty     chan struct{} // closed when closing, nothing is accepted and none is open
}

// New prepares a server.
func New(cfg Config) *Server {
	return &Server{cfg: cfg, open: map[*connection]struct{}{}, empty: make(chan struct{}),
		scratch: sync.Pool{New: func() any { return &scratch{answerer: cfg.NewAnswerer()} }}}
}

// Listen serves the connections of l, and gives the listener of those that are handed
// over. It gives nil after [Server.Shutdown].
func (s *Server) Listen(l net.Listener) net.Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil
	}
	s.listeners = append(s.listeners, l)
	s.accepting++
	handed := &listener{Listener: l, s: s, handed: make(chan net.Conn), ended: make(chan struct{})}
	go handed.accept()
	return handed
}

// Open gives how many connections are served.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Drain has connections end with their next answer, which says so. New ones are still
// accepted.
func (s *Server) Drain() { s.draining.Store(true) }

// Shutdown closes the listeners and makes all connections end, the busy ones with their
// answers and new ones with the answer to their first request, and waits for that until
// ctx ends. Connections can be handed over until then.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	s.mu.Lock()
	if !s.closing {
		s.closing = true
		for _, l := range s.listeners {
			l.Close()
		}
		s.whenEmpty()
	}
	for c := range s.open {
		go c.end() // to close takes a while when TLS says so to a peer that does not read
	}
	s.mu.Unlock()
	select {
	case <-s.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter notes a connection that begins. One that was accepted while the server closes has
// its first request answered, and no other.
func (s *Server) enter(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c] = struct{}{}
	if s.closing {
		go c.end()
	}
}

// accepted notes that no more connections come from a listener.
func (s *Server) accepted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepting--
	s.whenEmpty()
}

// whenEmpty tells Shutdown that nothing is left to wait for, once. The caller holds mu.
func (s *Server) whenEmpty() {
	if !s.closing || s.accepting > 0 || len(s.open) > 0 {
		return
	}
	select {
	case <-s.empty:
	default:
		close(s.empty)
	}
}

func (s *Server) leave(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	s.whenEmpty()
}

func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// giveBack takes a connection's scratch back, which may be nil.
func (s *Server) giveBack(w *scratch) {
	if w == nil {
		return
	}
	if cap(w.out) > 2*maxCopied {
		w.out = nil
	}
	w.answerer.Rest()
	s.scratch.Put(w)
}

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
			if !l.s.isClosing() {
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

// Unwrap gives the connection for one who goes on with it in place of fasthttp. What was read and not
// answered is lost.
func (c *handedConn) Unwrap() net.Conn { return c.Conn }

// handedTLS shows fasthttp that it is TLS.
type handedTLS struct {
	*tls.Conn
	from *handedConn
}

func (c *handedTLS) Read(p []byte) (int, error) { return c.from.Read(p) }

func (c *handedTLS) SetReadDeadline(t time.Time) error { return c.from.SetReadDeadline(t) }

// Unwrap is as for a connection without TLS.
func (c *handedTLS) Unwrap() net.Conn { return c.Conn }
