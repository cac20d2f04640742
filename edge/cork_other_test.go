//go:build !linux

package edge

import (
	"io"
	"net"
	"testing"
)

// atOnce sends a request and the end of the connection, which elsewhere than on
// Linux need not arrive together.
func atOnce(t *testing.T, c net.Conn, request string) {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
}
