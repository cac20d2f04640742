package edge

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"webring/core/api"
	"webring/edge/front"
)

// strangers is a room with connections from addresses, and what became of them.
type strangers struct {
	t     *testing.T
	room  *room
	inner *listenerOf
	l     *boundedListener
}

func newStrangers(t *testing.T, r *room, trusted ...string) *strangers {
	p := proxies(t, "", trusted...)
	inner := &listenerOf{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	return &strangers{t, r, inner, &boundedListener{Listener: inner, proxies: &p, room: r}}
}

func (c *strangers) connect(addr string) *boundedConn {
	c.t.Helper()
	c.inner.connect(addr)
	conn, err := c.l.Accept()
	if err != nil {
		c.t.Fatal(err)
	}
	return conn.(*boundedConn)
}

// ended reports whether reading from a connection ends at once, as it does when it was
// evicted.
func (c *strangers) ended(conn *boundedConn) bool {
	if !conn.Evicted() {
		return false
	}
	conn.SetReadDeadline(time.Now().Add(time.Hour)) // what serves it may move the deadline
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Errorf("an evicted connection: %v", err)
	}
	return true
}

// A crowd of addresses takes its own places: clients of other networks get in, and stay, be
// they in the next /48, in the next /24 or far away.
func TestACrowdOfConnectionsMakesRoomForOthers(t *testing.T) {
	for name, crowd := range map[string]struct {
		addr    func(i int) string
		honest  []string
		trusted []string
	}{
		"64 addresses of one /58": {func(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", i%64) },
			[]string{"192.0.2.1", "2001:db9::1", "2001:db8:1::1", "2001:db8:0:4000::1", "127.0.0.1"}, nil},
		"a /40 of /48s": {func(i int) string { return fmt.Sprintf("2001:db8:%x::1", i%256) },
			[]string{"192.0.2.1", "2001:db9::1", "2001:db8:100::1", "203.0.113.9"}, nil},
		"a /16 of /24s":              {func(i int) string { return fmt.Sprintf("198.51.%d.1", i%256) }, []string{"198.52.0.1", "192.0.2.1", "2001:db8::1"}, nil},
		"one address":                {func(int) string { return "127.0.0.1" }, []string{"127.0.0.2", "192.0.2.1"}, nil},
		"one address beside a proxy": {func(int) string { return "192.0.2.77" }, []string{"192.0.2.78", "10.0.0.1"}, []string{"10.0.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newStrangers(t, newRoom(512, 256, 64*requestBytes, nil), crowd.trusted...)
			var old []*boundedConn
			for _, addr := range crowd.honest { // they came first, so they are the oldest
				old = append(old, c.connect(addr))
			}
			for i := range 2000 {
				c.connect(crowd.addr(i))
			}
			for _, addr := range crowd.honest {
				old = append(old, c.connect(addr))
			}
			for i := range 2000 {
				c.connect(crowd.addr(i))
			}
			for i, conn := range old {
				if c.ended(conn) {
					t.Errorf("%s had to make room", crowd.honest[i%len(crowd.honest)])
				}
			}
			if n := len(c.room.open.in); n > 512 {
				t.Errorf("%d are open", n)
			}
		})
	}
}

func TestTheOldestConnectionOfAClientGoesFirst(t *testing.T) {
	c := newStrangers(t, newRoom(100, 3, 10*requestBytes, nil))
	first, second, third := c.connect("192.0.2.1"), c.connect("::ffff:192.0.2.1"), c.connect("192.0.2.1")
	other := c.connect("192.0.2.2")
	first.SetReadDeadline(time.Time{}) // it has been active since
	c.connect("192.0.2.1")
	for conn, want := range map[*boundedConn]bool{first: false, second: true, third: false, other: false} {
		if got := c.ended(conn); got != want {
			t.Errorf("%s: made room: %v", conn.RemoteAddr(), got)
		}
	}
	for _, conn := range []*boundedConn{first, second, third, other} {
		conn.Close()
		conn.Close() // counts once
	}
	if n := len(c.room.open.in); n != 1 {
		t.Errorf("%d are open", n)
	}
}

// Requests in work end when they end: they make no room, and no network has all of it.
func TestRequestsInWorkMakeNoRoom(t *testing.T) {
	c := newStrangers(t, newRoom(1<<20, 1<<20, 64*requestBytes, nil), "10.0.0.1")
	held := func(addr string) (conn *boundedConn, ok bool) {
		conn = c.connect(addr)
		ok = conn.Hold(conn.client, 0)
		conn.work()
		return conn, ok
	}
	had := map[string]int{}
	for i := range 1000 {
		if _, ok := held(fmt.Sprintf("2001:db8:0:%x::1", i%64)); ok {
			had["one /48"]++
		}
		if _, ok := held(fmt.Sprintf("2001:db8:%x::1", 256+i)); ok {
			had["its /32"]++
		}
	}
	if had["one /48"] > 32 || had["one /48"]+had["its /32"] != 48 {
		t.Errorf("a crowd with requests in work has %v of 64", had)
	}
	for i := range 4 {
		if conn, ok := held(fmt.Sprintf("192.0.%d.1", i)); !ok || c.ended(conn) {
			t.Error("a client of another network has no room")
		}
	}
	// A client that a proxy names is counted as if it had come itself, and the proxy is not.
	c = newStrangers(t, newRoom(1<<20, 1<<20, 64*requestBytes, nil), "10.0.0.1")
	one := front.ClientOf(netip.MustParseAddr("198.51.100.1"))
	for i := range 20 {
		conn := c.connect("10.0.0.1")
		ok := conn.Hold(one, 0)
		conn.work()
		if ok != (i < 16) {
			t.Errorf("request %d of one client behind a proxy: %v", i, ok)
		}
	}
	if conn := c.connect("10.0.0.1"); !conn.Hold(front.ClientOf(netip.MustParseAddr("203.0.113.1")), 0) {
		t.Error("another client of that proxy has no room")
	}
}

// fill opens n connections that each send the part of a request, and waits until the shell
// has as many as it may.
func fill(t *testing.T, s *site, n int, part string) (conns []net.Conn) {
	t.Helper()
	for range n {
		c := s.Dial()
		if _, err := io.WriteString(c, part); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	return conns
}

// Behind a trusted proxy one client leaves its bodies unfinished. The others that the proxy
// names are answered, and the oldest of the unfinished get 503.
func TestAClientBehindAProxyMakesRoomForTheProxysOthers(t *testing.T) {
	const room = 32
	s := serve(t, Config{Core: newRing(t), RateLimit: 1000, TrustedProxies: proxies(t, "", "127.0.0.1"), Paid: map[string]Handler{"/api/bid": paidOK}})
	s.room.mu.Lock()
	s.room.holding = newRoom(maxConns, maxConnsPerClient, room*requestBytes, nil).holding
	s.room.mu.Unlock()
	post := func(client, rest string) string {
		return "POST /api/bid HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: " + client + "\r\nContent-Type: application/json\r\nContent-Length: 16000\r\n\r\n" + rest
	}
	other := s.Dial() // older than all others, and slow
	io.WriteString(other, post("203.0.113.1", "{"))
	unfinished := fill(t, s, 4*room, post("198.51.100.1", strings.Repeat("x", 8000)))
	for i := range 4 {
		r := s.Raw("POST /api/bid HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2." + fmt.Sprint(i) + "\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
		if r.Status != 200 {
			t.Errorf("another client: %d %s", r.Status, r.Body)
		}
	}
	io.WriteString(other, strings.Repeat(" ", 15998)+"}")
	if r := readReply(t, s, other); r.Status != 200 {
		t.Errorf("a slow client: %d %s", r.Status, r.Body)
	}
	r := readReply(t, s, unfinished[0])
	wantProblem(t, r, api.Overloaded)
	wantFields(t, r, "Retry-After", "10")
	if !r.Closed {
		t.Error("the connection stays open")
	}
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	if n := len(s.room.holding.in); n > room {
		t.Errorf("%d hold memory", n)
	}
}

// Whatever a crowd does not finish — heads, bodies, or the reading of answers — a newcomer
// of the same kind is answered.
func TestUnfinishedRequestsMakeRoom(t *testing.T) {
	const room = 16
	long := `"` + strings.Repeat("x", 16<<20) + `"`
	for name, part := range map[string]string{
		"a plain head":      "GET /api HTTP/1.1\r\nHost: x\r\n",
		"another head":      "POST /api/bid HTTP/1.1\r\nHost: x\r\nA: ",
		"a body":            "POST /api/bid HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc",
		"a body in chunks":  "POST /api/bid HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
		"a plain answer":    "GET /api/ring HTTP/1.1\r\nHost: x\r\n\r\n",
		"another answer":    "GET /api/ring HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		"a second request":  "GET /api HTTP/1.1\r\nHost: x\r\nConnection: te\r\n\r\nGET /api HTTP/1.1\r\nHo",
		"no second request": "GET /api HTTP/1.1\r\nHost: x\r\nConnection: te\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			body := "{}"
			if strings.HasSuffix(name, "answer") {
				body = long
			}
			s := serve(t, Config{Core: documentCore(api.Position, 0, 0, 0, body), Paid: map[string]Handler{"/api/bid": paidOK}})
			s.room.mu.Lock()
			s.room.holding = newRoom(maxConns, maxConnsPerClient, room*requestBytes, nil).holding
			s.room.mu.Unlock()
			fill(t, s, 3*room, part)
			for range 4 {
				// While all places are with requests in work, there is none to give up.
				for late := time.Now().Add(20 * time.Second); ; {
					c := s.Dial()
					io.WriteString(c, "POST /api/bid HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
					resp, err := http.ReadResponse(bufio.NewReader(c), nil)
					if err != nil {
						t.Fatal(err)
					}
					r := s.Read(resp)
					if r.Status == 200 {
						break
					}
					if r.Status != 503 || time.Now().After(late) {
						t.Fatalf("a newcomer: %d %s", r.Status, r.Body)
					}
				}
			}
			s.room.mu.Lock()
			defer s.room.mu.Unlock()
			if n := len(s.room.holding.in); n > room {
				t.Errorf("%d hold memory", n)
			}
		})
	}
}

// What TLS keeps of a handshake or a record that is not whole holds memory as a request does,
// until an answer is sent; requests of the usual size take no place for it.
func TestUnfinishedTLSHoldsMemory(t *testing.T) {
	c := newStrangers(t, newRoom(64, 64, 8*requestBytes, nil))
	c.l.sealed = true
	reads := func(conn *boundedConn, client net.Conn, bytes int) (err error) {
		go client.Write(make([]byte, bytes))
		for got := 0; got < bytes && err == nil; {
			n := 0
			n, err = conn.Read(make([]byte, 512))
			got += n
		}
		return err
	}
	connect := func(addr string) (*boundedConn, net.Conn) {
		client := c.inner.connect(addr)
		t.Cleanup(func() { client.Close() })
		conn, err := c.l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return conn.(*boundedConn), client
	}
	honest, its := connect("192.0.2.1")
	for range 10 {
		if err := reads(honest, its, 2<<10); err != nil || honest.places[amongHolding].taken {
			t.Fatalf("a usual request: %v, %d hold memory", err, len(c.room.holding.in))
		}
		honest.Await()
	}
	for i := range 40 {
		conn, client := connect(fmt.Sprintf("2001:db8:0:%x::1", i))
		if err := reads(conn, client, 16<<10); err != nil {
			t.Fatal(err)
		}
		if n := len(c.room.holding.in); n > 8 || !conn.places[amongHolding].taken {
			t.Fatalf("%d hold memory; the last: %v", n, conn.places[amongHolding].taken)
		}
	}
	if err := reads(honest, its, 16<<10); err != nil || !honest.places[amongHolding].taken {
		t.Fatalf("a long request: %v", err)
	}
	if honest.Await(); honest.places[amongHolding].taken {
		t.Error("it holds memory after its answer")
	}
}
