package host

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// Who moves the head waits behind nobody, or seconds would stand still for as long as
// more is asked than can be answered.
func TestWhoMovesTheHeadIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRack(1)
		await := func(line *queue) chan *instance {
			got := make(chan *instance, 1)
			go func() { got <- r.await(line, nil, nil, func() bool { return false }) }()
			synctest.Wait() // so the next one comes behind it
			return got
		}
		others := []chan *instance{await(&r.others), await(&r.others), await(&r.others)}
		turns := append([]chan *instance{await(&r.movers)}, others...)
		in := &instance{place: 0}
		for n, turn := range turns {
			r.put(in)
			synctest.Wait()
			select {
			case <-turn:
			default:
				t.Fatalf("turn %d is another's", n)
			}
		}
	})
}

// That the native core answers reaches all who wait for an instance, whoever else
// does.
func TestWhoBorrowsDoesNotKeepTheWordThatItIsOver(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1000, Instances: 1})
	in := anyOf(p)
	defer p.rack.put(in)
	for round := range 5 {
		borrowed := make(chan *instance, 1)
		go func() { borrowed <- p.borrow(0) }()
		// One that waited too early or too late is none that could keep it: another
		// round, then.
		for p.rack.others.waiting.Load() < 1 && len(borrowed) == 0 {
			runtime.Gosched()
		}
		taken := make(chan *instance, 1)
		go func() { taken <- p.take(&p.rack.others, waitWrite) }()
		for p.rack.others.waiting.Load() < 2 && len(borrowed) == 0 {
			runtime.Gosched()
		}
		p.native.Store(NewNative(1))
		p.rack.wake()
		select {
		case <-taken:
		case <-time.After(waitWrite / 2):
			t.Fatalf("round %d: it still waits", round)
		}
		<-borrowed
		p.native.Store(nil)
	}
}

// An instance that is built anew while the writer waits for one does not wait for the
// writer, even if it traps once more on its way.
func TestNothingThatHealsWaitsForTheWriter(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1000, Instances: 1})
	if err := p.Apply(ring(50)); err != nil {
		t.Fatal(err)
	}
	in := anyOf(p)
	if err := in.module.CloseWithExitCode(background, 2); err != nil {
		t.Fatal(err)
	}
	p.heal(in)
	if err := p.Apply([]Record{join("later", 100, epoch*1000+2000)}); err != nil {
		t.Error(err)
	}
}

// One that is far from the head goes there by turns with others, so that one that is
// near, for which the writer waits, is not held up until the other is there.
func TestInstancesCatchUpByTurns(t *testing.T) {
	p, taken := pair(t, PoolConfig{})
	far := taken[1]
	p.rack.put(taken[0])
	if err := p.Apply(ring(30_000)); err != nil {
		t.Fatal(err)
	}
	near := anyOf(p)
	p.catching = make(chan struct{}, 1)
	p.catching <- struct{}{}
	turn := func() { // for who has waited longest, and then it is ours again
		<-p.catching
		p.catching <- struct{}{}
		runtime.Gosched()
	}
	for p.heal(far); far.seq == 0; {
		turn()
	}
	p.heal(near)
	first := p.rack.take()
	for ; first == nil; first = p.rack.take() {
		turn()
	}
	if first != near {
		t.Error("one that has to go far was there before one that is near")
	}
	<-p.catching
	p.rack.put(first)
	put(p, all(t, p))
}

// No instance begins from an image before the head is there, or answers could go back
// to it.
func TestNoImageIsBeyondTheHead(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1000, Instances: 1})
	p.kept.least = 0
	applied := make(chan error, 1)
	go func() {
		var err error
		for n := 0; n < 300 && err == nil; n++ {
			p.kept.mu.Lock()
			p.kept.bytes = mostKept // with another record, it is time for an image
			p.kept.mu.Unlock()
			err = p.Apply(ring(n)[n:])
		}
		applied <- err
	}()
	for {
		if !p.kept.mu.TryRLock() {
			continue // who waits is too late for what comes right after
		}
		img := p.kept.image // first: the head only goes on
		p.kept.mu.RUnlock()
		h := p.head.Load()
		if img.at > h.seq {
			t.Fatalf("an image at %d, and the head at %d", img.at, h.seq)
		}
		select {
		case err := <-applied:
			if err != nil {
				t.Fatal(err)
			}
			if at := p.kept.start().at; at != 300 {
				t.Errorf("the image is at %d", at)
			}
			return
		default:
		}
	}
}
