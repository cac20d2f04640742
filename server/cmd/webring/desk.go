package main

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"webring/core/snap"
	"webring/edge"
	"webring/server/publish"
	"webring/templates"
)

// backend is what stands behind the shell and the operator's socket of an origin while it
// has one role.
type backend struct {
	paid, others map[string]edge.Handler // those of [edge.Config]
	// check is [edge.Config.Check]; nil: the form is passed on as one of others.
	check   func(ctx context.Context, client string, draft templates.Draft) templates.Checked
	source  publish.Source
	control http.Handler // answers the operator
}

// desk passes requests to the backend of the moment. There is one for the whole life of a
// process, and so one shell with its listeners.
type desk struct {
	now    atomic.Pointer[backend]
	source *switchedSource // nil where there is one source only
}

// show has requests answered by b from now on. Those in work go on where they are.
func (d *desk) show(b *backend) {
	d.now.Store(b)
	if d.source != nil {
		d.source.use(b.source)
	}
}

// ServeHTTP answers the operator.
func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.now.Load().control.ServeHTTP(w, r)
}

// joinForm is the form of the join page, which an origin that leads checks itself.
const joinForm = "POST /join"

// checkPattern is the check of a draft by programs.
const checkPattern = "POST /api/check"

// fill puts the handlers into the shell's configuration. switched says that roles change.
func (d *desk) fill(cfg *edge.Config, switched bool) {
	cfg.Paid, cfg.Others = map[string]edge.Handler{}, map[string]edge.Handler{}
	for pattern := range paidOperations {
		cfg.Paid[pattern] = func(ctx *fasthttp.RequestCtx, client string, secure bool) {
			d.now.Load().paid[pattern](ctx, client, secure)
		}
	}
	for _, pattern := range onlyAtOrigin {
		if pattern == joinForm && !switched {
			continue // it is always checked here
		}
		cfg.Others[pattern] = func(ctx *fasthttp.RequestCtx, client string, secure bool) {
			d.now.Load().others[pattern](ctx, client, secure)
		}
	}
	cfg.Check = func(ctx context.Context, client string, draft templates.Draft) templates.Checked {
		return d.now.Load().check(ctx, client, draft)
	}
	if switched {
		cfg.Checks = func() bool { return d.now.Load().check != nil }
	}
}

// switchedSource is a [publish.Source] that another one can take the place of, while edges
// follow it. All of them give checkpoints of one ring that never go back.
type switchedSource struct {
	mu      sync.Mutex
	now     publish.Source
	changed chan struct{}
	end     chan struct{} // closed when now is not the source any more
}

func newSwitchedSource() *switchedSource { return &switchedSource{changed: make(chan struct{})} }

// use makes s the source, nil for none.
func (w *switchedSource) use(s publish.Source) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == s {
		return
	}
	if w.end != nil {
		close(w.end)
		w.end = nil
	}
	w.now = s
	w.announce()
	if s != nil {
		w.end = make(chan struct{})
		go w.watch(s, w.end)
	}
}

// announce says that there may be a newer checkpoint. The caller holds mu.
func (w *switchedSource) announce() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// watch announces each checkpoint of a source until end is closed.
func (w *switchedSource) watch(s publish.Source, end <-chan struct{}) {
	for {
		changed := s.Changed()
		select {
		case <-changed:
		case <-end:
			return
		}
		w.mu.Lock()
		if w.now == s {
			w.announce()
		}
		w.mu.Unlock()
	}
}

func (w *switchedSource) source() publish.Source {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// Changed implements [publish.Source].
func (w *switchedSource) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// Checkpoint implements [publish.Source].
func (w *switchedSource) Checkpoint() []byte {
	if s := w.source(); s != nil {
		return s.Checkpoint()
	}
	return nil
}

// Keys implements [publish.Source].
func (w *switchedSource) Keys() []byte {
	if s := w.source(); s != nil {
		return s.Keys()
	}
	return nil
}

// Events implements [publish.Source].
func (w *switchedSource) Events(from uint64, n int) ([]snap.Record, error) {
	if s := w.source(); s != nil {
		return s.Events(from, n)
	}
	return nil, snap.ErrNotHeld
}

// Snapshot implements [publish.Source].
func (w *switchedSource) Snapshot(digest [32]byte) (io.ReadCloser, int64, error) {
	if s := w.source(); s != nil {
		return s.Snapshot(digest)
	}
	return nil, 0, snap.ErrNotHeld
}
