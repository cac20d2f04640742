package publish_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"

	"webring/core/snap"
	log "webring/edge/tlog"
	"webring/server/publish"
)

// held is a source made by hand.
type held struct {
	key    *publish.Key
	events []snap.Record
	file   []byte

	mu      sync.Mutex
	note    []byte
	changed chan struct{}
}

func newHeld(t testing.TB) *held {
	key, err := publish.OpenKey(filepath.Join(t.TempDir(), "key"), "ring.test")
	if err != nil {
		t.Fatal(err)
	}
	return &held{key: key, changed: make(chan struct{})}
}

// sign makes a checkpoint the newest, and gives its note.
func (s *held) sign(t testing.TB, size uint64, ms int64) string {
	t.Helper()
	signed, err := s.key.Sign(snap.Checkpoint{Origin: "ring.test", Size: size, Time: ms})
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note = signed
	close(s.changed)
	s.changed = make(chan struct{})
	return string(signed)
}

func (s *held) Checkpoint() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.note
}

func (s *held) Keys() []byte { return nil }

func (s *held) Cosigned() []byte { return nil }

func (s *held) LogCheckpoint() []byte { return nil }

func (s *held) Log() ([]byte, uint64, publish.Books) { return nil, 0, nil }

func (s *held) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *held) Events(from uint64, n int) ([]snap.Record, error) {
	if from > uint64(len(s.events)) {
		return nil, fmt.Errorf("held: %w", snap.ErrNotHeld)
	}
	rest := s.events[from:]
	return rest[:min(n, len(rest))], nil
}

func (s *held) Snapshot(digest [32]byte) (io.ReadCloser, int64, error) {
	if digest != sha256.Sum256(s.file) {
		return nil, 0, snap.ErrNotHeld
	}
	return io.NopCloser(bytes.NewReader(s.file)), int64(len(s.file)), nil
}

// only has one source, which is not replaced.
func only(s publish.Source) *publish.Switch {
	w := new(publish.Switch)
	w.Use(s)
	return w
}

// node serves handlers on this machine.
type node struct {
	t      testing.TB
	base   string
	server *fasthttp.Server
	ended  chan error
}

// routes are what [publish.Handlers] gives.
type routes = map[string]func(ctx *fasthttp.RequestCtx, client string, known bool)

// serve has handlers answer. A test names the asker in the fields Client and Known.
func serve(t testing.TB, routes routes) *node {
	t.Helper()
	return serveWithin(t, routes, 300*time.Millisecond)
}

// serveWithin is serve with another bound for writing a short answer.
func serveWithin(t testing.TB, routes routes, write time.Duration) *node {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, base: "http://" + l.Addr().String(), ended: make(chan error, 1)}
	n.server = &fasthttp.Server{CloseOnShutdown: true, WriteTimeout: write, Handler: func(ctx *fasthttp.RequestCtx) {
		path := string(ctx.Path())
		if pattern := "/sync/snapshot/"; strings.HasPrefix(path, pattern) {
			path = pattern + "{sha256}"
		}
		if strings.HasPrefix(path, "/log/") {
			path = publish.LogPattern
		}
		h := &ctx.Request.Header
		routes[path](ctx, string(h.Peek("Client")), len(h.Peek("Known")) > 0)
	}}
	go func() { n.ended <- n.server.Serve(l) }()
	t.Cleanup(n.stop)
	return n
}

// stop ends the server as a shell does, and fails the test when a request
// keeps it from ending.
func (n *node) stop() {
	if n.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), longEnough)
	defer cancel()
	if err := errors.Join(n.server.ShutdownWithContext(ctx), <-n.ended); err != nil {
		n.t.Error(err)
	}
	n.server = nil
}

