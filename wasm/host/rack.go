package host

import (
	"sync"
	"sync/atomic"
	"time"
)

// rack is where instances lie that nobody uses, each in a place of its own. To
// take one and to put it back needs no lock: workers look first where the
// processor that they run on found one before, and so rarely meet.
type rack struct {
	places  []place
	hints   sync.Pool // of *uint32: the place to look at first
	next    atomic.Uint32
	waiting atomic.Int32
	came    chan struct{} // when somebody may be waiting
}

// place has a cache line of its own.
type place struct {
	in atomic.Pointer[instance]
	_  [120]byte
}

func newRack(places int) *rack {
	r := &rack{places: make([]place, places), came: make(chan struct{}, places)}
	r.hints.New = func() any { n := r.next.Add(1); return &n }
	return r
}

// take gives an instance for the caller alone, or nil when none lies here.
func (r *rack) take() *instance {
	hint := r.hints.Get().(*uint32)
	defer r.hints.Put(hint)
	n := uint32(len(r.places))
	for i := range n {
		at := (*hint + i) % n
		if r.places[at].in.Load() == nil {
			continue
		}
		if in := r.places[at].in.Swap(nil); in != nil {
			*hint = at
			return in
		}
	}
	return nil
}

// put lays an instance back into its place.
func (r *rack) put(in *instance) {
	r.places[in.place].in.Store(in)
	if r.waiting.Load() > 0 {
		r.wake()
	}
}

// wake has somebody who waits look again.
func (r *rack) wake() {
	select {
	case r.came <- struct{}{}:
	default: // as many are on their way as there are places
	}
}

// await takes the first instance that comes. It gives nil when late or done say
// so, and as soon as over holds; whoever makes it hold wakes all.
func (r *rack) await(late <-chan time.Time, done <-chan struct{}, over func() bool) *instance {
	r.waiting.Add(1)
	defer r.waiting.Add(-1)
	for {
		if in := r.take(); in != nil {
			return in
		}
		if over() {
			r.wake() // the next one
			return nil
		}
		select {
		case <-r.came:
		case <-late:
			return nil
		case <-done:
			return nil
		}
	}
}
