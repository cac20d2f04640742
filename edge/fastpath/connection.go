package fastpath

import (
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"webring/edge/front"
)

// connection serves one connection from its beginning until it ends or is handed over.
type connection struct {
	net.Conn
	s          *Server
	to         *listener    // takes it when it is handed over
	peer       front.Client // the client, or the proxy that it is
	proxyField string       // the field in which it names its client, if it is a trusted proxy
	holder     Holder

	state atomic.Int32
	spoke bool // anything has arrived
	fd    int  // the socket while it may be written to at once, or -1

	// Deadlines are moved when they are a little old, not at each request:
	// each move costs as much as a lookup. That of a request that came in part
	// is set once: more of it gives no more time.
	moved time.Time // zero where none for an idle connection is set
	begun bool
	holds bool // memory, as the holder knows
	looks bool // it looks for the end of the connection after each pause
}

// firstTime is for how long a stop waits for the first request of a connection that was
// accepted before it.
const firstTime = 2 * time.Second

// The states of a connection.
const (
	fresh int32 = iota // nothing has come yet
	idle               // between requests
	busy               // in the middle of one
	last               // in the middle of the last one
	ended              // closed from outside while idle
)

// scratch is what a connection needs while it answers. An idle connection has none.
type scratch struct {
	in       [maxRequest]byte
	out      []byte
	lent     []byte // what comes after out: the answerer's, until it is sent
	request  Request
	answerer Answerer
}

const (
	// minLent is the shortest body that is not copied, in bytes: to send it from
	// where it lies costs as much as copying so many.
	minLent = 4 << 10
	// maxCopied is how many bytes are put together before they are sent. Twice as many
	// are kept for the next connection.
	maxCopied = 64 << 10
)

// outcome is what becomes of a connection.
type outcome uint8

const (
	goesOn   outcome = iota // more is to come
	handOver                // to fasthttp, with what is in the buffer
	ends
)

// run serves the connection. A panic in what reads requests costs this connection, and
// not the process.
func (c *connection) run() {
	defer c.s.leave(c)
	defer func() {
		if v := recover(); v != nil {
			c.s.cfg.OnPanic(v)
			c.Close()
		}
	}()
	w, n, what, expired := c.serve()
	if what == handOver {
		var unread []byte
		if n > 0 {
			unread = append(unread, w.in[:n]...)
		}
		c.handOver(unread, expired)
	} else {
		c.Close()
	}
	c.s.giveBack(w)
}

// serveBlocking reads with calls that block, for connections that are not plain sockets,
// such as TLS. It gives what has been read and not answered. While the connection is
// idle, it holds room for a short request only.
func (c *connection) serveBlocking() (w *scratch, n int, what outcome, expired bool) {
	first := make([]byte, 512)
	for {
		into := first
		if w != nil {
			into = w.in[n:]
		}
		// Bytes that come with an error count; the next read gives the error again.
		got, err := c.Read(into)
		if got == 0 {
			what, expired = c.unread(n, err)
			return w, n, what, expired
		}
		if w == nil {
			w = c.s.scratch.Get().(*scratch)
			copy(w.in[:], first[:got])
		}
		if n, what = c.batch(w, n+got); what != goesOn {
			return w, n, what, false
		}
		c.wait(n)
		if n == 0 {
			c.holder.Await()
			c.s.giveBack(w)
			w = nil
		}
	}
}

// unread says what becomes of a connection that has ended after n unanswered bytes. If
// the client may still read a refusal, the connection goes to fasthttp, which writes the
// refusal and counts the incomplete request.
func (c *connection) unread(n int, err error) (what outcome, expired bool) {
	t, ok := err.(net.Error)
	if expired = ok && t.Timeout(); n > 0 || expired && !c.spoke && c.state.Load() == fresh && !c.holder.Evicted() {
		return handOver, expired
	}
	return ends, false
}

// wait moves the deadline for the next bytes. In the middle of a request, of which some
// bytes have come, it is exact. Between requests it may be early by an eighth.
func (c *connection) wait(some int) {
	timeout := c.s.cfg.IdleTimeout
	switch {
	case some > 0 && !c.begun:
		c.SetReadDeadline(time.Now().Add(c.s.cfg.ReadTimeout))
		c.begun, c.moved = true, time.Time{}
		if c.holds = c.holder.Hold(c.peer, 0); !c.holds {
			c.SetReadDeadline(c.moved) // over: what has come is handed over, and refused
		}
	case some == 0 && time.Since(c.moved) > min(timeout/8, time.Second):
		if c.looks {
			timeout = c.pause()
		}
		c.moved = time.Now()
		c.SetReadDeadline(c.moved.Add(timeout))
	}
}

// pause is how long an idle connection waits before it looks whether the client has
// closed it.
func (c *connection) pause() time.Duration { return min(c.s.cfg.IdleTimeout/2, 2*time.Second) }

// look moves the deadline, after a pause, to the end of the idle timeout.
func (c *connection) look() {
	c.SetReadDeadline(time.Now().Add(c.s.cfg.IdleTimeout - c.pause()))
	c.moved = time.Time{}
}

