package edge

import (
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/clientaddr"
	"webring/edge/limit"
)

// A lane serves one connection from its beginning. It answers plain reads by
// itself, in one pass over the request and with one write for all that have
// arrived together: nearly everything that a ring is asked, at a part of what a
// general server costs. With the first request of any other kind it hands the
// connection over to fasthttp, with what it has read of it, and never gets it
// back. So nothing unusual is decided here, and what is answered here is
// answered as fasthttp's handlers would: the fields come from the same
// functions.
//
// What it is worth: of /next, 7.5 µs of processor instead of 13 one at a time, and
// 1.1 instead of 4.3 pipelined, kernel included. The goal, which make bench looks
// at, is 1.15 times what fasthttp takes for a constant. Four fifths of what is left
// are the kernel's: three for the write, one for the read and for waiting.
type lane struct {
	s      *Shell
	conn   net.Conn
	client clientaddr.Client // the peer, or the proxy that it is
	named  string            // the field in which it names its client, if it is a trusted proxy
	to     *laneListener

	state atomic.Int32
	spoke bool // anything has arrived
	fd    int  // the socket while it may be written to at once, or -1

	// Deadlines are moved when they are a little old, not at each request:
	// each move costs as much as a lookup. That of a request that came in part
	// is set once: more of it gives no more time.
	moved time.Time // zero where none for an idle connection is set
	begun bool
	looks bool // it looks for the end when nothing has come for a pause
}

// The states of a lane.
const (
	laneIdle  int32 = iota // between requests
	laneBusy               // in the middle of one
	laneLast               // in the middle of the last one
	laneEnded              // closed from outside while idle
)

// work is what a lane needs while it answers, reused from lane to lane.
type work struct {
	in     [maxPlain]byte
	out    []byte
	lent   []byte // what comes after out: somebody else's, until it is sent
	answer answer
	read   plainRead
}

// leastLent is the shortest body that is not copied, in bytes: to send it from
// where it lies costs as much as copying so many.
const leastLent = 4 << 10

// What becomes of a connection.
type fate uint8

const (
	goesOn   fate = iota // more is to come
	handOver             // to fasthttp, with what is in the buffer
	ends
)

// run serves the connection until it ends or is handed over. A fault in what
// reads requests costs this connection, and not the process.
func (l *lane) run() {
	defer l.s.lanes.leave(l)
	defer func() {
		if v := recover(); v != nil {
			l.s.logPanic(v, nil, nil)
			l.conn.Close()
		}
	}()
	w, n, fate, expired := l.serve()
	if fate == handOver {
		var unread []byte
		if n > 0 {
			unread = append(unread, w.in[:n]...)
		}
		l.to.hand(handedOver(l.conn, unread, expired))
	} else {
		l.conn.Close()
	}
	l.s.rest(w)
}

// serveSlowly reads with calls that block: for connections that are no sockets
// of this system, as with TLS. It gives what has been read and not answered.
// While the connection is idle, it holds no more than room for a short request.
func (l *lane) serveSlowly() (w *work, n int, f fate, expired bool) {
	first := make([]byte, 512)
	l.conn.SetReadDeadline(time.Now().Add(l.s.server.ReadTimeout))
	for {
		into := first
		if w != nil {
			into = w.in[n:]
		}
		// What comes together with an error counts; the error comes again.
		got, err := l.conn.Read(into)
		if got == 0 {
			f, expired = l.unread(n, err)
			return w, n, f, expired
		}
		if w == nil {
			w = l.s.works.Get().(*work)
			copy(w.in[:], first[:got])
		}
		if n, f = l.batch(w, n+got); f != goesOn {
			return w, n, f, false
		}
		l.wait(n)
		if n == 0 {
			l.s.rest(w)
			w = nil
		}
	}
}

// unread says what becomes of a connection from which n bytes have been read
// and no more can be. Fasthttp says so where somebody may hear it, and counts
// half a request.
func (l *lane) unread(n int, err error) (f fate, expired bool) {
	t, ok := err.(net.Error)
	if expired = ok && t.Timeout(); n > 0 || expired && !l.spoke {
		return handOver, expired
	}
	return ends, false
}

// wait moves the deadline for the next bytes: of a request of which some have
// come it is near and exact, of one that has not begun it may be early by an
// eighth.
func (l *lane) wait(some int) {
	idle := l.s.server.IdleTimeout
	switch {
	case some > 0 && !l.begun:
		l.conn.SetReadDeadline(time.Now().Add(l.s.server.ReadTimeout))
		l.begun, l.moved = true, time.Time{}
	case some == 0 && time.Since(l.moved) > min(idle/8, time.Second):
		if l.looks {
			idle = l.pause()
		}
		l.moved = time.Now()
		l.conn.SetReadDeadline(l.moved.Add(idle))
	}
}

// pause is for how long nothing comes until a lane looks whether the end has come.
func (l *lane) pause() time.Duration { return min(l.s.server.IdleTimeout/2, 2*time.Second) }

// look moves the deadline after such a pause to where it would be without.
func (l *lane) look() {
	l.conn.SetReadDeadline(time.Now().Add(l.s.server.IdleTimeout - l.pause()))
	l.moved = time.Time{}
}

