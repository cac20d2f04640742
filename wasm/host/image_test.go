package host

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// eachMemory runs a test with memory that is shared, where it can be, and with
// copies.
func eachMemory(t *testing.T, test func(t *testing.T, c PoolConfig)) {
	for _, c := range []PoolConfig{
		{}, {Copies: true},
	} {
		t.Run(fmt.Sprintf("copies %t", c.Copies), func(t *testing.T) { test(t, c) })
	}
}

// Instances that share an image write to it without seeing each other's writes,
// and those that are built after them find it as it was.
func TestInstancesOfOneImageDoNotMeet(t *testing.T) {
	records := ring(2000)
	snapshot := follow(t, records[:1500]).Snapshot()
	eachMemory(t, func(t *testing.T, c PoolConfig) {
		c.Capacity, c.Instances, c.Snapshot = 1<<20, 3, snapshot
		p := newPool(t, c)
		want := follow(t, records[:1500])
		_, before := want.Digest()
		if err := want.Apply(records[1500:]); err != nil {
			t.Fatal(err)
		}
		want.Tick(time.Unix(epoch+600, 0))
		taken := all(t, p)
		encoded := encode(records[1500:])
		for i, s := range taken {
			in := s.in
			if seq, digest, err := in.digest(); err != nil || seq != 1500 || digest != before {
				t.Fatalf("instance %d: %d %x %v, want %x", i, seq, digest, err, before)
			}
			if i == 2 {
				break // it stays where it was
			}
			for at := 0; at < len(encoded); at += 100 {
				if reply, err := in.apply(encoded[at:min(at+100, len(encoded))]); err != nil || reply.Refused {
					t.Fatalf("%v %s", err, reply.Rest)
				}
			}
			if err := in.advance(epoch + 600); err != nil {
				t.Fatal(err)
			}
		}
		fresh, err := p.build()
		if err != nil {
			t.Fatal(err)
		}
		defer fresh.close()
		for _, in := range []*instance{taken[2].in, fresh} {
			if seq, digest, err := in.digest(); err != nil || seq != 1500 || digest != before {
				t.Errorf("after others wrote: %d %x %v, want %x", seq, digest, err, before)
			}
		}
		for _, target := range []string{"/api/leaderboard", "/api/ring/m7", "/api/ring?offset=1990", "/api/widget?from=m1999"} {
			var r Response
			for _, s := range taken[:2] {
				if err := s.in.serve([]byte(target), 1, &r); err != nil || string(r.Body) != get(want, target) {
					t.Errorf("%s: %v %s", target, err, r.Body)
				}
			}
		}
		put(taken)
	})
}

// A pool that is told the time of day begins at it, and follows a clock that was
// wrong then.
func TestAPoolBeginsAtTheTimeOfDay(t *testing.T) {
	records := ring(500)
	want := follow(t, records)
	eachMemory(t, func(t *testing.T, c PoolConfig) {
		c.Capacity, c.Instances, c.Snapshot, c.Now = 1000, 2, want.Snapshot(), time.Unix(epoch+60*86400, 0)
		p := newPool(t, c)
		for _, now := range []int64{epoch + 60*86400, epoch + 40*86400, epoch + 41*86400} {
			want.Tick(time.Unix(now, 0))
			if now != epoch+60*86400 {
				p.Tick(time.Unix(now, 0))
			}
			if _, second := p.Head(); second != now {
				t.Errorf("second %d, want %d", second, now)
			}
			if got, want := get(p, "/api/leaderboard"), get(want, "/api/leaderboard"); got != want {
				t.Errorf("at %d: %s, want %s", now, got, want)
			}
		}
	})
}

// An instance that outgrows the image, collects and grows again keeps its ring.
func TestAnInstanceOutgrowsItsImage(t *testing.T) {
	records := ring(30_000)
	p := newPool(t, PoolConfig{Capacity: 1 << 20, Instances: 1, Snapshot: follow(t, records[:3000]).Snapshot()})
	for at := 3000; at < len(records); at += 1000 {
		if err := p.Apply(records[at:min(at+1000, len(records))]); err != nil {
			t.Fatal(err)
		}
	}
	_, want := follow(t, records).Digest()
	if seq, digest := p.Digest(); seq != 30_001 || digest != want {
		t.Errorf("%d %x, want %x", seq, digest, want)
	}
	if !bytes.Contains([]byte(get(p, "/api/ring/m29999")), []byte(`"slug":"m29999"`)) {
		t.Error("the last member is not there")
	}
}
