package score

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestGuardBesideHasLimitsOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := always(72, nil)
		g := NewGuard(a, Limits{PerClient: 10, InAll: 10})
		drafts := g.Beside(2, 3)
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

func TestLimitsPerClientAndInAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := always(72, nil)
		g := NewGuard(a, Limits{PerClient: 3, InAll: 5})
		n := 0
		ask := func(client string) error {
			n++
			_, err := g.Score(t.Context(), client, fmt.Sprint("https://a.com/", n))
			return err
		}
		refused := func(err error) bool {
			var u *Unavailable
			return errors.As(err, &u) && u.RetryAfter == time.Minute
		}
		for range 3 {
			if err := ask("a"); err != nil {
				t.Fatal(err)
			}
		}
		if err := ask("a"); !refused(err) {
			t.Errorf("the fourth of one client: %v", err)
		}
		if _, err := g.Score(t.Context(), "a", "https://a.com/1"); err != nil {
			t.Errorf("what is remembered costs nothing: %v", err)
		}
		for range 2 {
			if err := ask("b"); err != nil {
				t.Errorf("another client: %v", err)
			}
		}
		if err := ask("c"); !refused(err) || a.asked.Load() != 5 {
			t.Errorf("the sixth in all: %v, asked %d times", err, a.asked.Load())
		}
		time.Sleep(time.Minute)
		if err := ask("a"); err != nil {
			t.Errorf("a minute later: %v", err)
		}
	})
}

// Three clients that ask as much as they may, also for drafts, leave room for those who
// ask little.
func TestThoseWhoAskMuchLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := always(72, nil)
		g := NewGuard(a, Limits{PerClient: 20, InAll: 60})
		drafts := g.Beside(6, 20)
		n := 0
		ask := func(g *Guard, client string, times int) (answered int) {
			for range times {
				n++
				if _, err := g.Score(t.Context(), client, fmt.Sprint("https://a.com/", n)); err == nil {
					answered++
				}
			}
			return answered
		}
		for minute := range 2 {
			for _, client := range []string{"x", "y", "z"} {
				ask(drafts, client, 30)
			}
			if got := a.asked.Swap(0); got != 14 {
				t.Errorf("%d drafts of three clients are answered", got)
			}
			for i := range 3 {
				if got := ask(drafts, fmt.Sprint("author ", i), 3); got != 2 {
					t.Errorf("author %d has %d of 3 answers", i, got)
				}
			}
			for _, client := range []string{"x", "y", "z"} {
				ask(g, client, 30)
			}
			if got := a.asked.Load(); got != 40-14 {
				t.Errorf("%d questions of three clients are answered", got)
			}
			for i := range 10 {
				if got := ask(g, fmt.Sprint("visitor ", i), 3); got != 2 {
					t.Errorf("visitor %d has %d of 3 answers", i, got)
				}
			}
			if got := ask(g, "one more", 1); got != 0 || a.asked.Swap(0) != 60-14 {
				t.Errorf("minute %d: more are answered than may be in all", minute)
			}
			time.Sleep(time.Minute)
		}
	})
}

// TestOneClientHoldsFewPlaces has a client name slow sites, and hang up.
func TestOneClientHoldsFewPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		a := &asker{answer: func(context.Context, string) (Result, error) {
			<-release
			return Result{Score: 72}, nil
		}}
		g := NewGuard(a, Limits{PerClient: -1, InAll: -1, AtOnce: 3})
		gone, hangUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() { g.Score(gone, "greedy", fmt.Sprint("https://slow.com/", i)) })
		}
		synctest.Wait()
		hangUp()
		wg.Wait()
		for i := range 10 {
			var u *Unavailable
			if _, err := g.Score(t.Context(), "greedy", fmt.Sprint("https://slow.com/more/", i)); !errors.As(err, &u) || u.RetryAfter != crowded || a.asked.Load() != 3 {
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
		if _, err := g.Score(t.Context(), "greedy", "https://b.com/"); err != nil || len(g.underWay) != 0 {
			t.Errorf("afterwards: %v, under way %v", err, g.underWay)
		}
	})
}

// Many who wait for one answer hold no place of the scorer's, but a request each.
func TestAllClientsTogetherHoldABoundedNumberOfPlaces(t *testing.T) {
	for _, sites := range []int{1, 2 * MaxUnderWay} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			a := &asker{answer: func(context.Context, string) (Result, error) {
				<-release
				return Result{Score: 72}, nil
			}}
			g := NewGuard(a, Limits{PerClient: -1, InAll: -1})
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
			if _, err := g.Score(t.Context(), "late", "https://a.com/"); err != nil || g.all != 0 {
				t.Errorf("%d sites: afterwards %v, under way %d", sites, err, g.all)
			}
		})
	}
}

func TestClientBeyondItsLimitDoesNotRefuseForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		g := NewGuard(&asker{answer: func(context.Context, string) (Result, error) {
			<-release
			return Result{Score: 72}, nil
		}}, Limits{PerClient: 1, InAll: -1})
		var wg sync.WaitGroup
		wg.Go(func() { g.Score(t.Context(), "greedy", "https://a.com") })
		synctest.Wait()
		if _, err := g.Score(t.Context(), "greedy", "https://b.com"); !down(err) {
			t.Errorf("greedy: %v", err)
		}
		wg.Go(func() {
			if _, err := g.Score(t.Context(), "modest", "https://b.com"); err != nil {
				t.Errorf("modest: %v", err)
			}
		})
		synctest.Wait()
		close(release)
		wg.Wait()
	})
}

func TestClientsInAWindowAreBounded(t *testing.T) {
	now := time.Now()
	w := newWindow(1, -1)
	for i := range maxClients {
		if wait := w.client(fmt.Sprint(i), now); wait != 0 {
			t.Fatalf("client %d waits %v", i, wait)
		}
	}
	if wait := w.client("new", now.Add(20*time.Second)); wait != 40*time.Second {
		t.Errorf("a new client waits %v", wait)
	}
	if wait := w.client("new", now.Add(time.Minute)); wait != 0 || len(w.clients) != 1 {
		t.Errorf("in the next window it waits %v among %d", wait, len(w.clients))
	}
}
