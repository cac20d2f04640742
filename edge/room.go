package edge

import (
	"cmp"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"webring/edge/front"
)

const (
	// maxConns is how many connections may be open, and maxConnsPerClient how many of one
	// client.
	maxConns          = 16384
	maxConnsPerClient = 256
	// maxHolding is how many connections may hold memory for a request: one that has come
	// in part, one that is being answered, or one with an answer that the client has not read.
	// Such a connection holds 60 KB when its client sends a long body, and about 130 KB at
	// most. So requests hold 60 to 130 MB in all.
	maxHolding = 1024
)

// room bounds the connections of a node, and the memory that they hold.
//
// When it is full, connections that wait for their client make room for a new one: those
// between requests, those with a part of a request, and those that do not read what they
// have asked for. The networks with the most of these lose them, and of each the client
// with the most, its oldest first. So a crowd takes its own places, however many addresses
// it has, and a client of another network gets in. No connection ends while a request on it
// is in work, or before the answer to anything but a read is sent.
type room struct {
	mu      sync.Mutex
	open    crowd
	holding crowd
	metrics *metrics // of connections that were ended or refused
}

// The crowds of a room.
const (
	amongOpen = iota
	amongHolding
	crowds
)

func newRoom(open, each, holding int, m *metrics) *room {
	return &room{
		open: crowd{index: amongOpen, most: open, each: [front.Widths]int{each}},
		// Requests in work end when they end. So no network may have all places. An edge passes
		// many on from one address.
		holding: crowd{index: amongHolding, most: holding, each: [front.Widths]int{holding / 4, holding / 2, 0, holding / 4 * 3}},
		metrics: m,
	}
}

// crowd is a set of connections with bounds: for all, and for the networks around a client
// by their width, 0 where there is none.
type crowd struct {
	index int
	most  int
	each  [front.Widths]int
	in    map[*boundedConn]struct{}
	by    [front.Widths]map[front.Client]int
}

// place is a connection's place in a crowd.
type place struct {
	taken   bool
	client  front.Client
	counted bool // by its networks
}

// boundedConn is a connection of a room. It gives its places back when it is closed.
type boundedConn struct {
	net.Conn
	room    *room
	client  front.Client  // the peer
	counted bool          // the peer is one client
	places  [crowds]place // the room's

	since   atomic.Int64 // when it began to wait for its client, in nanoseconds
	working atomic.Bool  // a request is in work: it does not wait
	writing atomic.Bool  // it waits for the client to read
	evicted atomic.Bool

	sealed   bool // TLS is spoken on it
	unopened int  // bytes of TLS since the last answer; of the goroutine that reads
	unfreed  bool // they have the place among those that hold memory; of that goroutine, too

	linger  bool // set by the goroutine that serves the connection
	prompt  bool // what does not go out at once fails: a page reads events
	closing sync.Once
	closed  error
}

// enter takes a place for a connection, if there is one.
func (r *room) enter(c *boundedConn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.take(&r.open, c, place{client: c.client, counted: c.counted})
}

// leave gives back what a connection still has.
func (r *room) leave(c *boundedConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open.remove(c)
	r.holding.remove(c)
}

// Hold takes a place among the connections that hold memory, for a request of this client.
// It reports false if there is none. writing says that the client does not read.
func (c *boundedConn) Hold(of front.Client, writing bool) bool {
	p := place{client: of, counted: of.IsOne()}
	if of == c.client {
		p.counted = c.counted
	}
	c.since.Store(time.Now().UnixNano())
	c.writing.Store(writing)
	c.unfreed = false
	r := c.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if has := c.places[amongHolding]; has.taken && has.client == p.client {
		return true
	}
	r.holding.remove(c)
	return !c.evicted.Load() && r.take(&r.holding, c, p)
}

// Free gives the place back that [boundedConn.Hold] took.
func (c *boundedConn) Free() {
	c.writing.Store(false)
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	c.room.holding.remove(c)
}

