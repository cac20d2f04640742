package replica

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// An origin answers one client 1 200 times a minute below /sync/. A replica stays within
// that whatever it has to catch up with. Its followers, however many, cause a small share
// of the requests at most.
const (
	paceBurst, pacePerSecond   = 600, 8
	shareBurst, sharePerSecond = 30, 1
	// restMin and restMax bound what an answer with 429 can ask for.
	restMin, restMax = time.Second, time.Minute
)

// pace says when the next question may be asked. It may be used concurrently.
type pace struct {
	all, share *rate.Limiter

	mu    sync.Mutex
	until time.Time // no request before this, as the origin asked
}

func newPace() *pace {
	return &pace{all: rate.NewLimiter(pacePerSecond, paceBurst), share: rate.NewLimiter(sharePerSecond, shareBurst)}
}

// wait returns nil when a question may be asked, or the error of ctx.
func (p *pace) wait(ctx context.Context) error {
	p.mu.Lock()
	quiet := time.Until(p.until)
	p.mu.Unlock()
	if quiet > 0 {
		if err := rest(ctx, quiet); err != nil {
			return err
		}
	}
	return p.all.Wait(ctx)
}

// spare says whether a question may be asked now for a follower, and counts it.
func (p *pace) spare() bool {
	p.mu.Lock()
	quiet := time.Until(p.until) > 0
	p.mu.Unlock()
	return !quiet && p.share.Allow()
}

// rest lets no question be asked for a while.
func (p *pace) rest(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(d)
}

// laterError is what an answer with 429 asks for, of the questions that pace allows.
type laterError struct {
	pace  *pace
	after time.Duration
}

func (e *laterError) Error() string {
	return fmt.Sprintf("%v 429: asked to wait for %s", errStatus, e.after)
}

func (e *laterError) Unwrap() error { return errStatus }

func later(p *pace, h http.Header) error {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil {
		seconds = 0 // a date, or nothing
	}
	return &laterError{p, min(max(time.Duration(seconds)*time.Second, restMin), restMax)}
}