// batch answers all plain reads of the n bytes in w, and moves what is left to
// the front.
func (l *lane) batch(w *work, n int) (left int, f fate) {
	if !l.state.CompareAndSwap(laneIdle, laneBusy) && l.state.Load() == laneEnded {
		return 0, ends
	}
	l.spoke = true
	at, what := 0, isPart
	w.out = w.out[:0]
	for at < n {
		var length int
		if length, what = w.read.parse(w.in[at:n], l.s.plain, l.named); what != isPlain {
			break
		}
		// An answer may take its time, and so may sending it: what comes after it would be
		// counted in a window that has passed.
		now := l.s.now()
		client := l.asks(w)
		win := l.s.limiterOf(client).Take(client, now)
		if win.Exceeded() {
			what = isOther // refused by those who say such things
			break
		}
		at += length
		l.begun = false
		last := l.state.Load() == laneLast
		l.s.answerPlain(w, win, now, last)
		if last || len(w.lent) > 0 || len(w.out) > keepBody {
			if !l.send(w) || last {
				return 0, ends
			}
		}
	}
	if len(w.out) > 0 && !l.send(w) {
		return 0, ends
	}
	left = copy(w.in[:], w.in[at:n])
	switch {
	case what == isOther:
		return left, handOver
	case left == 0 && !l.state.CompareAndSwap(laneBusy, laneIdle):
		return 0, ends // told so while it answered
	}
	return left, goesOn
}

// asks says whose request was read.
func (l *lane) asks(w *work) clientaddr.Client {
	if l.named == "" {
		return l.client
	}
	return l.s.proxies.Behind(l.client, w.read.client)
}

// send writes what has been put together, and what is lent: the end of the
// connection when it reports false.
func (l *lane) send(w *work) bool {
	if l.fd < 0 && len(w.lent) <= keepBody {
		w.out, w.lent = append(w.out, w.lent...), nil // one call is worth a copy
	}
	head, body := l.writeNow(w.out, w.lent)
	w.out, w.lent = w.out[:0], nil
	return l.write(head) && l.write(body)
}

// write writes to a connection that may have to wait.
func (l *lane) write(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	l.conn.SetWriteDeadline(time.Now().Add(l.s.server.WriteTimeout))
	_, err := l.conn.Write(b)
	return err == nil
}

// end makes the lane end: at once when it is idle, otherwise with the answers
// that it is giving.
func (l *lane) end() {
	for { // it may become idle between the two
		switch {
		case l.state.CompareAndSwap(laneIdle, laneEnded):
			l.conn.Close()
			return
		case l.state.CompareAndSwap(laneBusy, laneLast), l.state.Load() >= laneLast:
			return
		}
	}
}

// rest takes a lane's work back, without buffers that are larger than most
// answers need. It may be nil.
func (s *Shell) rest(w *work) {
	if w == nil {
		return
	}
	if cap(w.out) > 2*keepBody {
		w.out = nil
	}
	w.answer.trim()
	s.works.Put(w)
}

// answerPlain appends the answer to the read in w, or lends its body.
func (s *Shell) answerPlain(w *work, win limit.Window, now time.Time, last bool) {
	before := len(w.out)
	defer func() {
		if v := recover(); v != nil {
			s.logPanic(v, []byte(fasthttp.MethodGet), w.read.target)
			w.out, w.lent = s.appendInternal(w.out[:before], win, now, last), nil
		}
	}()
	t := s.core.enter()
	defer t.leave()
	status, body := s.plainAnswer(w, t)
	w.out = s.appendHead(w.out, status, w.answer.fields, len(body), win, now, last)
	if len(body) >= leastLent {
		w.lent = body
	} else {
		w.out = append(w.out, body...)
	}
}

// plainAnswer puts together the fields of the answer to the read in w, and gives
// its body, which nobody changes while w is not used anew.
func (s *Shell) plainAnswer(w *work, t *tenure) (status int, body []byte) {
	r, f := &w.answer.Response, form{}
	front := w.read.front()
	if front {
		l, failed := s.leaf(drawHome, t, "/", "/", &noQuery)
		if failed == nil {
			w.answer.fields, status, body = l.appendAnswer(w.answer.fields[:0], &w.read, t)
			w.answer.fields = append(w.answer.fields, varyAccept...)
			return status, body
		}
		r = &failed.Response
		f.body = r.Body
	} else {
		r, f = t.serve(w.read.target, &w.read, r)
	}
	w.answer.fields, status = t.appendAnswer(w.answer.fields[:0], r, &f, w.read.ifNoneMatch)
	if front {
		w.answer.fields = append(w.answer.fields, varyAccept...)
	}
	if status == fasthttp.StatusNotModified {
		return status, nil
	}
	return status, f.body
}

// varyAccept is on all answers at the address of a page.
const varyAccept = "Vary: Accept\r\n"

// appendInternal appends the answer to a read that could not be given.
func (s *Shell) appendInternal(dst []byte, win limit.Window, now time.Time, last bool) []byte {
	body := api.AppendProblem(nil, s.core.BaseURL(), internal.code, internal.detail, nil)
	return append(s.appendHead(dst, internal.code.Status(), []byte(notStored+problemFields), len(body), win, now, last), body...)
}

// appendHead appends an answer up to its body.
func (s *Shell) appendHead(dst []byte, status int, fields []byte, length int, win limit.Window, now time.Time, last bool) []byte {
	dst = append(dst, statusLines[status]...)
	dst = appendDate(dst, now)
	dst = append(dst, fields...)
	dst = s.appendCommon(dst, win, now)
	if last {
		dst = append(dst, "Connection: close\r\n"...)
	}
	if status != fasthttp.StatusNotModified {
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(length), 10)
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...)
}
