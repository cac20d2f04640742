package fetch

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"webring/server/fair"
)

// Limits of a client. A zero field stands for its default; a negative PerMinute
// or PerAddress for no limit. What a minute has is shared between those for whom
// requests are sent, as package fair says: see [fair.NewContext].
type Limits struct {
	// InAll and PerSite are fetches at the same time. By default 64, and 8, of
	// which one asker has 4.
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

// oneScoring is how many requests look at one site: who has had fewer in a minute
// has not had one scoring yet.
const oneScoring = 24

// share is how requests to one site, or one address, are shared.
func share(most int) *fair.Shares {
	return fair.NewShares(fair.Rule{Most: most, Half: oneScoring, Step: oneScoring})
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
	addresses map[netip.Prefix]*fair.Shares // of the requests of this minute
}

type siteLimit struct {
	places *fair.Places
	users  int          // that hold or wait for a place
	sent   *fair.Shares // of the requests of this minute
}

func newLimiter(l Limits) *limiter {
	if l.InAll == 0 {
		l.InAll = 64
	}
	if l.PerSite == 0 {
		l.PerSite = 8
	}
	if l.PerMinute == 0 {
		l.PerMinute = 120
	}
	if l.PerAddress == 0 {
		l.PerAddress = 300
	}
	return &limiter{limits: l, all: semaphore.NewWeighted(int64(l.InAll)), sites: map[string]*siteLimit{}, addresses: map[netip.Prefix]*fair.Shares{}}
}

// enter waits for a place, first among those of the site, so that a slow site
// does not hold places of others. The place is given back by leave. Its errors
// are *[Busy], also when ctx ends: the site was not slow, it was not asked.
func (l *limiter) enter(ctx context.Context, site string) (leave func(), err error) {
	asker := fair.FromContext(ctx)
	s, err := l.use(asker, site)
	if err != nil {
		return nil, err
	}
	if s.places.Enter(ctx, asker) != nil {
		l.release(site, s)
		return nil, &Busy{RetryAfter: wholeTime}
	}
	if l.all.Acquire(ctx, 1) != nil {
		s.places.Leave(asker)
		l.release(site, s)
		return nil, &Busy{RetryAfter: wholeTime}
	}
	return func() {
		l.all.Release(1)
		s.places.Leave(asker)
		l.release(site, s)
	}, nil
}

// use remembers that there is somebody who is about to ask a site, if the asker may.
func (l *limiter) use(asker fair.Asker, site string) (*siteLimit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.turn(now)
	s := l.site(site)
	if s == nil || !s.sent.Room(asker) {
		return nil, l.busy(now)
	}
	s.users++
	return s, nil
}

// site gives what is counted of a site, or nil when too many are. The caller holds mu.
func (l *limiter) site(name string) *siteLimit {
	s := l.sites[name]
	if s == nil && len(l.sites) < maxSites {
		s = &siteLimit{places: fair.NewPlaces(fair.Rule{Most: l.limits.PerSite, Half: 2}), sent: share(l.limits.PerMinute)}
		l.sites[name] = s
	}
	return s
}

// turn begins a new minute when the last has ended. The caller holds mu.
func (l *limiter) turn(now time.Time) {
	if now.Before(l.ends) {
		return
	}
	l.ends = now.Add(time.Minute)
	clear(l.addresses)
	for name, s := range l.sites {
		s.sent.Clear()
		if s.users == 0 {
			delete(l.sites, name)
		}
	}
}

// busy is the answer until the minute ends. The caller holds mu.
func (l *limiter) busy(now time.Time) error {
	return &Busy{RetryAfter: max(0, l.ends.Sub(now))}
}

// send counts a request that is about to be sent to a site, and to the address that
// it has; nil where no address is counted.
func (l *limiter) send(asker fair.Asker, site string, address net.Addr) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.turn(now)
	if address != nil {
		at, err := netip.ParseAddrPort(address.String())
		if err != nil {
			return errForbidden
		}
		network := networkOf(at.Addr())
		sent := l.addresses[network]
		if sent == nil {
			if len(l.addresses) >= maxAddresses {
				return l.busy(now)
			}
			sent = share(l.limits.PerAddress)
			l.addresses[network] = sent
		}
		if !sent.Take(asker) {
			return l.busy(now)
		}
	}
	if s := l.site(site); s == nil || !s.sent.Take(asker) {
		return l.busy(now)
	}
	return nil
}

// networkOf is what counts as one address.
func networkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		return netip.PrefixFrom(a, 64).Masked()
	}
	return netip.PrefixFrom(a, a.BitLen())
}

// release gives back a use of the site. What was sent to it is remembered until
// the minute ends.
func (l *limiter) release(site string, s *siteLimit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.users--; s.users == 0 && s.sent.Taken() == 0 {
		delete(l.sites, site)
	}
}
