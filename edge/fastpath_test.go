package edge

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"webring/core/api"
)

// unusual makes a request one that is not plain, and means nothing.
const unusual = "Connection: keep-alive, nothing\r\n"

// ask sends one request on an open connection and reads the answer.
func ask(t *testing.T, s *site, c net.Conn, r *bufio.Reader, request string) reply {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.Read(resp)
}

// Plain reads are answered on the fast path, and a connection leaves it with the first
// unusual request. What both answer is compared by the test of whatever comes.
func TestPlainReadsStayOnTheFastPath(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	for _, target := range []string{"/", "/api", "/api/ring?limit=1&offset=1", "/api/ring/next?from=alpha", "/api/ring/beta", "/api/ring/nobody", "/api/widget?from=beta", "/next?from=https%3A%2F%2Fbeta.example%2Fa"} {
		c := s.Dial()
		r := bufio.NewReader(c)
		request := "GET " + target + " HTTP/1.1\r\nHost: ring.example:80\r\nApi-Version: 1\r\nConnection: Keep-Alive\r\nAccept: */*\r\n"
		if ask(t, s, c, r, request+"\r\n"); s.server.GetOpenConnectionsCount() != 0 {
			t.Errorf("%s: a plain read was handed over", target)
		}
		if ask(t, s, c, r, request+unusual+"\r\n"); s.server.GetOpenConnectionsCount() != 1 {
			t.Errorf("%s: an unusual request was not handed over", target)
		}
		for c.Close(); s.server.GetOpenConnectionsCount() > 0; {
			runtime.Gosched()
		}
	}
}

func TestRequestsMayComeInPieces(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	request := "GET /next?from=alpha HTTP/1.1\r\nHost: x\r\nIf-None-Match: \"a\"\r\n\r\n"
	for _, cut := range []int{1, 4, 5, 20, 40, len(request) - 1} {
		c := s.Dial()
		r := bufio.NewReader(c)
		for range 2 {
			io.WriteString(c, request[:cut])
			// An answer to another connection: by then the piece has been read.
			s.Get("/api")
			if got := ask(t, s, c, r, request[cut:]); got.Status != 302 {
				t.Errorf("cut at %d: status %d", cut, got.Status)
			}
		}
	}
	c := s.Dial()
	r := bufio.NewReader(c)
	long := "GET /next HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("x", 4<<10) + "\r\n\r\n"
	if got := ask(t, s, c, r, long); got.Status != 302 {
		t.Errorf("a request longer than the fast path takes: status %d", got.Status)
	}
	if got := ask(t, s, c, r, request); got.Status != 302 {
		t.Errorf("afterwards: status %d", got.Status)
	}
}

// More requests than fit into the buffer at once, one that is not plain among
// them, and bodies that are not copied, of lists that are kept: every answer comes,
// in order, whole.
func TestManyRequestsAtATimeAreAnsweredInOrder(t *testing.T) {
	long := strings.Repeat("x", maxCopied+1)
	core := &fakeCore{serve: func(target []byte, r *api.Response) {
		*r = api.Response{Status: 200, Validity: api.Position, Seq: 7, Body: append(append(r.Body[:0], target...), long[:len(target)%2*len(long)]...)}
	}}
	s := serve(t, Config{Core: core})
	var requests strings.Builder
	var want []string
	for i := range 300 {
		target, fields := fmt.Sprintf("/api/ring?limit=%d", i%120), ""
		if i == 250 {
			fields = unusual
		}
		fmt.Fprintf(&requests, "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n", target, fields)
		want = append(want, target+long[:len(target)%2*len(long)])
	}
	c := s.Dial()
	go io.WriteString(c, requests.String())
	r := bufio.NewReader(c)
	for i := range want {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(i, err)
		}
		if got := s.Read(resp); got.Body != want[i] {
			t.Fatalf("answer %d: %.80s", i, got.Body)
		}
	}
}

