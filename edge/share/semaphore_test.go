package share

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestTheSemaphoreAdmitsAskersThatHoldLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewSemaphore(Rule{Most: 6}, 0)
		a, b, c := AskerOf("198.51.100.1"), AskerOf("203.0.113.1"), AskerOf("2001:db8:1:1::/64")
		for range 2 {
			if err := p.Acquire(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		third := make(chan error)
		go func() { third <- p.Acquire(t.Context(), a) }()
		synctest.Wait()
		for _, asker := range []Asker{b, c} { // they came later and do not wait
			if err := p.Acquire(t.Context(), asker); err != nil {
				t.Fatal(err)
			}
			p.Release(asker)
		}
		select {
		case err := <-third:
			t.Fatalf("one asker acquired it three times: %v", err)
		default:
		}
		impatient, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Acquire(impatient, a); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		p.Release(a)
		if err := <-third; err != nil {
			t.Error(err)
		}
		p.Release(a)
		p.Release(a)

		// Few wait, and those that need not wait are let in at the same time.
		for range 2 {
			if err := p.Acquire(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		crowd, leave := context.WithCancel(t.Context())
		for range mostWaiting {
			go func() { _ = p.Acquire(crowd, a) }()
		}
		synctest.Wait()
		if err := p.Acquire(t.Context(), a); !errors.Is(err, errCrowded) {
			t.Errorf("one more waits: %v", err)
		}
		if err := p.Acquire(t.Context(), b); err != nil {
			t.Error(err)
		}
		leave()
		synctest.Wait()
		p.Release(b)
		p.Release(a)
		p.Release(a)
		if p.Taken() != 0 || len(p.waiting) != 0 {
			t.Errorf("%d hold it, %d wait", p.Taken(), len(p.waiting))
		}
	})
}

// A client has no more than each, those that wait among them, and others are not concerned.
func TestTheSemaphoreBoundsEachClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewSemaphore(Rule{Most: 2, Half: 1 << 20}, 2)
		a, b := AskerOf("198.51.100.1"), AskerOf("198.51.100.2")
		if err := p.Acquire(t.Context(), a); err != nil || !p.TryAcquire(b) || p.TryAcquire(b) {
			t.Fatalf("two places are not given: %v", err)
		}
		crowd, leave := context.WithCancel(t.Context())
		waits := make(chan error)
		go func() { waits <- p.Acquire(crowd, a) }()
		synctest.Wait()
		if err := p.Acquire(t.Context(), a); !errors.Is(err, errEach) {
			t.Errorf("one holds a place, one waits, and a third of the client: %v", err)
		}
		leave()
		if err := <-waits; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		p.Release(a)
		p.Release(b)
		if p.Taken() != 0 || len(p.clients) != 0 {
			t.Errorf("%d hold it, of %v", p.Taken(), p.clients)
		}
	})
}
