package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"webring/server/sites/fetch"
	"webring/server/sites/score/exemplar"
)

// Requests that nobody pays for have sites looked at. The tests of this file have
// strangers send as many as they may, through a proxy that the ring trusts, and
// newcomers who ask for the first time, each from an address and for a site of its own.

// ask asks to join as a client, and gives the answer's status and when it may ask again.
func (o *origin) ask(ctx context.Context, client, url string) (status int, again time.Duration) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.base+"/api/register", strings.NewReader(fmt.Sprintf(`{"name":"Site","url":%q,"kind":"website"}`, url)))
	if err != nil {
		o.t.Error(err)
		return 0, 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Forwarded-For", client)
	req.Header.Set("X-Forwarded-Proto", "https")
	res, err := noRedirects.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			o.t.Error(err)
		}
		return 0, 0
	}
	res.Body.Close()
	seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
	return res.StatusCode, time.Duration(seconds) * time.Second
}

// newcomer holds that somebody who asks for the first time is offered to pay, at once or when
// asking again as the answer says, once.
func (o *origin) newcomer(n int, url string, after func() int64) {
	o.t.Helper()
	began, client := time.Now(), fmt.Sprintf("203.%d.113.1", n)
	status, again := o.ask(o.t.Context(), client, url)
	turn := 1
	if status == http.StatusServiceUnavailable && again <= 15*time.Second {
		turn++
		time.Sleep(again)
		status, _ = o.ask(o.t.Context(), client, url)
	}
	if status != http.StatusPaymentRequired {
		o.t.Errorf("newcomer %d, after %d requests of strangers: status %d in turn %d, after %s", n, after(), status, turn, time.Since(began))
		return
	}
	o.t.Logf("newcomer %d, after %d requests of strangers: 402 in turn %d, after %s", n, after(), turn, time.Since(began).Round(time.Millisecond))
}

// TestUnpaidRequestsDoNotKeepAChosenSiteFromJoining has strangers ask for a site by
// addresses without end before its owner does.
func TestUnpaidRequestsDoNotKeepAChosenSiteFromJoining(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	var mu sync.Mutex
	asked := map[string]int{} // by host
	site := &exemplar.Site{Name: "Site", About: "A site to be read."}
	o, _ := scored(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.Host]++
		mu.Unlock()
		site.ServeHTTP(w, r)
	}), "--tempo-rpc", c.RPC, "--trusted-proxy", "127.0.0.1")
	for n, attack := range []struct {
		name    string
		client  func(i int) string
		address string
		most    int // requests that the site may get
	}{
		{"queries of one client", func(int) string { return "198.51.100.1" }, "https://queries.scored.test/?%d", fetch.OneScoring},
		{"queries of many clients", func(i int) string { return fmt.Sprintf("198.51.%d.2", i) }, "https://many.scored.test/?%d", fetch.OneScoring},
		{"paths of one client", func(int) string { return "198.51.100.3" }, "https://paths.scored.test/%d", 160},
		{"paths of many /64s", func(i int) string { return fmt.Sprintf("2001:db8:4:%x::1", i) }, "https://networks.scored.test/%d", 160},
	} {
		t.Run(attack.name, func(t *testing.T) {
			o := o.in(t)
			var sent int64
			for i := range 12 {
				o.ask(t.Context(), attack.client(i), fmt.Sprintf(attack.address, i))
				sent++
			}
			host := strings.Split(attack.address, "/")[2]
			o.newcomer(n, "https://"+host+"/", func() int64 { return sent })
			mu.Lock()
			defer mu.Unlock()
			if n := asked[host]; n > attack.most {
				t.Errorf("the site was asked %d times", n)
			} else {
				t.Logf("the site was asked %d times", n)
			}
		})
	}
}

// strangers are twelve clients of networks, of which each asks as often as it may.
type strangers struct {
	o       *origin
	client  string // with places for its number, twice
	address string // with a place for a number
	sent    atomic.Int64
}

// ask has each ask once more, and again until it is refused or has done so 20 times.
func (s *strangers) ask() {
	for i := range 12 {
		for range 20 {
			status, _ := s.o.ask(s.o.t.Context(), fmt.Sprintf(s.client, i, i), fmt.Sprintf(s.address, s.sent.Add(1)))
			if status == http.StatusServiceUnavailable {
				break
			}
		}
	}
}

// TestUnpaidRequestsDoNotStopAllJoining has strangers ask for sites of theirs: ones
// that answer, and ones that are not there.
func TestUnpaidRequestsDoNotStopAllJoining(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	for name, attack := range map[string]*strangers{
		"sites that answer, of /64s of one /48":      {client: "2001:db8:1:%x::%x", address: "https://own%d.scored.test/"},
		"sites that answer, of /48s":                 {client: "2001:db8:%x::%x", address: "https://own%d.scored.test/"},
		"sites that answer, of addresses of one /24": {client: "198.51.100.%[2]d", address: "https://own%d.scored.test/"},
		"sites that are not there, of addresses":     {client: "198.51.%d.%d", address: "https://own%d.gone.test/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attack.o, _ = scored(t, &exemplar.Site{Name: "Site", About: "A site to be read."}, "--tempo-rpc", c.RPC, "--trusted-proxy", "127.0.0.1",
				"--fetch-map", "*.gone.test=127.0.0.1:1")
			for n := range 4 {
				attack.ask()
				attack.o.newcomer(n, fmt.Sprintf("https://honest%d.scored.test/", n), attack.sent.Load)
			}
		})
	}
}

