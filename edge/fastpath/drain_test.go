package fastpath

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

const plainRequest = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"

// ask sends requests, and gives for each answer whether it is the last on its connection.
func ask(t *testing.T, c net.Conn, requests string) (last []bool) {
	t.Helper()
	if _, err := io.WriteString(c, requests); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	for range strings.Count(requests, "\r\n\r\n") {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", len(last)+1, err)
		}
		if b, err := io.ReadAll(res.Body); err != nil || string(b) != "/a" {
			t.Fatalf("%q, %v", b, err)
		}
		last = append(last, res.Close)
	}
	return last
}

// hasEnded holds that a connection has ended with what was read of it.
func hasEnded(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// A client that has just connected has its first request answered, though the server ends
// meanwhile. One that says nothing does not hold the end up for long.
func TestAnEndWaitsForTheFirstRequestOfAConnection(t *testing.T) {
	s := newServer(always, nil)
	addr, handed := serve(t, s)
	accepted := func(n int) {
		t.Helper()
		for late := time.Now().Add(20 * time.Second); s.Open() < n; time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("%d connections were accepted, not %d", s.Open(), n)
			}
		}
	}
	early, silent := dial(t, addr), dial(t, addr)
	accepted(2)
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		ended <- s.Shutdown(ctx)
	}()
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			break // the end has begun
		}
		c.Close()
		if time.Now().After(late) {
			t.Fatal("connections are accepted after the end")
		}
	}
	if last := ask(t, early, plainRequest); !last[0] {
		t.Error("the connection goes on after the end")
	}
	hasEnded(t, silent)
	if err := <-ended; err != nil {
		t.Errorf("a silent connection held up the end: %v", err)
	}
	handed.Close()
	if c, err := handed.Accept(); err == nil {
		c.Close()
		t.Error("a silent connection was handed over")
	}
}
