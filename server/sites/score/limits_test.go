package score

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"webring/edge/share"
)

func TestGuardBesideHasLimitsOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := always(72, nil)
		g := NewGuard(a, Limits{InAll: 10})
		drafts := g.Beside(3)
		ask := func(g *Guard, client, url string) bool {
			_, err := g.Score(t.Context(), client, url)
			return err == nil
		}
		if !ask(drafts, "a", "1") || !ask(drafts, "a", "2") || ask(drafts, "a", "3") || !ask(drafts, "a", "1") {
			t.Error("two drafts of one client, and what is remembered")
		}
		if !ask(drafts, "b", "4") || ask(drafts, "c", "5") {
			t.Error("three drafts in all")
		}
		if !ask(g, "a", "3") || !ask(g, "c", "5") || a.asked.Load() != 5 {
			t.Errorf("what is paid for goes on; asked %d times", a.asked.Load())
		}
		for i := range 5 {
			if !ask(g, fmt.Sprint(i), fmt.Sprint("x", i)) {
				t.Error("there is room in all")
			}
		}
		time.Sleep(time.Minute - 1)
		if ask(g, "z", "z") || ask(drafts, "z", "z") {
			t.Error("drafts count in all")
		}
	})
}

func TestOneClientLeavesRoomToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := always(72, nil)
		g := NewGuard(a, Limits{InAll: 12})
		n := 0
		ask := func(client string) error {
			n++
			_, err := g.Score(t.Context(), client, fmt.Sprint("https://a.com/", n))
			return err
		}
		refused := func(err error) bool {
			var u *Unavailable
			return errors.As(err, &u) && u.Busy && u.RetryAfter == time.Minute
		}
		for range 5 {
			if err := ask("a"); err != nil {
				t.Fatal(err)
			}
		}
		if err := ask("a"); !refused(err) {
			t.Errorf("the sixth of one client: %v", err)
		}
		if _, err := g.Score(t.Context(), "a", "https://a.com/1"); err != nil {
			t.Errorf("what is remembered costs nothing: %v", err)
		}
		for i := range 7 {
			if err := ask(fmt.Sprint(i)); err != nil {
				t.Errorf("another client: %v", err)
			}
		}
		if err := ask("c"); !refused(err) || a.asked.Load() != 12 {
			t.Errorf("the thirteenth in all: %v, asked %d times", err, a.asked.Load())
		}
		time.Sleep(time.Minute)
		if err := ask("a"); err != nil {
			t.Errorf("a minute later: %v", err)
		}
	})
}

// TestRoomForNewcomersGrowsWithTheAskers has askers of many networks ask as much as they
// may, sites that lead nowhere among others, and with each of them somebody who asks for
// the first time.
func TestRoomForNewcomersGrowsWithTheAskers(t *testing.T) {
	for name, attacker := range map[string]func(i, j int) string{
		"addresses":           func(i, _ int) string { return fmt.Sprintf("198.51.%d.1", i) },
		"/24s":                func(i, j int) string { return fmt.Sprintf("198.51.%d.%d", i, j) },
		"/48s":                func(i, j int) string { return fmt.Sprintf("2001:db8:%x:%x::/64", i, j) },
		"many /64s of a /48":  func(i, j int) string { return fmt.Sprintf("2001:db8:1:%x::/64", 100*i+j) },
		"names without sites": func(i, _ int) string { return fmt.Sprint("attacker ", i) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &asker{answer: func(_ context.Context, url string) (Result, error) {
					if name == "names without sites" && strings.Contains(url, "attacked") {
						return Result{}, &NotScorable{Unreached: true}
					}
					return Result{Score: 72}, nil
				}}
				g := NewGuard(a, Limits{InAll: 100})
				answered := 0
				for i := range 12 {
					for j := range 50 {
						if _, err := g.Score(t.Context(), attacker(i, j), fmt.Sprintf("https://attacked%d.com/%d", i, j)); err == nil {
							answered++
						}
					}
					if _, err := g.Score(t.Context(), fmt.Sprintf("203.0.%d.1", i), fmt.Sprintf("https://honest%d.com/", i)); err != nil {
						t.Fatalf("newcomer %d is refused after %d questions of others: %v", i, answered, err)
					}
				}
				if answered+12 > 100 {
					t.Errorf("%d questions of attackers are answered", answered)
				}
			})
		})
	}
}

