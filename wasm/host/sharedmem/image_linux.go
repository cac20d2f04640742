package sharedmem

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Image is bytes that never change. Its functions may be called concurrently.
type Image struct {
	file *os.File // never closed by hand: a guest may still be about to map a replaced image
	size int
}

// New gives an image of b.
func New(b []byte) (*Image, error) {
	d, err := NewDraft(len(b))
	if err != nil {
		return nil, err
	}
	// Zeros are not written: they stay a hole in the file, which takes no memory.
	zeros := make([]byte, 64<<10)
	for at := 0; at < len(b); at += len(zeros) {
		if part := b[at:min(at+len(zeros), len(b))]; !bytes.Equal(part, zeros[:len(part)]) {
			copy(d.bytes[at:], part)
		}
	}
	image, err := d.Seal()
	if err != nil {
		return nil, err
	}
	return image, nil
}

// Draft is an image that is being written.
type Draft struct {
	image *Image
	bytes []byte
}

// NewDraft gives a draft of size bytes, all of them zero.
func NewDraft(size int) (*Draft, error) {
	fd, err := unix.MemfdCreate("webring", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("sharedmem: creating a file in memory: %w", err)
	}
	d := &Draft{image: &Image{os.NewFile(uintptr(fd), "webring"), size}}
	page := os.Getpagesize()
	if err = d.image.file.Truncate(int64((size + page - 1) / page * page)); err == nil {
		d.bytes, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = d.image.file.Close()
		return nil, fmt.Errorf("sharedmem: mapping a file in memory: %w", err)
	}
	return d, nil
}

// Bytes gives the draft's memory, which may be used until Seal or Discard. A nil draft
// has none.
func (d *Draft) Bytes() []byte {
	if d == nil {
		return nil
	}
	return d.bytes
}

// Seal makes the draft an image, which no process can change. With an error, the
// image is not sealed: it may be read and copied, but not placed.
func (d *Draft) Seal() (*Image, error) {
	d.Discard() // the kernel seals no file that is mapped for writing
	const all = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(d.image.file.Fd(), unix.F_ADD_SEALS, all); err != nil {
		return d.image, fmt.Errorf("sharedmem: sealing a file in memory: %w", err)
	}
	return d.image, nil
}

// Discard unmaps the draft's memory, if that is still mapped.
func (d *Draft) Discard() {
	if d.Bytes() != nil {
		_ = unix.Munmap(d.bytes)
		d.bytes = nil
	}
}

// Len is the length in bytes.
func (i *Image) Len() int { return i.size }

// AppendTo appends the bytes to dst.
func (i *Image) AppendTo(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, i.size)...)
	if _, err := i.file.ReadAt(dst[at:], 0); err != nil {
		// It is memory, and as long as it was.
		panic(fmt.Sprintf("sharedmem: reading a file in memory: %v", err))
	}
	return dst
}

// View calls f with the bytes in memory that f may write to until it returns. The
// image stays as it is.
func (i *Image) View(f func(b []byte) error) error {
	b, err := unix.Mmap(int(i.file.Fd()), 0, i.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		return f(i.AppendTo(nil))
	}
	defer func() { _ = unix.Munmap(b) }()
	return f(b)
}

// leastShared is the number of bytes from which on room must begin at a page. Less than
// that is copied instead.
const leastShared = 2 << 20

// hugePage is the length of a huge page.
const hugePage = 2 << 20

// Place puts the image where a guest has made room for it: as many zeros. If room lies
// in m, whole pages of the first lasting bytes are mapped and the rest is copied;
// otherwise all is. Place returns how many bytes are shared, from the beginning of
// room on. After an error, the contents of room are undefined.
func (i *Image) Place(room []byte, m *Memory, lasting int) (shared int, err error) {
	page := os.Getpagesize()
	if m.holds(room) {
		shared = min(lasting, len(room)) / page * page
		if uintptr(unsafe.Pointer(unsafe.SliceData(room)))%uintptr(page) != 0 {
			if shared >= leastShared {
				return 0, errMidPage
			}
			shared = 0
		}
	}
	if shared > 0 {
		if _, err := unix.MmapPtr(int(i.file.Fd()), 0, unsafe.Pointer(unsafe.SliceData(room)), uintptr(shared),
			unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED); err != nil {
			return 0, fmt.Errorf("sharedmem: mapping an image: %w", err)
		}
	}
	return shared, i.data(len(room), func(from, to int) error {
		if from < shared {
			// Then reading these pages does not fault either. Older kernels cannot do this.
			end := min((to+page-1)/page*page, shared)
			_ = unix.Madvise(room[from/page*page:end], unix.MADV_POPULATE_READ)
		}
		if from = max(from, shared); from >= to {
			return nil
		}
		if shared > 0 && to-from >= hugePage {
			// Only for what is written now: to find a huge page takes milliseconds, which
			// a later write should not wait for. Some kernels have none.
			_ = unix.Madvise(room[from/page*page:to/page*page], unix.MADV_HUGEPAGE)
		}
		_, err := i.file.ReadAt(room[from:to], int64(from))
		return err
	})
}

// errMidPage: a Go guest aligns large allocations to 8 KiB, and the kernel may have
// longer pages.
var errMidPage = errors.New("sharedmem: the guest's room does not begin where a page does")

// data calls f for each part of the first size bytes that is no hole. A hole is
// nothing but zeros.
func (i *Image) data(size int, f func(from, to int) error) error {
	fd, end := int(i.file.Fd()), int64(0)
	for {
		// Callers share the file's offset, which nothing depends on.
		from, err := unix.Seek(fd, end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) || err == nil && from >= int64(size) {
			return nil
		}
		if err == nil {
			end, err = unix.Seek(fd, from, unix.SEEK_HOLE)
		}
		if err == nil {
			err = f(int(from), int(min(end, int64(size))))
		}
		if err != nil {
			return err
		}
	}
}
