package forward

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"webring/edge/follow"
)

const (
	// quietTime is how long an origin may hold a request before it is asked whether it is
	// there, and lifeTime how long it may take to say so. An origin holds a payment for
	// minutes, so that it has not answered yet says nothing; and a process that is stopped
	// goes on holding its connections.
	quietTime, lifeTime = 5 * time.Second, 8 * time.Second
)

// errSilent ends a request at an origin that answers nothing at all any more.
var errSilent = errors.New("forward: the origin is silent")

// life knows which origins still answer something.
type life struct {
	*http.Transport
	questions singleflight.Group
	mu        sync.Mutex
	last      map[*follow.Origin]time.Time // when it answered anything
}

func newLife() *life {
	// One question at a time for each origin.
	return &life{Transport: newTransport(1), last: map[*follow.Origin]time.Time{}}
}

// heard notes that an origin has answered something.
func (l *life) heard(o *follow.Origin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.last[o]; !known {
		for other := range l.last {
			if other.Gone().Err() != nil {
				delete(l.last, other)
			}
		}
	}
	l.last[o] = time.Now()
}

// watch calls silent if an origin stops answering before ctx ends.
func (l *life) watch(ctx context.Context, o *follow.Origin, silent func()) {
	again := time.NewTicker(quietTime)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if !l.there(o) {
				silent()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// there reports whether an origin has answered something within [quietTime], or does so
// now. Callers at the same time share one question.
func (l *life) there(o *follow.Origin) bool {
	l.mu.Lock()
	last := l.last[o]
	l.mu.Unlock()
	if time.Since(last) < quietTime {
		return true
	}
	is, _, _ := l.questions.Do(o.URL, func() (any, error) {
		ctx, cancel := context.WithTimeout(o.Gone(), lifeTime)
		defer cancel()
		// The answer is small, and the origin has it in memory.
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.URL+"/sync/checkpoint", nil)
		if err != nil {
			return false, err
		}
		res, err := l.RoundTrip(req)
		if err != nil {
			return false, err
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer)) // so that the connection can be used again
		res.Body.Close()
		l.heard(o)
		return true, nil
	})
	return is.(bool)
}
