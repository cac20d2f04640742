package follow

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Origin is one of [Origins]. Its address identifies it: an origin that is taken out of a
// list and put in again is another one.
type Origin struct {
	URL  string // scheme and host, http or https
	gone context.Context
	end  context.CancelFunc
	pace *pace

	// Of the goroutine in [Link.Run]:
	askUntil time.Time // it gives no stream
	failure  string    // in the log
	logged   time.Time
}

// Gone is done once the list does not have the origin any more.
func (o *Origin) Gone() context.Context { return o.gone }

// Origins are the nodes of one origin, in the order in which they are asked. They are equal:
// one of them is asked for as long as it answers, and then the next. When the first is back,
// nothing changes. An edge has two lists, one to follow and one to pass payments on, because
// a node that serves checkpoints may take no payments, and the other way round. A list may
// be used concurrently.
type Origins struct {
	mu      sync.Mutex
	origins []*Origin
	at      int // of the current one
}

// NewOrigins returns a list that starts at its first URL. Duplicates count once. A list may
// be empty.
func NewOrigins(urls ...string) (*Origins, error) {
	l := new(Origins)
	return l, l.Replace(urls...)
}

// Replace makes these the origins. One that was there stays the same, and stays the current
// one if it was. After an error the list is as before.
func (l *Origins) Replace(urls ...string) error {
	var next []*Origin
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil {
			if err == nil {
				raw = u.Redacted()
			}
			return fmt.Errorf("the origin %q is not an http or https URL without path", raw)
		}
		is := func(o *Origin) bool { return o.URL == u.Scheme+"://"+u.Host }
		if slices.ContainsFunc(next, is) {
			continue
		}
		if i := slices.IndexFunc(l.origins, is); i >= 0 {
			next = append(next, l.origins[i])
			continue
		}
		o := &Origin{URL: u.Scheme + "://" + u.Host, pace: newPace()}
		o.gone, o.end = context.WithCancel(context.Background())
		next = append(next, o)
	}
	var current *Origin
	if len(l.origins) > 0 {
		current = l.origins[l.at]
	}
	before := l.origins
	l.origins, l.at = next, max(slices.Index(next, current), 0)
	for _, o := range before {
		if !slices.Contains(next, o) {
			o.end()
		}
	}
	return nil
}

// Current returns the origin to be asked, nil for an empty list.
func (l *Origins) Current() *Origin {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.origins) == 0 {
		return nil
	}
	return l.origins[l.at]
}

// Round returns all origins once, beginning with the current one.
func (l *Origins) Round() []*Origin {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(slices.Clone(l.origins[l.at:]), l.origins[:l.at]...)
}

// Several reports whether there is more than one origin.
func (l *Origins) Several() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.origins) > 1
}

// Skip makes the next origin the current one, and returns it, if o is the current one. It
// returns nil if another one is, or if o is the only one: so of many requests that fail at
// an origin, one moves on.
func (l *Origins) Skip(o *Origin) (next *Origin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.origins) < 2 || l.origins[l.at] != o {
		return nil
	}
	l.at = (l.at + 1) % len(l.origins)
	return l.origins[l.at]
}
