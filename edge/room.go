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

	"webring/core/api"
	"webring/edge/front"
)

const (
	// maxConns is how many connections may be open, and maxConnsPerClient how many of one
	// client.
	maxConns          = 16384
	maxConnsPerClient = 256
	// maxHolding is how many bytes connections may hold for requests: those that have come in
	// part, those that are being answered, and those with an answer that the client has not read.
	maxHolding = 1024 * requestBytes
	// requestBytes is what such a connection counts for, with the buffers for its request and an
	// answer of up to maxCopied bytes. Of a longer answer, all bytes count in addition, though
	// connections with the same one share them.
	requestBytes = 128 << 10
)

// room bounds the connections of a node, and the memory that they hold.
//
// When it is full, connections that wait make room for a new one: those between requests,
// those with a part of a request, those that wait for their turn to be answered, and those
// that do not read what they have asked for. The networks with the most of these lose them, and
// of each the client with the most, its oldest first. So a crowd takes its own places, however
// many addresses it has, and a client of another network gets in. No connection ends while a
// request on it is in work, or before the answer to anything but a read is sent.
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

// crowd is a set of connections of some size with bounds: for all, and for the networks around
// a client by their width, 0 where there is none.
type crowd struct {
	index int
	most  int
	each  [front.Widths]int
	in    map[*boundedConn]struct{}
	size  int // of all
	by    [front.Widths]map[front.Client]int
}

// place is a connection's place in a crowd.
type place struct {
	taken   bool
	client  front.Client
	counted bool // by its networks
	size    int
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
	leaving chan struct{} // closed when it is evicted, while it waits for its turn; of the room

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
	return r.take(&r.open, c, place{client: c.client, counted: c.counted, size: 1})
}

// leave gives back what a connection still has.
func (r *room) leave(c *boundedConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open.remove(c)
	r.holding.remove(c)
}

// Hold takes a place among the connections that hold memory, for a request of this client, or for
// an answer of so many bytes that the client has to read. It reports false if there is none.
func (c *boundedConn) Hold(of front.Client, answer int) bool {
	p := place{client: of, counted: of.IsOne(), size: requestBytes}
	if of == c.client {
		p.counted = c.counted
	}
	if answer > maxCopied {
		p.size += answer
	}
	c.since.Store(time.Now().UnixNano())
	c.writing.Store(answer > 0)
	c.unfreed = false
	r := c.room
	r.mu.Lock()
	defer r.mu.Unlock()
	c.working.Store(false)
	if has := c.places[amongHolding]; has.taken && has.client == p.client && has.size == p.size {
		return true
	}
	r.holding.remove(c)
	return !c.evicted.Load() && r.take(&r.holding, c, p)
}

// newTurns gives n turns, each with room for an answer.
func newTurns(n int) chan *api.Response {
	turns := make(chan *api.Response, n)
	for range n {
		turns <- new(api.Response)
	}
	return turns
}

// turn waits for one of turns, which the caller gives back. It reports false if the connection,
// which may be nil, has to make room meanwhile. Otherwise its request is in work.
func (c *boundedConn) turn(turns chan *api.Response) (mine *api.Response, ok bool) {
	if c == nil {
		return <-turns, true
	}
	c.await(make(chan struct{}))
	select {
	case mine = <-turns:
	case <-c.leaving:
	}
	if c.await(nil); c.Evicted() && mine != nil {
		turns <- mine
	}
	return mine, !c.Evicted()
}

// await says that the connection waits for its turn until leaving is closed, or with nil that its
// request is in work.
func (c *boundedConn) await(leaving chan struct{}) {
	c.room.mu.Lock()
	defer c.room.mu.Unlock()
	if c.leaving = leaving; leaving != nil && c.evicted.Load() {
		close(leaving)
	}
	c.working.Store(leaving == nil)
}

