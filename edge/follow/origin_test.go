package follow

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/sumdb/note"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
	"webring/core/snap"
	log "webring/edge/tlog"
	"webring/wasm/host"
)

const capacity = 10_000

// Where fakeOrigin has bundles of events, and of their texts.
const entriesPath, textsPath = "/log/tile/entries/", "/log/texts/"

// fakeOrigin is an origin in memory, to be reached by its Client. What it hands
// out can be bent.
type fakeOrigin struct {
	t      testing.TB
	signer note.Signer
	key    string

	mu      sync.Mutex
	records []snap.Record
	tree    snap.Tree
	state   *core.State
	at      snap.Checkpoint
	signed  []byte
	changed chan struct{}
	files   map[string][]byte // by path
	gone    bool
	streams bool
	busy    func(path string, waits bool) (retryAfter string) // "" answers
	bend    func(path string, body []byte) []byte
	carry   func(from uint64, records []snap.Record) string // what comes with a checkpoint of a stream
	drips   string                                          // what is below this path comes a byte at a time
	asked   []string
}

// emptyOrigin has a key and no events.
func emptyOrigin(t testing.TB, s signer) *fakeOrigin {
	return &fakeOrigin{t: t, signer: s.Signer, key: s.word, state: core.NewState(capacity, 1), changed: make(chan struct{}), files: map[string][]byte{}, streams: true}
}

func newOrigin(t testing.TB) *fakeOrigin {
	t.Helper()
	o := emptyOrigin(t, newSigner(t, "ring.test"))
	o.add(&core.Rules{Stamp: time.Now().UnixMilli(), Name: "Ring", BaseURL: "https://ring.test", Fee: 100, MinBid: 100,
		Grace: 1000, Decay: 1000, Scorer: "fixed", RequiredScore: 40}, nil)
	return o
}

func (o *fakeOrigin) add(e core.Event, texts *core.Texts) {
	o.t.Helper()
	s := coretest.NewStep(e, texts)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.state.Apply(s.EventBytes, s.TextBytes); err != nil {
		o.t.Fatal(err)
	}
	o.tree.Add(s.EventBytes)
	o.records = append(o.records, snap.Record{Event: s.EventBytes, Texts: s.TextBytes})
}

// join adds members of these names.
func (o *fakeOrigin) join(slugs ...string) {
	o.t.Helper()
	for _, slug := range slugs {
		texts := &core.Texts{Name: core.Text{Value: slug}, URL: core.Text{Value: "https://" + slug + ".test/"}}
		o.add(&core.Joined{Stamp: time.Now().UnixMilli(), Slug: slug, Kind: core.Agent, Category: "general",
			Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL), Fee: 100, Bid: 100}, texts)
	}
}

// present is the checkpoint of what there is.
func (o *fakeOrigin) present() snap.Checkpoint {
	c := o.at
	c.Origin, c.Size, c.Root, c.State = "ring.test", o.tree.Size(), o.tree.Root(), o.state.Digest()
	c.Time = max(time.Now().UnixMilli(), o.at.Time+1)
	return c
}

// sign publishes a checkpoint of what there is, bent.
func (o *fakeOrigin) sign(bend ...func(*snap.Checkpoint)) []byte {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.present()
	for _, b := range bend {
		b(&c)
	}
	o.at, o.signed = c, o.signWith(o.signer, c)
	close(o.changed)
	o.changed = make(chan struct{})
	return o.signed
}

func (o *fakeOrigin) signWith(s note.Signer, c snap.Checkpoint) []byte {
	o.t.Helper()
	signed, err := note.Sign(&note.Note{Text: c.Text()}, s)
	if err != nil {
		o.t.Fatal(err)
	}
	return signed
}

// snapshot makes a snapshot of what there is, which later checkpoints name.
func (o *fakeOrigin) snapshot() {
	o.t.Helper()
	o.offer(o.tree.Append(snap.Append(nil, o.state)), o.tree.Size())
}

