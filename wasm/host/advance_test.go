package host

import (
	"testing"
	"time"
)

// pair gives a pool with two instances, both at the head.
func pair(t *testing.T, c PoolConfig) (p *Pool, taken []*instance) {
	t.Helper()
	c.Capacity, c.Instances = 1<<20, 2
	p = newPool(t, c)
	taken = all(t, p)
	for _, in := range taken {
		toHead(t, p, in)
	}
	return p, taken
}

// costly has the way to the head become longer than any request may go.
func costly(p *Pool) *head {
	h := *p.head.Load()
	h.cost += mostLag + 1
	p.head.Store(&h)
	return &h
}

// A request has an instance catch up with whatever took little time to get to, and
// with nothing that took long, be it one record; that one catches up outside the
// pool.
func TestARequestGoesNoCostlyWay(t *testing.T) {
	records := ring(2000)
	p, taken := pair(t, PoolConfig{})
	p.free.put(taken[0])
	if err := p.Apply(records[:1000]); err != nil {
		t.Fatal(err)
	}
	if p.head.Load().cost <= 0 {
		t.Error("how long records took is not noted")
	}
	near := *p.head.Load()
	near.cost = taken[1].at.cost + mostLag
	p.head.Store(&near)
	if !p.catchUp(taken[1]) || taken[1].seq != 1000 {
		t.Error("a thousand records that took little are not caught up with at once")
	}
	p.free.put(taken[1])

	p, taken = pair(t, PoolConfig{})
	p.free.put(taken[0])
	if err := p.Apply(records[:1]); err != nil {
		t.Fatal(err)
	}
	h := costly(p)
	for range cap(p.turns) { // as many as may catch up at a time
		p.turns <- struct{}{}
	}
	if p.catchUp(taken[1]) {
		t.Error("a record that took long is caught up with in a request")
		p.free.put(taken[1])
	}
	if seq := taken[1].seq; seq != 0 {
		t.Errorf("it is at %d, though others are on their way", seq)
	}
	for range cap(p.turns) {
		<-p.turns
	}
	for _, in := range all(t, p) {
		if in == taken[1] && in.at != h {
			t.Error("it has not caught up")
		}
		defer p.free.put(in)
	}
	if p.Traps() != 0 {
		t.Errorf("%d traps", p.Traps())
	}
}

// Before records or a second take one instance ahead, the other is near the head:
// requests find one that answers all the while.
func TestOneInstanceIsLeftNearTheHead(t *testing.T) {
	for name, move := range map[string]func(p *Pool) error{
		"records": func(p *Pool) error { return p.Apply(ring(0)) },
		"second":  func(p *Pool) error { p.tick(time.Unix(epoch+1, 0)); return nil },
		"rewind":  func(p *Pool) error { p.tick(time.Unix(epoch-100, 0)); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			p, taken := pair(t, PoolConfig{Now: time.Unix(epoch, 0)})
			h := costly(p)
			taken[0].at = h
			put(p, taken)
			for range cap(p.turns) { // in the background, none gets anywhere
				p.turns <- struct{}{}
			}
			err := move(p)
			for range cap(p.turns) {
				<-p.turns
			}
			if err != nil {
				t.Fatal(err)
			}
			ahead := 0
			for _, in := range all(t, p) {
				switch in.at {
				case h:
				case p.head.Load():
					ahead++
				default:
					t.Error("an instance was left behind")
				}
				defer p.free.put(in)
			}
			if ahead != 1 || p.head.Load() == h {
				t.Errorf("%d instances are ahead", ahead)
			}
		})
	}
}

// The second moves when an instance has gone there, and not before: when all are
// busy it waits for another tick, and is never one that none can answer at.
func TestTheSecondWaitsForAnInstance(t *testing.T) {
	p, taken := pair(t, PoolConfig{Now: time.Unix(epoch, 0)})
	for _, second := range []int64{3600, -100} {
		h := p.head.Load()
		p.Tick(time.Unix(epoch+second, 0))
		if p.head.Load() != h {
			t.Errorf("the head is at epoch%+d, where no instance is", p.head.Load().second-epoch)
		}
		put(p, taken)
		p.Tick(time.Unix(epoch+second, 0))
		wantHead(t, p, 0, epoch+second)
		taken = all(t, p)
	}
	put(p, taken)
}

// The native core stops answering only when every instance is at the head.
func TestTheFallbackEndsAtTheHead(t *testing.T) {
	p, taken := pair(t, PoolConfig{})
	put(p, taken)
	p.writing.Lock()
	_, err := p.startFallback()
	p.writing.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(ring(50)); err != nil {
		t.Fatal(err)
	}
	h := costly(p)
	away := anyOf(p)
	p.endFallback()
	if p.fallback.Load() == nil {
		t.Error("it stopped answering while an instance is away")
	}
	p.free.put(away)
	p.endFallback()
	if p.fallback.Load() != nil {
		t.Error("it answers though all are there")
	}
	for _, in := range all(t, p) {
		if in.at != h {
			t.Error("an instance is behind")
		}
		defer p.free.put(in)
	}
}