// Free gives the place back that [boundedConn.Hold] took.
func (c *boundedConn) Free() {
	c.writing.Store(false)
	c.working.Store(false)
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
	c.unfreed = !c.evicted.Load() && r.take(&r.holding, c, place{client: c.client, counted: c.counted, size: requestBytes})
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

// send says that an answer of so many bytes is being sent, which can be asked for again. It reports
// false if there is no room for it.
func (c *boundedConn) send(answer int) bool {
	c.room.mu.Lock()
	of := c.places[amongHolding].client
	c.room.mu.Unlock()
	return c.Hold(of, max(answer, 1))
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

// SetWriteDeadline is called whenever a connection begins to write.
func (c *boundedConn) SetWriteDeadline(t time.Time) error {
	err := c.Conn.SetWriteDeadline(t)
	if c.evicted.Load() && c.writing.Load() {
		err = c.Conn.SetWriteDeadline(past)
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
	if c.leaving != nil {
		close(c.leaving)
	}
}

// take takes a place in a crowd. Others are evicted for it if need be, several at a time:
// to find them takes a look at all. The caller holds mu.
func (r *room) take(w *crowd, c *boundedConn, p place) bool {
	if p.counted {
		for width, each := range w.each {
			network := p.client.Within(width)
			if over := w.by[width][network] + p.size - each; each > 0 && over > 0 && !r.shrink(w, width, network, over, each/16) {
				r.metrics.refuse(byConnection)
				return false
			}
		}
	}
	if over := w.size + p.size - w.most; over > 0 && !r.shrink(w, front.Widths, p.client, over, w.most/64) {
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
	w.count(p, p.size)
}

func (w *crowd) remove(c *boundedConn) {
	if p := c.places[w.index]; p.taken {
		delete(w.in, c)
		c.places[w.index] = place{}
		w.count(p, -p.size)
	}
}

func (w *crowd) count(p place, n int) {
	w.size += n
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

// shrink evicts connections of a crowd that wait, of a network of this width or of all: as many
// as give up some size and a little more, or as there are. It reports whether that was enough.
func (r *room) shrink(w *crowd, width int, network front.Client, size, more int) bool {
	var waiting []candidate
	for c := range w.in {
		p := c.places[w.index]
		if c.working.Load() || width < front.Widths && (!p.counted || p.client.Within(width) != network) {
			continue
		}
		waiting = append(waiting, candidate{c, p.client, p.size, c.since.Load()})
	}
	slices.SortFunc(waiting, func(a, b candidate) int {
		aNet, aKind := a.client.Key()
		bNet, bKind := b.client.Key()
		return cmp.Or(cmp.Compare(aKind, bKind), cmp.Compare(aNet, bNet), cmp.Compare(a.since, b.since))
	})
	return heaviest(waiting, front.Widths-1, size+more, r.evict) >= size
}

// candidate is a connection that may be evicted.
type candidate struct {
	conn   *boundedConn
	client front.Client
	size   int
	since  int64
}

// heaviest takes some size of the candidates, which are sorted by client and then by age, and
// gives what it took: a part of a candidate more, or less if there are no more. Networks with more
// give it until they have as much as others, and so do the networks and clients within each;
// of a client, the oldest go.
func heaviest(from []candidate, width, size int, take func(*boundedConn)) (took int) {
	if width < 0 {
		for _, c := range from {
			if took >= size {
				break
			}
			take(c.conn)
			took += c.size
		}
		return took
	}
	type group struct {
		of    []candidate
		size  int
		since int64
	}
	var groups []group
	for len(from) > 0 {
		g, n := group{since: from[0].since}, 0
		for network := from[0].client.Within(width); n < len(from) && from[n].client.Within(width) == network; n++ {
			g.size += from[n].size
			g.since = min(g.since, from[n].since)
		}
		g.of, from = from[:n], from[n:]
		groups = append(groups, g)
	}
	// Of as much, the network with the oldest goes first.
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.since, b.since))
	})
	// The first k networks are to be left with the same size.
	sum, k := 0, 0
	for k < len(groups) && (k == 0 || sum-k*groups[k].size < size) {
		sum += groups[k].size
		k++
	}
	left := max(sum-size, 0) // with the first k
	for i := 0; i < k && took < size; i++ {
		// The youngest keep one more when it cannot be divided.
		keeps := min(left/(k-i), groups[i].size)
		left -= keeps
		took += heaviest(groups[i].of, width-1, min(groups[i].size-keeps, size-took), take)
	}
	return took
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
