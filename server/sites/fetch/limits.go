package fetch

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"webring/edge/share"
)

// Limits of a client. A zero field stands for its default, a negative PerMinute or
// PerAddress for no limit. Requests a minute are shared between askers by the rule of
// package share; the asker of a request is that of its context ([share.NewContext]).
type Limits struct {
	// InAll and PerSite bound the fetches that run at a time: by default 64, and 8
	// for each site, of which one asker has 4.
	InAll, PerSite int
	// PerMinute bounds requests to one site in a minute. Each redirect that is
	// followed is a request. By default 160: enough for five scorings, or for one
	// of a site that only redirects.
	PerMinute int
	// PerAddress bounds requests to one address in a minute; an IPv6 address counts
	// as its /64. By default 300. Names cost nothing, and an attacker could point many
	// of them at a victim's machine. It is more than PerMinute because many sites share
	// an address.
	PerAddress int
}

// OneScoring is how many requests one scoring of a site takes. An asker with fewer
// in this minute has not finished its first.
const OneScoring = 32

// requestShares makes the shares of requests to one site or one address.
func requestShares(most int) *share.Shares {
	return share.NewShares(share.Rule{Most: most, Half: OneScoring, Step: OneScoring})
}

// maxSites and maxAddresses bound how many have a count at a time.
const (
	maxSites     = 4096
	maxAddresses = 4 * maxSites
)

// limiter applies the [Limits]. It forgets sites without requests.
type limiter struct {
	limits Limits
	all    *semaphore.Weighted

	mu        sync.Mutex
	ends      time.Time // end of the present minute
	sites     map[string]*siteLimit
	addresses map[netip.Prefix]*share.Shares // of the requests of this minute
}

type siteLimit struct {
	room  *share.Semaphore // of the fetches that run
	users int              // fetches that run or wait
	sent  *share.Shares    // of the requests of this minute
}

func newLimiter(l Limits) *limiter {
	if l.InAll == 0 {
		l.InAll = 64
	}
	if l.PerSite == 0 {
		l.PerSite = 8
	}
	if l.PerMinute == 0 {
		l.PerMinute = 160
	}
	if l.PerAddress == 0 {
		l.PerAddress = 300
	}
	return &limiter{limits: l, all: semaphore.NewWeighted(int64(l.InAll)), sites: map[string]*siteLimit{}, addresses: map[netip.Prefix]*share.Shares{}}
}

// enter waits until a fetch from the site may run: first for the site's own limit,
// so that a slow site takes nothing from others, then for the limit of all. leave
// ends the fetch. Errors are *[Busy], also when ctx ends, since the site was not
// asked.
func (l *limiter) enter(ctx context.Context, site string) (leave func(), err error) {
	asker := share.FromContext(ctx)
	s, err := l.use(asker, site)
	if err != nil {
		return nil, err
	}
	if s.room.Acquire(ctx, asker) != nil {
		l.unuse(site, s)
		return nil, &Busy{RetryAfter: wholeTime}
	}
	if l.all.Acquire(ctx, 1) != nil {
		s.room.Release(asker)
		l.unuse(site, s)
		return nil, &Busy{RetryAfter: wholeTime}
	}
	return func() {
		l.all.Release(1)
		s.room.Release(asker)
		l.unuse(site, s)
	}, nil
}

// use counts a fetch that is about to run or wait, if the asker may send a request.
func (l *limiter) use(asker share.Asker, site string) (*siteLimit, error) {
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

// site gives the counts of a site, or nil if too many sites have one. The caller
// holds mu.
func (l *limiter) site(name string) *siteLimit {
	s := l.sites[name]
	if s == nil && len(l.sites) < maxSites {
		s = &siteLimit{room: share.NewSemaphore(share.Rule{Most: l.limits.PerSite, Half: 2}, 0), sent: requestShares(l.limits.PerMinute)}
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

// busy is the error that lasts until the minute ends. The caller holds mu.
func (l *limiter) busy(now time.Time) error {
	return &Busy{RetryAfter: max(0, l.ends.Sub(now))}
}

// send counts a request that is about to be sent to a site, and to its address
// unless that is nil. It refuses one beyond a limit.
func (l *limiter) send(asker share.Asker, site string, address net.Addr) error {
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
			sent = requestShares(l.limits.PerAddress)
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

// networkOf gives the network that counts as one address.
func networkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		return netip.PrefixFrom(a, 64).Masked()
	}
	return netip.PrefixFrom(a, a.BitLen())
}

// unuse takes back one use. What was sent to the site counts until the minute ends.
func (l *limiter) unuse(site string, s *siteLimit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.users--; s.users == 0 && s.sent.Taken() == 0 {
		delete(l.sites, site)
	}
}