func (o *fakeOrigin) offer(plain []byte, size uint64) {
	o.t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		o.t.Fatal(err)
	}
	file := w.EncodeAll(plain, nil)
	digest := sha256.Sum256(file)
	o.files["/sync/snapshot/"+hex.EncodeToString(digest[:])] = file
	o.at.Snapshot = snap.Snapshot{Digest: digest, Bytes: int64(len(file)), Size: size}
}

// RoundTrip answers as the handlers of an origin do.
func (o *fakeOrigin) RoundTrip(req *http.Request) (*http.Response, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, req.URL.RequestURI())
	if o.gone {
		return nil, errors.New("connection refused")
	}
	answer := func(status int, media string, body io.Reader) *http.Response {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(body), ContentLength: -1, Request: req}
	}
	if o.busy != nil {
		waits := req.Header.Get("Accept") == "text/event-stream" || req.URL.Query().Has("after")
		if after := o.busy(req.URL.Path, waits); after != "" {
			res := answer(429, "application/problem+json", strings.NewReader("{}"))
			res.Header.Set("Retry-After", after)
			return res, nil
		}
	}
	file := func(b []byte) (*http.Response, error) {
		if o.bend != nil {
			b = o.bend(req.URL.Path, bytes.Clone(b))
		}
		if b == nil {
			return answer(404, "application/problem+json", strings.NewReader("{}")), nil
		}
		if o.drips != "" && strings.HasPrefix(req.URL.Path, o.drips) {
			return answer(200, "application/octet-stream", &drip{req.Context(), b}), nil
		}
		return answer(200, "application/octet-stream", bytes.NewReader(b)), nil
	}
	switch path := req.URL.Path; path {
	case "/sync/checkpoint":
		if !o.streams || req.Header.Get("Accept") != "text/event-stream" {
			return file(o.signed)
		}
		pr, pw := io.Pipe()
		go o.stream(req.Context(), pw)
		res := answer(200, "text/event-stream", nil)
		res.Body = pr
		return res, nil
	default:
		t, texts, ok := log.ParsePath(path)
		first := t.N * log.TileWidth
		if !ok || t.L >= 0 || first+int64(t.W) > int64(len(o.records)) {
			return file(o.files[path])
		}
		b := []byte{}
		for _, r := range o.records[first:][:t.W] {
			if texts {
				b = log.AppendEntry(b, r.Texts)
			} else {
				b = log.AppendEntry(b, r.Event)
			}
		}
		return file(b)
	}
}

// drip gives a byte each 9 seconds, until its context ends.
type drip struct {
	ctx  context.Context
	rest []byte
}

func (d *drip) Read(b []byte) (int, error) {
	if len(d.rest) == 0 {
		return 0, io.EOF
	}
	if err := Rest(d.ctx, 9*time.Second); err != nil {
		return 0, err
	}
	n := copy(b[:1], d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

func (o *fakeOrigin) stream(ctx context.Context, w *io.PipeWriter) {
	defer w.CloseWithError(io.ErrUnexpectedEOF)
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	defer stop()
	sent, size := "", uint64(0)
	for {
		o.mu.Lock()
		signed, changed := string(o.signed), o.changed
		with := ""
		if size > 0 && o.carry != nil && o.at.Size > size {
			with = o.carry(size, o.records[size:o.at.Size])
		}
		size = o.at.Size
		if o.gone {
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		out := ":\n\n"
		if signed != sent && signed != "" {
			sent = signed
			out = with + "id: x\ndata: " + strings.ReplaceAll(strings.TrimSuffix(signed, "\n"), "\n", "\ndata: ") + "\n\n"
		}
		if _, err := io.WriteString(w, out); err != nil {
			return
		}
		select {
		case <-changed:
		case <-time.After(10 * time.Second):
		case <-ctx.Done():
			return
		}
	}
}

// questions is how often an address with this prefix was requested.
func (o *fakeOrigin) questions(prefix string) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, path := range o.asked {
		if strings.HasPrefix(path, prefix) {
			n++
		}
	}
	return n
}

// attempts is how often the origin has been asked for anything.
func (o *fakeOrigin) attempts() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.asked)
}

