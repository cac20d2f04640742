package fetch

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits of a client. A zero field stands for its default; a negative PerMinute
// or PerAddress for no limit.
type Limits struct {
	// InAll and PerSite are fetches at the same time. By default 64 and 4.
	InAll, PerSite int
	// PerMinute is requests to one site in a minute, each redirect that is
	// followed being one. By default 120: five scorings, or one of a site that
	// does nothing but redirect.
	PerMinute int
	// PerAddress is requests to one address in a minute, an IPv6 address being
	// its /64. By default 300. Names cost nothing, and whoever has many may have
	// them all lead to somebody else's machine. Many sites share an address
	// honestly, so it is more than PerMinute.
	PerAddress int
}

// maxSites and maxAddresses bound how many are counted at a time.
const (
	maxSites     = 4096
	maxAddresses = 4 * maxSites
)

// limiter gives places. Sites nobody asks for are forgotten.
type limiter struct {
	limits Limits
	all    *semaphore.Weighted

	mu        sync.Mutex
	ends      time.Time // of the minute that is counted
	sites     map[string]*siteLimit
	addresses map[netip.Prefix]int // requests in this minute
}

type siteLimit struct {
	places *semaphore.Weighted
	users  int // that hold or wait for a place
	sent   int // in this minute
}

func newLimiter(l Limits) *limiter {
	if l.InAll == 0 {
		l.InAll = 64
	}
	if l.PerSite == 0 {
		l.PerSite = 4
	}
	if l.PerMinute == 0 {
		l.PerMinute = 120
	}
	if l.PerAddress == 0 {
		l.PerAddress = 300
	}
	return &limiter{limits: l, all: semaphore.NewWeighted(int64(l.InAll)), sites: map[string]*siteLimit{}, addresses: map[netip.Prefix]int{}}
}

// enter waits for a place, first among those of the site, so that a slow site
// does not hold places of others. The place is given back by leave. Its errors
// are *[Busy], also when ctx ends: the site was not slow, it was not asked.
func (l *limiter) enter(ctx context.Context, site string) (leave func(), err error) {
	s, err := l.count(site)
	if err != nil {
		return nil, err
	}
	if s.places.Acquire(ctx, 1) != nil {
		l.release(s)
		return nil, &Busy{RetryAfter: wholeTime}
	}
	if l.all.Acquire(ctx, 1) != nil {
		s.places.Release(1)
		l.release(s)
		return nil, &Busy{RetryAfter: wholeTime}
	}
	return func() {
		l.all.Release(1)
		s.places.Release(1)
		l.release(s)
	}, nil
}

func (l *limiter) count(site string) (*siteLimit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.turn(now)
	s := l.sites[site]
	if s == nil {
		if len(l.sites) >= maxSites {
			return nil, &Busy{RetryAfter: l.ends.Sub(now)}
		}
		s = &siteLimit{places: semaphore.NewWeighted(int64(l.limits.PerSite))}
		l.sites[site] = s
	}
	if err := l.request(s, now); err != nil {
		return nil, err
	}
	s.users++
	return s, nil
}

// turn begins a new minute when the last has ended. The caller holds mu.
func (l *limiter) turn(now time.Time) {
	if now.Before(l.ends) {
		return
	}
	l.ends = now.Add(time.Minute)
	clear(l.addresses)
	for name, s := range l.sites {
		s.sent = 0
		if s.users == 0 {
			delete(l.sites, name)
		}
	}
}

// to counts a request that is about to be sent to an address.
func (l *limiter) to(address net.Addr) error {
	at, err := netip.ParseAddrPort(address.String())
	if err != nil {
		return errForbidden
	}
	a := at.Addr().Unmap().WithZone("")
	network := netip.PrefixFrom(a, a.BitLen())
	if a.Is6() {
		network = netip.PrefixFrom(a, 64).Masked()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.turn(now)
	sent, known := l.addresses[network]
	if l.limits.PerAddress >= 0 && sent >= l.limits.PerAddress || !known && len(l.addresses) >= maxAddresses {
		return &Busy{RetryAfter: max(0, l.ends.Sub(now))}
	}
	l.addresses[network] = sent + 1
	return nil
}

// request counts one to s. The caller holds mu.
func (l *limiter) request(s *siteLimit, now time.Time) error {
	if l.limits.PerMinute >= 0 && s.sent >= l.limits.PerMinute {
		return &Busy{RetryAfter: max(0, l.ends.Sub(now))}
	}
	s.sent++
	return nil
}

// again counts a redirect of a site where the caller has a place.
func (l *limiter) again(site string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.request(l.sites[site], time.Now())
}

// release gives back a use of the site. What was sent to it is remembered until
// the minute ends.
func (l *limiter) release(s *siteLimit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.users--
}
