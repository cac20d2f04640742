package host

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// goesBack are hosts that take records to a digest, each with what the next one needs
// to go back to a position.
func goesBack(t *testing.T, f func(t *testing.T, n verifying, last func() ([]byte, []Record, error))) {
	records := ring(20)
	snapshot := follow(t, records[:10]).Snapshot()
	last := func() ([]byte, []Record, error) { return snapshot, records[10:], nil }
	never := func() ([]byte, []Record, error) {
		t.Error("a pool goes back by itself")
		return nil, nil, errors.New("never")
	}
	t.Run("native", func(t *testing.T) { f(t, follow(t, records), last) })
	for _, instances := range []int{1, 2} {
		t.Run(fmt.Sprint("pool of ", instances), func(t *testing.T) {
			p := newPool(t, PoolConfig{Capacity: 1 << 20, Instances: instances})
			if err := p.Apply(records); err != nil {
				t.Fatal(err)
			}
			f(t, p, never)
		})
	}
	t.Run("fallback", func(t *testing.T) {
		p := newPool(t, PoolConfig{Capacity: 1 << 20, Instances: 2})
		if err := p.Apply(records); err != nil {
			t.Fatal(err)
		}
		p.writing.Lock()
		p.takeOver()
		p.writing.Unlock()
		f(t, p, last)
	})
}

type verifying interface {
	tested
	ApplyTo(records []Record, digest [16]byte, last func() ([]byte, []Record, error)) (refusal, err error)
}

// Records that do not lead to the digest change nothing, and those that do are taken
// afterwards.
func TestOnlyWhatLeadsToTheDigestIsShown(t *testing.T) {
	goesBack(t, func(t *testing.T, n verifying, last func() ([]byte, []Record, error)) {
		n.Tick(time.Unix(epoch+100, 0))
		want := get(n, "/api/leaderboard")
		seq, second := n.Head()
		at, state := n.Digest()
		good := []Record{join("late", 5000, epoch*1000+500), join("later", 6000, epoch*1000+501)}
		_, next := follow(t, append(ring(20), good...)).Digest()
		other := next
		other[15] ^= 1
		for name, c := range map[string]struct {
			records []Record
			digest  [16]byte
		}{
			"another digest":      {good, other},
			"too few":             {good[:1], next},
			"none":                {nil, next},
			"what is no event":    {[]Record{good[0], {Event: []byte("x")}}, next},
			"what cannot be next": {[]Record{good[0], good[0]}, next},
			"of another time":     {[]Record{join("late", 5000, (epoch+100*86400)*1000)}, next},
		} {
			refusal, err := n.ApplyTo(c.records, c.digest, last)
			if refusal == nil || err != nil {
				t.Errorf("%s: refused with %v, %v", name, refusal, err)
			}
			if got := get(n, "/api/leaderboard"); got != want {
				t.Errorf("%s: it shows %s\nwant %s", name, got, want)
			}
			if s, sec := n.Head(); s != seq || sec != second {
				t.Errorf("%s: at %d and second %d, not %d and %d", name, s, sec, seq, second)
			}
			if s, d := n.Digest(); s != at || d != state {
				t.Errorf("%s: %x at %d, not %x at %d", name, d, s, state, at)
			}
		}
		if refusal, err := n.ApplyTo(good, next, last); refusal != nil || err != nil {
			t.Fatal(refusal, err)
		}
		if s, d := n.Digest(); s != at+2 || d != next {
			t.Errorf("%x at %d, not %x", d, s, next)
		}
		if got := get(n, "/api/ring/later"); !strings.Contains(got, `"leaderboard_rank":1`) {
			t.Errorf("it shows %s", got)
		}
	})
}

// Records that are refused again and again never leave readers without an instance.
func TestRefusalsLeaveAnInstance(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1 << 20, Instances: 2})
	if err := p.Apply(ring(20)); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if refusal, err := p.ApplyTo([]Record{join("late", 100, epoch*1000+500)}, [16]byte{}, nil); refusal == nil || err != nil {
			t.Fatalf("refused with %v, %v", refusal, err)
		}
		if p.native.Load() != nil || !complete(p) {
			t.Fatal("an instance is missing")
		}
	}
	if p.Traps() != 5 {
		t.Errorf("%d instances were given up", p.Traps())
	}
}

// One instance that is ill is no reason to refuse: the native core decides.
func TestAnIllInstanceRefusesNothing(t *testing.T) {
	p := newPool(t, PoolConfig{Capacity: 1 << 20, Instances: 2})
	records := ring(20)
	if err := p.Apply(records[:20]); err != nil {
		t.Fatal(err)
	}
	_, want := follow(t, records).Digest()
	taken := all(t, p)
	for _, s := range taken { // they have an event that no other core has
		if _, err := s.in.apply(encode([]Record{join("ill", 100, epoch*1000+600)})); err != nil {
			t.Fatal(err)
		}
	}
	put(taken)
	if refusal, err := p.ApplyTo(records[20:], want, nil); refusal != nil || err != nil {
		t.Fatal(refusal, err)
	}
	if seq, digest := p.Digest(); seq != 21 || digest != want {
		t.Errorf("%x at %d, want %x", digest, seq, want)
	}
	sameEverywhere(t, p, 21, want)
}

// A native core that cannot go back answers nothing that was not signed, and answers
// again as soon as it can.
func TestADirtyNativeCoreAnswersNothing(t *testing.T) {
	records := ring(20)
	n := follow(t, records)
	lost := func() ([]byte, []Record, error) { return nil, nil, errors.New("the disk is gone") }
	late := []Record{join("late", 5000, epoch*1000+500)}
	if refusal, err := n.ApplyTo(late, [16]byte{}, lost); refusal == nil || err == nil {
		t.Errorf("refused with %v, %v", refusal, err)
	}
	var r Response
	if n.Serve([]byte("/api/ring/late"), &r); r.Status != 500 {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if refusal, err := n.ApplyTo(late, [16]byte{}, lost); refusal != nil || err == nil {
		t.Errorf("again: refused with %v, %v", refusal, err)
	}
	_, next := follow(t, append(ring(20), late...)).Digest()
	if refusal, err := n.ApplyTo(late, next, func() ([]byte, []Record, error) { return nil, records, nil }); refusal != nil || err != nil {
		t.Fatal(refusal, err)
	}
	if got := get(n, "/api/ring/late"); !strings.Contains(got, `"leaderboard_rank":1`) {
		t.Errorf("it shows %s", got)
	}
}
