package follow

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"webring/core"
	"webring/core/snap"
)

// Words that are redacted are neither kept on disk nor handed on.
func TestRedactedWordsAreForgotten(t *testing.T) {
	o := newOrigin(t)
	o.join("a", "unwanted", "b")
	o.sign()
	dir := t.TempDir()
	f := o.booted(func(c *Config) { c.Dir = dir })
	before, err := f.Events(2, 1)
	if err != nil || !bytes.Contains(before[0].Texts, []byte("unwanted.test")) {
		t.Fatalf("%q %v", before, err)
	}
	o.add(&core.Removed{Stamp: time.Now().UnixMilli(), Member: "unwanted", Reason: "asked", Redacted: true}, nil)
	f.takes(o.sign())
	f.agrees(o)
	records, err := f.Events(0, 100)
	if err != nil || len(records) != 5 || len(records[1].Texts) == 0 || len(records[2].Texts) != 0 {
		t.Errorf("%d records, %v", len(records), err)
	}
	if len(before[0].Texts) == 0 {
		t.Error("what was handed out has changed")
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte("unwanted.test")) {
			t.Errorf("%s still has the words", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	again := o.newReplica(func(c *Config) { c.Dir = dir })
	again.agrees(o)
}

// Readers who see the position of a redaction do not see the words, not even for a moment.
func TestRedactedWordsGoWithThePosition(t *testing.T) {
	o := newOrigin(t)
	o.join("a", "unwanted", "b")
	o.sign()
	f := o.booted()
	event, err := core.AppendEvent(nil, &core.Removed{Stamp: time.Now().UnixMilli(), Member: "unwanted", Reason: "asked", Redacted: true})
	if err != nil {
		t.Fatal(err)
	}
	at := f.at
	at.Size++
	f.setPosition(f.signed, at, f.tree, []snap.Record{{Event: event}}, false, 0)
	records, err := f.Events(0, 100)
	if err != nil || len(records) != 5 || len(records[1].Texts) == 0 || len(records[2].Texts) != 0 {
		t.Errorf("%d records, %v", len(records), err)
	}
}

// Withdrawn is the position of the last event that took words of a member away. Events that
// were not searched count as such.
func TestWithdrawnWordsAreKnown(t *testing.T) {
	o := newOrigin(t)
	o.join("a", "unwanted", "b")
	o.sign()
	dir := t.TempDir()
	f := o.booted(func(c *Config) { c.Dir = dir })
	want := func(f *follower, want uint64) {
		t.Helper()
		if got := f.Withdrawn(); got != want {
			t.Errorf("of position %d, want %d", got, want)
		}
	}
	takes := func(seq uint64) {
		t.Helper()
		f.takes(o.sign())
		want(f, seq)
	}
	want(f, o.at.Size)
	booted := o.at.Size
	o.join("c")
	takes(booted)
	for i, event := range []func(stamp int64) core.Event{
		func(stamp int64) core.Event { return &core.Hidden{Stamp: stamp, Member: "a"} },
		func(stamp int64) core.Event {
			return &core.Removed{Stamp: stamp, Member: "unwanted", Reason: "asked", Redacted: true}
		},
		func(stamp int64) core.Event { return &core.Departed{Stamp: stamp, Member: "b"} },
	} {
		o.add(event(time.Now().UnixMilli()), nil)
		o.join(fmt.Sprint("later-", i), fmt.Sprint("last-", i))
		takes(booted + 1 + uint64(i)*3 + 1)
	}
	again := o.newReplica(func(c *Config) { c.Dir = dir })
	want(again, o.at.Size)
	far(o)
	f.takes(o.sign())
	want(f, o.at.Size)
}
