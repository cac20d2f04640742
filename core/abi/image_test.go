package abi_test

import (
	"bytes"
	"errors"
	"testing"

	"webring/core"
	"webring/core/abi"
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
