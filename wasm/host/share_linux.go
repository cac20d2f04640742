package host

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// On Linux an image lies in a file in memory that nobody can write any more, and
// instances have it mapped over the room that the guest made for it: privately,
// so that a page is an instance's own from its first write to it.
//
// That write is a fault, which takes one to three microseconds, and seconds and
// bids write to pages all over what does not last. So instances get a copy of
// that at once, in big pages where there are such: 50 bytes for each member,
// which they would come to have anyway, and no fault on a request's path.
//
// That this is safe rests on three things. The memory of an instance never moves,
// because its whole address space is set aside at the beginning: so a mapping
// stays where the guest believes its region to be. The guest's collector does not
// move what it has made, and neither reads nor writes what holds no pointers. And
// the file is sealed against writing, growing and shrinking, so that no page of an
// instance can change or vanish under it, whatever happens elsewhere.

// sealed is memory of an image in such a file.
type sealed struct {
	file *os.File
	size int
}

// newSealed makes such a file that is yet to be written and sealed.
func newSealed(size int) (*sealed, error) {
	fd, err := unix.MemfdCreate("webring", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("host: a file in memory: %w", err)
	}
	// The collector closes it: instances may be on their way from an image that
	// another has replaced.
	s := &sealed{os.NewFile(uintptr(fd), "webring"), size}
	page := os.Getpagesize()
	if err := s.file.Truncate(int64((size + page - 1) / page * page)); err != nil {
		return nil, fmt.Errorf("host: a file in memory: %w", err)
	}
	return s, nil
}

// seal has nobody write it any more. It must not be mapped to be written.
func (s *sealed) seal() error {
	const all = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(s.file.Fd(), unix.F_ADD_SEALS, all); err != nil {
		return fmt.Errorf("host: sealing a file in memory: %w", err)
	}
	return nil
}

// share keeps b in a sealed file.
func share(b []byte) (memory, error) {
	s, err := newSealed(len(b))
	if err != nil {
		return nil, err
	}
	// What is nothing but zeros stays a hole, which takes no memory.
	zeros := make([]byte, 64<<10)
	for at := 0; at < len(b); at += len(zeros) {
		part := b[at:min(at+len(zeros), len(b))]
		if bytes.Equal(part, zeros[:len(part)]) {
			continue
		}
		if _, err := s.file.WriteAt(part, int64(at)); err != nil {
			return nil, fmt.Errorf("host: a file in memory: %w", err)
		}
	}
	if err := s.seal(); err != nil {
		return nil, err
	}
	return s, nil
}

// draft is memory of an image in the making: the file, mapped to be written, so
// that what is made there need not be copied.
type draft struct {
	file   *sealed
	mapped []byte
}

// lend makes the file and gives its memory, none where that does not work.
func (d *draft) lend(size int) []byte {
	file, err := newSealed(size)
	if err != nil || size == 0 {
		return nil
	}
	mapped, err := unix.Mmap(int(file.file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil
	}
	d.file, d.mapped = file, mapped
	return mapped
}

// seal makes the memory of an image of what was lent, if that is what lies there:
// then nobody may look at it any more where it was. Otherwise it gives nil. With an
// error it gives a copy.
func (d *draft) seal(lies []byte) (memory, error) {
	if len(d.mapped) == 0 || len(lies) != len(d.mapped) || &lies[0] != &d.mapped[0] {
		return nil, nil
	}
	d.drop()
	if err := d.file.seal(); err != nil {
		return copies(d.file.append(nil)), err
	}
	return d.file, nil
}

// drop takes the memory back. Nobody may look at it any more.
func (d *draft) drop() {
	if d.mapped != nil {
		_ = unix.Munmap(d.mapped)
		d.mapped = nil
	}
}

func (s *sealed) len() int { return s.size }

func (s *sealed) append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, s.size)...)
	if _, err := s.file.ReadAt(dst[at:], 0); err != nil {
		// It is memory, and as long as it was.
		panic(fmt.Sprintf("host: reading a file in memory: %v", err))
	}
	return dst
}

// with maps all of it as an instance would.
func (s *sealed) with(f func(b []byte) error) error {
	if s.size == 0 {
		return f(nil)
	}
	b, err := unix.Mmap(int(s.file.Fd()), 0, s.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		return f(s.append(nil))
	}
	defer func() { _ = unix.Munmap(b) }()
	return f(b)
}

