package host

import (
	"sync"
	"sync/atomic"
	"time"
)

// freeList holds the instances that nothing uses, each in a slot of its own. To get
// one and to put it back takes no lock: a worker first looks at the slot where its
// processor found an instance before, so workers rarely meet.
//
// When there are more workers than instances, the workers wait. Those that move the
// head go first, or seconds would stand still under load; within each queue it is
// first come, first served.
type freeList struct {
	slots   []slot
	hints   sync.Pool // of *uint32: the slot to look at first
	next    atomic.Uint32
	writers queue // workers that move the head
	readers queue
}

// queue is of workers that wait for an instance.
type queue struct {
	waiting atomic.Int32
	handed  chan *instance // has room for all instances
}

// slot has a cache line of its own.
type slot struct {
	in atomic.Pointer[instance]
	at atomic.Pointer[head] // of its instance when that was last put back; nil while there is none
	_  [112]byte
}

func newFreeList(slots int) *freeList {
	l := &freeList{slots: make([]slot, slots)}
	l.writers.handed, l.readers.handed = make(chan *instance, slots), make(chan *instance, slots)
	l.hints.New = func() any { n := l.next.Add(1); return &n }
	return l
}

// get gives an instance to the caller alone, or nil when none is free.
func (l *freeList) get() *instance {
	hint := l.hints.Get().(*uint32)
	defer l.hints.Put(hint)
	n := uint32(len(l.slots))
	for i := range n {
		at := (*hint + i) % n
		if l.slots[at].in.Load() == nil {
			continue
		}
		if in := l.getFrom(int(at)); in != nil {
			*hint = at
			return in
		}
	}
	return nil
}

// getFrom gives the instance of one slot, or nil when it is not free.
func (l *freeList) getFrom(slot int) *instance { return l.slots[slot].in.Swap(nil) }

// first is the queue that is served next, or nil when no worker waits.
func (l *freeList) first() *queue {
	if l.writers.waiting.Load() > 0 {
		return &l.writers
	}
	if l.readers.waiting.Load() > 0 {
		return &l.readers
	}
	return nil
}

// put hands an instance to a worker that waits, or puts it back into its slot.
func (l *freeList) put(in *instance) {
	slot := &l.slots[in.slot]
	if slot.at.Load() != in.at {
		slot.at.Store(in.at)
	}
	for {
		q := l.first()
		if q == nil {
			slot.in.Store(in)
			if q = l.first(); q == nil {
				return
			}
			// A worker that began to wait in between may not have seen it.
			if in = slot.in.Swap(nil); in == nil {
				return
			}
		}
		q.handed <- in
		if q.waiting.Load() > 0 {
			return
		}
		// The worker may have left with another instance. Then nothing would take this
		// one out of the channel.
		select {
		case in = <-q.handed:
			slot = &l.slots[in.slot]
		default:
			return
		}
	}
}

// leave ends waiting. The last worker to leave puts back instances that none took.
func (l *freeList) leave(q *queue) {
	q.waiting.Add(-1)
	for q.waiting.Load() == 0 {
		select {
		case in := <-q.handed:
			l.put(in)
		default:
			return
		}
	}
}

// wait gives the first instance that comes to the queue, or nil once a channel is closed
// or sends.
func (l *freeList) wait(q *queue, late <-chan time.Time, ended, fellBack <-chan struct{}) *instance {
	q.waiting.Add(1)
	defer l.leave(q)
	if in := l.get(); in != nil {
		return in
	}
	select {
	case in := <-q.handed:
		return in
	case <-late:
	case <-ended:
	case <-fellBack:
	}
	return nil
}

// near is how many instances, in use or not, are near h.
func (l *freeList) near(h *head) (n int) {
	for i := range l.slots {
		if !l.slots[i].at.Load().far(h) {
			n++
		}
	}
	return n
}
