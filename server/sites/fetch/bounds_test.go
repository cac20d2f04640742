package fetch

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestBodiesAreBounded counts what the heap grows by, without the bytes kept.
func TestBodiesAreBounded(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 24 {
		z.Write(zeros)
	}
	z.Close()
	l := listen(t, "127.0.0.1:0", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			w.Write(bomb.Bytes())
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(zeros); err != nil {
					return
				}
			}
		case "/exact":
			w.Write(zeros[:1000])
		}
	})
	c := mappedTo(l)
	for _, path := range []string{"/bomb", "/endless"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := get(t, c, "http://acme.com"+path)
		runtime.ReadMemStats(&after)
		if err != nil || !r.Truncated || len(r.Body) != MaxBody {
			t.Errorf("%s: %v", path, err)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
			t.Errorf("%s: %d bytes were allocated", path, grown)
		}
	}
	for limit, truncated := range map[int64]bool{999: true, 1000: false, 1001: false} {
		r, err := c.Get(t.Context(), Request{URL: "http://acme.com/exact", MaxBody: limit})
		if err != nil || r.Truncated != truncated || int64(len(r.Body)) > limit {
			t.Errorf("limit %d: %+v, %v", limit, r, err)
		}
	}
}

// TestEndlessNothing sends pieces of gzip that decode to nothing, for ever.
func TestEndlessNothing(t *testing.T) {
	var piece bytes.Buffer
	if err := gzip.NewWriter(&piece).Close(); err != nil {
		t.Fatal(err)
	}
	pieces := bytes.Repeat(piece.Bytes(), 1000)
	var sent atomic.Int64
	c := raw(t, func(conn net.Conn) {
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
		for {
			n, err := conn.Write(pieces)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	if r, err := get(t, c, "http://acme.com/"); err != nil && !errors.Is(err, ErrUnreachable) || err == nil && len(r.Body) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	// Beside what is read, the system's buffers are filled.
	if n := sent.Load(); n > 16<<20 {
		t.Errorf("%d bytes were sent", n)
	}
}

func TestPackedBodies(t *testing.T) {
	l := listen(t, "127.0.0.1:0", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("asked for %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", cmp.Or(r.URL.RawQuery, "gzip"))
		switch r.URL.Path {
		case "/words":
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, "words")
			_ = z.Close()
		case "/plain":
			_, _ = io.WriteString(w, "this was never packed")
		case "/short":
			_, _ = io.WriteString(w, "x")
		case "/garbage":
			_, _ = io.WriteString(w, "\x1f\x8bgarbage")
		case "/noise": // which packs to more than it is
			z := gzip.NewWriter(w)
			_, _ = io.CopyN(z, rand.NewChaCha8([32]byte{1}), MaxBody)
			_ = z.Close()
		}
	})
	c := mappedTo(l)
	for path, want := range map[string]string{"words": "words", "words?x-gzip": "words", "words?GZip": "words", "plain": "this was never packed", "plain?x-gzip": "this was never packed", "short": "x"} {
		if r, err := get(t, c, "http://acme.com/"+path); err != nil || string(r.Body) != want {
			t.Errorf("%s: %+v, %v", path, r, err)
		}
	}
	if r, err := get(t, c, "http://acme.com/none"); err != nil || len(r.Body) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := get(t, c, "http://acme.com/noise"); err != nil || len(r.Body) != MaxBody || r.Truncated {
		t.Errorf("%v", err)
	}
	if _, err := get(t, c, "http://acme.com/garbage"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("%v", err)
	}
}

// raw answers connections byte by byte.
func raw(t *testing.T, talk func(net.Conn)) *Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				// What comes before the request is no answer to it.
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					talk(conn)
				}
			}()
		}
	}()
	return New(Config{Map: map[string]netip.AddrPort{"acme.com": netip.MustParseAddrPort(l.Addr().String())}})
}

func TestAnswersThatDoNotEnd(t *testing.T) {
	for name, c := range map[string]struct {
		talk  func(net.Conn)
		want  error
		bound time.Duration
	}{
		"endless header": {func(conn net.Conn) {
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n")
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(conn, "X-%d: %s\r\n", i, strings.Repeat("y", 1000)); err != nil {
					return
				}
			}
		}, ErrUnreachable, wholeTime},
		"endless informational answers": {func(conn net.Conn) {
			for {
				if _, err := fmt.Fprint(conn, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"); err != nil {
					return
				}
			}
		}, ErrUnreachable, wholeTime},
		"no first byte": {func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }, ErrTooSlow, firstByte},
		"dripping body": {func(conn net.Conn) {
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
			for {
				if _, err := conn.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		}, ErrTooSlow, wholeTime},
		"another protocol": {func(conn net.Conn) {
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn)
		}, ErrUnreachable, wholeTime},
		"garbage": {func(conn net.Conn) { fmt.Fprint(conn, "SSH-2.0-OpenSSH_9.6\r\n") }, ErrUnreachable, wholeTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := raw(t, c.talk)
			if c.want == ErrTooSlow {
				client.whole, client.transport.ResponseHeaderTimeout = client.whole/5, client.transport.ResponseHeaderTimeout/5
			}
			start := time.Now()
			_, err := get(t, client, "http://acme.com/")
			// Where time ends it, that is a fifth of the real one, and the machine may be busy.
			if took := time.Since(start); !errors.Is(err, c.want) || took > c.bound {
				t.Errorf("%v after %s", err, took)
			}
		})
	}
}

func TestEndOfTheCallersContext(t *testing.T) {
	client := raw(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := client.Get(ctx, Request{URL: "http://acme.com/"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestMaps(t *testing.T) {
	for _, s := range []string{"", "a.test", "a.test=", "=127.0.0.1:80", "a.test=127.0.0.1", "a.test=localhost:80", "a.test=127.0.0.1:0", "*.=127.0.0.1:80", "a=:80"} {
		if p, to, err := ParseMap(s); err == nil {
			t.Errorf("%q: %s %s", s, p, to)
		}
	}
	a, b := netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("[::1]:2")
	c := New(Config{Map: map[string]netip.AddrPort{"*.test": a, "x.test": b, "*.deep.test": b}})
	for host, want := range map[string]netip.AddrPort{"y.test": a, "x.test": b, "a.x.test": a, "a.deep.test": b, "deep.test": a, "test": {}, "nottest": {}} {
		if got, ok := c.mapped(host); got != want || ok != want.IsValid() {
			t.Errorf("%s is at %s", host, got)
		}
	}
}

func FuzzTarget(f *testing.F) {
	for _, s := range []string{"http://acme.com/", "http://①②⑦.⓪.⓪.①/", "https://u@acme.com:443/x", "http://[::1]/", "http://0x7f.1/"} {
		f.Add(s)
	}
	c := New(Config{})
	f.Fuzz(func(t *testing.T, s string) {
		u, err := c.target(s)
		if err != nil {
			return
		}
		if u.User != nil || u.Fragment != "" || net.ParseIP(u.Hostname()) != nil || !strings.Contains(u.Hostname(), ".") {
			t.Fatalf("%q gives %s", s, u)
		}
		if again, err := c.target(u.String()); err != nil || again.String() != u.String() {
			t.Fatalf("%q gives %s, then %v %v", s, u, again, err)
		}
	})
}
