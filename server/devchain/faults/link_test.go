package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// long is more than anything here takes.
const long = time.Minute

// echo is a server that sends back each line, and a link to it.
func echo(t *testing.T) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(c, c)
				c.Close()
			}()
		}
	}()
	l, err := NewLink(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// line is a connection over a link.
type line struct {
	net.Conn
	in *bufio.Reader
}

func connect(t *testing.T, l *Link) line {
	t.Helper()
	c, err := net.Dial("tcp", l.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return line{c, bufio.NewReader(c)}
}

func (c line) say(t *testing.T, word string) {
	t.Helper()
	if _, err := io.WriteString(c, word+"\n"); err != nil {
		t.Fatal(err)
	}
}

// hear gives the next line, or why there is none within a time.
func (c line) hear(within time.Duration) (string, error) {
	c.SetReadDeadline(time.Now().Add(within))
	text, err := c.in.ReadString('\n')
	return strings.TrimSuffix(text, "\n"), err
}

func TestLink(t *testing.T) {
	t.Parallel()
	l := echo(t)
	c := connect(t, l)
	hears := func(c line, want string) {
		t.Helper()
		if got, err := c.hear(long); got != want || err != nil {
			t.Fatalf("%q %v, want %q", got, err, want)
		}
	}
	c.say(t, "open")
	hears(c, "open")

	l.Delay(30 * time.Millisecond)
	began := time.Now()
	c.say(t, "slow")
	hears(c, "slow")
	if took := time.Since(began); took < 60*time.Millisecond {
		t.Errorf("there and back took %s", took)
	}
	l.Delay(0)

	l.Silence()
	during := connect(t, l)
	during.say(t, "in silence, on a new connection")
	c.say(t, "in silence")
	for _, c := range []line{c, during} {
		if got, err := c.hear(100 * time.Millisecond); err == nil {
			t.Fatalf("heard %q", got)
		}
	}
	l.Open()
	hears(c, "in silence")
	hears(during, "in silence, on a new connection")

	l.Cut()
	for _, c := range []line{c, during, connect(t, l)} {
		if got, err := c.hear(long); err == nil {
			t.Fatalf("heard %q", got)
		}
	}
	l.Open()
	c = connect(t, l)
	c.say(t, "last words")
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	hears(c, "last words")
	if _, err := c.hear(long); err != io.EOF {
		t.Errorf("the end of a connection: %v", err)
	}
	// A link that is silent or cut can be ended.
	c = connect(t, l)
	c.say(t, "never heard")
	l.Silence()
	l.Close()
}

// TestPeerLink tells sources apart.
func TestPeerLink(t *testing.T) {
	t.Parallel()
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s: %d", r.Header.Get("X-Server-From"), len(body))
	}))
	t.Cleanup(node.Close)
	l, err := NewPeerLink(node.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	ask := func(from string) string {
		t.Helper()
		client := http.Client{Timeout: long, Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := http.NewRequest(http.MethodPost, "http://"+l.Address, strings.NewReader(strings.Repeat("x", 1<<20)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Server-From", from)
		res, err := client.Do(r)
		if err != nil {
			return ""
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		return string(body)
	}
	l.Cut("a1")
	if got := ask("b2"); got != "b2: 1048576" {
		t.Errorf("another source: %q", got)
	}
	if got := ask("a1"); got != "" {
		t.Errorf("the source that is cut off: %q", got)
	}
	l.Open()
	if got := ask("a1"); got != "a1: 1048576" {
		t.Errorf("the same source afterwards: %q", got)
	}
}
