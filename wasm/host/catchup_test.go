package host

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"webring/core"
)

// decaying gives a ring of n members that all decay, so slowly that they take
// their steps at seconds of their own.
func decaying(n int) []Record {
	records := []Record{record(&core.Rules{Stamp: epoch * 1000, Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100,
		Decay: 100_000, Scorer: "fixed", RequiredScore: 40}, nil)}
	for i := range int64(n) {
		records = append(records, join(fmt.Sprintf("m%d", i), 100+i%700, epoch*1000+i))
	}
	return records
}

// When the clock goes far ahead, the head goes there once an instance has, no request has one
// catch up, and the pool is never without one that answers.
func TestALargeStepOfTheClockIsCaughtUpInTheBackground(t *testing.T) {
	const members = 5000
	records := decaying(members)
	p := newPool(t, PoolConfig{Capacity: 1 << 20, Instances: 2, Snapshot: follow(t, records).Snapshot()})
	put(p, all(t, p)) // both are built
	p.Tick(time.Unix(epoch+10, 0))
	put(p, all(t, p)) // all at the head
	want := follow(t, records)
	want.Tick(time.Unix(epoch+10+3600, 0))

	// Readers see the old head or the new one, and always an answer.
	var stop atomic.Bool
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			var r Response
			var since int64
			for !stop.Load() {
				p.Serve([]byte("/api/leaderboard?limit=1"), &r)
				if r.Status != 200 || r.Since < since {
					t.Errorf("status %d, epoch%+d after epoch%+d", r.Status, r.Since-epoch, since-epoch)
					return
				}
				since = r.Since
			}
		})
	}
	p.Tick(time.Unix(epoch+10+3600, 0))
	wantHead(t, p, members+1, epoch+10+3600)
	if got := get(p, "/api/leaderboard?limit=50"); got != get(want, "/api/leaderboard?limit=50") {
		t.Error(got)
	}
	stop.Store(true)
	readers.Wait()
	for _, in := range all(t, p) {
		if toHead(t, p, in); in.second != epoch+10+3600 {
			t.Errorf("an instance at epoch%+d", in.second-epoch)
		}
		defer put(p, []*instance{in})
	}
	if p.Traps() != 0 {
		t.Errorf("%d traps", p.Traps())
	}
}

// While the instance that goes ahead is on its way, the other answers at the old head:
// the head is not published before.
func TestTheHeadWaitsForTheInstanceThatGoesAhead(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1 << 20, Instances: 2, Snapshot: follow(t, decaying(3000)).Snapshot()})
	put(p, all(t, p))
	p.Tick(time.Unix(epoch+10, 0))
	h := *p.head.Load()
	h.second += 3600
	var r Response
	p.writing.Lock()
	_, err := p.advance(waitTick, false, func(in *instance) error {
		if err := in.setSecond(&h); err != nil {
			return err
		}
		p.Serve([]byte("/api/leaderboard?limit=1"), &r)
		if r.Status != 200 || r.Since > epoch+10 {
			t.Errorf("status %d at epoch%+d, before the head is published", r.Status, r.Since-epoch)
		}
		in.at = &h
		p.publish(&h, nil)
		return nil
	})
	p.writing.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	p.Serve([]byte("/api/leaderboard?limit=1"), &r)
	if r.Status != 200 || r.Since <= epoch+10 {
		t.Errorf("status %d at epoch%+d, after it", r.Status, r.Since-epoch)
	}
	put(p, all(t, p))
}

// Rules that make the whole order anew do so in the writer's instance and outside
// the pool, in no request.
func TestNewRulesAreFoldedOutsideThePool(t *testing.T) {
	records := decaying(5000)
	p := newPool(t, PoolConfig{Capacity: 1 << 20, Instances: 2, Snapshot: follow(t, records).Snapshot()})
	put(p, all(t, p))
	change := []Record{record(&core.Rules{Stamp: (epoch + 100) * 1000, Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100,
		Decay: 200_000, Scorer: "fixed", RequiredScore: 40}, nil)}
	if err := p.Apply(change); err != nil {
		t.Fatal(err)
	}
	h := p.head.Load()
	behind := 0
	for _, in := range all(t, p) {
		if in.at != h {
			behind++
		} else if in.seq != h.seq {
			t.Errorf("at %d, and not at the head %d", in.seq, h.seq)
		}
		defer put(p, []*instance{in})
	}
	if behind != 1 {
		t.Errorf("%d instances are behind", behind)
	}
}

// When many records have come since the image, all instances begin anew from an image
// of their own time; requests do not notice. Instances with copies have nothing to
// gain from that.
func TestInstancesShareMemoryAgain(t *testing.T) {
	const members = 40_000
	const half = members / 2
	records := ring(members)
	n := follow(t, records[:half])
	snapshot := n.Snapshot()
	if err := n.Apply(records[half:]); err != nil {
		t.Fatal(err)
	}
	_, want := n.Digest()
	for _, c := range []PoolConfig{{}, {Copies: true}} {
		c.Capacity, c.Instances, c.Snapshot = 1<<20, 2, snapshot
		p := newPool(t, c)
		first := p.cache.newest()
		put(p, all(t, p))
		p.renew()
		if p.cache.newest() != first {
			t.Error("an image is replaced that few records follow")
		}
		for at := half; at < len(records); at += 5000 {
			if err := p.Apply(records[at:min(at+5000, len(records))]); err != nil {
				t.Fatal(err)
			}
		}
		put(p, all(t, p))
		p.renew()
		image := p.cache.newest()
		if image == first || p.cache.full() {
			t.Error("there is no new image")
		}
		taken := all(t, p)
		for _, in := range taken {
			toHead(t, p, in)
			if seq, digest, err := in.digest(); err != nil || seq != members+1 || digest != want || !c.Copies && in.from != image {
				t.Errorf("%d %x, want %x; from the new image %t, %v", seq, digest, want, in.from == image, err)
			}
		}
		put(p, taken)
		if p.Traps() != 0 {
			t.Errorf("%d traps", p.Traps())
		}
	}
}
