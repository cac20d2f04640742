package edge

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"webring/edge/front"
	"webring/edge/pages"
	"webring/edge/share"
)

// livePath is the event stream (WHATWG HTML, "Server-sent events") by which open pages draw what
// changes in the ring.
const livePath = "/ring/live"

const (
	// maxLive is how many pages may be open at a node, and maxLivePerClient how many of one
	// client; clients and their networks share them by the rule of [share]. A quarter of all connections is left for requests.
	maxLive          = maxConns / 4 * 3
	maxLivePerClient = 64
	// liveTurn is how often the ring is looked at while a page is open. What happens in one
	// turn is one event.
	liveTurn = 200 * time.Millisecond
	// liveSilence is after how long a comment is sent, for proxies that end silent connections.
	liveSilence = 20 * time.Second
	// liveBegin bounds the sending of the head.
	liveBegin = 5 * time.Second
)

// live sends what changes in the drawing of the ring to all open pages. An event is made once, and
// one goroutine writes the same bytes to every connection that can take them at once. One that
// cannot is closed: its page connects again and gets the whole drawing. So a page costs a
// connection and a goroutine that waits for its end, and a slow one costs the others nothing.
type live struct {
	core  *Swappable
	pages *pages.Pages

	mu      sync.Mutex
	open    map[*livePage]struct{}
	places  *share.Shares // of the pages of clients by their addresses
	running bool
	ended   bool
}

// livePage is a connection on which a page reads.
type livePage struct {
	conn   net.Conn     // written to by the goroutine of run alone
	under  *boundedConn // of conn
	client front.Client
	begun  bool // it has had the whole drawing; of that goroutine
}

func newLive(core *Swappable, pages *pages.Pages) *live {
	return &live{core: core, pages: pages, open: map[*livePage]struct{}{}, places: share.NewShares(share.Rule{Most: maxLive, Half: maxLivePerClient})}
}

// room reports whether one more page of a client may be open. The caller holds mu.
func (l *live) room(client front.Client) bool {
	asker := share.AskerOf(client.String())
	return !l.ended && len(l.open) < maxLive && (!client.IsOne() || l.places.Had(asker) < maxLivePerClient && l.places.Room(asker))
}

// enter adds a page, if there is room.
func (l *live) enter(p *livePage) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.room(p.client) {
		return false
	}
	l.open[p] = struct{}{}
	if p.client.IsOne() {
		l.places.Take(share.AskerOf(p.client.String()))
	}
	if !l.running {
		l.running = true
		go l.run()
	}
	return true
}

func (l *live) leave(p *livePage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, p)
	if p.client.IsOne() {
		l.places.Return(share.AskerOf(p.client.String()))
	}
}

// end closes all connections, and takes no more.
func (l *live) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for p := range l.open {
		p.under.Conn.SetReadDeadline(past)
	}
}

// turn gives the pages that are open. Without any, run is over.
func (l *live) turn(into []*livePage) []*livePage {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = len(l.open) > 0
	for p := range l.open {
		into = append(into, p)
	}
	return into
}

// run sends events until no page is open any more.
func (l *live) run() {
	turns := time.NewTicker(liveTurn)
	defer turns.Stop()
	var shown *pages.Drawing
	var whole []byte
	var all []*livePage
	last := time.Now()
	for now := range turns.C {
		if all = l.turn(all[:0]); len(all) == 0 {
			return
		}
		var event []byte
		if next := l.look(shown); next != nil {
			if shown != nil {
				if change := next.Since(shown); change != nil {
					event = liveEvent(change)
				}
			}
			shown, whole = next, liveEvent(next)
		}
		if len(event) == 0 && now.Sub(last) >= liveSilence {
			event = []byte(":\n\n")
		}
		if len(event) > 0 {
			last = now
		}
		for _, p := range all {
			send := event
			if !p.begun && whole != nil {
				p.begun, send = true, whole
			}
			if len(send) == 0 {
				continue
			}
			if n, err := p.conn.Write(send); err != nil || n < len(send) {
				p.under.Close() // TLS would wait for the peer to read that it ends
			}
		}
		clear(all)
	}
}

// look gives the drawing of the ring if there were events since the one that is shown.
func (l *live) look(shown *pages.Drawing) *pages.Drawing {
	g := l.core.enter()
	defer g.leave()
	if seq, _ := g.Head(); shown != nil && seq == shown.Seq {
		return nil
	}
	return l.pages.Drawing(g)
}

func liveEvent(d *pages.Drawing) []byte {
	text, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return append(append([]byte("data: "), text...), "\n\n"...)
}

// live answers with the stream. A Worker passes pages on and cannot share one stream between them, so
// what an edge of this ring passes on gets 204, which has the page ask from time to time.
func (s *Shell) readLive(ctx *fasthttp.RequestCtx) {
	setHeader(ctx, "Cache-Control", "no-store")
	if ctx.UserValue(senderKey{}) != nil {
		ctx.SetStatusCode(fasthttp.StatusNoContent)
		return
	}
	client := s.proxies.Client(ctx)
	s.live.mu.Lock()
	room := s.live.room(client)
	s.live.mu.Unlock()
	if !room {
		s.problem(ctx, overloaded)
		return
	}
	ctx.Response.Header.SetContentType("text/event-stream")
	setHeader(ctx, "X-Accel-Buffering", "no") // for proxies that would wait for more
	if ctx.IsHead() {
		return
	}
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {
		// The response is complete by now, but for what says how long it is.
		h := &ctx.Response.Header
		h.Del("Connection")
		h.SetContentLength(-2) // as long as the connection
		head := h.AppendBytes(nil)
		// Pages that end together, since their node stops, connect again at different times.
		head = append(strconv.AppendInt(append(head, "retry: "...), 3000+rand.Int64N(7000), 10), "\n\n"...)
		conn := ctx.Conn()
		if c, ok := conn.(interface{ Unwrap() net.Conn }); ok {
			conn = c.Unwrap()
		}
		go s.live.serve(&livePage{conn: conn, under: bounded(conn), client: client}, head)
	})
}

// serve sends the head and waits until the page closes the connection, sends something on it, or
// has to make room.
func (l *live) serve(p *livePage, head []byte) {
	defer p.under.Close()
	p.conn.SetWriteDeadline(time.Now().Add(liveBegin))
	if _, err := p.conn.Write(head); err != nil {
		return
	}
	p.conn.SetWriteDeadline(time.Time{})
	p.under.prompt = true
	p.under.Free() // no memory is held for the request any more
	p.under.Await()
	if !l.enter(p) {
		return
	}
	defer l.leave(p)
	if !p.under.Evicted() { // else the deadline that it got is no more
		var b [1]byte
		p.conn.Read(b[:])
	}
}

// Write writes to a connection on which a page reads only what goes out at once.
func (c *boundedConn) Write(p []byte) (n int, err error) {
	if !c.prompt {
		return c.Conn.Write(p)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return c.Conn.Write(p) // no socket
	}
	refused := raw.Write(func(fd uintptr) bool {
		for n, err = syscall.Write(int(fd), p); err == syscall.EINTR; {
			n, err = syscall.Write(int(fd), p)
		}
		return true
	})
	if n = max(n, 0); err == nil && n < len(p) {
		err = errSlow
	}
	return n, errors.Join(refused, err)
}

var errSlow = errors.New("edge: a page does not read")
