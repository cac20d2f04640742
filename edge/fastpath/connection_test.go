package fastpath

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"webring/edge/front"
)

// constant answers every request with the same, but none for /other.
type constant struct{}

func (constant) Answer(r *Request, _ time.Time) (Answer, bool) {
	return Answer{Status: 200, Fields: constantFields, Body: r.Target}, string(r.Target) != "/other"
}
func (constant) AppendCommon(dst []byte, _ time.Time) []byte { return dst }
func (constant) Rest()                                       {}

var constantFields = []byte("A: b\r\n")

func newServer(serves func([]byte) (route int, long, ok bool), onPanic func(any)) *Server {
	return New(Config{Serves: serves, NewAnswerer: func() Answerer { return constant{} }, OnPanic: onPanic, Proxies: new(front.Proxies), APIVersion: "1",
		ReadTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, Now: time.Now})
}

func always([]byte) (route int, long, ok bool) { return 0, false, true }

// serve has a server serve loopback, and gives the address and the listener of what is
// handed over.
func serve(t *testing.T, s *Server) (addr string, handed net.Listener) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handed = s.Listen(l)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		handed.Close()
	})
	return l.Addr().String(), handed
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// A panic ends its connection, and no other.
func TestAPanicEndsItsConnectionAlone(t *testing.T) {
	var panics atomic.Int64
	addr, _ := serve(t, newServer(func(target []byte) (int, bool, bool) {
		if string(target) == "/broken" {
			panic("broken")
		}
		return 0, false, true
	}, func(any) { panics.Add(1) }))
	for range 3 {
		c := dial(t, addr)
		io.WriteString(c, "GET /broken HTTP/1.1\r\nHost: x\r\n\r\n")
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	}
	c := dial(t, addr)
	io.WriteString(c, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
	if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != 200 {
		t.Errorf("afterwards: %v", err)
	}
	if n := panics.Load(); n != 3 {
		t.Errorf("%d panics were told of", n)
	}
}

// sink takes what is written.
type sink struct{ net.Conn }

func (sink) Write(p []byte) (int, error)      { return len(p), nil }
func (sink) SetReadDeadline(time.Time) error  { return nil }
func (sink) SetWriteDeadline(time.Time) error { return nil }
func (sink) Close() error                     { return nil }

func TestBatchesAllocateNothing(t *testing.T) {
	c, w := &connection{holder: unbounded{}, s: newServer(always, nil), Conn: sink{}, fd: -1}, &scratch{answerer: constant{}}
	requests := strings.Repeat("GET /next?from=a HTTP/1.1\r\nHost: x\r\nUser-Agent: test\r\nAccept: */*\r\nIf-None-Match: \"old\"\r\n\r\n", 3)
	batch := func() {
		if left, what := c.batch(w, copy(w.in[:], requests)); left != 0 || what != goesOn {
			t.Fatalf("%d left, outcome %d", left, what)
		}
	}
	batch()
	// A new second has a new Date.
	if n := testing.AllocsPerRun(1000, batch); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}

// stuck is a connection that takes until it is told to close.
type stuck struct {
	net.Conn
	free chan struct{}
}

func (c stuck) Close() error {
	<-c.free
	return c.Conn.Close()
}

// A peer that holds up the end of its own connection holds up no other's.
func TestConnectionsEndEachForItself(t *testing.T) {
	s := New(Config{})
	free := make(chan struct{})
	var open []net.Conn
	for i := range 9 {
		c, server := net.Pipe()
		defer c.Close()
		one := &connection{holder: unbounded{}, Conn: server, fd: -1}
		if i > 0 {
			open = append(open, c)
		} else {
			one.Conn = stuck{server, free}
		}
		one.state.Store(idle)
		s.enter(one)
	}
	ctx, cancel := context.WithCancel(context.Background())
	shut := make(chan error, 1)
	go func() { shut <- s.Shutdown(ctx) }()
	late := time.Now().Add(20 * time.Second)
	for _, c := range open {
		c.SetReadDeadline(late)
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("it was not closed: %v", err)
		}
	}
	cancel()
	close(free)
	if err := <-shut; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if s.Listen(nil) != nil {
		t.Error("a listener began after the end")
	}
}

// A connection that is told to end just when it has answered ends, too.
func TestAnEndIsNotLostBetweenTwoRequests(t *testing.T) {
	const some = 1000
	for range 1000 {
		open := make([]*connection, some)
		for i := range open {
			open[i] = &connection{holder: unbounded{}, Conn: sink{}, fd: -1}
			open[i].state.Store(busy)
		}
		var answered sync.WaitGroup
		answered.Go(func() {
			for _, c := range open {
				c.state.CompareAndSwap(busy, idle)
			}
		})
		for _, c := range open {
			c.end()
		}
		answered.Wait()
		for _, c := range open {
			if state := c.state.Load(); state != ended && state != last {
				t.Fatalf("state %d", state)
			}
		}
	}
}

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
