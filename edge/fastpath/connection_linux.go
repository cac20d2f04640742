//go:build linux && (amd64 || arm64)

package fastpath

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// serve reads and writes a socket itself while it is ready, and leaves the
// waiting to Go: then nothing is held for a connection that is idle.
//
// Go's poller reports each change of a socket once. So a connection may wait only after
// a read that found nothing. A read that did not fill its buffer has found all bytes too,
// but not the end of the connection, if that came with them. One more read each time
// would cost 6 % of an answer, so from its second turn on a connection makes it only
// after a pause. A client that ends the connection with its first request, as programs
// do that ask once, sees it closed at once; with a later request, after the pause.
func (c *connection) serve() (w *scratch, n int, what outcome, expired bool) {
	raw := c.socket()
	if raw == nil {
		return c.serveBlocking()
	}
	_, c.looks = c.RemoteAddr().(*net.TCPAddr)
	turn := func(fd uintptr) (done bool) {
		c.fd = int(fd) // valid until this function returns
		if w == nil {
			w = c.s.scratch.Get().(*scratch)
		}
		for drained := false; !drained; {
			got, err := readSocket(c.fd, w.in[n:])
			switch {
			case err == syscall.EINTR:
			case err == syscall.EAGAIN:
				drained = true
			case got == 0:
				what, expired = c.unread(n, err)
				return true
			default:
				drained = c.looks && c.spoke && n+got < len(w.in)
				if n, what = c.batch(w, n+got); what != goesOn {
					return true
				}
				c.wait(n)
				drained = drained && n == 0
			}
		}
		if n == 0 {
			c.s.giveBack(w)
			w = nil
		}
		c.fd = -1
		return false
	}
	err := raw.Read(turn)
	for c.looks && c.moved != (time.Time{}) && errors.Is(err, os.ErrDeadlineExceeded) {
		c.look()
		err = raw.Read(turn)
	}
	c.fd = -1
	if err != nil {
		what, expired = c.unread(n, err)
	}
	return w, n, what, expired
}

// socket is what lies under the connection, or nil.
func (c *connection) socket() syscall.RawConn {
	s, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// writeNow writes what can be written without waiting, and gives the rest.
func (c *connection) writeNow(head, body []byte) (restOfHead, restOfBody []byte) {
	for c.fd >= 0 && len(head) > 0 {
		n, err := writeSocket(c.fd, head, body)
		if n > 0 {
			ofHead := min(n, len(head))
			head, body = head[ofHead:], body[n-ofHead:]
			if len(head) == 0 {
				head, body = body, nil
			}
		} else if err != syscall.EINTR {
			break
		}
	}
	return head, body
}
