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

	"webring/server/sites/fetch"
	"webring/server/sites/score"
)

const (
	// maxCached and maxCachedOfSite bound the cache, in bytes.
	maxCached       = 32 << 20
	maxCachedOfSite = 4 << 20
	// cachedSize is about the size of an answer without its body, in bytes.
	cachedSize = 4 << 10
)

// cache holds answers of sites for as long as their scores are cached. Scans of
// several URLs of one site share the answers that they have in common: a further scan
// costs the site a few requests, and none if its URL differs in the query alone. Scans
// that need the same answer at the same time share the request. It is safe for
// concurrent use.
type cache struct {
	client *fetch.Client
	pass   int // the least passing score

	mu    sync.Mutex
	sites map[string]*cachedSite // by scheme and host
	order []*cachedSite          // oldest first
	size  int                    // in bytes
}

// cachedSite is what one site has sent since a time.
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
	cut bool // cut short by limits of the scan that asked, which bind no other scan
}

func newCache(client *fetch.Client, pass int) *cache {
	return &cache{client: client, pass: pass, sites: map[string]*cachedSite{}}
}

// site gives the cached answers of the site at an address. The caller holds mu.
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

// drop removes a site. The caller holds mu.
func (c *cache) drop(s *cachedSite) {
	delete(c.sites, s.name)
	c.order = slices.DeleteFunc(c.order, func(other *cachedSite) bool { return other == s })
	c.size -= s.size
}

// shrink removes the oldest sites until the rest fits. The caller holds mu.
func (c *cache) shrink() {
	for c.size > maxCached {
		c.drop(c.order[0])
	}
}

// get gives the answer to a request. It sends the request unless the answer is cached or
// on its way; sent reports whether it did. The caller may change the fields of the
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

// keep gives an answer to the scans that wait for it, and caches it if there was one and
// there is room.
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

// scored sets until when the answers of a site are cached: for as long as its score, from
// its first answer on.
func (c *cache) scored(address string, points int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sites[origin(address)]; s != nil {
		s.until = s.since.Add(score.KeptFor(points, c.pass))
	}
}

// missing gives an address of the site at which there is nothing.
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
