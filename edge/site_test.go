package edge

import (
	"bytes"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"webring/core/api"
	"webring/edge/edgetest"
	"webring/templates"
)

const (
	base  = edgetest.Base
	epoch = edgetest.Epoch // where test histories begin
)

type reply = edgetest.Reply

var (
	sharedSecret, sharedSecrets = edgetest.Secret, edgetest.Secrets

	newRing, openedRing, join, proxies  = edgetest.NewTrio, edgetest.NewRing, edgetest.Join, edgetest.Proxies
	wantProblem, wantCommon, wantFields = edgetest.WantProblem, edgetest.WantCommon, edgetest.WantFields
	gzipped, zstded                     = edgetest.Gzipped, edgetest.Zstded
)

// fakeCore answers with what serve writes, and pages, too, unless that is another function.
type fakeCore struct {
	serve, pages func(target []byte, r *api.Response)
	second       int64
}

func (f *fakeCore) Serve(target []byte, r *api.Response) { f.serve(target, r) }
func (f *fakeCore) ServeAll(targets [][]byte, all []api.Response) {
	serve := f.serve
	if f.pages != nil {
		serve = f.pages
	}
	for i, target := range targets {
		serve(target, &all[i])
	}
}
func (f *fakeCore) Head() (uint64, int64) { return 7, f.second }
func (f *fakeCore) BaseURL() string       { return base }

// documentCore answers everything with one document.
func documentCore(v api.Validity, since, until, second int64, body string) *fakeCore {
	return &fakeCore{second: second, serve: func(_ []byte, r *api.Response) {
		*r = api.Response{Status: 200, Validity: v, Seq: 7, Since: since, Until: until, Body: append(r.Body[:0], body...)}
	}}
}

// handClock is a clock that stands still until it is moved.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *handClock { return &handClock{now: time.Unix(epoch, 0)} }

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// site is a shell that serves on loopback.
type site struct {
	*Shell
	*edgetest.Site
	log *syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func serve(t testing.TB, cfg Config) *site {
	t.Helper()
	out := &syncBuffer{}
	cfg.Log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if cfg.Check != nil && cfg.Recheck == nil {
		cfg.Recheck = func(d templates.Draft) (templates.Checked, bool) { return cfg.Check(t.Context(), "again", d), true }
	}
	sh, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &site{sh, edgetest.Serve(t, sh, cfg.TLS != nil), out}
}

// peerConn is a connection from an address.
type peerConn struct {
	net.Conn
	remote net.Addr
}

func (c peerConn) RemoteAddr() net.Addr { return c.remote }
