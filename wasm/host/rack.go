package host

import (
	"sync"
	"sync/atomic"
	"time"
)

// rack is where instances lie that nobody uses, each in a place of its own. To
// take one and to put it back needs no lock: workers look first where the
// processor that they run on found one before, and so rarely meet. Only when
// there are more workers than instances, each is handed to who has waited
// longest.
type rack struct {
	places  []place
	hints   sync.Pool // of *uint32: the place to look at first
	next    atomic.Uint32
	waiting atomic.Int32
	handed  chan *instance // room for all
	look    chan struct{}  // has those who wait look at over
}

// place has a cache line of its own.
type place struct {
	in atomic.Pointer[instance]
	at atomic.Pointer[head] // where its instance stood when it last came back; nil when it has none
	_  [112]byte
}

func newRack(places int) *rack {
	r := &rack{places: make([]place, places), handed: make(chan *instance, places), look: make(chan struct{}, 1)}
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
	select {
	case in := <-r.handed: // to somebody who had given up
		return in
	default:
		return nil
	}
}

// takeFrom gives the instance of a place, or nil when it does not lie there.
func (r *rack) takeFrom(place int) *instance { return r.places[place].in.Swap(nil) }

// put lays an instance back into its place, unless somebody waits for it.
func (r *rack) put(in *instance) {
	if at := &r.places[in.place].at; at.Load() != in.at {
		at.Store(in.at)
	}
	for {
		if r.waiting.Load() == 0 {
			place := &r.places[in.place]
			place.in.Store(in)
			if r.waiting.Load() == 0 {
				return
			}
			// Whoever began to wait in between may not have seen it.
			if in = place.in.Swap(nil); in == nil {
				return
			}
		}
		r.handed <- in
		if r.waiting.Load() > 0 {
			return
		}
		// Whoever waited may have gone, with another one. Nobody looks here for
		// the instance of a place.
		select {
		case in = <-r.handed:
		default:
			return
		}
	}
}

// leave ends waiting. The last to go lays what was handed to nobody into its place.
func (r *rack) leave() {
	r.waiting.Add(-1)
	for r.waiting.Load() == 0 {
		select {
		case in := <-r.handed:
			r.put(in)
		default:
			return
		}
	}
}

// near is how many instances, in use or not, need not go far to h.
func (r *rack) near(h *head) (n int) {
	for i := range r.places {
		if !r.places[i].at.Load().far(h) {
			n++
		}
	}
	return n
}

// wake has those who wait look whether it is over, one after the other.
func (r *rack) wake() {
	select {
	case r.look <- struct{}{}:
	default:
	}
}

// await takes the first instance that comes. It gives nil when late or done say
// so, and as soon as over holds; whoever makes it hold wakes.
func (r *rack) await(late <-chan time.Time, done <-chan struct{}, over func() bool) *instance {
	r.waiting.Add(1)
	defer r.leave()
	if in := r.take(); in != nil {
		return in
	}
	for !over() {
		select {
		case in := <-r.handed:
			return in
		case <-r.look:
		case <-late:
			return nil
		case <-done:
			return nil
		}
	}
	r.wake()
	return nil
}