func (o *fakeOrigin) leave(gone bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gone = gone
	close(o.changed)
	o.changed = make(chan struct{})
}

// follower is a replica under test, and what it showed.
type follower struct {
	*Replica
	t     testing.TB
	log   *logBuffer
	shown atomic.Int32 // how many cores
}

type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newReplica makes a replica that nothing has been shown to but what its folder
// holds.
func (o *fakeOrigin) newReplica(change ...func(*Config)) *follower {
	o.t.Helper()
	f := &follower{t: o.t, log: &logBuffer{}}
	link := LinkConfig{Origins: []string{"http://origin.test"}, Client: &http.Client{Transport: o}, Log: slog.New(slog.NewTextHandler(f.log, nil))}
	cfg := Config{LinkConfig: link, Keys: []string{o.key},
		Open: openCore,
		Show: func(Core) { f.shown.Add(1) },
	}
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if f.Replica, err = New(context.Background(), cfg); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() {
		if err := f.Close(); err != nil {
			o.t.Error(err)
		}
	})
	return f
}

// booted makes a replica that has accepted what was signed last.
func (o *fakeOrigin) booted(change ...func(*Config)) *follower {
	o.t.Helper()
	f := o.newReplica(change...)
	f.takes(o.signed)
	return f
}

// accept takes what was signed as if it came from the origin.
func (f *follower) accept(ctx context.Context, signed []byte) error {
	return f.link.take(ctx, f.link.origins.Current(), event{signed: signed})
}

func (f *follower) takes(signed []byte) {
	f.t.Helper()
	if err := f.accept(f.t.Context(), signed); err != nil {
		f.t.Fatal(err)
	}
	f.writes.writing.Wait()
}

// get asks the core that is shown.
func (f *follower) get(target string) string {
	f.t.Helper()
	if f.Replica.shown == nil {
		f.t.Fatalf("nothing is shown\n%s", f.log)
	}
	var r api.Response
	f.Replica.shown.Serve([]byte(target), &r)
	return fmt.Sprint(r.Status, " ", r.Seq, " ", string(r.Location), string(r.Body))
}

// agrees holds that the replica is where the origin is.
func (f *follower) agrees(o *fakeOrigin) {
	f.t.Helper()
	f.accepting.Lock()
	defer f.accepting.Unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if f.Replica.shown == nil {
		f.t.Fatalf("nothing is shown\n%s", f.log)
	}
	size, state := f.at.Size, f.at.State
	if size != o.tree.Size() || state != o.state.Digest() || f.tree.Root() != o.tree.Root() {
		f.t.Errorf("at %d with %x, not at %d with %x\n%s", size, state, o.tree.Size(), o.state.Digest(), f.log)
	}
	if seq, digest := f.Replica.shown.Digest(); seq != size || digest != state {
		f.t.Errorf("it shows %d with %x, not what it is at", seq, digest)
	}
}

// testCore is a core that notices when it is used after its end.
type testCore struct {
	*host.Native
	closed bool
}

func openCore(_ context.Context, snapshot []byte) (Core, error) {
	if snapshot == nil {
		return &testCore{Native: host.NewNative(capacity)}, nil
	}
	n, err := host.LoadNative(capacity, snapshot)
	if err != nil {
		return nil, err
	}
	return &testCore{Native: n}, nil
}

func (c *testCore) Serve(target []byte, r *api.Response) {
	if c.closed {
		panic("a core is read after its end")
	}
	c.Native.Serve(target, r)
}

func (c *testCore) Close() error {
	if c.closed {
		return errors.New("a core is closed twice")
	}
	c.closed = true
	return c.Native.Close()
}
