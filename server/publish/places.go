package publish

import "sync"

// places bounds how many answers that take long are given at a time: in all, to
// one client, and so that some places are left for edges of this ring whatever
// strangers do.
type places struct {
	all, reserved, each int

	mu        sync.Mutex
	known     int // taken by edges of this ring, which have no share each
	strangers int
	by        map[string]int // strangers by client
}

func newPlaces(all, reserved, each int) *places {
	return &places{all: all, reserved: reserved, each: each, by: map[string]int{}}
}

// take gives a place, and the function by which it is given back, once. It is
// not ok when there is none for this client.
func (p *places) take(client string, known bool) (release func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known+p.strangers >= p.all {
		return nil, false
	}
	if known {
		p.known++
		return sync.OnceFunc(func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.known--
		}), true
	}
	if p.strangers >= p.all-p.reserved || p.by[client] >= p.each {
		return nil, false
	}
	p.strangers++
	p.by[client]++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.strangers--
		if p.by[client]--; p.by[client] == 0 {
			delete(p.by, client)
		}
	}), true
}