// batch answers all plain reads of the n bytes in w, and moves what is left to
// the front.
func (c *connection) batch(w *scratch, n int) (left int, what outcome) {
	if !c.state.CompareAndSwap(idle, busy) && !c.state.CompareAndSwap(fresh, busy) && c.state.Load() == ended {
		return 0, ends
	}
	c.spoke = true
	w.request.Holder = c.holder
	at, read := 0, isPart
	w.out = w.out[:0]
	for at < n {
		var length int
		if length, read = w.request.parse(w.in[at:n], &c.s.cfg, c.proxyField); read != isPlain {
			break
		}
		w.request.Client = c.peer
		if c.proxyField != "" {
			w.request.Client = c.s.cfg.Proxies.Behind(c.peer, w.request.proxyLines)
		}
		if w.request.long {
			if c.holds = c.holder.Hold(w.request.Client, 0); !c.holds {
				read = isOther // and refused there, unless there is room by then
				break
			}
		}
		// An answer may take its time, and so may sending it: the next one has its own.
		now := c.s.cfg.Now()
		answer, ok := w.answerer.Answer(&w.request, now)
		if !ok {
			read = isOther
			break
		}
		at += length
		c.begun = false
		// While the server drains, a connection ends with the last of the requests that
		// have come together.
		closing := c.state.Load() == last || at == n && c.s.draining.Load()
		w.out = appendHead(w.out, &answer, w.request.ID, w.answerer, now, closing)
		if len(answer.Body) >= minLent {
			w.lent = answer.Body
		} else {
			w.out = append(w.out, answer.Body...)
		}
		if closing || len(w.lent) > 0 || len(w.out) > maxCopied {
			if !c.send(w) || closing {
				return 0, ends
			}
		}
	}
	if len(w.out) > 0 && !c.send(w) {
		return 0, ends
	}
	left = copy(w.in[:], w.in[at:n])
	if c.holds && left == 0 && read != isOther {
		c.holds = false
		c.holder.Free()
	}
	switch {
	case read == isOther:
		return left, handOver
	case left == 0 && !c.state.CompareAndSwap(busy, idle):
		return 0, ends // told so while it answered
	}
	return left, goesOn
}

// send writes out, and then what is lent. It reports false when the connection is of no
// more use.
func (c *connection) send(w *scratch) bool {
	if c.fd < 0 && len(w.lent) <= maxCopied {
		w.out, w.lent = append(w.out, w.lent...), nil // one call is worth a copy
	}
	head, body := c.writeNow(w.out, w.lent)
	w.out, w.lent = w.out[:0], nil
	if len(head) == 0 && len(body) == 0 {
		return true
	}
	// Of what is no socket it is not known whether the client reads.
	if c.fd >= 0 || len(head)+len(body) > minLent {
		if c.holds = c.holder.Hold(w.request.Client, len(head)+len(body)); !c.holds {
			return false
		}
	}
	return c.writeAll(head) && c.writeAll(body)
}

// writeAll writes to a connection that may have to wait.
func (c *connection) writeAll(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	c.SetWriteDeadline(time.Now().Add(c.s.cfg.WriteTimeout))
	_, err := c.Write(b)
	return err == nil
}

// end makes the connection end: at once when it is idle, otherwise with the answers
// that it is giving. A client that has just connected is sending its first request, and
// has [firstTime] for it.
func (c *connection) end() {
	for { // it may become idle between the two
		switch {
		case c.state.CompareAndSwap(fresh, last):
			c.SetReadDeadline(time.Now().Add(firstTime))
			return
		case c.state.CompareAndSwap(idle, ended):
			c.Close()
			return
		case c.state.CompareAndSwap(busy, last), c.state.Load() >= last:
			return
		}
	}
}

// appendHead appends the answer to the request with this id, up to its body.
func appendHead(dst []byte, a *Answer, id []byte, by Answerer, now time.Time, closing bool) []byte {
	dst = append(dst, statusLines[a.Status]...)
	dst = appendDate(dst, now)
	dst = append(dst, a.Fields...)
	dst = append(append(append(dst, front.IDField+": "...), id...), "\r\n"...)
	dst = by.AppendCommon(dst, now)
	if closing {
		dst = append(dst, "Connection: close\r\n"...)
	}
	if a.Status != fasthttp.StatusNotModified {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(len(a.Body)), 10)
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// statusLines are the first lines of answers by status.
var statusLines = func() (lines [600]string) {
	for status := 100; status < len(lines); status++ {
		lines[status] = "HTTP/1.1 " + strconv.Itoa(status) + " " + fasthttp.StatusMessage(status) + "\r\n"
	}
	return lines
}()

// dateLine is the Date field of one second.
type dateLine struct {
	second int64
	line   []byte
}

// date is the last one that was put together, for all connections.
var date atomic.Pointer[dateLine]

func appendDate(dst []byte, now time.Time) []byte {
	d := date.Load()
	if d == nil || d.second != now.Unix() {
		line := append(fasthttp.AppendHTTPDate([]byte("Date: "), now), "\r\n"...)
		d = &dateLine{now.Unix(), line}
		date.Store(d)
	}
	return append(dst, d.line...)
}
