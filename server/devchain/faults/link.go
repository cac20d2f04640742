package faults

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Link is a network between programs and one address: a proxy for connections that can
// be slow, silent or cut. All methods may be called concurrently.
type Link struct {
	Address string // where to connect to instead of the target

	target   string
	listener net.Listener
	sniff    bool
	running  sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	delay   time.Duration
	silent  map[string]bool // by source; "" for all
	cut     map[string]bool
	conns   map[net.Conn]string // by source, while it is served
	closed  bool
}

// NewLink starts a link to target, host:port or the path of a Unix socket, open and without delay. End it with Close.
func NewLink(target string) (*Link, error) { return newLink(target, false) }

// NewPeerLink is [NewLink] for the peer address of a member of etcd, which tells the other
// members apart: each names itself by its id, in hexadecimal, in the field X-Server-From
// of its requests. Members connect without TLS.
func NewPeerLink(target string) (*Link, error) { return newLink(target, true) }

func newLink(target string, sniff bool) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Link{Address: listener.Addr().String(), target: target, listener: listener, sniff: sniff,
		silent: map[string]bool{}, cut: map[string]bool{}, conns: map[net.Conn]string{}}
	l.changed = sync.NewCond(&l.mu)
	l.running.Go(l.accept)
	return l, nil
}

// Close ends the link and its connections.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	l.changed.Broadcast()
	for c := range l.conns {
		c.Close()
	}
	l.mu.Unlock()
	l.listener.Close()
	l.running.Wait()
}

// Delay has everything arrive so much later, in each direction.
func (l *Link) Delay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// Silence has nothing arrive any more from these sources, or from anywhere if there are
// none, nor the other way: connections stay, and new ones are taken. What was sent
// meanwhile arrives after [Link.Open].
func (l *Link) Silence(sources ...string) { l.set(l.silent, sources) }

// Cut ends the connections of these sources, or all if there are none, and refuses new
// ones.
func (l *Link) Cut(sources ...string) {
	l.set(l.cut, sources)
	l.mu.Lock()
	defer l.mu.Unlock()
	for c, source := range l.conns {
		if l.is(l.cut, source) {
			c.Close()
		}
	}
}

// Open ends all that Silence and Cut began.
func (l *Link) Open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.silent)
	clear(l.cut)
	l.changed.Broadcast()
}

func (l *Link) set(of map[string]bool, sources []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(sources) == 0 {
		sources = []string{""}
	}
	for _, s := range sources {
		of[s] = true
	}
	l.changed.Broadcast()
}

func (l *Link) is(of map[string]bool, source string) bool { return of[""] || of[source] }

func (l *Link) accept() {
	for {
		c, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.running.Go(func() { l.serve(c) })
	}
}

// keep notes a connection, so that it can be cut. It reports whether it may go on.
func (l *Link) keep(c net.Conn, source string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = source
	return !l.closed && !l.is(l.cut, source)
}

func (l *Link) forget(c net.Conn) {
	c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// serve takes one connection to its end.
func (l *Link) serve(client net.Conn) {
	defer l.forget(client)
	if !l.keep(client, "") {
		return
	}
	in, source := bufio.NewReaderSize(client, 64<<10), ""
	if l.sniff {
		source = sourceOf(in)
	}
	if !l.keep(client, source) || !l.speaks(source) {
		return
	}
	network := "tcp"
	if strings.HasPrefix(l.target, "/") {
		network = "unix"
	}
	server, err := net.Dial(network, l.target)
	if err != nil {
		return
	}
	defer l.forget(server)
	if !l.keep(server, source) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { l.carry(server, server, client, source) })
	l.carry(in, client, server, source)
	back.Wait()
}

// sourceOf reads who sends the request with which a connection begins, without taking it.
func sourceOf(in *bufio.Reader) string {
	for n := 1; ; n = min(in.Buffered()+1, in.Size()) {
		_, err := in.Peek(n)
		head, _ := in.Peek(in.Buffered())
		if r, bad := http.ReadRequest(bufio.NewReader(bytes.NewReader(head))); bad == nil {
			return r.Header.Get("X-Server-From")
		}
		if err != nil || len(head) == in.Size() {
			return ""
		}
	}
}

// speaks waits until a source is not silent. It reports whether the link is still there.
func (l *Link) speaks(source string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.is(l.silent, source) && !l.is(l.cut, source) && !l.closed {
		l.changed.Wait()
	}
	return !l.closed && !l.is(l.cut, source)
}

// piece is what was read at once.
type piece struct {
	data []byte
	at   time.Time
}

// carry copies what comes from in to a connection, as the state of the link has it. Each
// piece waits for itself, so a delay takes nothing of what fits through.
func (l *Link) carry(in io.Reader, from, to net.Conn, source string) {
	pieces := make(chan piece, 64)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(pieces)
		buffer := make([]byte, 64<<10)
		for {
			n, err := in.Read(buffer)
			if n > 0 {
				pieces <- piece{slices.Clone(buffer[:n]), time.Now()}
			}
			if err != nil {
				return
			}
		}
	})
	whole := true
	for p := range pieces {
		l.mu.Lock()
		delay := l.delay
		l.mu.Unlock()
		time.Sleep(time.Until(p.at.Add(delay)))
		if whole = whole && l.speaks(source); whole {
			_, err := to.Write(p.data)
			whole = err == nil
		}
		if !whole {
			from.Close() // which ends the reading
		}
	}
	reading.Wait()
	if !whole || !l.speaks(source) {
		from.Close()
		to.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
}