func TestTheLastRequestBeforeAHalfCloseIsAnswered(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	c := s.Dial()
	io.WriteString(c, "GET /next HTTP/1.1\r\nHost: x\r\n\r\n")
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c) // the server closes, well before its IdleTimeout
	if err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 302 ")) {
		t.Errorf("%.60q, %v", b, err)
	}
}

// However a client goes away, nothing is held for it.
func TestNothingIsHeldForAClientThatLeft(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), IdleTimeout: time.Hour})
	const request = "GET /next HTTP/1.1\r\nHost: x\r\n\r\n"
	for i := range 200 {
		c := s.Dial()
		r := bufio.NewReader(c)
		for range i % 3 {
			ask(t, s, c, r, request)
		}
		last := []string{"", request, request[:9], request + request[:9]}[i/3%4]
		if _, err := io.WriteString(c, last); err != nil {
			t.Fatal(err)
		}
		if i/12%2 == 0 {
			c.(*net.TCPConn).SetLinger(0) // which resets the connection
		}
		c.Close()
	}
	for range 1000 {
		if s.fast.Open() == 0 && s.server.GetOpenConnectionsCount() == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%d connections on the fast path and %d others are open", s.fast.Open(), s.server.GetOpenConnectionsCount())
}

// A shell that is shut down under load cuts no answer short.
func TestShutdownCutsNoAnswer(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	var asked, clients sync.WaitGroup
	asked.Add(8)
	for range 8 {
		c := s.Dial()
		clients.Go(func() {
			r := bufio.NewReader(c)
			for i := 0; ; i++ {
				if _, err := io.WriteString(c, "GET /api/ring HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					break
				}
				if _, err := r.Peek(1); err != nil {
					break // closed before anything was said
				}
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Error(err)
					break
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Error(err)
				}
				if i == 10 {
					asked.Done()
				}
				if resp.Close {
					break
				}
			}
		})
	}
	asked.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	clients.Wait()
	if n := s.fast.Open(); n != 0 {
		t.Errorf("%d connections are open", n)
	}
}

func TestAFieldThatCannotBeSentIsAnErrorOfOurs(t *testing.T) {
	core := &fakeCore{serve: func(_ []byte, r *api.Response) {
		*r = api.Response{Status: 302, Location: []byte("https://x.example/\r\nSet-Cookie: a=b"), Media: api.HTML}
	}}
	s := serve(t, Config{Core: core})
	for _, fields := range []string{"", unusual} {
		r := s.Raw("GET /next HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n")
		wantProblem(t, r, api.Internal)
		wantFields(t, r, "Set-Cookie", "")
	}
}

// Whoever filled it, an answer that is kept for later has no long buffer, though a short
// one came last; those that most answers need it keeps.
func TestAnswersRestWithoutLongBuffers(t *testing.T) {
	decoded := func(r *api.Response, n int) { r.Copy(make([]byte, n), &api.Texts{Body: uint32(n)}) }
	written := func(r *api.Response, n int) { r.Body = append(r.Body[:0], make([]byte, n)...) }
	redirect := func(r *api.Response, n int) { written(r, n); r.Location = r.Body[:n:n] }
	s := new(Shell)
	plain := func() (*answer, func()) { p := &plainAnswerer{s: s}; return &p.a, p.Rest }
	reads := func() (*answer, func()) { a := new(answer); return a, func() { s.giveBack(a) } }
	for _, c := range []struct {
		name        string
		first, then func(*api.Response, int)
		length      int
		keeps       bool
	}{
		{"long, decoded", decoded, decoded, 3 << 20, false},
		{"long, written", written, written, 3 << 20, false},
		{"long, written, and an address within", written, redirect, 3 << 20, false},
		{"long, decoded, then written", decoded, written, 3 << 20, false},
		{"long, written, then decoded", written, decoded, 3 << 20, false},
		{"decoded", decoded, decoded, maxCopied, true},
		{"written", written, redirect, maxCopied, true},
	} {
		for of, begin := range map[string]func() (a *answer, rest func()){"the fast path's": plain, "a read's": reads} {
			a, rest := begin()
			c.first(&a.Response, c.length)
			buffer := weak.Make(&a.Body[0])
			c.then(&a.Response, 100)
			rest()
			runtime.GC()
			if kept := buffer.Value() != nil; kept != c.keeps {
				t.Errorf("%s, %s: kept is %t", of, c.name, kept)
			}
			runtime.KeepAlive(a)
		}
	}
}

