package logging

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Audit is the key of the attribute with which a line is never collected. Its value says
// of what it is a record, such as "payment".
const Audit = "audit"

const (
	// burst is how many lines of a kind are written in its first window.
	burst  = 20
	window = time.Minute
	// maxKinds bounds the kinds that are counted at a time.
	maxKinds = 256
)

// collector is the handler that collects. Loggers made by With share what is counted.
type collector struct {
	next    slog.Handler
	all     *collected
	audited bool // by an attribute of the logger
}

// kind is what counts as the same line.
type kind struct {
	level   slog.Level
	message string
}

// count is what came of a kind in its present window.
type count struct {
	began time.Time
	left  int       // lines to be written in this window
	more  int       // lines that were not
	since time.Time // of the first of these
}

// collected is what is counted, for all loggers of a log.
type collected struct {
	out slog.Handler // for sums

	mu     sync.Mutex
	kinds  map[kind]*count
	timer  *time.Timer // ends windows; nil while there are none
	closed bool
}

func (c *collector) Enabled(ctx context.Context, level slog.Level) bool {
	return c.next.Enabled(ctx, level)
}

func (c *collector) WithAttrs(attrs []slog.Attr) slog.Handler {
	audited := c.audited
	for _, a := range attrs {
		audited = audited || a.Key == Audit
	}
	return &collector{c.next.WithAttrs(attrs), c.all, audited}
}

func (c *collector) WithGroup(name string) slog.Handler {
	return &collector{c.next.WithGroup(name), c.all, c.audited}
}

func (c *collector) Handle(ctx context.Context, r slog.Record) error {
	if c.audited || isAudited(r) || c.all.take(kind{r.Level, r.Message}) {
		return c.next.Handle(ctx, r)
	}
	return nil
}

func isAudited(r slog.Record) (audited bool) {
	r.Attrs(func(a slog.Attr) bool {
		audited = a.Key == Audit
		return !audited
	})
	return audited
}

// take counts a line, and reports whether it is written.
func (c *collected) take(k kind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return true
	}
	n := c.kinds[k]
	if n == nil {
		if len(c.kinds) >= maxKinds {
			c.dropFirst()
		}
		n = &count{began: time.Now(), left: burst}
		c.kinds[k] = n
		if c.timer == nil {
			c.timer = time.AfterFunc(window, c.turn)
		}
	}
	if n.left > 0 {
		n.left--
		return true
	}
	if n.more++; n.more == 1 {
		n.since = time.Now()
	}
	return false
}

// dropFirst makes room for another kind.
func (c *collected) dropFirst() {
	var first kind
	var began time.Time
	for k, n := range c.kinds {
		if began.IsZero() || n.began.Before(began) {
			first, began = k, n.began
		}
	}
	c.sum(first, c.kinds[first])
	delete(c.kinds, first)
}

// turn ends the windows that are over. A kind of which lines were collected begins another
// one.
func (c *collected) turn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = nil
	if c.closed {
		return
	}
	now := time.Now()
	next := time.Duration(-1)
	for k, n := range c.kinds {
		left := window - now.Sub(n.began)
		if left <= 0 {
			if n.more == 0 {
				delete(c.kinds, k)
				continue
			}
			c.sum(k, n)
			*n = count{began: now, left: 1}
			left = window
		}
		if next < 0 || left < next {
			next = left
		}
	}
	if next >= 0 {
		c.timer = time.AfterFunc(next, c.turn)
	}
}

// sum writes how many lines of a kind were collected.
func (c *collected) sum(k kind, n *count) {
	ctx := context.Background()
	if n.more == 0 || !c.out.Enabled(ctx, k.level) {
		return
	}
	now := time.Now()
	r := slog.NewRecord(now, k.level, k.message, 0)
	r.AddAttrs(slog.Int("more", n.more), slog.String("in", now.Sub(n.since).Round(time.Second).String()))
	// What cannot be written cannot be told either.
	_ = c.out.Handle(ctx, r)
}

func (c *collected) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	for k, n := range c.kinds {
		c.sum(k, n)
	}
	clear(c.kinds)
}
