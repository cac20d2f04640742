package upstream

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"
)

// Origin is one of a list. Its address identifies it: an origin that is taken out of a
// list and put in again is another one.
type Origin struct {
	URL  string // scheme and host, http or https
	gone context.Context
	end  context.CancelFunc
}

// Gone is done once the list does not have the origin any more.
func (o *Origin) Gone() context.Context { return o.gone }

// List is the origins, in the order in which they are asked, and the current one. It may
// be used concurrently.
type List struct {
	mu      sync.Mutex
	origins []*Origin
	at      int // of the current one
}

// New gives a list, whose first origin is the current one. URLs that are given twice count
// once. A list may be empty.
func New(urls ...string) (*List, error) {
	l := new(List)
	return l, l.Replace(urls...)
}

// Replace makes these the origins. One that was there stays the same, and stays the current
// one if it was. After an error the list is as before.
func (l *List) Replace(urls ...string) error {
	var next []*Origin
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil {
			if err == nil {
				raw = u.Redacted()
			}
			return fmt.Errorf("upstream: the origin %q is not an http or https URL without path", raw)
		}
		is := func(o *Origin) bool { return o.URL == u.Scheme+"://"+u.Host }
		if slices.ContainsFunc(next, is) {
			continue
		}
		if i := slices.IndexFunc(l.origins, is); i >= 0 {
			next = append(next, l.origins[i])
			continue
		}
		o := &Origin{URL: u.Scheme + "://" + u.Host}
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

// Current gives the origin to be asked, nil for an empty list.
func (l *List) Current() *Origin {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.origins) == 0 {
		return nil
	}
	return l.origins[l.at]
}

// Round gives all origins once, beginning with the current one.
func (l *List) Round() []*Origin {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(slices.Clone(l.origins[l.at:]), l.origins[:l.at]...)
}

// Several reports whether there is more than one origin.
func (l *List) Several() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.origins) > 1
}

// Skip makes the next origin the current one, and gives it, if o is the current one. It
// gives nil if another one is, or if o is the only one: so of many requests that fail at
// an origin, one moves on.
func (l *List) Skip(o *Origin) (next *Origin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.origins) < 2 || l.origins[l.at] != o {
		return nil
	}
	l.at = (l.at + 1) % len(l.origins)
	return l.origins[l.at]
}
