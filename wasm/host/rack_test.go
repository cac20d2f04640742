package host

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Two instances that come back while one waits are one for it and one for its
// place: none is left where nobody looks for it.
func TestWhatIsHandedToNobodyComesToItsPlace(t *testing.T) {
	r := newRack(2)
	a, b := &instance{place: 0}, &instance{place: 1}
	laid, got := make(chan struct{}), make(chan *instance)
	go func() { got <- r.await(&r.others, nil, nil, func() bool { <-laid; return false }) }()
	for r.others.waiting.Load() == 0 {
		runtime.Gosched()
	}
	r.put(a)
	r.put(b)
	close(laid)
	other := a
	if <-got == a {
		other = b
	}
	if in := r.takeFrom(other.place); in != other {
		t.Error("the other one is not in its place")
	}
}

// However many take instances, wait for them and give up, in the end each lies in
// its place.
func TestNoInstanceIsLostBetweenThoseWhoWait(t *testing.T) {
	const seed = 3
	t.Logf("seed %d", seed)
	r := newRack(2)
	for place := range r.places {
		r.put(&instance{place: place})
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
					line := &r.others
					if random.IntN(4) == 0 {
						line = &r.movers
					}
					in := r.await(line, late, nil, func() bool { return false })
					if random.IntN(4) == 0 {
						runtime.Gosched()
					}
					if in != nil {
						r.put(in)
					}
				}
			})
		}
		workers.Wait()
		for place := range r.places {
			in := r.takeFrom(place)
			if in == nil {
				t.Fatalf("round %d: no instance in place %d, and %d handed to nobody", round, place, len(r.others.handed)+len(r.movers.handed))
			}
			r.put(in)
		}
	}
}

// A request waits as long as it says, however many instances come in that time
// that it cannot use.
func TestWaitingHasOneEnd(t *testing.T) {
	p, taken := pair(t, PoolConfig{})
	defer put(p, taken)
	unbuilt := *p.kept.start()
	unbuilt.memory = bare{copies(unbuilt.memory.append(nil))} // nothing is built from it
	p.kept.replace(&unbuilt)
	done := make(chan *instance)
	const wait = 200 * time.Millisecond
	go func() { done <- p.take(&p.rack.others, wait) }()
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
			until(t, "whoever builds those that were handed out ends", func() bool {
				select {
				case <-p.rack.others.handed:
					handed--
				default:
				}
				if p.rack.takeFrom(0) != nil {
					handed--
				}
				return p.retired.Load() == handed
			})
			p.retired.Store(0)
			return
		case <-useless.C:
			select {
			case p.rack.others.handed <- &instance{place: 0}:
				handed++
			default: // it has given up, and nobody takes them
			}
		case <-late:
			t.Fatal("it still waits")
		}
	}
}