// Read counts what comes for TLS. TLS keeps what comes until a message of a handshake or a
// record is whole: up to 64 KB, of which nothing above it knows. So from maxUnopened on, the
// connection needs a place among those that hold memory.
func (c *boundedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.sealed {
		return n, err
	}
	if c.unopened += n; c.unopened > maxUnopened && !c.unfreed && !c.holdUnopened() {
		return 0, net.ErrClosed
	}
	return n, err
}

// holdUnopened takes a place for what TLS keeps, unless a request has one on the connection.
func (c *boundedConn) holdUnopened() bool {
	r := c.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.places[amongHolding].taken {
		return true
	}
	c.unfreed = !c.evicted.Load() && r.take(&r.holding, c, place{client: c.client, counted: c.counted})
	return c.unfreed
}

// maxUnopened is more than browsers need for a handshake and the head of a request, in bytes.
const maxUnopened = 6 << 10

// Await says that the connection waits for its client's next request.
func (c *boundedConn) Await() {
	if c.unopened = 0; c.unfreed {
		c.unfreed = false
		c.Free()
	}
	c.writing.Store(false)
	c.working.Store(false)
}

// Evicted reports whether the connection had to make room.
func (c *boundedConn) Evicted() bool { return c.evicted.Load() }

// work says that a request is in work, until Await.
func (c *boundedConn) work() { c.working.Store(true) }

// send says that the answer to a read is being sent.
func (c *boundedConn) send() {
	c.writing.Store(true)
	c.working.Store(false)
}

// SetReadDeadline is called whenever a connection begins to wait. One that was evicted
// does not wait any more.
func (c *boundedConn) SetReadDeadline(t time.Time) error {
	c.since.Store(time.Now().UnixNano())
	err := c.Conn.SetReadDeadline(t)
	if c.evicted.Load() {
		err = c.Conn.SetReadDeadline(past)
	}
	return err
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// evict ends the wait of a connection. What serves it then ends it, with an answer if part
// of a request has come. The caller holds mu.
func (r *room) evict(c *boundedConn) {
	r.open.remove(c)
	r.holding.remove(c)
	r.metrics.refuse(byConnection)
	c.evicted.Store(true)
	c.Conn.SetReadDeadline(past)
	if c.writing.Load() {
		c.Conn.SetWriteDeadline(past)
	}
}

// take takes a place in a crowd. Others are evicted for it if need be, several at a time:
// to find them takes a look at all. The caller holds mu.
func (r *room) take(w *crowd, c *boundedConn, p place) bool {
	if p.counted {
		for width, each := range w.each {
			if network := p.client.Within(width); each > 0 && w.by[width][network] >= each && !r.shrink(w, width, network, 1+each/16) {
				r.metrics.refuse(byConnection)
				return false
			}
		}
	}
	if len(w.in) >= w.most && !r.shrink(w, front.Widths, p.client, 1+w.most/64) {
		r.metrics.refuse(byConnection)
		return false
	}
	p.taken = true
	w.add(c, p)
	return true
}

func (w *crowd) add(c *boundedConn, p place) {
	if w.in == nil {
		w.in = map[*boundedConn]struct{}{}
	}
	w.in[c] = struct{}{}
	c.places[w.index] = p
	w.count(p, 1)
}

func (w *crowd) remove(c *boundedConn) {
	if p := c.places[w.index]; p.taken {
		delete(w.in, c)
		c.places[w.index] = place{}
		w.count(p, -1)
	}
}

func (w *crowd) count(p place, n int) {
	for width, each := range w.each {
		if each == 0 || !p.counted {
			continue
		}
		if w.by[width] == nil {
			w.by[width] = map[front.Client]int{}
		}
		network := p.client.Within(width)
		if w.by[width][network] += n; w.by[width][network] == 0 {
			delete(w.by[width], network)
		}
	}
}

// shrink evicts n connections of a crowd that wait for their clients, or as many as there
// are: of a network of this width, or of all. It reports false if there are none.
func (r *room) shrink(w *crowd, width int, network front.Client, n int) bool {
	var waiting []candidate
	for c := range w.in {
		p := c.places[w.index]
		if c.working.Load() || width < front.Widths && (!p.counted || p.client.Within(width) != network) {
			continue
		}
		waiting = append(waiting, candidate{c, p.client, c.since.Load()})
	}
	slices.SortFunc(waiting, func(a, b candidate) int {
		aNet, aKind := a.client.Key()
		bNet, bKind := b.client.Key()
		return cmp.Or(cmp.Compare(aKind, bKind), cmp.Compare(aNet, bNet), cmp.Compare(a.since, b.since))
	})
	heaviest(waiting, front.Widths-1, min(n, len(waiting)), r.evict)
	return len(waiting) > 0
}

// candidate is a connection that may be evicted.
type candidate struct {
	conn   *boundedConn
	client front.Client
	since  int64
}

// heaviest takes n of the candidates, which are sorted by client and then by age. Networks
// with more of them give them until they have as many as others, and so do the networks
// and clients within each; of a client, the oldest go.
func heaviest(from []candidate, width, n int, take func(*boundedConn)) {
	if n == 0 {
		return
	}
	if width < 0 {
		for _, c := range from[:n] {
			take(c.conn)
		}
		return
	}
	type group struct {
		of    []candidate
		since int64
	}
	var groups []group
	for len(from) > 0 {
		network, size := from[0].client.Within(width), 1
		since := from[0].since
		for ; size < len(from) && from[size].client.Within(width) == network; size++ {
			since = min(since, from[size].since)
		}
		groups = append(groups, group{from[:size], since})
		from = from[size:]
	}
	// Of as many, the network with the oldest goes first.
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(len(b.of), len(a.of)), cmp.Compare(a.since, b.since))
	})
	// The first k networks are to be left with the same number.
	sum, k := 0, 0
	for k < len(groups) && (k == 0 || sum-k*len(groups[k].of) < n) {
		sum += len(groups[k].of)
		k++
	}
	left := sum - n // with the first k
	for i := range k {
		// The youngest keep one more when it cannot be divided.
		keeps := left / (k - i)
		size := len(groups[i].of)
		keeps = min(keeps, size)
		left -= keeps
		heaviest(groups[i].of, width-1, size-keeps, take)
	}
}

