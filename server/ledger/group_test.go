package ledger_test

import (
	"context"
	"sync"
	"testing"

	"webring/server/ledger"
)

// What waits while a commit is in work goes together into the next one.
func TestWaitingItemsShareOneCommit(t *testing.T) {
	r := openedRing(t, "ada")
	g := r.gate()
	r.reopen()
	before := r.store.Commits()

	const n = 100
	ran := make(chan struct{}, n+1)
	errs := make(chan error, n+1)
	send := func(fn func(*ledger.Tx) error) {
		go func() {
			errs <- r.do(func(tx *ledger.Tx) error {
				ran <- struct{}{}
				return fn(tx)
			})
		}()
	}
	place := func(tx *ledger.Tx) error { return appendEvent(tx, bid(tx, "ada", 100)) }
	send(place)
	<-g.arrived
	// The first commit is in work. Nobody else has been run, and reads go on.
	for i := range n {
		if i%10 == 0 {
			send(func(*ledger.Tx) error { return errRefused })
		} else {
			send(place)
		}
	}
	r.View(func(v *ledger.View) {
		if v.State().Seq() != 3 {
			t.Errorf("a view during the commit sees %d events", v.State().Seq())
		}
	})
	if size := r.Size(); size != 2 {
		t.Errorf("%d events are called durable during the commit of the third", size)
	}
	r.waitQueued(n)
	if len(ran) != 1 {
		t.Errorf("%d functions ran during a commit", len(ran)-1)
	}
	g.pass <- struct{}{}
	<-g.arrived
	g.pass <- struct{}{}

	refused := 0
	for range n + 1 {
		if err := <-errs; err == errRefused {
			refused++
		} else if err != nil {
			t.Error(err)
		}
	}
	if refused != n/10 || r.store.Commits()-before != 2 || r.Size() != 3+n-n/10 {
		t.Errorf("%d refused, %d commits, %d events", refused, r.store.Commits()-before, r.Size())
	}
}

func TestGroupIsBounded(t *testing.T) {
	for _, c := range []struct {
		name    string
		items   int
		body    int
		commits int // after the first
	}{
		{"256 items", 600, 10, 3},
		{"1 MiB", 20, 100 << 10, 3},
	} {
		r := openedRing(t, "ada")
		g := r.gate()
		r.reopen()
		var done sync.WaitGroup
		send := func(id string, body int) {
			done.Go(func() {
				v := bidReservation(id, "ada", 100)
				v.Body = make([]byte, body)
				if err := r.do(func(tx *ledger.Tx) error { return tx.Reserve(v) }); err != nil {
					t.Error(err)
				}
			})
		}
		send("first", 1)
		<-g.arrived
		for i := range c.items {
			send(string(rune('a'+i%26))+string(rune('a'+i/26)), c.body)
		}
		r.waitQueued(c.items)
		g.pass <- struct{}{}
		for range c.commits {
			<-g.arrived
			g.pass <- struct{}{}
		}
		done.Wait() // hangs if a commit more is tried
	}
}

func TestContextBoundsTheWaitOnly(t *testing.T) {
	r := openedRing(t, "ada")
	g := r.gate()
	r.reopen()
	ctx, cancel := context.WithCancel(context.Background())
	first, second := make(chan error), make(chan error)
	place := func(tx *ledger.Tx) error { return appendEvent(tx, bid(tx, "ada", 100)) }
	go func() { first <- r.Do(ctx, place) }()
	<-g.arrived
	go func() {
		second <- r.Do(ctx, func(*ledger.Tx) error {
			t.Error("an item that was given up has run")
			return nil
		})
	}()
	r.waitQueued(1)
	cancel()
	if err := <-second; err != context.Canceled {
		t.Errorf("the one that waits: %v, want context.Canceled", err)
	}
	g.pass <- struct{}{}
	if err := <-first; err != nil {
		t.Errorf("the one that has run: %v", err)
	}
	if err := r.Do(ctx, place); err != context.Canceled {
		t.Errorf("a call that comes too late: %v", err)
	}
}

func TestCloseFinishesWhatIsQueued(t *testing.T) {
	r := openedRing(t, "ada")
	g := r.gate()
	r.reopen()
	errs := make(chan error, 5)
	place := func() {
		errs <- r.do(func(tx *ledger.Tx) error { return appendEvent(tx, bid(tx, "ada", 100)) })
	}
	go place()
	<-g.arrived
	for range cap(errs) - 1 {
		go place()
	}
	r.waitQueued(cap(errs) - 1)
	closed := make(chan error)
	go func() { closed <- r.Close() }()
	g.pass <- struct{}{}
	<-g.arrived
	g.pass <- struct{}{}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	<-r.Done()
	if err := r.do(func(*ledger.Tx) error { return nil }); err != ledger.ErrClosed || r.Err() != ledger.ErrClosed {
		t.Errorf("after Close: %v, %v", err, r.Err())
	}
	if err := r.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}
