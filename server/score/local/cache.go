package local

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"webring/server/fetch"
	"webring/server/score"
)

const (
	// maxCached and maxCachedOfSite bound what is remembered, in bytes.
	maxCached       = 32 << 20
	maxCachedOfSite = 4 << 20
	// cachedSize is about what an answer takes beside its body.
	cachedSize = 4 << 10
)

// cache remembers what sites sent for as long as their scores are remembered. Scans
// of many URLs of one site share what they have in common, so that one more of them
// costs the site a few requests, and none where its URL differs in the query alone.
// Scans that need the same at the same time share the request for it. A cache may be
// used concurrently.
type cache struct {
	client *fetch.Client
	pass   int // the least passing score

	mu    sync.Mutex
	sites map[string]*cachedSite // by scheme and host
	order []*cachedSite          // oldest first
	size  int                    // in bytes
}

// cachedSite is what one site sent since a time.
type cachedSite struct {
	name    string
	since   time.Time
	until   time.Time
	answers map[fetch.Request]*cachedAnswer
	size    int
	missing string // a path that no site has
}

// cachedAnswer is an answer once done is closed.
type cachedAnswer struct {
	done chan struct{}
	answer
	cut bool // by the limits or the time of the scan that asked, which bind no other
}

func newCache(client *fetch.Client, pass int) *cache {
	return &cache{client: client, pass: pass, sites: map[string]*cachedSite{}}
}

// site gives what is remembered of the site at an address. The caller holds mu.
func (c *cache) site(address string) *cachedSite {
	name, now := origin(address), time.Now()
	if s := c.sites[name]; s != nil {
		if now.Before(s.until) {
			return s
		}
		c.drop(s)
	}
	s := &cachedSite{name: name, since: now, until: now.Add(score.KeptFor(0, c.pass)), answers: map[fetch.Request]*cachedAnswer{},
		size: cachedSize, missing: "/" + strings.ToLower(rand.Text())}
	c.sites[name] = s
	c.order = append(c.order, s)
	c.size += s.size
	c.shrink()
	return s
}

// drop forgets a site. The caller holds mu.
func (c *cache) drop(s *cachedSite) {
	delete(c.sites, s.name)
	c.order = slices.DeleteFunc(c.order, func(other *cachedSite) bool { return other == s })
	c.size -= s.size
}

// shrink forgets the oldest sites until the rest fits. The caller holds mu.
func (c *cache) shrink() {
	for c.size > maxCached {
		c.drop(c.order[0])
	}
}

// get gives the answer to a request, which it sends unless the answer is remembered or
// on its way. sent says whether it was sent. The caller may change the fields of the
// answer, but not what they point to.
func (c *cache) get(ctx context.Context, r fetch.Request) (a answer, sent bool) {
	for {
		c.mu.Lock()
		s := c.site(r.URL)
		known := s.answers[r]
		if known == nil {
			own := &cachedAnswer{done: make(chan struct{})}
			s.answers[r] = own
			c.mu.Unlock()
			own.Response, own.err = c.client.Get(ctx, r)
			own.cut = ctx.Err() != nil || errors.As(own.err, new(*fetch.Busy))
			c.keep(s, r, own)
			return own.copied(), true
		}
		c.mu.Unlock()
		select {
		case <-known.done:
		case <-ctx.Done():
			return answer{err: context.Cause(ctx)}, false
		}
		if !known.cut {
			return known.copied(), false
		}
	}
}

// keep shows an answer to the scans that wait for it, and remembers it unless there
// was none or no room for it.
func (c *cache) keep(s *cachedSite, r fetch.Request, a *cachedAnswer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(a.done)
	size := cachedSize + len(r.URL)
	if a.err == nil {
		size += len(a.Body)
	}
	failed := a.err != nil && !errors.Is(a.err, fetch.ErrRedirect) // which is an answer
	if failed || s.size+size > maxCachedOfSite {
		delete(s.answers, r)
		return
	}
	if c.sites[s.name] == s {
		s.size += size
		c.size += size
		c.shrink()
	}
}

// scored has what a site sent remembered for as long as its score is, since it began
// to send it.
func (c *cache) scored(address string, points int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sites[origin(address)]; s != nil {
		s.until = s.since.Add(score.KeptFor(points, c.pass))
	}
}

// missing gives an address of the site that leads nowhere.
func (c *cache) missing(address string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return origin(address) + c.site(address).missing
}

// copied is the answer with fields of its own.
func (a *cachedAnswer) copied() answer {
	if a.err != nil {
		return answer{err: a.err}
	}
	response := *a.Response
	return answer{Response: &response}
}

// origin is scheme and host of an address.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address // which is not fetched either
	}
	return u.Scheme + "://" + u.Host
}
