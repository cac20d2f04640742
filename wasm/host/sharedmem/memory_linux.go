package sharedmem

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Memory is the linear memory of a guest. It never moves: the address space that it
// can ever need is reserved at the beginning. It implements wazero's
// experimental.LinearMemory.
type Memory struct {
	reserved []byte
	used     int // bytes that can be read and written
}

// Reserve gives memory of least bytes that can grow to most. Only what is written to
// takes memory of the machine.
func Reserve(least, most uint64) (*Memory, error) {
	b, err := unix.Mmap(-1, 0, int(most), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("sharedmem: reserving %d bytes of address space: %w", most, err)
	}
	m := &Memory{reserved: b}
	if m.Reallocate(least) == nil {
		m.Unmap()
		return nil, fmt.Errorf("sharedmem: %d bytes of reserved memory cannot be used", least)
	}
	return m, nil
}

// Reallocate makes the memory at least size bytes long and gives these, or nil when
// that cannot be.
func (m *Memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.reserved)) {
		return nil
	}
	if n := int(size); n > m.used {
		if err := unix.Mprotect(m.reserved[m.used:n], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			return nil
		}
		m.used = n
	}
	return m.reserved[:size:size]
}

// Free does nothing: a guest that ends itself is closed from within a call, and its
// host may still read its memory. See [Memory.Unmap].
func (m *Memory) Free() {}

// Unmap gives the memory back. Nothing may use it from then on. It does nothing to a
// nil memory.
func (m *Memory) Unmap() {
	if m != nil && m.reserved != nil {
		_ = unix.Munmap(m.reserved)
		m.reserved = nil
	}
}

// holds says whether b lies in the memory.
func (m *Memory) holds(b []byte) bool {
	if m == nil || len(b) == 0 {
		return false
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(m.reserved)))
	return at < uintptr(m.used) && uintptr(len(b)) <= uintptr(m.used)-at
}
