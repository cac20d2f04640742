package publish_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/snap"
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

// follower reads an event stream.
type follower struct {
	t     testing.TB
	res   *http.Response
	lines *bufio.Scanner

	from, events string // what the last event carried
}

func (n *node) follow(lastID string) *follower {
	n.t.Helper()
	header := []string{"Accept", "text/event-stream"}
	if lastID != "" {
		header = append(header, "Last-Event-ID", lastID)
	}
	res := n.do(http.MethodGet, "/sync/checkpoint", header...)
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("Cache-Control") != "no-store" {
		n.t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	n.t.Cleanup(func() { res.Body.Close() })
	return &follower{t: n.t, res: res, lines: bufio.NewScanner(res.Body)}
}

// next gives the next event, its id empty for a comment, and not ok at the end
// of the stream.
func (f *follower) next() (id, data string, ok bool) {
	var lines []string
	f.from, f.events = "", ""
	for f.lines.Scan() {
		if len(f.lines.Bytes()) >= 8<<10 {
			f.t.Errorf("a line of %d bytes, which is too long for older edges", len(f.lines.Bytes()))
		}
		name, value, _ := strings.Cut(f.lines.Text(), ": ")
		switch name {
		case "id":
			id = value
		case "data":
			lines = append(lines, value)
		case "from":
			f.from = value
		case "events":
			b, err := base64.StdEncoding.DecodeString(value)
			if err != nil {
				f.t.Error(err)
			}
			f.events += string(b)
		case "":
			return id, strings.Join(lines, "\n"), true
		}
	}
	return "", "", false
}

// event gives the next event that is no comment.
func (f *follower) event() (id, data string) {
	f.t.Helper()
	for {
		id, data, ok := f.next()
		if !ok {
			f.t.Fatal("the stream has ended")
		}
		if id != "" {
			return id, data
		}
	}
}

func TestCheckpointsAreStreamedAsTheyCome(t *testing.T) {
	s := newHeld(t)
	first := s.sign(t, 3, 1000)
	n := serve(t, publish.Handlers(only(s), func() string { return "" }))
	f := n.follow("")
	want := func(id, note string) {
		t.Helper()
		if got, data := f.event(); got != id || data+"\n" != note {
			t.Fatalf("event %s %q, want %s %q", got, data, id, note)
		}
	}
	want("3-1000", first)
	want2 := s.sign(t, 3, 2000)
	want("3-2000", want2)
	// Longer than the server allows for the writing of an answer.
	time.Sleep(400 * time.Millisecond)
	want3 := s.sign(t, 4, 2000)
	want("4-2000", want3)
}

// A client that follows learns of the checkpoints of whichever source there is.
func TestAStreamGoesOnWithAnotherSource(t *testing.T) {
	first, second := newHeld(t), newHeld(t)
	second.key = first.key
	first.sign(t, 1, 1)
	w := only(first)
	f := serve(t, publish.Handlers(w, func() string { return "" })).follow("")
	second.sign(t, 2, 2)
	for _, want := range []string{"1-1", "2-2", "3-3"} {
		if id, _ := f.event(); id != want {
			t.Errorf("event %s, want %s", id, want)
		}
		if w.Use(second); want == "2-2" {
			second.sign(t, 3, 3)
		}
	}
}

// Events since the checkpoint before come along, if they are few and short, and if
// there are any of them.
func TestEventsComeWithTheCheckpoint(t *testing.T) {
	s := newHeld(t)
	for i := range 1200 {
		s.events = append(s.events, snap.Record{Event: fmt.Appendf(nil, "event %d", i), Texts: bytes.Repeat([]byte("x"), i%100)})
	}
	long := snap.Record{Event: []byte("event"), Texts: bytes.Repeat([]byte("y"), core.MaxTexts)}
	for range 100 {
		s.events = append(s.events, long)
	}
	s.sign(t, 3, 1000)
	f := serve(t, publish.Handlers(only(s), func() string { return "" })).follow("2-999")
	if f.event(); f.from != "" || f.events != "" {
		t.Errorf("the first carries %q from %s", f.events, f.from)
	}
	before := uint64(3)
	for _, c := range []struct {
		size  uint64
		comes bool
	}{{4, true}, {4, false}, {68, true}, {133, false}, {960, false}, {1000, true}, {1030, true}, {1090, true}, {1190, false}, {1200, true}, {1264, false}, {1265, true}, {1301, false}} {
		s.sign(t, c.size, 2000+int64(before))
		f.event()
		want, from := []byte(nil), ""
		if c.comes {
			from = fmt.Sprint(before)
			for _, r := range s.events[before:c.size] {
				want = snap.AppendRecord(want, r)
			}
		}
		if f.from != from || f.events != string(want) {
			t.Errorf("from %d to %d: %d bytes from %q, want %d from %q", before, c.size, len(f.events), f.from, len(want), from)
		}
		before = c.size
	}
}

func TestAStreamResumesAfterWhatWasSeen(t *testing.T) {
	s := newHeld(t)
	now := s.sign(t, 3, 1000)
	n := serve(t, publish.Handlers(only(s), func() string { return "" }))
	// Any other than the newest is followed by the newest: what is behind, and
	// what this node never had.
	for _, last := range []string{"2-999", "3-999", "4-1000", "x", "-"} {
		if id, data := n.follow(last).event(); id != "3-1000" || data+"\n" != now {
			t.Errorf("after %s: %s", last, id)
		}
	}
	f := n.follow("3-1000")
	if id, _, ok := f.next(); id != "" || !ok {
		t.Errorf("after the newest: %s", id)
	}
	s.sign(t, 3, 1001)
	if id, _ := f.event(); id != "3-1001" {
		t.Errorf("after the newest: %s", id)
	}
}

func TestSilenceIsBrokenByComments(t *testing.T) {
	s := newHeld(t)
	s.sign(t, 1, 1)
	routes, _, _ := publish.Bounded(s, publish.Bounds{All: 10, Each: 10, Silence: time.Millisecond})
	f := serve(t, routes).follow("1-1")
	for range 5 {
		if id, data, ok := f.next(); id != "" || data != "" || !ok {
			t.Errorf("%q %q %v", id, data, ok)
		}
	}
}

// waitFollowers waits until so many hold a place.
func waitFollowers(t testing.TB, followers func() int, want int) {
	t.Helper()
	comes(t, fmt.Sprintf("%d that hold a place", want), func() bool { return followers() == want })
}

func TestAFollowerThatIsGoneLeavesNothing(t *testing.T) {
	s := newHeld(t)
	s.sign(t, 1, 1)
	routes, followers, _ := publish.Bounded(s, publish.Bounds{All: 1000, Each: 100, Silence: time.Millisecond})
	n := serve(t, routes)
	n.get("/sync/checkpoint")
	before := runtime.NumGoroutine()
	var streams []*follower
	for range 50 {
		streams = append(streams, n.follow(""))
	}
	waitFollowers(t, followers, 50)
	for _, f := range streams {
		f.res.Body.Close()
	}
	waitFollowers(t, followers, 0)
	// The server keeps idle workers for a moment; stopping ends them.
	n.stop()
	comes(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= before })
}

func TestStreamsEndWhenTheServerStops(t *testing.T) {
	s := newHeld(t)
	s.sign(t, 3, 1000)
	routes, followers, _ := publish.Bounded(s, publish.Bounds{All: 10, Each: 10, Silence: time.Hour})
	n := serve(t, routes)
	f := n.follow("")
	f.event()
	n.stop()
	if _, _, ok := f.next(); ok {
		t.Error("the stream goes on")
	}
	waitFollowers(t, followers, 0)
}