// TestLimitsOfAnotherDoNotBind has somebody share the question of a client that is
// about to meet a limit of its own.
func TestLimitsOfAnotherDoNotBind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		g := NewGuard(&asker{answer: func(ctx context.Context, _ string) (Result, error) {
			<-release
			if share.FromContext(ctx).Client() == "greedy" {
				return Result{}, &Unavailable{RetryAfter: time.Minute, Err: errors.New("enough"), Busy: true}
			}
			return Result{Score: 72}, nil
		}}, Limits{})
		var wg sync.WaitGroup
		for _, client := range []string{"greedy", "modest", "another"} {
			wg.Go(func() {
				if _, err := g.Score(t.Context(), client, site); (err == nil) != (client != "greedy") {
					t.Errorf("%s: %v", client, err)
				}
			})
			synctest.Wait()
		}
		close(release)
		wg.Wait()
	})
}

// TestOneClientHasFewQuestions has a client name slow sites, and hang up.
func TestOneClientHasFewQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const few = 6 // of 48
		release := make(chan struct{})
		a := &asker{answer: func(context.Context, string) (Result, error) {
			<-release
			return Result{Score: 72}, nil
		}}
		g := NewGuard(a, Limits{InAll: 10_000})
		gone, hangUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range few {
			wg.Go(func() { g.Score(gone, "greedy", fmt.Sprint("https://slow.com/", i)) })
		}
		synctest.Wait()
		hangUp()
		wg.Wait()
		for i := range 10 {
			var u *Unavailable
			if _, err := g.Score(t.Context(), "greedy", fmt.Sprint("https://slow.com/more/", i)); !errors.As(err, &u) || u.RetryAfter != crowded || a.asked.Load() != few {
				t.Errorf("%v, asked %d times", err, a.asked.Load())
			}
		}
		wg.Go(func() {
			if _, err := g.Score(t.Context(), "modest", "https://a.com/"); err != nil {
				t.Errorf("modest: %v", err)
			}
		})
		synctest.Wait()
		close(release)
		wg.Wait()
		synctest.Wait()
		if _, err := g.Score(t.Context(), "greedy", "https://b.com/"); err != nil || g.underWay.Taken() != 0 {
			t.Errorf("afterwards: %v, under way %d", err, g.underWay.Taken())
		}
	})
}

// Many who wait for one answer hold no place of the scorer's, but a request each.
func TestAllClientsTogetherHaveABoundedNumberOfQuestions(t *testing.T) {
	for _, sites := range []int{1, 2 * MaxUnderWay} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			a := &asker{answer: func(context.Context, string) (Result, error) {
				<-release
				return Result{Score: 72}, nil
			}}
			g := NewGuard(a, Limits{InAll: 10_000})
			var wg sync.WaitGroup
			var refused atomic.Int64
			for i := range 2 * MaxUnderWay {
				wg.Go(func() {
					var u *Unavailable
					_, err := g.Score(t.Context(), fmt.Sprint(i), fmt.Sprint("https://slow.com/", i%sites))
					if errors.As(err, &u) && u.RetryAfter == crowded {
						refused.Add(1)
					} else if err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			if n := refused.Load(); n != MaxUnderWay {
				t.Errorf("%d sites: %d of %d questions refused", sites, n, 2*MaxUnderWay)
			}
			close(release)
			wg.Wait()
			if _, err := g.Score(t.Context(), "late", "https://a.com/"); err != nil || g.underWay.Taken() != 0 {
				t.Errorf("%d sites: afterwards %v, under way %d", sites, err, g.underWay.Taken())
			}
		})
	}
}
