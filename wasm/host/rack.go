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
// longest, of those who move the head if any of them wait, or else seconds would
// stand still while there are too many requests.
type rack struct {
	places []place
	hints  sync.Pool // of *uint32: the place to look at first
	next   atomic.Uint32
	movers queue // who moves the head
	others queue
	look   chan struct{} // has those who wait look at over
}

// queue is of those who wait for an instance.
type queue struct {
	waiting atomic.Int32
	handed  chan *instance // room for all
}

// place has a cache line of its own.
type place struct {
	in atomic.Pointer[instance]
	at atomic.Pointer[head] // where its instance stood when it last came back; nil when it has none
	_  [112]byte
}

func newRack(places int) *rack {
	r := &rack{places: make([]place, places), look: make(chan struct{}, 1)}
	r.movers.handed, r.others.handed = make(chan *instance, places), make(chan *instance, places)
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

// line is the queue whose turn it is, or nil when nobody waits.
func (r *rack) line() *queue {
	if r.movers.waiting.Load() > 0 {
		return &r.movers
	}
	if r.others.waiting.Load() > 0 {
		return &r.others
	}
	return nil
}

// takeFrom gives the instance of a place, or nil when it does not lie there.
func (r *rack) takeFrom(place int) *instance { return r.places[place].in.Swap(nil) }

// put lays an instance back into its place, unless somebody waits for it.
func (r *rack) put(in *instance) {
	if at := &r.places[in.place].at; at.Load() != in.at {
		at.Store(in.at)
	}
	for {
		line := r.line()
		if line == nil {
			place := &r.places[in.place]
			place.in.Store(in)
			if line = r.line(); line == nil {
				return
			}
			// Whoever began to wait in between may not have seen it.
			if in = place.in.Swap(nil); in == nil {
				return
			}
		}
		line.handed <- in
		if line.waiting.Load() > 0 {
			return
		}
		// Whoever waited may have gone, with another one. Nobody looks here for
		// the instance of a place.
		select {
		case in = <-line.handed:
		default:
			return
		}
	}
}

// leave ends waiting. The last to go gives back what was handed to nobody.
func (r *rack) leave(line *queue) {
	line.waiting.Add(-1)
	for line.waiting.Load() == 0 {
		select {
		case in := <-line.handed:
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

// await takes the first instance that comes to one of the queues. It gives nil when
// late or done say so, and as soon as over holds; whoever makes it hold wakes. All
// who wait ask the same, or the word would get no further than who asks another.
func (r *rack) await(line *queue, late <-chan time.Time, done <-chan struct{}, over func() bool) *instance {
	line.waiting.Add(1)
	defer r.leave(line)
	if in := r.take(); in != nil {
		return in
	}
	for !over() {
		select {
		case in := <-line.handed:
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
