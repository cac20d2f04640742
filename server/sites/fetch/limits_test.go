package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"webring/edge/share"
)

func TestFetchesAtATimeAreBounded(t *testing.T) {
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
		t.Error("room is not free")
	}
	for site, s := range c.limits.sites {
		if s.users != 0 || s.room.Taken() != 0 {
			t.Errorf("%s: room is not free", site)
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
		_, _ = c.limits.use(share.Asker{}, fmt.Sprint(i))
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
	l := newLimiter(Limits{PerMinute: -1, PerAddress: 2})
	if _, err := l.use(share.Asker{}, "acme.com"); err != nil {
		t.Fatal(err)
	}
	to := func(address string) bool {
		return l.send(share.Asker{}, "acme.com", net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))) == nil
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

// scoring sends as many requests to a site as a scoring does, and says whether all
// were let through.
func scoring(t *testing.T, c *Client, asker, url string) bool {
	t.Helper()
	for range 19 {
		_, err := c.Get(share.NewContext(t.Context(), share.AskerOf(asker)), Request{URL: url})
		if errors.As(err, new(*Busy)) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return true
}

// shared is a client for which n sites are at one address, and that address.
func shared(t *testing.T, n int, limits Limits) (c *Client, l *listener, site func(int) string) {
	t.Helper()
	l = listen(t, "127.0.0.1:0", nil)
	addresses := map[string][]string{}
	for i := range n {
		addresses[fmt.Sprintf("site%d.com", i)] = []string{"127.0.0.1"}
		addresses[fmt.Sprintf("name%d.site0.com", i)] = []string{"127.0.0.1"}
	}
	c = newClient(Config{Resolver: names(t, addresses), Limits: limits}, l.port)
	c.dialer.ControlContext = nil
	return c, l, func(i int) string { return fmt.Sprintf("http://site%d.com:%d/", i, l.port) }
}

// TestOneAskerLeavesASiteToOthers has one asker ask for a site as often as it may, by
// names, paths, and queries without end, and others who want to have it scored.
func TestOneAskerLeavesASiteToOthers(t *testing.T) {
	for name, attackers := range map[string]func(i int) string{
		"one address":          func(int) string { return "198.51.100.1" },
		"many /64s of one /48": func(i int) string { return fmt.Sprintf("2001:db8:1:%x::/64", i) },
	} {
		t.Run(name, func(t *testing.T) {
			c, l, _ := shared(t, 40, Limits{PerAddress: -1})
			for i := range 40 {
				scoring(t, c, attackers(i), fmt.Sprintf("http://name%d.site0.com:%d/%d?%d", i, l.port, i, i))
			}
			used := l.reached.Load()
			if !scoring(t, c, "203.0.113.1", fmt.Sprintf("http://site0.com:%d/", l.port)) || !scoring(t, c, "2001:db8:2:1::/64", fmt.Sprintf("http://site0.com:%d/", l.port)) {
				t.Errorf("a newcomer is refused after %d requests of others", used)
			}
			for i := range 20 {
				scoring(t, c, fmt.Sprintf("192.0.%d.1", i), fmt.Sprintf("http://site0.com:%d/", l.port))
			}
			if n := l.reached.Load(); n > 160 {
				t.Errorf("the site was asked %d times in a minute", n)
			}
		})
	}
}

// TestOneAskerLeavesASharedAddressToOthers has one asker ask for all sites that it
// knows at one address.
func TestOneAskerLeavesASharedAddressToOthers(t *testing.T) {
	c, l, site := shared(t, 40, Limits{})
	for i := range 20 {
		scoring(t, c, "198.51.100.1", site(i))
	}
	used := l.reached.Load()
	for i := range 8 {
		if !scoring(t, c, fmt.Sprintf("203.%d.113.1", i), site(20+i)) {
			t.Errorf("newcomer %d is refused after %d requests of one other", i, used)
		}
	}
	for i := range 20 {
		scoring(t, c, fmt.Sprintf("192.0.%d.1", i), site(20+i))
	}
	if n := l.reached.Load(); n > 300 {
		t.Errorf("the address was asked %d times in a minute", n)
	}
}

// TestAHangingSiteLeavesRoomToOthers has one asker ask for pages of a site that do not
// come, as often at a time as it may.
func TestAHangingSiteLeavesRoomToOthers(t *testing.T) {
	var hanging atomic.Int64
	l := listen(t, "127.0.0.1:0", func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			hanging.Add(1)
			<-r.Context().Done()
		}
	})
	c := mappedTo(l)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			c.Get(share.NewContext(ctx, share.AskerOf("198.51.100.1")), Request{URL: "http://acme.com/hang"})
		})
	}
	for hanging.Load() < 4 {
		time.Sleep(time.Millisecond)
	}
	if _, err := c.Get(share.NewContext(t.Context(), share.AskerOf("203.0.113.1")), Request{URL: "http://acme.com/"}); err != nil || hanging.Load() != 4 {
		t.Errorf("%v, while %d requests of another hang", err, hanging.Load())
	}
	stop()
	group.Wait()
}

// TestWhatDoesNotConnectCostsASiteNothing asks for names of a site that lead nowhere.
func TestWhatDoesNotConnectCostsASiteNothing(t *testing.T) {
	c, l, site := shared(t, 1, Limits{PerMinute: 19})
	for i := range 30 {
		if _, err := get(t, c, fmt.Sprintf("http://gone%d.site0.com:%d/", i, l.port)); err != ErrNoConnection {
			t.Fatal(err)
		}
		if _, err := get(t, c, fmt.Sprintf("http://gone.gone%d.com:%d/", i, l.port)); err != ErrNoConnection {
			t.Fatal(err)
		}
	}
	if len(c.limits.sites) != 0 {
		t.Errorf("%d sites are remembered to which nothing was sent", len(c.limits.sites))
	}
	if !scoring(t, c, "203.0.113.1", site(0)) {
		t.Error("what was not sent was counted")
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

// TestWaitingForRoomIsNoSlowness: a limit of ours is not the site's fault.
func TestWaitingForRoomIsNoSlowness(t *testing.T) {
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
