package local

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jellydator/ttlcache/v3"

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
	sites *ttlcache.Cache[string, *cachedSite] // by scheme and host
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
	size := func(i ttlcache.CostItem[string, *cachedSite]) uint64 { return uint64(i.Value.size) }
	return &cache{client: client, pass: pass, sites: ttlcache.New(ttlcache.WithMaxCost(maxCached, size), ttlcache.WithDisableTouchOnHit[string, *cachedSite]())}
}

// site gives the cached answers of the site at an address. The caller holds mu.
func (c *cache) site(address string) *cachedSite {
	name, now := origin(address), time.Now()
	if known := c.sites.Get(name); known != nil {
		return known.Value()
	}
	s := &cachedSite{name: name, since: now, until: now.Add(score.KeptFor(0, c.pass)), answers: map[fetch.Request]*cachedAnswer{},
		size: cachedSize, missing: "/" + strings.ToLower(rand.Text())}
	c.store(s)
	return s
}

// store caches a site, by the size that it has now. The caller holds mu.
func (c *cache) store(s *cachedSite) { c.sites.Set(s.name, s, max(1, time.Until(s.until))) }

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
	known := c.sites.Get(s.name)                                   // what is cached no more has no more answers
	if failed || s.size+size > maxCachedOfSite || known == nil || known.Value() != s {
		delete(s.answers, r)
		return
	}
	s.size += size
	c.store(s)
}

// scored sets until when the answers of a site are cached: for as long as its score, from
// its first answer on.
func (c *cache) scored(address string, points int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.sites.Get(origin(address)); known != nil {
		s := known.Value()
		s.until = s.since.Add(score.KeptFor(points, c.pass))
		c.store(s)
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
