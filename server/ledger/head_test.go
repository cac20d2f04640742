package ledger

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func makeHead(t *testing.T, positions ...Position) (head, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "head")
	h, err := createHead(path, Position{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.file.Close() })
	for _, p := range positions {
		if err := h.write(p); err != nil {
			t.Fatal(err)
		}
	}
	return h, path
}

func at(serial uint64) Position {
	return Position{Serial: serial, Size: 3 * serial, Root: [32]byte{byte(serial), 1}}
}

func TestHeadReadsBackTheLastWrite(t *testing.T) {
	h, path := makeHead(t)
	for serial := range uint64(5) {
		if err := h.write(at(serial)); err != nil {
			t.Fatal(err)
		}
		again, err := openHead(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := again.read(); err != nil || got != at(serial) {
			t.Errorf("after writing %v: read %v, %v", at(serial), got, err)
		}
		again.file.Close()
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 2*headSlot || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
}

// A write that tears, at whatever byte, leaves the head before it or the one
// that was written, and a damaged head of the two is never taken for another.
func TestTornSlotLeavesTheHeadBefore(t *testing.T) {
	for n := range headBytes + 1 {
		h, _ := makeHead(t, at(6), at(7))
		if _, err := h.file.WriteAt(appendHead(nil, at(8))[:n], 0); err != nil {
			t.Fatal(err)
		}
		want := at(7)
		if n == headBytes {
			want = at(8)
		}
		got, err := h.read()
		// The first bytes of two heads are the same.
		if n < headBytes && got == at(6) {
			t.Fatalf("torn after %d bytes: an older head won", n)
		}
		if err != nil || got != want {
			t.Errorf("torn after %d bytes: read %v, %v, want %v", n, got, err, want)
		}
	}
}

func TestHeadWithoutWholeSlotIsRefused(t *testing.T) {
	for bit := range 8 * headBytes {
		h, _ := makeHead(t, at(6), at(7))
		for slot, serial := range []uint64{6, 7} {
			b := appendHead(nil, at(serial))
			b[bit/8] ^= 1 << (bit % 8)
			if _, err := h.file.WriteAt(b, int64(slot)*headSlot); err != nil {
				t.Fatal(err)
			}
		}
		if p, err := h.read(); err == nil {
			t.Fatalf("with bit %d flipped in both slots: %v", bit, p)
		}
	}
}

func TestSlotsAreNotInterchangeable(t *testing.T) {
	for serial := range uint64(4) {
		b := appendHead(nil, at(serial))
		for slot := range uint64(2) {
			if _, ok := parseHead(b, slot); ok != (serial%2 == slot) {
				t.Errorf("head %d in slot %d: accepted is %t", serial, slot, ok)
			}
		}
	}
}

// Whatever a slot holds, it is read without a crash, and only what is written
// there is taken.
func FuzzHeadSlot(f *testing.F) {
	for serial := range uint64(3) {
		f.Add(appendHead(nil, at(serial)), serial%2)
	}
	f.Add([]byte(nil), uint64(0))
	f.Add(make([]byte, headBytes), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, slot uint64) {
		p, ok := parseHead(b, slot%2)
		if ok && !bytes.Equal(appendHead(nil, p), b) {
			t.Errorf("%x is read as %v, which is written otherwise", b, p)
		}
	})
}
