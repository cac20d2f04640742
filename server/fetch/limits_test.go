package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
)

func TestPlacesAreBoundedAndGivenBack(t *testing.T) {
	var now, most atomic.Int64
	release := make(chan struct{})
	l := listen(t, "127.0.0.1:0", func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-release
		now.Add(-1)
	})
	to := netip.MustParseAddrPort(l.Listener.Addr().String())
	c := New(Config{Map: map[string]netip.AddrPort{"*.com": to}, Limits: Limits{InAll: 6, PerSite: 2, PerMinute: -1}})
	done := make(chan error)
	for i := range 60 {
		go func() {
			_, err := c.Get(context.Background(), Request{URL: fmt.Sprintf("http://site%d.com/", i%5)})
			done <- err
		}()
	}
	for now.Load() < 6 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	for range 60 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if most.Load() != 6 {
		t.Errorf("%d at once", most.Load())
	}
	if !c.limits.all.TryAcquire(6) {
		t.Error("places are not free")
	}
	for site, s := range c.limits.sites {
		if s.users != 0 || !s.places.TryAcquire(2) {
			t.Errorf("%s: places are not free", site)
		}
	}
}

func TestOneSiteIsAskedSoManyTimesAMinute(t *testing.T) {
	l := listen(t, "127.0.0.1:0", nil)
	to := netip.MustParseAddrPort(l.Listener.Addr().String())
	loopback := names(t, map[string][]string{"n0.acme.com": {"127.0.0.1"}, "n1.acme.com": {"127.0.0.1"}, "n2.acme.com": {"127.0.0.1"}, "other.com": {"127.0.0.1"}})
	c := newClient(Config{Map: map[string]netip.AddrPort{"*.mapped.com": to}, Resolver: loopback, Limits: Limits{PerMinute: 3}}, l.port)
	c.dialer.ControlContext = nil
	for i := range 3 {
		if _, err := get(t, c, fmt.Sprintf("http://n%d.acme.com:%d/", i, l.port)); err != nil {
			t.Fatal(err)
		}
	}
	var busy *Busy
	if _, err := get(t, c, "http://another.acme.com/"); !errors.As(err, &busy) || busy.RetryAfter <= 0 || busy.RetryAfter > time.Minute {
		t.Errorf("%v", err)
	}
	if _, err := get(t, c, fmt.Sprintf("http://other.com:%d/", l.port)); err != nil {
		t.Errorf("another site: %v", err)
	}
	for i := range 5 {
		if _, err := get(t, c, fmt.Sprintf("http://m%d.mapped.com/", i)); err != nil {
			t.Errorf("mapped hosts count each for itself: %v", err)
		}
	}
	for i := range 2 * maxSites {
		_, _ = c.limits.count(fmt.Sprint(i))
	}
	if len(c.limits.sites) > maxSites {
		t.Errorf("%d sites are counted", len(c.limits.sites))
	}
}

// TestManyNamesOfOneAddress has names without end lead to one machine, as its
// enemy can: it is asked no more often for that.
func TestManyNamesOfOneAddress(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"on kept connections": nil,
		"on a connection each": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, other := listen(t, "127.0.0.1:0", h), "127.0.0.1"
			addresses := map[string][]string{}
			for i := range 20 {
				addresses[fmt.Sprintf("site%d.com", i)] = []string{other}
			}
			c := newClient(Config{Resolver: names(t, addresses), Limits: Limits{PerAddress: 7}}, l.port)
			c.dialer.ControlContext = nil
			for i := range 40 {
				_, err := get(t, c, fmt.Sprintf("http://site%d.com:%d/", i%20, l.port))
				var busy *Busy
				if i < 7 && err != nil || i >= 7 && (!errors.As(err, &busy) || busy.RetryAfter <= 0 || busy.RetryAfter > time.Minute) {
					t.Errorf("request %d: %v", i, err)
				}
			}
			if n := l.reached.Load(); n != 7 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

func TestAddressesAreCountedByNetwork(t *testing.T) {
	l := newLimiter(Limits{PerAddress: 2})
	to := func(address string) bool {
		return l.to(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))) == nil
	}
	if !to("8.8.8.8:80") || !to("[::ffff:8.8.8.8]:443") || to("8.8.8.8:80") || !to("8.8.8.9:80") {
		t.Error("an IPv4 address is counted by itself")
	}
	if !to("[2606:4700::1]:80") || !to("[2606:4700::2]:80") || to("[2606:4700::3]:80") || !to("[2606:4700:0:1::1]:80") {
		t.Error("an IPv6 address is counted by its /64")
	}
	for i := range 2 * maxAddresses {
		to(fmt.Sprintf("10.%d.%d.1:80", i>>8, i&255))
	}
	if len(l.addresses) > maxAddresses {
		t.Errorf("%d addresses are counted", len(l.addresses))
	}
	l.ends = time.Now()
	if !to("8.8.8.8:80") || len(l.addresses) != 1 {
		t.Error("the next minute begins anew")
	}
}

// TestRedirectsCountAsRequests: else a site that redirects is asked four times as
// often as a limit says.
func TestRedirectsCountAsRequests(t *testing.T) {
	l := listen(t, "127.0.0.1:0", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) })
	c := mappedTo(l)
	c.limits = newLimiter(Limits{PerMinute: 6})
	if _, err := get(t, c, "http://acme.com/"); !errors.Is(err, ErrRedirect) {
		t.Errorf("%v", err)
	}
	var busy *Busy
	if _, err := get(t, c, "http://acme.com/"); !errors.As(err, &busy) || l.reached.Load() != 6 {
		t.Errorf("%v, asked %d times", err, l.reached.Load())
	}
}

// TestWaitingForAPlaceIsNoSlowness: a limit of ours is not the site's fault.
func TestWaitingForAPlaceIsNoSlowness(t *testing.T) {
	c := New(Config{Limits: Limits{PerSite: 1}})
	c.whole = 20 * time.Millisecond
	leave, err := c.limits.enter(t.Context(), "acme.com")
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	var busy *Busy
	if _, err := get(t, c, "http://acme.com/"); !errors.As(err, &busy) {
		t.Errorf("%v", err)
	}
}
