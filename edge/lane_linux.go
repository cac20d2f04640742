//go:build linux && (amd64 || arm64)

package edge

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"webring/edge/socket"
)

// serve reads and writes a socket itself while it is ready, and leaves the
// waiting to Go: then nothing is held for a connection that is idle.
//
// Go hears once of what is new about a socket, so to wait is right when all of
// that has been read: when a read has found nothing. One that was not filled has
// found nothing more either, but for the end of the connection, if that came
// together with the last bytes. To read once more each time costs 6 % of an
// answer; so from its second turn on, a lane does that only when nothing has come
// for a while. Who says with the request that there will be no other, as programs
// do that ask once, has the connection closed at once, and who says so later a
// moment after the answer.
func (l *lane) serve() (w *work, n int, f fate, expired bool) {
	raw := l.socket()
	if raw == nil {
		return l.serveSlowly()
	}
	_, tcp := l.conn.RemoteAddr().(*net.TCPAddr)
	l.looks = tcp
	l.conn.SetReadDeadline(time.Now().Add(l.s.server.ReadTimeout))
	turn := func(fd uintptr) (done bool) {
		l.fd = int(fd) // valid until this function returns
		if w == nil {
			w = l.s.works.Get().(*work)
		}
		for drained := false; !drained; {
			got, err := socket.Read(l.fd, w.in[n:])
			switch {
			case err == syscall.EINTR:
			case err == syscall.EAGAIN:
				drained = true
			case got == 0:
				f, expired = l.unread(n, err)
				return true
			default:
				drained = l.looks && l.spoke && n+got < len(w.in)
				if n, f = l.batch(w, n+got); f != goesOn {
					return true
				}
				l.wait(n)
				drained = drained && n == 0
			}
		}
		if n == 0 {
			l.s.rest(w)
			w = nil
		}
		l.fd = -1
		return false
	}
	err := raw.Read(turn)
	for l.looks && l.moved != (time.Time{}) && errors.Is(err, os.ErrDeadlineExceeded) {
		l.look()
		err = raw.Read(turn)
	}
	l.fd = -1
	if err != nil {
		f, expired = l.unread(n, err)
	}
	return w, n, f, expired
}

// socket is what lies under the connection, or nil.
func (l *lane) socket() syscall.RawConn {
	b, ok := l.conn.(*boundedConn)
	if !ok {
		return nil
	}
	s, ok := b.Conn.(syscall.Conn)
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
func (l *lane) writeNow(head, body []byte) (restOfHead, restOfBody []byte) {
	for l.fd >= 0 && len(head) > 0 {
		n, err := socket.Write(l.fd, head, body)
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
