package edge

import (
	"io"
	"net"
	"syscall"
	"testing"
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