// TestSitesThatHangDoNotStopAllJoining has strangers of many networks ask, a hundred at once
// and again soon, for sites whose home page answers and nothing else does.
func TestSitesThatHangDoNotStopAllJoining(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	for name, crowd := range map[string]struct {
		networks int
		client   func(i int) string
	}{
		"12 /48s":           {12, func(i int) string { return fmt.Sprintf("2001:db8:%x::1", i) }},
		"200 /24s of a /16": {200, func(i int) string { return fmt.Sprintf("198.51.%d.1", i) }},
		"250 /48s of a /40": {250, func(i int) string { return fmt.Sprintf("2001:db8:%x::1", i) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var hanging atomic.Int64
			site := &exemplar.Site{Name: "Site", About: "A site to be read."}
			o, _ := scored(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.Host, "own") && r.URL.Path != "/" {
					hanging.Add(1)
					<-r.Context().Done()
					hanging.Add(-1)
					return
				}
				site.ServeHTTP(w, r)
			}), "--tempo-rpc", c.RPC, "--trusted-proxy", "127.0.0.1")
			ctx, stop := context.WithCancel(t.Context())
			var sent atomic.Int64
			var group sync.WaitGroup
			for range 100 {
				group.Go(func() {
					for ctx.Err() == nil {
						n := sent.Add(1)
						if status, _ := o.ask(ctx, crowd.client(int(n)%crowd.networks), fmt.Sprintf("https://own%d.scored.test/", n)); status == http.StatusServiceUnavailable {
							select {
							case <-time.After(250 * time.Millisecond):
							case <-ctx.Done():
							}
						}
					}
				})
			}
			for n := range 4 {
				eventually(t, "sites that hang, and many who ask", longEnough, func() bool { return hanging.Load() >= 12 && sent.Load() >= int64(400*(n+1)) })
				o.newcomer(n, fmt.Sprintf("https://honest%d.scored.test/", n), sent.Load)
			}
			stop()
			group.Wait()
		})
	}
}

// TestOneClientDoesNotTakeAnEdgesPlaces has one client ask through an edge for what the origin
// answers late, and then others.
func TestOneClientDoesNotTakeAnEdgesPlaces(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	secret := secretFile(t)
	o := start(t, "--tempo-rpc", c.RPC, "--edge-secret-file", secret)
	at, err := url.Parse(o.base)
	if err != nil {
		t.Fatal(err)
	}
	var held, refused atomic.Int64
	release := make(chan struct{})
	pass := httputil.NewSingleHostReverseProxy(at)
	pass.FlushInterval = -1
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if bytes.Contains(body, []byte("https://own")) {
			held.Add(1)
			<-release
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(late.Close)
	e := (&origin{t: t, base: late.URL, recipient: o.recipient}).follow(t, o.verifier(), "--edge-secret-file", secret, "--trusted-proxy", "127.0.0.1")
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	const asks = 80
	for n := range asks {
		group.Go(func() {
			if status, _ := e.ask(ctx, "198.51.100.1", fmt.Sprintf("https://own%d.dev/", n)); status == http.StatusServiceUnavailable {
				refused.Add(1)
			}
		})
	}
	eventually(t, "all asked", longEnough, func() bool { return held.Load()+refused.Load() == asks })
	for n := range 4 {
		e.newcomer(n, fmt.Sprintf("https://honest%d.dev/", n), func() int64 { return asks })
	}
	t.Logf("the origin held %d", held.Load())
	stop()
	close(release)
	group.Wait()
}

// TestUnpaidRequestsDoNotUseUpAScoringService is the same where another service scores
// sites: with questions that it answers, and with ones at which it fails.
func TestUnpaidRequestsDoNotUseUpAScoringService(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.RawQuery, "bad") {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, `{"score":90}`)
	}))
	t.Cleanup(service.Close)
	for name, address := range map[string]string{"it answers": "https://own%d.dev/", "it fails": "https://bad%d.dev/"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := start(t, "--tempo-rpc", c.RPC, "--trusted-proxy", "127.0.0.1", "--scorer", "http", "--score-url", service.URL+"/?url={url}", "--score-pointer", "/score")
			attack := strangers{o: o, client: "2001:db8:%x:%x::1", address: address}
			for n := range 4 {
				attack.ask()
				o.newcomer(n, fmt.Sprintf("https://honest%d.dev/", n), attack.sent.Load)
			}
		})
	}
}
