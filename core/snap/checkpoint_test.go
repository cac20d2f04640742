package snap_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"webring/core"
	"webring/core/snap"
)

func checkpoint() snap.Checkpoint {
	c := snap.Checkpoint{Origin: "ring.example.org", Size: 1234, Time: 1769846400123, ABI: 1,
		Snapshot: snap.Snapshot{Bytes: 4096, Size: 1000}}
	for i := range c.Root {
		c.Root[i], c.Core[i], c.Snapshot.Digest[i] = byte(i), byte(0x40+i), byte(0xa0+i)
	}
	for i := range c.State {
		c.State[i] = byte(0xf0 + i)
	}
	return c
}

func TestCheckpointsKeepTheirText(t *testing.T) {
	with, without := checkpoint(), checkpoint()
	without.Snapshot = snap.Snapshot{}
	golden(t, "checkpoint.txt", []byte(with.Text()+without.Text()))
}

func TestCheckpointsComeBackFromTheirText(t *testing.T) {
	change := func(f func(*snap.Checkpoint)) snap.Checkpoint {
		c := checkpoint()
		f(&c)
		return c
	}
	for _, c := range []snap.Checkpoint{
		checkpoint(),
		{Origin: "a"},
		change(func(c *snap.Checkpoint) { c.Snapshot = snap.Snapshot{} }),
		change(func(c *snap.Checkpoint) { c.Snapshot.Size = c.Size }),
		change(func(c *snap.Checkpoint) { c.Snapshot.Bytes = math.MaxInt64 }),
		change(func(c *snap.Checkpoint) { c.Size, c.Time, c.ABI = 1<<48, core.MaxStamp, math.MaxInt32 }),
		change(func(c *snap.Checkpoint) { c.Origin = "127.0.0.1:8402/a~!" }),
		change(func(c *snap.Checkpoint) { c.Origin = strings.Repeat("x", 256); c.Size = 1 << 48 }),
	} {
		if got, err := snap.ParseCheckpoint(c.Text()); err != nil || got != c {
			t.Errorf("%q came back as %+v, %v", c.Text(), got, err)
		}
	}
	for _, c := range []snap.Checkpoint{
		{},
		change(func(c *snap.Checkpoint) { c.Origin = "two words" }),
		change(func(c *snap.Checkpoint) { c.Origin = "two\nlines" }),
		change(func(c *snap.Checkpoint) { c.Origin = "a+b" }),
		change(func(c *snap.Checkpoint) { c.Origin = "ünï" }),
		change(func(c *snap.Checkpoint) { c.Origin = strings.Repeat("x", 257) }),
		change(func(c *snap.Checkpoint) { c.Size = 1<<48 + 1 }),
		change(func(c *snap.Checkpoint) { c.Time = -1 }),
		change(func(c *snap.Checkpoint) { c.Time = core.MaxStamp + 1 }),
		change(func(c *snap.Checkpoint) { c.ABI = -1 }),
		change(func(c *snap.Checkpoint) { c.ABI = math.MaxInt32 + 1 }),
		change(func(c *snap.Checkpoint) { c.Snapshot.Size = c.Size + 1 }),
		change(func(c *snap.Checkpoint) { c.Snapshot.Bytes = 0 }),
		change(func(c *snap.Checkpoint) { c.Snapshot.Bytes = -1 }),
		change(func(c *snap.Checkpoint) { c.Snapshot.Digest = [32]byte{} }),
	} {
		if _, err := snap.ParseCheckpoint(c.Text()); !errors.Is(err, snap.ErrCheckpoint) {
			t.Errorf("%q was taken: %v", c.Text(), err)
		}
	}
}

func TestOtherSpellingsOfACheckpointAreRefused(t *testing.T) {
	text := checkpoint().Text()
	for _, c := range [][2]string{
		{"1234\n", "01234\n"}, {"1234\n", "+1234\n"}, {"1234\n", "1234 \n"}, {"1234\n", "0x4d2\n"}, {"1234\n", "1234\r\n"},
		{"time ", "time  "}, {"time ", "Time "}, {"time ", "time\t"}, {"state f0", "state F0"}, {"state f0", "state f"},
		{"abi 1", "abi 01"}, {" abi 1", ""}, {" bytes 4096", ""}, {"snapshot ", "snapshots "}, {"\nstate", "\n\nstate"},
		{"Hh8=", "Hh9="}, {"Hh8=", "Hh8"}, {"Hh8=", "Hh8=\nmore"}, {"size 1000\n", "size 1000"}, {"size 1000\n", "size 1000\n\n"},
		{"size 1000\n", "size 1000\nlater 1\n"}, {"size 1000\n", "size 1000\nsnapshot "},
	} {
		other := strings.Replace(text, c[0], c[1], 1)
		if other == text {
			t.Fatalf("%q does not stand in %q", c[0], text)
		}
		if _, err := snap.ParseCheckpoint(other); !errors.Is(err, snap.ErrCheckpoint) {
			t.Errorf("%q for %q was taken", c[1], c[0])
		}
	}
	if _, err := snap.ParseCheckpoint(text + strings.Repeat("x", 10_000)); !errors.Is(err, snap.ErrCheckpoint) {
		t.Error("a text beyond all bounds was taken")
	}
}

// Whatever the text, ParseCheckpoint answers, and takes it in one spelling.
func FuzzParseCheckpoint(f *testing.F) {
	f.Add(checkpoint().Text())
	f.Add(snap.Checkpoint{Origin: "a"}.Text())
	f.Add("\n\n\n\n\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := snap.ParseCheckpoint(text); err == nil && c.Text() != text {
			t.Fatalf("%q is also %q", text, c.Text())
		}
	})
}
