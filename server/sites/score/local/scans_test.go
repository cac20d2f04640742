package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"webring/edge/share"
	"webring/server/sites/score"
)

// occupy has n networks take all places that they can get, for scans that never end.
// It gives the contexts of those that run.
func occupy(t *testing.T, s *scans, networks int) (scanning []context.Context) {
	t.Helper()
	var mu sync.Mutex
	for range maxScans {
		for i := range networks {
			go func() {
				ctx, leave, err := s.enter(t.Context(), share.AskerOf(fmt.Sprintf("198.%d.0.1", i)))
				if err != nil {
					return
				}
				mu.Lock()
				scanning = append(scanning, ctx)
				mu.Unlock()
				<-ctx.Done()
				leave()
			}()
			synctest.Wait()
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return scanning[:len(scanning):len(scanning)]
}

func TestOneAskerHasFewScans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScans(share.NewPast())
		if n := len(occupy(t, s, 1)); n != 4 {
			t.Errorf("one asker holds %d scans", n)
		}
		for i := range 8 {
			_, leave, err := s.enter(t.Context(), share.AskerOf(fmt.Sprintf("203.%d.0.1", i)))
			if err != nil {
				t.Fatal(err)
			}
			defer leave()
		}
		if time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) != 0 {
			t.Error("others wait")
		}
	})
}

// TestOldScansGiveWayToNewcomers has scans that never end hold all places, and others of
// the same networks wait.
func TestOldScansGiveWayToNewcomers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScans(share.NewPast())
		scanning := occupy(t, s, maxScans)
		if len(scanning) != maxScans {
			t.Fatalf("%d scans run", len(scanning))
		}
		began := time.Now()
		var newcomers sync.WaitGroup
		for i := range 3 {
			newcomers.Go(func() {
				_, _, err := s.enter(t.Context(), share.AskerOf(fmt.Sprintf("203.%d.0.1", i)))
				if err != nil || time.Since(began) != ownTime {
					t.Errorf("newcomer %d: %v after %s", i, err, time.Since(began))
				}
			})
		}
		newcomers.Wait()
		gave := 0
		for _, ctx := range scanning {
			if errors.Is(context.Cause(ctx), errGaveWay) {
				gave++
			}
		}
		if gave != 3 {
			t.Errorf("%d scans gave way to 3", gave)
		}
	})
}

func TestScansOfThoseWhoHaveSomeWaitInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(nil, least, nil, nil) // which has no client: a scan that starts fails the test
		s := l.scans
		scanning := occupy(t, s, maxScans)
		began := time.Now()
		var down *score.Unavailable
		if _, err := l.Score(share.NewContext(t.Context(), share.AskerOf("198.0.0.1")), "https://site.dev/"); !errors.Is(err, errNoRoom) ||
			!errors.As(err, &down) || !down.Busy || time.Since(began) != WaitTime {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		for _, ctx := range scanning {
			if ctx.Err() != nil {
				t.Error("a scan gave way to one of a network that has others")
			}
		}
		gone, hangUp := context.WithCancel(t.Context())
		hangUp()
		if _, _, err := s.enter(gone, share.AskerOf("198.0.0.1")); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait()
		if len(s.waiting) != 0 {
			t.Errorf("%d wait still", len(s.waiting))
		}
		if s.shares.Taken() != maxScans || len(s.running) != maxScans {
			t.Errorf("%d places are taken by %d scans", s.shares.Taken(), len(s.running))
		}
	})
}

func TestNobodyGivesWayWhileThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScans(share.NewPast())
		ctx, leave, err := s.enter(t.Context(), share.Asker{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if ctx.Err() != nil {
			t.Errorf("%v", context.Cause(ctx))
		}
		leave()
		if s.shares.Taken() != 0 || len(s.running) != 0 {
			t.Error("no scan can start")
		}
	})
}

// TestWhoReadLeastIsNext has scans with much to read take turns with one that has little.
func TestWhoReadLeastIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns turns
		if !turns.take(t.Context(), time.Hour) {
			t.Fatal("it is nobody's turn")
		}
		var order []time.Duration
		var group sync.WaitGroup
		for _, spent := range []time.Duration{7, 3, 9, 1, 5} {
			group.Go(func() {
				if turns.take(t.Context(), spent) {
					order = append(order, spent)
					turns.pass()
				}
			})
			synctest.Wait()
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if turns.take(impatient, 0) {
			t.Error("a turn was taken twice")
		}
		turns.pass()
		group.Wait()
		if fmt.Sprint(order) != "[1ns 3ns 5ns 7ns 9ns]" || turns.taken || len(turns.waiting) != 0 {
			t.Errorf("%v", order)
		}
	})
}
