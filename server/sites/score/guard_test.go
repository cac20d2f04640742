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
)

// asker is a scorer made of a function, with a count of its questions.
type asker struct {
	asked  atomic.Int64
	answer func(ctx context.Context, url string) (Result, error)
}

func (a *asker) Score(ctx context.Context, url string) (Result, error) {
	a.asked.Add(1)
	return a.answer(ctx, url)
}

func always(score int, err error) *asker {
	return &asker{answer: func(context.Context, string) (Result, error) { return Result{Score: score}, err }}
}

var open = Limits{Pass: 40, InAll: -1}

func TestPassesAreKeptTenMinutesFailsOneErrorsNever(t *testing.T) {
	for _, c := range []struct {
		name  string
		score int
		err   error
		kept  time.Duration
	}{
		{"exactly enough", 40, nil, 10 * time.Minute},
		{"plenty", 100, nil, 10 * time.Minute},
		{"one too few", 39, nil, time.Minute},
		{"none", 0, nil, time.Minute},
		{"bad target", 0, ErrBadTarget, 0},
		{"not scorable", 0, &NotScorable{Where: "x"}, 0},
		{"pending", 0, &Pending{RetryAfter: time.Second}, 0},
		{"unavailable", 0, &Unavailable{RetryAfter: time.Second, Err: errors.New("x")}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := always(c.score, c.err)
			g := NewGuard(a, open)
			ask := func(want int64) {
				t.Helper()
				got, err := g.Score(t.Context(), "c", site)
				if got.Score != c.score || !errors.Is(err, c.err) || a.asked.Load() != want {
					t.Errorf("%s: %+v, %v, asked %d times, want %d", c.name, got, err, a.asked.Load(), want)
				}
			}
			ask(1)
			if c.kept == 0 {
				ask(2)
				return
			}
			time.Sleep(c.kept)
			ask(1)
			time.Sleep(time.Nanosecond)
			ask(2)
		})
	}
}

func TestAnswersOfOneSiteAreNotThoseOfAnother(t *testing.T) {
	g := NewGuard(&asker{answer: func(_ context.Context, url string) (Result, error) { return Result{Score: len(url)}, nil }}, open)
	for range 2 {
		for _, url := range []string{"https://a.com", "https://a.com/b"} {
			if got, err := g.Score(t.Context(), "c", url); err != nil || got.Score != len(url) {
				t.Errorf("%s: %+v, %v", url, got, err)
			}
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	a := always(72, nil)
	g := NewGuard(a, open)
	for i := range maxCached + 1 {
		_, _ = g.Score(t.Context(), "c", fmt.Sprint("https://a.com/", i))
	}
	if _, err := g.Score(t.Context(), "c", fmt.Sprint("https://a.com/", maxCached)); err != nil || g.answers.Len() != maxCached || a.asked.Load() != maxCached+1 {
		t.Errorf("%d answers are cached; %d were asked for", g.answers.Len(), a.asked.Load())
	}
}

func TestConcurrentAsksShareOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		a := &asker{answer: func(context.Context, string) (Result, error) {
			<-release
			return Result{Score: 72}, nil
		}}
		g := NewGuard(a, Limits{InAll: 1})
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if got, err := g.Score(t.Context(), fmt.Sprint(i), site); err != nil || got.Score != 72 {
					t.Errorf("%d: %+v, %v", i, got, err)
				}
			})
		}
		synctest.Wait()
		close(release)
		wg.Wait()
		if a.asked.Load() != 1 {
			t.Errorf("asked %d times", a.asked.Load())
		}
	})
}

func TestSharedCallSurvivesItsFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		a := &asker{answer: func(ctx context.Context, _ string) (Result, error) {
			select {
			case <-release:
				return Result{Score: 72}, nil
			case <-ctx.Done():
				return Result{}, ctx.Err()
			}
		}}
		g := NewGuard(a, open)
		first, hangUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := g.Score(first, "a", site); !errors.Is(err, context.Canceled) {
				t.Errorf("the first: %v", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if got, err := g.Score(t.Context(), "b", site); err != nil || got.Score != 72 {
				t.Errorf("the second: %+v, %v", got, err)
			}
		})
		synctest.Wait()
		hangUp()
		synctest.Wait()
		close(release)
		wg.Wait()
		if got, err := g.Score(t.Context(), "c", site); err != nil || got.Score != 72 || a.asked.Load() != 1 {
			t.Errorf("afterwards: %+v, %v, asked %d times", got, err, a.asked.Load())
		}
	})
}

func TestSharedCallIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGuard(&asker{answer: func(ctx context.Context, _ string) (Result, error) {
			<-ctx.Done()
			return Result{}, ctx.Err()
		}}, open)
		start := time.Now()
		if _, err := g.Score(t.Context(), "c", site); !down(err) || time.Since(start) != 15*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestBreakerOpensAfterFiveFailedAsksForThirtySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := &Unavailable{RetryAfter: time.Second, Err: errors.New("down")}
		var answer error = failure
		a := &asker{answer: func(context.Context, string) (Result, error) { return Result{Score: 72}, answer }}
		g := NewGuard(a, open)
		n := 0
		ask := func() error {
			n++
			_, err := g.Score(t.Context(), fmt.Sprint(n%2), fmt.Sprint("https://a.com/", n))
			return err
		}
		expect := func(asked int64, wait time.Duration) {
			t.Helper()
			err := ask()
			var u *Unavailable
			if !errors.As(err, &u) || u.RetryAfter != wait || a.asked.Load() != asked {
				t.Errorf("question %d: %v, wait %v, asked %d times, want %d", n, err, u.RetryAfter, a.asked.Load(), asked)
			}
		}

		// What is not the service's failure breaks the row.
		for range 4 {
			ask()
		}
		for _, answer = range []error{nil, ErrBadTarget, &NotScorable{}, &Pending{}} {
			ask()
			answer = failure
			for range 4 {
				ask()
			}
		}
		asked := a.asked.Load()
		if asked != 24 {
			t.Fatalf("asked %d times", asked)
		}

		expect(asked+1, time.Second) // the fifth in a row
		expect(asked+1, 30*time.Second)
		time.Sleep(29500 * time.Millisecond)
		expect(asked+1, time.Second)
		time.Sleep(500 * time.Millisecond)
		time.Sleep(time.Nanosecond)
		expect(asked+2, time.Second) // one is let through, and fails
		expect(asked+2, 30*time.Second)
		time.Sleep(30*time.Second + 1)
		answer = nil
		for range 3 {
			if err := ask(); err != nil {
				t.Errorf("after recovery: %v", err)
			}
		}
	})
}

// failsAtBad is a service that always fails at some sites.
func failsAtBad() *asker {
	return &asker{answer: func(_ context.Context, url string) (Result, error) {
		if strings.HasPrefix(url, "https://bad") {
			return Result{}, &Unavailable{RetryAfter: time.Second, Err: errors.New("down")}
		}
		return Result{Score: 72}, nil
	}}
}

// TestOneClientsBadTargetsKeepNobodyElseAway has one client name sites at which
// the service always fails.
func TestOneClientsBadTargetsKeepNobodyElseAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := failsAtBad()
		g := NewGuard(a, open)
		for i := range 20 {
			_, err := g.Score(t.Context(), "one", fmt.Sprint("https://bad.com/", i))
			if want := min(int64(i+1), 5); !down(err) || a.asked.Load() != want {
				t.Errorf("question %d: %v, asked %d times, want %d", i, err, a.asked.Load(), want)
			}
		}
		var u *Unavailable
		if _, err := g.Score(t.Context(), "one", "https://good.com/"); !errors.As(err, &u) || u.RetryAfter != 30*time.Second {
			t.Errorf("the client itself: %v", err)
		}
		if _, err := g.Score(t.Context(), "other", "https://good.com/"); err != nil {
			t.Errorf("another client: %v", err)
		}
	})
}

func TestBusyIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := always(0, &Unavailable{RetryAfter: time.Second, Err: errors.New("busy"), Busy: true})
		g := NewGuard(a, open)
		for i := range 20 {
			g.Score(t.Context(), fmt.Sprint(i), fmt.Sprint("https://a.com/", i))
		}
		if a.asked.Load() != 20 {
			t.Errorf("asked %d times", a.asked.Load())
		}
	})
}

func TestOneProbeWhileTheBreakerIsHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var slow atomic.Bool
		a := &asker{answer: func(context.Context, string) (Result, error) {
			if slow.Load() {
				<-release
				return Result{Score: 72}, nil
			}
			return Result{}, &Unavailable{RetryAfter: time.Second, Err: errors.New("down")}
		}}
		g := NewGuard(a, open)
		for i := range 5 {
			g.Score(t.Context(), fmt.Sprint(i), fmt.Sprint(i))
		}
		slow.Store(true)
		time.Sleep(30*time.Second + 1)
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := g.Score(t.Context(), "c", "probe"); err != nil {
				t.Errorf("probe: %v", err)
			}
		})
		synctest.Wait()
		if _, err := g.Score(t.Context(), "c", "other"); !down(err) {
			t.Errorf("beside the probe: %v", err)
		}
		close(release)
		wg.Wait()
		if a.asked.Load() != 6 {
			t.Errorf("asked %d times", a.asked.Load())
		}
	})
}

func TestScorerThatBreaksItsContractIsUnavailable(t *testing.T) {
	for name, answer := range map[string]func(context.Context, string) (Result, error){
		"panics":        func(context.Context, string) (Result, error) { panic("markup") },
		"unknown error": func(context.Context, string) (Result, error) { return Result{Score: 72}, errors.New("?") },
		"too high":      func(context.Context, string) (Result, error) { return Result{Score: 101}, nil },
		"negative":      func(context.Context, string) (Result, error) { return Result{Score: -1}, nil },
	} {
		a := &asker{answer: answer}
		g := NewGuard(a, open)
		for range 2 {
			if got, err := g.Score(t.Context(), "c", site); !down(err) || got != (Result{}) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
		if a.asked.Load() != 2 {
			t.Errorf("%s: remembered", name)
		}
	}
}

// TestFailuresOfOthersKeepNobodyAway has clients of many networks name sites at which the
// service fails, without end, and others who had no part in that.
func TestFailuresOfOthersKeepNobodyAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := failsAtBad()
		g := NewGuard(a, open)
		for i := range 20 {
			for j := range 10 {
				g.Score(t.Context(), fmt.Sprintf("198.%d.100.1", j), fmt.Sprint("https://bad.com/", i, j))
			}
			if _, err := g.Score(t.Context(), fmt.Sprintf("203.%d.113.1", i), fmt.Sprint("https://good.com/", i)); err != nil {
				t.Errorf("newcomer %d: %v", i, err)
			}
		}
		// One wide network does not make a service count as down.
		for i := range 50 {
			g.Score(t.Context(), fmt.Sprintf("192.0.%d.1", i), fmt.Sprint("https://bad.com/wide/", i))
		}
		if g.breaker.open {
			t.Error("questions of one /16 failed, and the breaker is open for all")
		}
		// A service that is down is left alone but for one question of each network.
		before := a.asked.Load()
		for i := range 100 {
			g.Score(t.Context(), fmt.Sprintf("198.%d.100.1", i%10), fmt.Sprint("https://bad.com/more/", i))
		}
		if n := a.asked.Load() - before; n > 10+tripAfter {
			t.Errorf("a service that is down was asked %d times by ten networks", n)
		}
	})
}
