package host

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// What moves the head waits behind no reader, or seconds would stand still for as long as
// more is asked than can be answered.
func TestWritersGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newFreeList(1)
		wait := func(q *queue) chan *instance {
			got := make(chan *instance, 1)
			go func() { got <- l.wait(q, nil, nil, nil) }()
			synctest.Wait() // so the next one comes behind it
			return got
		}
		others := []chan *instance{wait(&l.readers), wait(&l.readers), wait(&l.readers)}
		turns := append([]chan *instance{wait(&l.writers)}, others...)
		in := &instance{slot: 0}
		for n, turn := range turns {
			l.put(in)
			synctest.Wait()
			select {
			case <-turn:
			default:
				t.Fatalf("turn %d is another's", n)
			}
		}
	})
}

// When the native core answers, every caller that waits for an instance stops waiting.
func TestTheFallbackEndsAllWaiting(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1000, Instances: 1})
	in := anyOf(p)
	defer p.free.put(in)
	for round := range 5 {
		borrowed := make(chan *instance, 1)
		go func() { borrowed <- p.getFrom(0) }()
		// One that waited too early or too late is none that could keep it: another
		// round, then.
		for p.free.readers.waiting.Load() < 1 && len(borrowed) == 0 {
			runtime.Gosched()
		}
		taken := make(chan *instance, 1)
		go func() { taken <- p.acquire(&p.free.readers, waitDigest) }()
		for p.free.readers.waiting.Load() < 2 && len(borrowed) == 0 {
			runtime.Gosched()
		}
		p.setFallback(NewNative(1))
		select {
		case <-taken:
		case <-time.After(waitDigest / 2):
			t.Fatalf("round %d: it still waits", round)
		}
		<-borrowed
		p.setFallback(nil)
	}
}

// An instance that is built anew while the writer waits for one does not wait for the
// writer, even if it traps once more on its way.
func TestNothingThatIsBuiltWaitsForTheWriter(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1000, Instances: 1})
	if err := p.Apply(ring(50)); err != nil {
		t.Fatal(err)
	}
	in := anyOf(p)
	if err := in.module.CloseWithExitCode(background, 2); err != nil {
		t.Fatal(err)
	}
	go p.restore(in)
	if err := p.Apply([]Record{join("later", 100, epoch*1000+2000)}); err != nil {
		t.Error(err)
	}
	if p.fallback.Load() != nil {
		t.Error("the writer got no instance")
	}
}

// One that is far from the head goes there by turns with others, so that one that is
// near, for which the writer waits, is not held up until the other is there.
func TestInstancesCatchUpByTurns(t *testing.T) {
	p, taken := pair(t, PoolConfig{})
	far := taken[1]
	p.free.put(taken[0])
	if err := p.Apply(ring(30_000)); err != nil {
		t.Fatal(err)
	}
	near := anyOf(p)
	p.turns = make(chan struct{}, 1)
	p.turns <- struct{}{}
	turn := func() { // for the one that has waited longest, and then it is ours again
		<-p.turns
		p.turns <- struct{}{}
		runtime.Gosched()
	}
	go p.restore(far)
	for far.seq == 0 {
		turn()
	}
	go p.restore(near)
	first := p.free.get()
	for ; first == nil; first = p.free.get() {
		turn()
	}
	if first != near {
		t.Error("one that has to go far was there before one that is near")
	}
	<-p.turns
	p.free.put(first)
	put(p, all(t, p))
}

// No instance begins from an image before the head is there, or answers could go back
// to it.
func TestNoImageIsBeyondTheHead(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1000, Instances: 1})
	applied := make(chan error, 1)
	go func() {
		var err error
		for n := 0; n < 300 && err == nil; n++ {
			p.cache.mu.Lock()
			p.cache.bytes = mostRecords + 1 // there must be an image first
			p.cache.mu.Unlock()
			err = p.Apply(ring(n)[n:])
		}
		applied <- err
	}()
	for {
		if !p.cache.mu.TryRLock() {
			continue // waiting for the lock would be too late for what comes right after
		}
		img := p.cache.image // first: the head only goes on
		p.cache.mu.RUnlock()
		h := p.head.Load()
		if img.at > h.seq {
			t.Fatalf("an image at %d, and the head at %d", img.at, h.seq)
		}
		select {
		case err := <-applied:
			if err != nil {
				t.Fatal(err)
			}
			if at := p.cache.newest().at; at < 299 {
				t.Errorf("the image is at %d", at)
			}
			return
		default:
		}
	}
}
