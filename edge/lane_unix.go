//go:build unix

package edge

import (
	"syscall"
	"time"
)

// serve reads and writes a socket itself while it is ready, and leaves the
// waiting to Go: then nothing is held for a connection that is idle.
func (l *lane) serve() (w *work, n int, f fate, expired bool) {
	raw := l.socket()
	if raw == nil {
		return l.serveSlowly()
	}
	l.conn.SetReadDeadline(time.Now().Add(l.s.server.ReadTimeout))
	err := raw.Read(func(fd uintptr) bool {
		l.fd = int(fd) // valid until this function returns
		if w == nil {
			w = l.s.works.Get().(*work)
		}
		for {
			got, err := syscall.Read(l.fd, w.in[n:])
			switch {
			case err == syscall.EINTR:
				continue
			case err == syscall.EAGAIN:
				if n == 0 {
					l.s.rest(w)
					w = nil
				}
				l.fd = -1
				return false
			case err != nil || got <= 0:
				f, expired = l.unread(n, err)
				return true
			}
			if n, f = l.batch(w, n+got); f != goesOn {
				return true
			}
			l.wait(n)
		}
	})
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
func (l *lane) writeNow(b []byte) []byte {
	for l.fd >= 0 && len(b) > 0 {
		n, err := syscall.Write(l.fd, b)
		if n > 0 {
			b = b[n:]
		} else if err != syscall.EINTR {
			break
		}
	}
	return b
}
