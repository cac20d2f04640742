package local

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"webring/server/sites/fetch"
	"webring/server/sites/score/exemplar"
)

// TestVariantsOfOneSiteShareWhatItSent scores a site by addresses without end: one after
// the other and at the same time.
func TestVariantsOfOneSiteShareWhatItSent(t *testing.T) {
	for _, c := range []struct {
		name    string
		address string
		each    int64 // requests that one more may cost
	}{
		{"queries", "https://site.dev/?%d", 0},
		{"paths", "https://site.dev/%d", 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := serve(t, &exemplar.Site{Name: "x", About: "y"})
			scan(t, w, "https://site.dev/")
			first := w.sent.Load()
			for i := range 5 {
				if r := scan(t, w, fmt.Sprintf(c.address, i)); r.URL != fmt.Sprintf(c.address, i) || c.each == 0 && (r.Score != 100 || r.Requests != 0) {
					t.Errorf("%s scores %d, after %d requests", r.URL, r.Score, r.Requests)
				}
			}
			if n := w.sent.Load() - first; n > 5*c.each {
				t.Errorf("%d requests after the first %d", n, first)
			}

			w = serve(t, &exemplar.Site{Name: "x", About: "y"})
			var group sync.WaitGroup
			for i := range 5 {
				group.Go(func() {
					if _, err := w.Scan(t.Context(), fmt.Sprintf(c.address, i)); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			if n := w.sent.Load(); n > first+5*c.each {
				t.Errorf("%d requests for five at once, %d for one", n, first)
			}
		})
	}
}

// TestSharingEndsWithTheScore has a site mend itself.
func TestSharingEndsWithTheScore(t *testing.T) {
	for score, kept := range map[int]time.Duration{least: 10 * time.Minute, least - 1: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			c := newCache(nil, least)
			s := c.site("https://site.dev/")
			c.keep(s, fetch.Request{URL: "https://site.dev/"}, &cachedAnswer{done: make(chan struct{}), answer: answer{Response: &fetch.Response{}}})
			time.Sleep(30 * time.Second) // nobody may have it kept for longer by asking again
			c.scored("https://site.dev/?1", score)
			time.Sleep(kept - 30*time.Second)
			if c.site("https://site.dev/2") != s {
				t.Errorf("a score of %d: forgotten too soon", score)
			}
			time.Sleep(time.Nanosecond)
			if c.site("https://site.dev/") == s {
				t.Errorf("a score of %d: remembered too long", score)
			}
		})
	}
}

func TestWhatIsSharedIsBounded(t *testing.T) {
	c := newCache(nil, least)
	keep := func(url string, size int) {
		s := c.site(url)
		r := fetch.Request{URL: url}
		a := &cachedAnswer{done: make(chan struct{}), answer: answer{Response: &fetch.Response{Body: make([]byte, size)}}}
		s.answers[r] = a
		c.keep(s, r, a)
	}
	for i := range 100 {
		keep(fmt.Sprintf("https://one.dev/%d", i), 1<<20)
	}
	if one := c.site("https://one.dev"); len(one.answers) != 3 || one.size > maxCachedOfSite {
		t.Errorf("%d answers of one site are remembered, %d bytes", len(one.answers), one.size)
	}
	for i := range 100 {
		keep(fmt.Sprintf("https://site%d.dev/", i), 1<<20)
	}
	for i := range 20_000 {
		c.missing(fmt.Sprintf("https://empty%d.dev/", i))
	}
	size := 0
	for _, i := range c.sites.Items() {
		size += i.Value().size
	}
	if size > maxCached || c.sites.Len() > maxCached/cachedSize || !c.sites.Has("https://empty19999.dev") {
		t.Errorf("%d sites are remembered, %d bytes", c.sites.Len(), size)
	}
}

// TestWhatCutAScanShortDoesNotCutOthers has a scan wait for the answer to another, which
// a limit ends.
func TestWhatCutAScanShortDoesNotCutOthers(t *testing.T) {
	asked := make(chan struct{}, 100)
	release := make(chan struct{})
	w := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-release
		(&exemplar.Site{Name: "x", About: strings.Repeat("y", 100)}).ServeHTTP(w, r)
	}))
	first, second := w.cache, make(chan error)
	ctx, cut := context.WithCancel(t.Context())
	go first.get(ctx, fetch.Request{URL: "https://site.dev/"})
	<-asked
	go func() {
		a, _ := first.get(t.Context(), fetch.Request{URL: "https://site.dev/"})
		second <- a.err
	}()
	cut()
	<-asked // the second asks by itself
	close(release)
	if err := <-second; err != nil {
		t.Error(err)
	}
}
