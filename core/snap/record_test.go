package snap_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"webring/core"
	"webring/core/snap"
)

func TestRangesOfRecords(t *testing.T) {
	long := snap.Record{Event: make([]byte, core.MaxEvent), Texts: make([]byte, core.MaxTexts)}
	var whole, tooMany []byte
	for range snap.BlockEvents {
		whole = snap.AppendRecord(whole, long)
	}
	tooMany = snap.AppendRecord(bytes.Clone(whole), long)
	if len(whole) != snap.MaxRange {
		t.Errorf("the longest range has %d bytes, not %d", len(whole), snap.MaxRange)
	}
	two := []snap.Record{{Event: []byte("event"), Texts: []byte("texts")}, {Event: []byte("e"), Texts: []byte{}}}
	b := snap.AppendRecord(snap.AppendRecord(nil, two[0]), two[1])
	if want := "\x00\x00\x00\x05event\x00\x00\x00\x05texts\x00\x00\x00\x01e\x00\x00\x00\x00"; string(b) != want {
		t.Errorf("range %q", b)
	}
	if got, err := snap.DecodeRecords(b); err != nil || !reflect.DeepEqual(got, two) {
		t.Errorf("decoded %q, %v", got, err)
	}
	for _, c := range []struct {
		name string
		b    []byte
		n    int // -1: refused
	}{
		{"none", nil, 0},
		{"whole block", whole, snap.BlockEvents},
		{"more than a block", tooMany, -1},
		{"cut in a length", b[:3], -1},
		{"cut in an event", b[:8], -1},
		{"cut before texts", b[:9], -1},
		{"cut in texts", b[:14], -1},
		{"no event", []byte{0, 0, 0, 0, 0, 0, 0, 0}, -1},
		{"event too long", snap.AppendRecord(nil, snap.Record{Event: make([]byte, core.MaxEvent+1)}), -1},
		{"texts too long", snap.AppendRecord(nil, snap.Record{Event: []byte("e"), Texts: make([]byte, core.MaxTexts+1)}), -1},
		{"length beyond all", []byte{255, 255, 255, 255, 1}, -1},
	} {
		got, err := snap.DecodeRecords(c.b)
		if c.n < 0 && !errors.Is(err, snap.ErrRecord) || c.n >= 0 && (err != nil || len(got) != c.n) {
			t.Errorf("%s: %d records, %v", c.name, len(got), err)
		}
	}
}

// Whatever the bytes, DecodeRecords answers, and what it takes has one spelling.
func FuzzDecodeRecords(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x05event\x00\x00\x00\x05texts\x00\x00\x00\x01e\x00\x00\x00\x00"))
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		records, err := snap.DecodeRecords(b)
		if err != nil {
			return
		}
		var again []byte
		for _, r := range records {
			again = snap.AppendRecord(again, r)
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("%x came back as %x", b, again)
		}
	})
}
