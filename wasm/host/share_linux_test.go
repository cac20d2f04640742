package host

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// However an image came to be, nobody can change the memory that instances share.
func TestTheMemoryOfAnImageIsSealed(t *testing.T) {
	snapshot := follow(t, ring(500)).Snapshot()
	for _, c := range []PoolConfig{{}, {Native: true}, {Snapshot: snapshot}, {Native: true, Snapshot: snapshot}} {
		t.Run(fmt.Sprintf("native %t, snapshot %t", c.Native, c.Snapshot != nil), func(t *testing.T) {
			c.Capacity, c.Instances = 1000, 1
			s, ok := newPool(t, c).kept.start().memory.(*sealed)
			if !ok {
				t.Fatal("memory is not shared")
			}
			if _, err := s.file.WriteAt([]byte{1}, 0); err == nil {
				t.Error("it can be written")
			}
			for _, size := range []int64{0, 1 << 30} {
				if err := s.file.Truncate(size); err == nil {
					t.Errorf("it can be made %d bytes long", size)
				}
			}
			if b, err := unix.Mmap(int(s.file.Fd()), 0, s.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
				_ = unix.Munmap(b)
				t.Error("it can be mapped to be written")
			}
		})
	}
}

// Memory that was lent becomes that of an image if a state lies there, and only
// then.
func TestADraftIsSealedWhereTheStateLies(t *testing.T) {
	d := new(draft)
	defer d.drop()
	if m, err := d.seal(make([]byte, 4096)); m != nil || err != nil {
		t.Error("nothing was lent")
	}
	lent := d.lend(10_000)
	if len(lent) != 10_000 {
		t.Fatalf("%d bytes", len(lent))
	}
	lent[9_999] = 7
	for _, other := range [][]byte{nil, make([]byte, 10_000), lent[1:], lent[:9_000]} {
		if m, err := d.seal(other); m != nil || err != nil {
			t.Errorf("%d other bytes", len(other))
		}
	}
	m, err := d.seal(lent)
	if m == nil || err != nil || d.mapped != nil {
		t.Fatalf("it is not sealed: %v", err)
	}
	if b := m.append(nil); m.len() != 10_000 || len(b) != 10_000 || b[9_999] != 7 || b[0] != 0 {
		t.Errorf("%d bytes, of which %d can be read", m.len(), len(b))
	}
	if d.lend(0) != nil {
		t.Error("memory of no size")
	}
}

// Where much could be shared and the guest's room cannot be mapped page by page,
// that is said, and not taken for memory that is shared.
func TestRoomInTheMiddleOfAPageIsRefused(t *testing.T) {
	page := os.Getpagesize()
	m, err := share(make([]byte, leastShared))
	if err != nil {
		t.Fatal(err)
	}
	in := &linear{used: 2 * leastShared}
	if in.all, err = unix.Mmap(-1, 0, in.used, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		t.Fatal(err)
	}
	defer in.unmap()
	for _, c := range []struct {
		at, lasting, shared int
		refused             bool
	}{
		{0, leastShared, leastShared, false},
		{page, page + 1, page, false},
		{8, leastShared, 0, true},
		{page / 2, leastShared, 0, true},
		{page / 2, leastShared - page, 0, false},
	} {
		shared, err := m.lay(in.all[c.at:c.at+leastShared], c.lasting, in)
		if shared != c.shared || (err != nil) != c.refused {
			t.Errorf("at %d, %d of it lasting: %d shared, %v", c.at, c.lasting, shared, err)
		}
	}
}
