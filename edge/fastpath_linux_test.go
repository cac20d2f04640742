package edge

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// atOnce sends a request and the end of the connection in one packet.
func atOnce(t *testing.T, c net.Conn, request string) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var corked error
	if err := raw.Control(func(fd uintptr) { corked = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_CORK, 1) }); err != nil || corked != nil {
		t.Fatal(err, corked)
	}
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
}

// A client that says with a later request that it was the last need not wait until the
// connection has been idle for long. A client that only pauses is answered.
func TestTheEndThatCameWithALaterRequestIsSeenSoon(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), IdleTimeout: time.Hour})
	const request = "GET /next HTTP/1.1\r\nHost: x\r\n\r\n"
	open := func() (net.Conn, *bufio.Reader) {
		c := s.Dial()
		r := bufio.NewReader(c)
		ask(t, s, c, r, request)
		ask(t, s, c, r, request)
		return c, r
	}
	still, answers := open()
	var ended sync.WaitGroup
	for range 8 {
		c, r := open()
		atOnce(t, c, request)
		ended.Go(func() {
			b, err := io.ReadAll(r)
			if err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 302 ")) {
				t.Errorf("%.60q, %v", b, err)
			}
		})
	}
	ended.Wait()
	if got := ask(t, s, still, answers, request); got.Status != 302 {
		t.Errorf("after a pause: status %d", got.Status)
	}
}
