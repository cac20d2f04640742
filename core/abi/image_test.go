package abi_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"webring/core"
	"webring/core/abi"
	"webring/core/api"
	"webring/core/coretest"
)

// copied gives an image as another core gets it. make gives memory at a multiple
// of 8 bytes.
func copied(c *abi.Core) (header, memory []byte) {
	header, lies := c.Image(nil)
	memory = make([]byte, len(lies))
	copy(memory, lies)
	return header, memory
}

// A core that was attached goes on like the one it is an image of: at any point
// of any history, image upon image.
func TestAnImageGoesOnLikeItsOriginal(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 7))
		original := abi.New(1000, seed)
		attached := abi.New(1000, seed)
		var slugs []string
		for _, s := range coretest.Generate(seed, 120) {
			if random.IntN(12) == 0 {
				header, memory := copied(attached)
				var err error
				if attached, err = abi.Attach(1000, header, memory); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			if s.Event == nil {
				original.Advance(s.Now)
				attached.Advance(s.Now)
			} else if a, b := original.Apply(s.EventBytes, s.TextBytes), attached.Apply(s.EventBytes, s.TextBytes); (a == nil) != (b == nil) {
				t.Fatalf("seed %d: %v, attached %v", seed, a, b)
			}
			if j, ok := s.Event.(*core.Joined); ok {
				slugs = append(slugs, j.Slug)
			}
			original.Advance(0)
			attached.Advance(0)
			targets := []string{"/api/ring", "/api/leaderboard", "/api/categories", "/random", "/api/ring?category=general"}
			if len(slugs) > 0 {
				slug := slugs[random.IntN(len(slugs))]
				targets = append(targets, "/api/ring/"+slug, "/next?from="+slug, "/api/widget?from="+slug)
			}
			for _, target := range targets {
				var a, b api.Response
				original.Serve([]byte(target), seed<<50, &a)
				attached.Serve([]byte(target), seed<<50, &b)
				if a.Status != b.Status || a.Seq != b.Seq || a.Since != b.Since || a.Until != b.Until || !bytes.Equal(a.Body, b.Body) {
					t.Fatalf("seed %d: %s: %d %s\nattached %d %s", seed, target, a.Status, a.Body, b.Status, b.Body)
				}
			}
		}
		seq, digest := original.Digest()
		if n, d := attached.Digest(); n != seq || d != digest {
			t.Errorf("seed %d: %d %x, attached %d %x", seed, seq, digest, n, d)
		}
		if !bytes.Equal(attached.AppendSnapshot(nil), original.AppendSnapshot(nil)) {
			t.Errorf("seed %d: other snapshots", seed)
		}
	}
}

// ringOf gives a core with members and bids.
func ringOf(t *testing.T, seed uint64) *abi.Core {
	t.Helper()
	c := abi.New(1000, seed)
	for _, s := range coretest.Generate(seed, 80) {
		if s.Event != nil {
			_ = c.Apply(s.EventBytes, s.TextBytes) // some histories have refusals
		}
	}
	return c
}

func TestImagesOfAnotherAreRefused(t *testing.T) {
	header, memory := copied(ringOf(t, 1))
	otherHeader, otherMemory := copied(ringOf(t, 2))
	short, unaligned := memory[:len(memory)-64], make([]byte, len(memory)+1)[1:]
	copy(unaligned, memory)
	for name, c := range map[string]struct {
		capacity       int
		header, memory []byte
	}{
		"another header":       {1000, otherHeader, memory},
		"another memory":       {1000, header, otherMemory},
		"memory of nothing":    {1000, header, make([]byte, len(memory))},
		"no memory":            {1000, header, nil},
		"no header":            {1000, nil, memory},
		"a header cut short":   {1000, header[:len(header)-1], memory},
		"a header too long":    {1000, append(bytes.Clone(header), 0), memory},
		"memory cut short":     {1000, header, short},
		"memory out of line":   {1000, header, unaligned},
		"a capacity too small": {1, header, memory},
	} {
		if _, err := abi.Attach(c.capacity, c.header, c.memory); !errors.Is(err, core.ErrImage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range header {
		for _, bit := range []byte{1, 128} {
			bad := bytes.Clone(header)
			bad[i] ^= bit
			if _, err := abi.Attach(1000, bad, memory); !errors.Is(err, core.ErrImage) {
				t.Errorf("byte %d of the header changed: %v", i, err)
			}
		}
	}
	if _, err := abi.Attach(1000, header, memory); err != nil {
		t.Errorf("after all these: %v", err)
	}
}

// The operations do what the functions do, and a refusal leaves the core as it
// was.
func TestImagesPassThroughTheEntry(t *testing.T) {
	header, memory := ringOf(t, 3).Image(nil)
	c := ringOf(t, 4)
	before := do(t, c, abi.OpDigest, 0, nil)
	do(t, c, abi.OpRoom, uint64(len(memory)), nil)
	// Nothing was put into the room.
	if r, ok := abi.DecodeReply(c.Call(abi.OpAttach, 1000, header)); !ok || !r.Refused || r.Seq != before.Seq {
		t.Errorf("an empty room: %+v", r)
	}
	if r, ok := abi.DecodeReply(c.Call(abi.OpAttach, 1000, header)); !ok || !r.Refused {
		t.Errorf("no room: %+v", r)
	}
	if r, ok := abi.DecodeReply(c.Call(abi.OpRoom, 1<<32, nil)); !ok || !r.Refused {
		t.Errorf("room without end: %+v", r)
	}
	if after := do(t, c, abi.OpDigest, 0, nil); !bytes.Equal(after.Rest, before.Rest) {
		t.Error("a refusal has changed the core")
	}
}