// boundedListener accepts connections into a room. One for which there is none is closed
// without an answer.
type boundedListener struct {
	net.Listener
	room    *room
	proxies *front.Proxies
	sealed  bool // TLS is spoken on the connections

	closing sync.Once
	closed  error
	mu      sync.Mutex
	waiting []net.Conn // those that were connected when the listener was closed
}

// Accept also outlasts shortages of descriptors and memory, which would end
// the server otherwise.
func (l *boundedListener) Accept() (net.Conn, error) {
	for pause := 5 * time.Millisecond; ; {
		c, err := l.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			l.mu.Lock()
			if len(l.waiting) > 0 {
				c, l.waiting, err = l.waiting[0], l.waiting[1:], nil
			}
			l.mu.Unlock()
		}
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

// Close may be called more than once. What has connected until then can still be accepted:
// the kernel would reset it, with a request that a proxy has sent on it.
func (l *boundedListener) Close() error {
	l.closing.Do(func() {
		l.mu.Lock()
		l.waiting = connected(l.Listener)
		l.mu.Unlock()
		l.closed = l.Listener.Close()
	})
	return l.closed
}

// connected accepts the connections that wait at l, if it is a socket.
func connected(l net.Listener) (waiting []net.Conn) {
	s, ok := l.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) {
		for {
			c, _, err := syscall.Accept(int(fd))
			if err == syscall.EINTR || err == syscall.ECONNABORTED {
				continue
			}
			if err != nil {
				return
			}
			f := os.NewFile(uintptr(c), "connection")
			if conn, err := net.FileConn(f); err == nil {
				waiting = append(waiting, conn)
			}
			f.Close() // the connection has its own
		}
	})
	return waiting
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
