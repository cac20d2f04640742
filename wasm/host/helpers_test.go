package host

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"webring/core"
	"webring/core/abi"
	"webring/core/coretest"
)

const epoch = 1_760_000_000

func record(e core.Event, texts *core.Texts) Record {
	s := coretest.NewStep(e, texts)
	return Record{Event: s.EventBytes, Texts: s.TextBytes}
}

func rules() Record {
	return record(&core.Rules{Stamp: epoch * 1000, Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100,
		Grace: 10, Decay: 1000, Scorer: "fixed", RequiredScore: 40}, nil)
}

func join(slug string, bid, stamp int64) Record {
	texts := &core.Texts{Name: core.Text{Value: slug}, URL: core.Text{Value: "https://" + slug + ".example/"}}
	return record(&core.Joined{Stamp: stamp, Slug: slug, Kind: core.Agent, Category: "general",
		Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL), Fee: 100, Bid: bid}, texts)
}

// ring gives the records of a ring with n members, all of them bidding.
func ring(n int) []Record {
	records := []Record{rules()}
	for i := range int64(n) {
		records = append(records, join(fmt.Sprintf("m%d", i), 100+i%1000, epoch*1000+i))
	}
	return records
}

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

func encode(records []Record) (encoded [][]byte) {
	for _, r := range records {
		encoded = append(encoded, abi.AppendRecord(nil, r))
	}
	return encoded
}

func follow(t *testing.T, records []Record) *Native {
	t.Helper()
	n := NewNative(1 << 20)
	if err := n.Apply(records); err != nil {
		t.Fatal(err)
	}
	return n
}

func get(n tested, target string) string {
	var r Response
	n.Serve([]byte(target), &r)
	return string(r.Body)
}

func wantHead(t *testing.T, n tested, seq uint64, second int64) {
	t.Helper()
	if s, at := n.Head(); s != seq || at != second {
		t.Errorf("head %d, epoch%+d; want %d, epoch%+d", s, at-epoch, seq, second-epoch)
	}
}

func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for range 60_000 {
		if holds() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

// complete says whether every slot has an instance that began from the newest image.
func complete(p *Pool) bool {
	for i := range p.slots {
		s := &p.slots[i]
		s.mu.Lock()
		missing := s.in == nil || s.in.from != p.base.newest()
		s.mu.Unlock()
		if missing {
			return false
		}
	}
	return true
}

// all waits until every instance is built, and locks all slots.
func all(t testing.TB, p *Pool) (taken []*slot) {
	t.Helper()
	until(t, "all instances are built", func() bool { return complete(p) })
	for i := range p.slots {
		p.slots[i].mu.Lock()
		taken = append(taken, &p.slots[i])
	}
	return taken
}

func put(taken []*slot) {
	for _, s := range taken {
		s.mu.Unlock()
	}
}

// broken has the instance of a locked slot trap at its next call: what happens then is
// what happens after the guest has ended itself.
func broken(t testing.TB, s *slot) {
	t.Helper()
	if err := s.in.module.CloseWithExitCode(background, 2); err != nil {
		t.Fatal(err)
	}
}

// breakAll has each instance trap at its next call.
func breakAll(t *testing.T, p *Pool) {
	t.Helper()
	taken := all(t, p)
	for _, s := range taken {
		broken(t, s)
	}
	put(taken)
}

// buildNone has no instance be built from now on.
func buildNone(t *testing.T, p *Pool) {
	t.Helper()
	p.filling.Lock()
	defer p.filling.Unlock()
	var err error
	if p.compiled, err = p.runtime.CompileModule(t.Context(), []byte("\x00asm\x01\x00\x00\x00")); err != nil {
		t.Fatal(err)
	}
}

// sameEverywhere has each instance be at a position, with a digest.
func sameEverywhere(t *testing.T, p *Pool, seq uint64, digest [16]byte) {
	t.Helper()
	taken := all(t, p)
	defer put(taken)
	for i, s := range taken {
		if err := p.follow(s.in, p.head.Load()); err != nil {
			t.Fatal(err)
		}
		if at, got, err := s.in.digest(); err != nil || at != seq || got != digest {
			t.Errorf("instance %d: %d %x %v, want %x at %d", i, at, got, err, digest, seq)
		}
		if _, second := p.Head(); s.in.second != second {
			t.Errorf("instance %d is at epoch%+d, the head at epoch%+d", i, s.in.second-epoch, second-epoch)
		}
	}
}

// damaged are a snapshot's bytes, cut and lengthened.
func damaged(snapshot []byte) [][]byte {
	return [][]byte{snapshot[:len(snapshot)-1], snapshot[:10], append(bytes.Clone(snapshot), 0)}
}
