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

// What a connection has still to send counts by its bytes. Beyond the bound those go that have
// the most of it, each with its oldest first, and whoever has little of it stays.
func TestLongAnswersMakeRoomByTheirBytes(t *testing.T) {
	const most = 64
	for name, crowd := range map[string]func(i int) string{
		"one address": func(int) string { return "127.0.0.1" }, "many networks": func(i int) string { return fmt.Sprintf("%d.%d.0.1", 20+i%32, i%7) },
		"a /32": func(i int) string { return fmt.Sprintf("2001:db8:%x::1", i%32) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newStrangers(t, newRoom(1<<20, 1<<20, most*requestBytes, nil))
			slow := c.connect("192.0.2.1")
			if !slow.Hold(slow.client, maxCopied+1) {
				t.Fatal("no room for the first")
			}
			var all []*boundedConn
			for i := range 300 {
				conn := c.connect(crowd(i))
				if all = append(all, conn); !conn.Hold(conn.client, 3*requestBytes) {
					t.Fatalf("no room for answer %d", i)
				}
				if size, n := c.room.holding.size, len(c.room.holding.in); size > most*requestBytes || size != 4*requestBytes*(n-1)+requestBytes+maxCopied+1 {
					t.Fatalf("%d hold %d KB", n, size>>10)
				}
				if i%10 == 0 { // those that ask for little
					other := c.connect(fmt.Sprintf("198.51.%d.1", i%256))
					if !other.Hold(other.client, 100) {
						t.Fatal("no room for a short answer")
					}
					other.Free()
				}
			}
			if c.ended(slow) {
				t.Error("who reads one answer slowly had to make room")
			}
			left, gone := 0, 0
			for i, conn := range all {
				if !conn.Evicted() {
					if left++; name == "one address" && i < gone {
						t.Errorf("%d went before %d", gone, i)
					}
					continue
				}
				gone = i
				conn.SetWriteDeadline(time.Now().Add(time.Hour)) // what serves it moves the deadline when it writes
				if _, err := conn.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("an evicted connection writes: %v", err)
				}
			}
			if left < most/5 {
				t.Errorf("%d are left", left)
			}
			for _, conn := range append(all, slow) {
				conn.Free()
			}
			if c.room.holding.size != 0 || len(c.room.holding.in) != 0 {
				t.Errorf("%d bytes are held by nobody", c.room.holding.size)
			}
			for _, counts := range c.room.holding.by {
				if len(counts) > 0 {
					t.Errorf("networks have what nobody holds: %v", counts)
				}
			}
		})
	}
}

// Who waits for its turn makes room for others, without taking the turn of anybody. Who has it
// does not.
func TestThoseThatWaitForTheirTurnMakeRoom(t *testing.T) {
	c := newStrangers(t, newRoom(1<<20, 1<<20, 4*requestBytes, nil))
	turns := make(chan *api.Response, 1)
	turns <- new(api.Response)
	hold := func(addr string) *boundedConn {
		conn := c.connect(addr)
		if !conn.Hold(conn.client, 0) {
			t.Fatalf("no room for %s", addr)
		}
		return conn
	}
	works := hold("192.0.2.1")
	turn, ok := works.turn(turns)
	if !ok {
		t.Fatal("no turn")
	}
	got := make(chan bool)
	wait := func(conn *boundedConn) {
		go func() {
			mine, ok := conn.turn(turns)
			if ok {
				turns <- mine
			}
			got <- ok
		}()
	}
	for i := range 3 {
		wait(hold(fmt.Sprintf("198.51.100.%d", i)))
	}
	hold("203.0.113.1")
	if <-got {
		t.Error("one had a turn that somebody else has")
	}
	if c.ended(works) {
		t.Error("a request in work made room")
	}
	turns <- turn
	if second, third := <-got, <-got; !second && !third {
		t.Error("no turn for those that wait")
	}
	if works.Free(); len(turns) != 1 {
		t.Errorf("%d turns are left", len(turns))
	}
}

// Many ask for the same list at once, under as many names as it has: it is made once, and all get
// the same bytes.
func TestAListIsMadeOnceForAllThatWait(t *testing.T) {
	begun, goOn := make(chan struct{}, 100), make(chan struct{})
	n := NewSwappable(&fakeCore{serve: func(target []byte, r *api.Response) {
		begun <- struct{}{}
		<-goOn
		*r = api.Response{Status: 200, Validity: api.Position, Seq: 7, Body: append(append(r.Body[:0], target...), make([]byte, leastList)...)}
	}}, "").enter()
	for len(n.lists) > 1 {
		<-n.lists
	}
	type answer struct {
		body []byte
		at   *byte
	}
	answers := make(chan answer)
	for i := range 20 {
		go func() {
			target := []string{"/api/ring?limit=9", fmt.Sprintf("/api/ring?limit=9&x=%d", i), fmt.Sprintf("/api/r%%69ng?limit=9&limit=%d", i), fmt.Sprintf("/api/ring?limit=9&x=%0300d", i)}[i%4]
			r, f := n.serve([]byte(target), noFields{}, new(api.Response), nil)
			answers <- answer{r.Body, &f.Body[0]}
		}()
	}
	<-begun
	close(goOn)
	first := <-answers
	for range 19 {
		if a := <-answers; a.at != first.at {
			t.Errorf("another copy: %.40s and %.40s", a.body, first.body)
		}
	}
	if len(begun) > 0 {
		t.Errorf("it was made %d times more", len(begun))
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
			if strings.Contains(name, "answer") {
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