// one is a client that keeps no connections.
var one = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (n *node) do(method, path string, header ...string) *http.Response {
	n.t.Helper()
	req, err := http.NewRequest(method, n.base+path, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := one.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	return res
}

// get gives status, the fields that matter, and the body.
func (n *node) get(path string, header ...string) (status int, media, cache, body string) {
	n.t.Helper()
	res := n.do(http.MethodGet, path, header...)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("Content-Type"), res.Header.Get("Cache-Control"), string(b)
}

const octets, brief, forGood = "application/octet-stream", "public, max-age=3600", "public, max-age=31536000, immutable"

func TestWhatIsHeldIsHandedOut(t *testing.T) {
	s := newHeld(t)
	s.file = bytes.Repeat([]byte("file"), 100_000)
	for i := range 4*log.TileWidth + 3 {
		s.events = append(s.events, snap.Record{Event: fmt.Appendf(nil, "event %d", i), Texts: fmt.Appendf(nil, "%d", i)})
	}
	signed := s.sign(t, uint64(len(s.events)), 5)
	routes, _, downloads := publish.Bounded(s, publish.Bounds{})
	n := serve(t, routes)
	bundle := func(from, to int, of func(snap.Record) []byte) string {
		var b []byte
		for _, r := range s.events[from:to] {
			b = log.AppendEntry(b, of(r))
		}
		return string(b)
	}
	event, texts := func(r snap.Record) []byte { return r.Event }, func(r snap.Record) []byte { return r.Texts }
	end := len(s.events)
	for _, c := range []struct{ path, media, cache, body string }{
		{"/sync/checkpoint", "text/plain; charset=utf-8", "public, max-age=1", signed},
		{"/sync/checkpoint?more=x", "text/plain; charset=utf-8", "public, max-age=1", signed},
		{"/log/tile/entries/000", octets, forGood, bundle(0, 256, event)},
		{"/log/tile/entries/003?more=x", octets, forGood, bundle(768, 1024, event)},
		{"/log/tile/entries/004.p/2", octets, forGood, bundle(1024, 1026, event)},
		{"/log/tile/entries/004.p/3", octets, forGood, bundle(1024, end, event)},
		{"/log/texts/000", octets, brief, bundle(0, 256, texts)},
		{"/log/texts/004.p/3", octets, brief, bundle(1024, end, texts)},
		{fmt.Sprintf("/sync/snapshot/%x", sha256.Sum256(s.file)), "application/zstd", brief, string(s.file)},
	} {
		status, media, cache, body := n.get(c.path)
		if status != 200 || media != c.media || cache != c.cache || body != c.body {
			t.Errorf("%s: %d %s, %s, %d bytes, want %d", c.path, status, media, cache, len(body), len(c.body))
		}
		res := n.do(http.MethodHead, c.path, "Accept", "text/event-stream")
		if b, err := io.ReadAll(res.Body); err != nil || len(b) != 0 || res.StatusCode != 200 || len(c.body) > 0 && res.ContentLength != int64(len(c.body)) {
			t.Errorf("HEAD %s: %d, length %d, %d bytes, %v", c.path, res.StatusCode, res.ContentLength, len(b), err)
		}
		res.Body.Close()
	}
	waitFollowers(t, downloads, 0) // whatever was asked how
}

// A client knows how much room a snapshot takes before it has it, or asks for it.
func TestSnapshotsSayHowLongTheyAre(t *testing.T) {
	s := newHeld(t)
	n := serve(t, publish.Handlers(only(s), func() string { return "https://ring.test" }))
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	plain := bytes.Repeat([]byte("file"), 100_000)
	for want, file := range map[string][]byte{"400000": z.EncodeAll(plain, nil), "": []byte("no frame")} {
		s.file = file
		path := fmt.Sprintf("/sync/snapshot/%x", sha256.Sum256(file))
		for _, method := range []string{http.MethodHead, http.MethodGet} {
			res := n.do(method, path)
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if got := res.Header.Get("Webring-Plain-Length"); got != want || err != nil || method == http.MethodGet && !bytes.Equal(body, file) {
				t.Errorf("%s: %q, want %q; %d bytes, %v", method, got, want, len(body), err)
			}
		}
	}
}

func TestQuestionsThatMakeNoSenseAreProblems(t *testing.T) {
	s := newHeld(t)
	s.file, s.events = []byte("file"), make([]snap.Record, 3)
	s.sign(t, 3, 1)
	n := serve(t, publish.Handlers(only(s), func() string { return "https://ring.test" }))
	digest := fmt.Sprintf("%x", sha256.Sum256(s.file))
	for path, want := range map[string]int{
		"/log/tile/entries/000":                     404,
		"/log/tile/entries/000.p/4":                 404,
		"/log/tile/entries/000.p/0":                 404,
		"/log/tile/entries/000.p/03":                404,
		"/log/tile/entries/0.p/3":                   404,
		"/log/tile/entries/001.p/1":                 404,
		"/log/tile/entries/-01":                     404,
		"/log/texts/000.p/4":                        404,
		"/log/texts/x36/028/797/018/963/968":        404,
		"/log/tile/entries/x36/028/797/018/963":     404,
		"/sync/snapshot/" + strings.Repeat("0", 64): 404,
		"/sync/snapshot/x":                          404,
		"/sync/snapshot/" + strings.ToUpper(digest): 404,
		"/sync/snapshot/" + digest[1:]:              404,
		"/sync/snapshot/" + digest + "00":           404,
	} {
		status, media, cache, body := n.get(path)
		var doc struct {
			Type, Title, Detail, Code string
			Status                    int
		}
		if err := json.Unmarshal([]byte(body), &doc); err != nil || status != want || doc.Status != want || cache != "no-store" ||
			media != "application/problem+json" || !strings.HasPrefix(doc.Type, "https://ring.test/problems/") || doc.Detail == "" {
			t.Errorf("%s: %d, want %d; %s %s %s %v", path, status, want, media, cache, body, err)
		}
	}
}

func TestBeforeTheFirstCheckpointThereIsNone(t *testing.T) {
	routes, _, _ := publish.Bounded(newHeld(t), publish.Bounds{})
	n := serve(t, routes)
	if status, _, _, body := n.get("/sync/checkpoint"); status != 404 {
		t.Errorf("%d %s", status, body)
	}
}

// Whatever stands in the query and path, a handler answers, with a checkpoint,
// a range, a file, or a problem.
func FuzzQuestions(f *testing.F) {
	s := newHeld(f)
	s.events = make([]snap.Record, 3)
	s.sign(f, 3, 1)
	routes, _, _ := publish.Bounded(s, publish.Bounds{Silence: time.Microsecond})
	f.Add("from=1", "x")
	f.Add("from=3", strings.Repeat("0", 64))
	f.Add("from=1&from=%31&more=%00", "%2f")
	f.Fuzz(func(t *testing.T, query, segment string) {
		for path, h := range routes {
			var ctx fasthttp.RequestCtx
			ctx.Init(&fasthttp.Request{}, nil, nil)
			ctx.Request.SetRequestURI(strings.Replace(path, "{sha256}", segment, 1) + "?" + query)
			h(&ctx, "", false)
			ctx.Response.CloseBodyStream()
			if status := ctx.Response.StatusCode(); status != 200 && status != 400 && status != 404 {
				t.Fatalf("%s?%s: %d", path, query, status)
			}
		}
	})
}