// lay maps the whole pages of what lasts, and copies the rest.
func (s *sealed) lay(room []byte, lasting int, in *linear) (shared int, err error) {
	page := os.Getpagesize()
	if in.has(room) {
		shared = min(lasting, len(room)) / page * page
		if uintptr(unsafe.Pointer(unsafe.SliceData(room)))%uintptr(page) != 0 {
			if shared >= leastShared {
				return 0, errMidPage
			}
			shared = 0
		}
	}
	if shared > 0 {
		if _, err := unix.MmapPtr(int(s.file.Fd()), 0, unsafe.Pointer(unsafe.SliceData(room)), uintptr(shared),
			unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED); err != nil {
			return 0, err
		}
	}
	return shared, s.data(len(room), func(from, to int) error {
		if from < shared {
			// What is read will not fault either. Older kernels do not know how to.
			end := min((to+page-1)/page*page, shared)
			_ = unix.Madvise(room[from/page*page:end], unix.MADV_POPULATE_READ)
		}
		if from = max(from, shared); from >= to {
			return nil
		}
		if shared > 0 && to-from >= bigPage {
			// Some kernels have none. Only for what is written now: to find one
			// takes milliseconds, and nobody is to wait for that later.
			_ = unix.Madvise(room[from/page*page:to/page*page], unix.MADV_HUGEPAGE)
		}
		_, err := s.file.ReadAt(room[from:to], int64(from))
		return err
	})
}

// errMidPage: what is long begins at one of the guest's pages of 8 KiB, and the
// kernel may have longer ones.
var errMidPage = errors.New("host: the guest's room does not begin where a page does")

// bigPage is how long those pages are that a processor finds without a search,
// on most.
const bigPage = 2 << 20

// data calls f for each part of the first size bytes that is no hole: there are
// nothing but zeros in one.
func (s *sealed) data(size int, f func(from, to int) error) error {
	fd, end := int(s.file.Fd()), int64(0)
	for {
		// That this moves the file's own place matters to nobody.
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

// private asks the kernel which pages are still those of the file.
func (s *sealed) private(shared []byte) int {
	pages, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return 0
	}
	defer pages.Close()
	const (
		entry   = 8 // bytes for each page
		present = 1 << 63
		swapped = 1 << 62
		ofFile  = 1 << 61
	)
	page := os.Getpagesize()
	at := int(uintptr(unsafe.Pointer(unsafe.SliceData(shared)))) / page * entry
	private, buf := 0, make([]byte, 64<<10)
	for left := len(shared) / page * entry; left > 0; {
		n, err := pages.ReadAt(buf[:min(left, len(buf))], int64(at))
		if err != nil || n == 0 {
			break
		}
		for b := buf[:n]; len(b) >= entry; b = b[entry:] {
			if e := binary.LittleEndian.Uint64(b); e&(present|swapped) != 0 && e&ofFile == 0 {
				private += page
			}
		}
		at, left = at+n, left-n
	}
	return private
}

// linear is the memory of an instance: all that it may ever have is set aside at
// once, so that it never moves.
type linear struct {
	all  []byte
	used int // bytes that can be read and written
}

// withMemory has an instance that is started under the context get such memory,
// and says where it will stand. Where that much cannot be set aside, refused is
// told why, and it gets ordinary memory, and shares none.
func withMemory(ctx context.Context, refused func(error)) (context.Context, **linear) {
	made := new(*linear)
	return experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(least, most uint64) experimental.LinearMemory {
		all, err := unix.Mmap(-1, 0, int(most), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
		if err != nil {
			refused(fmt.Errorf("host: setting memory aside: %w", err))
			return new(moving)
		}
		l := &linear{all: all}
		// wazero panics when it does not get what a module begins with.
		if l.Reallocate(least) == nil {
			l.unmap()
			refused(errors.New("host: memory that was set aside cannot be used"))
			return new(moving)
		}
		*made = l
		return l
	})), made
}

// Reallocate is [experimental.LinearMemory]'s.
func (l *linear) Reallocate(size uint64) []byte {
	if size > uint64(len(l.all)) {
		return nil
	}
	if n := int(size); n > l.used {
		if err := unix.Mprotect(l.all[l.used:n], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			return nil
		}
		l.used = n
	}
	return l.all[:size:size]
}

// Free does nothing: a module that ends itself is closed from within a call, and
// its host may still look at it. See [linear.unmap].
func (l *linear) Free() {}

// unmap gives the memory back. Nobody may look at it any more.
func (l *linear) unmap() {
	if l != nil && l.all != nil {
		_ = unix.Munmap(l.all)
		l.all = nil
	}
}

// has says whether b lies in the memory.
func (l *linear) has(b []byte) bool {
	if l == nil || len(b) == 0 {
		return false
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(l.all)))
	return at < uintptr(l.used) && uintptr(len(b)) <= uintptr(l.used)-at
}

// moving is ordinary memory.
type moving struct{ b []byte }

// Reallocate is [experimental.LinearMemory]'s.
func (m *moving) Reallocate(size uint64) []byte {
	if more := int(size) - len(m.b); more > 0 {
		m.b = append(m.b, make([]byte, more)...)
	}
	return m.b
}

// Free is [experimental.LinearMemory]'s.
func (m *moving) Free() {}
