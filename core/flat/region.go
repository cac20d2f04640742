package flat

import "unsafe"

// Region is one piece of memory in sections. Offsets in it mean the same
// wherever it lies. A section that must grow has the whole region move to a
// bigger one, which costs a copy of its bytes and no more.
type Region struct {
	bytes    []byte
	sections []section
}

type section struct{ at, size int }

// align is what sections begin at a multiple of: a line of a processor's cache.
const align = 64

// Resize makes sections at least as long as sizes says, in bytes; new bytes are zero. The
// region moves to the memory that given returns, which must be zero. If given is nil, or
// what it returns does not fit, the region moves to memory from Go's heap. Views taken
// before are no longer of the region.
func (r *Region) Resize(sizes []int, given func(size int) []byte) {
	next := make([]section, len(sizes))
	total := 0
	for i, size := range sizes {
		if i < len(r.sections) {
			size = max(size, r.sections[i].size)
		}
		size = (size + align - 1) &^ (align - 1)
		next[i] = section{total, size}
		total += size
	}
	var memory []byte
	if given != nil {
		memory = given(total)
	}
	if len(memory) != total || Address(memory)%align != 0 {
		// Large pieces of memory begin at a multiple of the page size wherever Go
		// runs.
		memory = make([]byte, total)
	}
	for i, s := range r.sections {
		copy(memory[next[i].at:], r.bytes[s.at:s.at+s.size])
	}
	r.bytes, r.sections = memory, next
}

// Adopt makes memory the region, with sections of these sizes, as [Region.Size] gives them.
// The memory belongs to the region from now on. Adopt reports false, with the region as it
// was, when sizes and memory do not fit.
func (r *Region) Adopt(memory []byte, sizes []int) bool {
	if Address(memory)%8 != 0 {
		return false
	}
	adopted := make([]section, len(sizes))
	total := 0
	for i, size := range sizes {
		if size < 0 || size%align != 0 || size > len(memory)-total {
			return false
		}
		adopted[i] = section{total, size}
		total += size
	}
	if total != len(memory) {
		return false
	}
	r.bytes, r.sections = memory, adopted
	return true
}

// All is the whole region.
func (r *Region) All() []byte { return r.bytes }

// Address is where memory lies.
func Address(memory []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory))))
}

// Size is the length of section i in bytes.
func (r *Region) Size(i int) int { return r.sections[i].size }

// Len is the length of the region in bytes.
func (r *Region) Len() int { return len(r.bytes) }

// Offset is where section i begins.
func (r *Region) Offset(i int) int { return r.sections[i].at }

// Bytes gives section i.
func (r *Region) Bytes(i int) []byte {
	s := r.sections[i]
	return r.bytes[s.at : s.at+s.size : s.at+s.size]
}

// Uint64s gives section i as numbers of 64 bits.
func (r *Region) Uint64s(i int) []uint64 { return Records[uint64](r.Bytes(i)) }

// Uint32s gives section i as numbers of 32 bits.
func (r *Region) Uint32s(i int) []uint32 { return Records[uint32](r.Bytes(i)) }

// Uint16s gives section i as numbers of 16 bits.
func (r *Region) Uint16s(i int) []uint16 { return Records[uint16](r.Bytes(i)) }

// Records reads b, which begins where a section does, as numbers or structs of
// numbers: as many as fit whole.
func Records[T any](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/RecordSize[T]())
}

// RecordSize is how many bytes one of [Records] takes.
func RecordSize[T any]() int {
	var one T
	return int(unsafe.Sizeof(one))
}

// Bytes is s as bytes without a copy. They must not be changed.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// View is s as a string without a copy. It is valid as long as s does not change.
func View[S ~string | ~[]byte](s S) string {
	return *(*string)(unsafe.Pointer(&s)) // a slice begins with what a string is
}

// Within says where part lies in b, if it does: an empty one always, at 0.
func Within(b, part []byte) (at int, ok bool) {
	if len(part) == 0 {
		return 0, true
	}
	at = int(Address(part) - Address(b))
	return at, at >= 0 && at+len(part) <= len(b)
}
