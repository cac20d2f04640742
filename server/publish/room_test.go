package publish

import (
	"fmt"
	"testing"
)

// Crowds of strangers take all that they get, and never give it back. Others get room.
func TestACrowdOfFollowersLeavesRoomToOthers(t *testing.T) {
	for name, crowd := range map[string]struct {
		clients int
		client  func(i int) string
	}{
		"48 clients":        {48, func(i int) string { return fmt.Sprintf("100.%d.0.1", i) }},
		"a /24":             {256, func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }},
		"200 /24s of a /16": {200, func(i int) string { return fmt.Sprintf("198.51.%d.1", i) }},
		"250 /48s of a /40": {250, func(i int) string { return fmt.Sprintf("2001:db8:%x::/64", i) }},
		"200 /16s":          {200, func(i int) string { return fmt.Sprintf("100.%d.0.1", i) }},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHandlers(nil, nil)
			for what, s := range map[string]*room{"followers": h.followers, "downloads": h.downloads} {
				for range followersEach {
					for i := range crowd.clients {
						s.take(crowd.client(i), false)
					}
				}
				for n := range 20 {
					if _, ok := s.take(fmt.Sprintf("203.%d.0.1", n), false); !ok {
						t.Errorf("no room for newcomer %d beside %d %s of a crowd", n, s.strangers.Taken(), what)
					}
				}
				for range 100 {
					if _, ok := s.take("192.0.2.1", true); !ok {
						t.Errorf("no room for an edge of this ring beside %d %s", s.strangers.Taken(), what)
					}
				}
			}
		})
	}
}
