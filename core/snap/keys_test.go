package snap_test

import (
	"errors"
	"strings"
	"testing"

	"webring/core"
	"webring/core/snap"
)

func keys() snap.Keys {
	return snap.Keys{Origin: "ring.example.org", Time: 1769846400123, Current: "ring.example.org+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
		Next: "ring.example.org+0a1b2c3d+AbcdQcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"}
}

func TestKeysKeepTheirText(t *testing.T) {
	with, without := keys(), keys()
	without.Next = ""
	golden(t, "keys.txt", []byte(with.Text()+without.Text()))
}

func TestKeysComeBackFromTheirText(t *testing.T) {
	change := func(f func(*snap.Keys)) snap.Keys {
		k := keys()
		f(&k)
		return k
	}
	for _, k := range []snap.Keys{
		keys(),
		change(func(k *snap.Keys) { k.Next = "" }),
		change(func(k *snap.Keys) { k.Time = 0 }),
		change(func(k *snap.Keys) { k.Time = core.MaxStamp }),
	} {
		if got, err := snap.ParseKeys(k.Text()); err != nil || got != k {
			t.Errorf("%q came back as %+v, %v", k.Text(), got, err)
		}
	}
	for _, k := range []snap.Keys{
		{},
		change(func(k *snap.Keys) { k.Origin = "another.example" }),
		change(func(k *snap.Keys) { k.Time = -1 }),
		change(func(k *snap.Keys) { k.Time = core.MaxStamp + 1 }),
		change(func(k *snap.Keys) { k.Current = "" }),
		change(func(k *snap.Keys) { k.Current = "other.example+1+x" }),
		change(func(k *snap.Keys) { k.Current = "ring.example.org+1" }),
		change(func(k *snap.Keys) { k.Next = k.Current }),
		change(func(k *snap.Keys) { k.Next = "ring.example.org.evil+1+x" }),
		change(func(k *snap.Keys) { k.Next += strings.Repeat("x", 400) }),
		change(func(k *snap.Keys) { k.Next += "\ntime 1" }),
		change(func(k *snap.Keys) { k.Next += " x" }),
	} {
		if _, err := snap.ParseKeys(k.Text()); !errors.Is(err, snap.ErrKeys) {
			t.Errorf("%q was taken: %v", k.Text(), err)
		}
	}
}

// A signature under one kind of text is none under the other.
func TestKeysAndCheckpointsAreNotTakenForEachOther(t *testing.T) {
	if _, err := snap.ParseKeys(checkpoint().Text()); !errors.Is(err, snap.ErrKeys) {
		t.Errorf("a checkpoint was taken for keys: %v", err)
	}
	if _, err := snap.ParseCheckpoint(keys().Text()); !errors.Is(err, snap.ErrCheckpoint) {
		t.Errorf("keys were taken for a checkpoint: %v", err)
	}
}

// Whatever the text, ParseKeys answers, and takes it in one spelling.
func FuzzParseKeys(f *testing.F) {
	f.Add(keys().Text())
	f.Add(checkpoint().Text())
	f.Add("\n\n\n\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := snap.ParseKeys(text); err == nil && k.Text() != text {
			t.Fatalf("%q is also %q", text, k.Text())
		}
	})
}
