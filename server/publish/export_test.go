package publish

import (
	"cmp"
	"context"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/snap"
)

// Sign gives the signed note of a checkpoint.
func (k *Key) Sign(c snap.Checkpoint) ([]byte, error) { return k.signText(c.Text(), nil) }

// Ask asks the witnesses now. Each has so long to answer.
func (p *Publisher) Ask(ctx context.Context, patience time.Duration) error {
	p.w.asking.Lock()
	p.w.patience = patience
	p.w.asking.Unlock()
	return p.ask(ctx)
}

// Bounds are those that a test can reach.
type Bounds struct {
	All, Reserved, Each int // of both rooms
	Silence             time.Duration
	Stall               time.Duration
	Rate                int64
}

// Bounded gives the handlers with bounds that a test can reach, 0 for the usual
// ones, and functions that count the followers and the downloads under way.
func Bounded(s Source, b Bounds) (routes map[string]func(*fasthttp.RequestCtx, string, bool), followers, downloads func() int) {
	w := new(Switch)
	w.Use(s)
	h := newHandlers(w, func() string { return "https://ring.test" })
	h.heartbeat = cmp.Or(b.Silence, h.heartbeat)
	h.stall, h.rate = cmp.Or(b.Stall, h.stall), cmp.Or(b.Rate, h.rate)
	if b.All > 0 {
		h.followers, h.downloads = newRoom(b.All, b.Reserved, b.Each), newRoom(b.All, b.Reserved, b.Each)
	}
	taken := func(r *room) func() int { return func() int { return int(r.taken.Load()) } }
	return h.routes(), taken(h.followers), taken(h.downloads)
}
