package sharedmem

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// refused has an image turn down every way to change its bytes.
func refused(t *testing.T, i *Image) {
	t.Helper()
	if _, err := i.file.WriteAt([]byte{1}, 0); err == nil {
		t.Error("it can be written")
	}
	for _, size := range []int64{0, 1 << 30} {
		if err := i.file.Truncate(size); err == nil {
			t.Errorf("it can be made %d bytes long", size)
		}
	}
	if b, err := unix.Mmap(int(i.file.Fd()), 0, i.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		_ = unix.Munmap(b)
		t.Error("it can be mapped for writing")
	}
}

// Nothing can change an image, however it was made: guests rely on its pages.
func TestAnImageIsSealed(t *testing.T) {
	want := make([]byte, 200_000)
	want[0], want[100_000], want[199_999] = 1, 2, 3 // with holes in between
	made, err := New(want)
	if err != nil {
		t.Fatal(err)
	}
	draft, err := NewDraft(len(want))
	if err != nil {
		t.Fatal(err)
	}
	defer draft.Discard()
	copy(draft.Bytes(), want)
	written, err := draft.Seal()
	if err != nil || draft.Bytes() != nil {
		t.Fatalf("the draft is still there: %v", err)
	}
	for name, i := range map[string]*Image{"of bytes": made, "of a draft": written} {
		t.Run(name, func(t *testing.T) {
			refused(t, i)
			err := i.View(func(b []byte) error {
				if !bytes.Equal(b, want) {
					t.Error("a view has other bytes")
				}
				clear(b)
				return nil
			})
			if b := i.AppendTo([]byte("x")); err != nil || i.Len() != len(want) || b[0] != 'x' || !bytes.Equal(b[1:], want) {
				t.Errorf("%d bytes, after a view of which was cleared, %v", i.Len(), err)
			}
		})
	}
}

// Without bytes there is nothing to share.
func TestAnImageHasBytes(t *testing.T) {
	if i, err := New(nil); err == nil {
		t.Errorf("an image of %d bytes", i.Len())
	}
}

// Memory stays where it is while it grows, up to its bound, and keeps its bytes.
func TestMemoryNeverMoves(t *testing.T) {
	const least, most = 1 << 20, 1 << 30
	m, err := Reserve(least, most)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Unmap()
	before := m.Reallocate(least)
	before[least-1] = 7
	for size := uint64(least); size <= most; size *= 2 {
		b := m.Reallocate(size)
		if uint64(len(b)) != size || &b[0] != &before[0] || b[least-1] != 7 {
			t.Fatalf("%d of %d bytes, moved %t", len(b), size, &b[0] != &before[0])
		}
		b[size-1] = 1 // it is there
		b[least-1] = 7
	}
	if m.Reallocate(most+1) != nil {
		t.Error("it grows beyond its bound")
	}
}

// An image is mapped as far as it lasts and whole pages go, and the rest is copied.
// Room that cannot be mapped page by page is refused when much could be shared: or
// memory would be taken for shared that is not.
func TestPlace(t *testing.T) {
	page, want := os.Getpagesize(), make([]byte, leastShared)
	for at := range want {
		want[at] = byte(at>>12 + at)
	}
	image, err := New(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at, lasting, shared int
		elsewhere, refused  bool
	}{
		{0, leastShared, leastShared, false, false},
		{page, page + 1, page, false, false},
		{8, leastShared, 0, false, true},
		{page / 2, leastShared, 0, false, true},
		{page / 2, leastShared - page, 0, false, false},
		{0, leastShared, 0, true, false},
	} {
		m, err := Reserve(2*leastShared, 2*leastShared)
		if err != nil {
			t.Fatal(err)
		}
		room := m.Reallocate(2 * leastShared)[c.at:][:leastShared]
		if c.elsewhere {
			room = make([]byte, leastShared)
		}
		shared, err := image.Place(room, m, c.lasting)
		if shared != c.shared || (err != nil) != c.refused {
			t.Errorf("at %d, %d of it lasting: %d shared, %v", c.at, c.lasting, shared, err)
		}
		if err == nil && !bytes.Equal(room, want) {
			t.Errorf("at %d, %d of it lasting: other bytes", c.at, c.lasting)
		}
		if clear(room); !bytes.Equal(image.AppendTo(nil), want) {
			t.Fatal("what one guest writes another sees")
		}
		m.Unmap()
	}
}
