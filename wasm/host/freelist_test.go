package host

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Two instances that come back while one worker waits are one for it and one for its
// slot: none is left where nothing looks for it.
func TestWhatIsHandedToNoWorkerComesToItsSlot(t *testing.T) {
	l := newFreeList(2)
	a, b := &instance{slot: 0}, &instance{slot: 1}
	l.readers.waiting.Add(1)
	l.put(a)
	l.put(b)
	other := a
	if <-l.readers.handed == a {
		other = b
	}
	l.leave(&l.readers)
	if in := l.getFrom(other.slot); in != other {
		t.Error("the other one is not in its slot")
	}
}

// However many take instances, wait for them and give up, in the end each lies in
// its place.
func TestNoInstanceIsLostBetweenWaiters(t *testing.T) {
	const seed = 3
	t.Logf("seed %d", seed)
	l := newFreeList(2)
	for slot := range l.slots {
		l.put(&instance{slot: slot})
	}
	over := make(chan time.Time)
	close(over)
	for round := range 200 {
		var workers sync.WaitGroup
		for worker := range 4 {
			random := rand.New(rand.NewPCG(seed, uint64(round<<8|worker)))
			workers.Go(func() {
				for range 50 {
					var late <-chan time.Time
					if random.IntN(2) == 0 {
						late = over // gives up at once, or takes what just came
					}
					q := &l.readers
					if random.IntN(4) == 0 {
						q = &l.writers
					}
					in := l.wait(q, late, nil, nil)
					if random.IntN(4) == 0 {
						runtime.Gosched()
					}
					if in != nil {
						l.put(in)
					}
				}
			})
		}
		workers.Wait()
		for slot := range l.slots {
			in := l.getFrom(slot)
			if in == nil {
				t.Fatalf("round %d: no instance in slot %d, and %d handed to nobody", round, slot, len(l.readers.handed)+len(l.writers.handed))
			}
			l.put(in)
		}
	}
}

// A request waits as long as it says, however many instances come in that time
// that it cannot use.
func TestWaitingHasOneEnd(t *testing.T) {
	p, taken := pair(t, PoolConfig{})
	defer put(p, taken)
	buildNone(t, p)
	done := make(chan *instance)
	const wait = 200 * time.Millisecond
	go func() { done <- p.acquire(&p.free.readers, wait) }()
	useless, handed := time.NewTicker(wait/4), int64(0)
	defer useless.Stop()
	for late := time.After(time.Minute); ; {
		select {
		case in := <-done:
			if in != nil {
				t.Error("it can be used")
			}
			// The pool is to wait for its own when it closes, and these count as such.
			p.stop()
			until(t, "those that build what was handed out end", func() bool {
				select {
				case <-p.free.readers.handed:
					handed--
				default:
				}
				if p.free.getFrom(0) != nil {
					handed--
				}
				return p.ended.Load() == handed
			})
			p.ended.Store(0)
			return
		case <-useless.C:
			select {
			case p.free.readers.handed <- &instance{slot: 0}:
				handed++
			default: // it has given up, and nobody takes them
			}
		case <-late:
			t.Fatal("it still waits")
		}
	}
}
