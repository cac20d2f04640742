package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"webring/edge/share"
	"webring/server/sites/score"
)

// slowSites is a scorer whose scans hold places as those of a [Scorer] do. Sites of the crowd
// never end, others take two seconds.
type slowSites struct{ scans *scans }

func (s slowSites) Score(ctx context.Context, url string) (score.Result, error) {
	placed, leave, err := s.scans.enter(ctx, share.FromContext(ctx))
	if err != nil {
		return score.Result{}, busy(busyRetry, err)
	}
	defer leave()
	took := 2 * time.Second
	if strings.HasPrefix(url, "https://slow") {
		took = ScanTime
	}
	select {
	case <-time.After(took):
		return score.Result{Score: 72}, nil
	case <-placed.Done():
		return score.Result{}, cutShort(placed)
	}
}

// Crowds of networks ask without pause for sites that hang, and each few seconds a newcomer
// asks for the first time, and again when it was told to. So does a neighbour of the crowd.
func TestNewcomersAreAnsweredBesideACrowd(t *testing.T) {
	for name, crowd := range map[string]struct {
		networks  int
		client    func(i int) string
		neighbour string // of the crowd, who asks as newcomers do
	}{
		"one client":               {1, func(int) string { return "198.51.100.1" }, ""},
		"all addresses of a /24":   {256, func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }, ""},
		"200 /24s of a /16":        {200, func(i int) string { return fmt.Sprintf("198.51.%d.1", i) }, "198.51.250.1"},
		"200 /24s of 25 /16s":      {200, func(i int) string { return fmt.Sprintf("100.%d.%d.1", i/8, i%8*16) }, ""},
		"200 /24s of as many /16s": {200, func(i int) string { return fmt.Sprintf("100.%d.0.1", i) }, ""},
		"250 /48s of a /40":        {250, func(i int) string { return fmt.Sprintf("2001:db8:%x::/64", i) }, "2001:db8:ff:1::/64"},
		"250 /48s of as many /40s": {250, func(i int) string { return fmt.Sprintf("2001:db8:%x00::/64", i) }, ""},
		"many /64s of many /48s":   {5000, func(i int) string { return fmt.Sprintf("2001:db8:%x:%x::/64", i%250, i) }, ""},
		"250 /48s of as many /32s": {250, func(i int) string { return fmt.Sprintf("2001:%x::/64", i) }, ""},
		"/24s, /48s and some clients": {300, func(i int) string {
			return [...]string{fmt.Sprintf("198.51.%d.1", i%256), fmt.Sprintf("2001:db8:%x::/64", i), fmt.Sprintf("192.0.2.%d", i%256)}[i%3]
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				past := share.NewPast()
				g := score.NewGuard(slowSites{newScans(past)}, score.Limits{Pass: 40, InAll: 180, Ask: WaitTime + ScanTime, Past: past})
				const newcomers, each = 35, 4 * time.Second
				pause := time.Second / 80
				if crowd.neighbour != "" {
					pause = time.Second / 390 // as was seen; it takes long under the race detector
				}
				ctx, stop := context.WithCancel(t.Context())
				var attack, honest sync.WaitGroup
				attack.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						attack.Go(func() {
							_, _ = g.Score(ctx, crowd.client(i%crowd.networks), fmt.Sprintf("https://slow%d.com/", i))
						})
						time.Sleep(pause)
					}
				})
				var mu sync.Mutex
				turns := map[int]int{}
				var longest time.Duration
				for n := range newcomers {
					honest.Go(func() {
						time.Sleep(time.Duration(n+1) * each)
						began, client := time.Now(), fmt.Sprintf("203.%d.%d.1", n, n)
						most, within := 3, 40*time.Second
						if n == newcomers/2 && crowd.neighbour != "" {
							client, most, within = crowd.neighbour, 5, 100*time.Second // the next minute's at the latest
						}
						for turn := 1; ; turn++ {
							_, err := g.Score(t.Context(), client, fmt.Sprintf("https://honest%d.com/", n))
							down, is := errors.AsType[*score.Unavailable](err)
							if is && time.Since(began) < 2*time.Minute {
								time.Sleep(down.RetryAfter)
								continue
							}
							mu.Lock()
							defer mu.Unlock()
							turns[turn]++
							if longest = max(longest, time.Since(began)); err != nil || turn > most || time.Since(began) > within {
								t.Errorf("newcomer %d: %v, turn %d after %s", n, err, turn, time.Since(began))
							}
							return
						}
					})
				}
				honest.Wait()
				stop()
				attack.Wait()
				time.Sleep(time.Minute) // for questions that go on
				t.Logf("turns %v, %s at most", turns, longest)
			})
		})
	}
}
