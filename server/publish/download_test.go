package publish_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"webring/server/publish"
)

// narrow asks for a path over a connection that takes little at a time, and
// gives the response, whose body is unread.
func (n *node) narrow(path string) *http.Response {
	n.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.base, "http://"))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(32 << 10); err != nil {
		n.t.Fatal(err)
	}
	res, err := (&http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}}).Get(n.base + path)
	if err != nil {
		n.t.Fatal(err)
	}
	return res
}

// long is more than the buffers between two ends of a connection hold.
const long = 32 << 20

// The node's server cuts what takes 300 ms to write.
func TestASlowLinkGetsAllOfALongAnswer(t *testing.T) {
	s := newHeld(t)
	s.file = bytes.Repeat([]byte("file"), long/4)
	routes, _, downloads := publish.Bounded(s, publish.Bounds{})
	n := serve(t, routes)
	res := n.narrow(fmt.Sprintf("/sync/snapshot/%x", sha256.Sum256(s.file)))
	var got bytes.Buffer
	for range 10 {
		time.Sleep(60 * time.Millisecond) // the link
		if _, err := io.CopyN(&got, res.Body, long/10); err != nil {
			t.Fatalf("cut after %d bytes: %v", got.Len(), err)
		}
	}
	if _, err := got.ReadFrom(res.Body); err != nil || !bytes.Equal(got.Bytes(), s.file) {
		t.Errorf("%d bytes of %d, %v", got.Len(), len(s.file), err)
	}
	waitFollowers(t, downloads, 0)
}

func TestALinkThatIsTooSlowIsCut(t *testing.T) {
	s := newHeld(t)
	s.file = bytes.Repeat([]byte("file"), long/4)
	path := fmt.Sprintf("/sync/snapshot/%x", sha256.Sum256(s.file))
	for name, c := range map[string]struct {
		bounds publish.Bounds
		every  int // bytes that are taken each 10 ms
	}{
		"it stands still": {publish.Bounds{Stall: 200 * time.Millisecond}, 0},
		"it trickles":     {publish.Bounds{Stall: 200 * time.Millisecond, Rate: 4 * long}, 256 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			routes, _, downloads := publish.Bounded(s, c.bounds)
			res := serve(t, routes).narrow(path)
			comes(t, "the cut", func() bool {
				time.Sleep(10 * time.Millisecond) // the link
				_, _ = io.CopyN(io.Discard, res.Body, int64(c.every))
				return downloads() == 0
			})
			if n, err := io.Copy(io.Discard, res.Body); err == nil {
				t.Errorf("all was sent, %d bytes of it in the end", n)
			}
		})
	}
}

// One client has a share, all strangers together have no more than leaves some
// for edges of this ring, and these have no share.
func TestRoomIsShared(t *testing.T) {
	s := newHeld(t)
	s.sign(t, 1, 1)
	routes, followers, _ := publish.Bounded(s, publish.Bounds{All: 8, Reserved: 3, Each: 2, Silence: time.Hour})
	n := serve(t, routes)
	follow := func(want int, header ...string) io.Closer {
		t.Helper()
		res := n.do(http.MethodGet, "/sync/checkpoint", append(header, "Accept", "text/event-stream")...)
		t.Cleanup(func() { res.Body.Close() })
		if res.StatusCode != want || want == 429 && res.Header.Get("Retry-After") != "10" {
			t.Fatalf("%s: %d, want %d; Retry-After %q", header, res.StatusCode, want, res.Header.Get("Retry-After"))
		}
		return res.Body
	}
	one := follow(200, "Client", "a")
	follow(200, "Client", "a")
	follow(429, "Client", "a")
	follow(200, "Client", "b")
	follow(200, "Client", "b")
	follow(200, "Client", "c")
	follow(429, "Client", "d") // the last three are reserved
	for range 3 {
		follow(200, "Client", "a", "Known", "yes")
	}
	follow(429, "Client", "e", "Known", "yes")
	if status, _, _, _ := n.get("/sync/checkpoint", "Client", "a"); status != 200 {
		t.Errorf("a question without a stream, which needs no place: %d", status)
	}
	one.Close()
	comes(t, "a place that is left", func() bool {
		s.sign(t, 1, time.Now().UnixMilli()) // what cannot be written shows who is gone
		return followers() == 7
	})
	follow(200, "Client", "a")
	follow(429, "Client", "a")
}
