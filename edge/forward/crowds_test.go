package forward

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"webring/edge/share"
)

// Crowds hold each slot for unpaid requests as long as the origin lets them, and ask again at
// once. Others have a slot in time all the same.
func TestACrowdLeavesSlotsForUnpaidRequestsToOthers(t *testing.T) {
	for name, crowd := range map[string]struct {
		clients int
		client  func(i int) string
	}{
		"one client":        {1, func(int) string { return "198.51.100.1" }},
		"a /24":             {256, func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }},
		"200 /24s of a /16": {200, func(i int) string { return fmt.Sprintf("198.51.%d.1", i) }},
		"250 /48s of a /40": {250, func(i int) string { return fmt.Sprintf("2001:db8:%x::/64", i) }},
		"64 /16s":           {64, func(i int) string { return fmt.Sprintf("100.%d.0.1", i) }},
		"64 /32s, and a /24": {128, func(i int) string {
			if i < 64 {
				return fmt.Sprintf("198.51.100.%d", i)
			}
			return fmt.Sprintf("2001:%x::/64", i)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, err := New(Config{Origins: []string{"http://origin.example"}})
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				ctx, stop := context.WithCancel(t.Context())
				var group sync.WaitGroup
				for i := range max(crowd.clients, 2*MaxAsks) {
					group.Go(func() {
						for h := (&holder{asker: share.AskerOf(crowd.client(i % crowd.clients))}); ctx.Err() == nil; {
							if !f.asks.acquire(h) {
								time.Sleep(time.Second)
								continue
							}
							time.Sleep(25 * time.Second)
							f.asks.release(h)
						}
					})
				}
				time.Sleep(time.Minute)
				for n := range 20 {
					h, began := &holder{asker: share.AskerOf(fmt.Sprintf("203.%d.0.1", n))}, time.Now()
					if !f.asks.acquire(h) || time.Since(began) > 0 {
						t.Errorf("newcomer %d has no slot after %s", n, time.Since(began))
						continue
					}
					time.Sleep(3 * time.Second)
					f.asks.release(h)
				}
				stop()
				group.Wait()
				if n := f.asks.Taken(); n != 0 {
					t.Errorf("%d slots are not given back", n)
				}
			})
		})
	}
}