func TestAFailingListenerEndsServe(t *testing.T) {
	s, err := New(Config{Core: newRing(t)})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	l := &listenerOf{conns: make(chan net.Conn), closed: make(chan struct{}), errs: []error{broken}}
	if err := s.Serve(l); !errors.Is(err, broken) {
		t.Errorf("Serve: %v", err)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// turningCore stands at another position at every turn. Its lists are words that
// all name the position.
type turningCore struct{ seq atomic.Uint64 }

const positionWord = len("00000007 ")

func (c *turningCore) Serve(target []byte, r *api.Response) {
	words := 1 + len(target)
	if isList(target) {
		words = []int{600, 8_000, 40_000}[len(target)%3] // 5, 72 and 360 kB
	}
	seq := c.seq.Load()
	*r = api.Response{Status: 200, Validity: api.Position, Seq: seq, Body: r.Body[:0]}
	word := fmt.Sprintf("%08d ", seq)
	for range words {
		r.Body = append(r.Body, word...)
	}
}

func (c *turningCore) ServeAll(targets [][]byte, all []api.Response) {
	for i, target := range targets {
		c.Serve(target, &all[i])
	}
}

func (c *turningCore) Head() (uint64, int64) { return c.seq.Load(), epoch }
func (c *turningCore) BaseURL() string       { return base }

// Lists are sent from where they lie, to readers who take little at a time, while
// other lists take their places: each arrives whole and of one position, and no
// reader goes back. Requests come in pieces, many at a time, and some connections
// are handed over with answers on their way.
func TestSlowReadersGetListsOfOnePosition(t *testing.T) {
	const seed = 3
	t.Logf("seed %d", seed)
	core := new(turningCore)
	s := serve(t, Config{Core: core, RateLimit: 1 << 30})
	targets := []string{"/api/ring", "/api/ring?limit=1", "/api/ring?limit=11", "/api/leaderboard", "/next", "/api/ring/next?from=a"}
	const requests = 100
	var readers sync.WaitGroup
	for i := range 4 {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		c := s.Dial()
		if i > 0 {
			c.(*net.TCPConn).SetReadBuffer(32 << 10)
		}
		var all strings.Builder
		for n := range requests {
			fields := ""
			if i%2 == 0 && n == requests-5 {
				fields = unusual
			}
			fmt.Fprintf(&all, "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n", targets[random.IntN(len(targets))], fields)
		}
		asked := make(chan bool)
		go func() {
			defer close(asked)
			// Its errors are the reader's, too.
			for rest := all.String(); len(rest) > 0; {
				n := min(1+random.IntN(400), len(rest))
				if _, err := io.WriteString(c, rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		readers.Go(func() {
			<-asked // by then, answers fill what lies between, and wait
			r := bufio.NewReaderSize(c, 1<<10)
			last := 0
			for n := range requests {
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Errorf("reader %d, answer %d: %v", i, n, err)
					return
				}
				b, err := io.ReadAll(resp.Body)
				if err != nil || len(b) == 0 || strings.Count(string(b), string(b[:positionWord])) != len(b)/positionWord {
					t.Errorf("reader %d, answer %d: %d bytes, not all of one position: %v", i, n, len(b), err)
					return
				}
				if at, _ := strconv.Atoi(string(b[:positionWord-1])); at < last {
					t.Errorf("reader %d, answer %d: position %d after %d", i, n, at, last)
				} else {
					last = at
				}
				core.seq.Add(1)
			}
		})
	}
	readers.Wait()
}
