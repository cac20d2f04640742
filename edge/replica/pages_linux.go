package replica

import (
	"os"
	"syscall"
	"unsafe"
)

// bigPages asks for large memory, to which nobody has written yet, to be given in
// big pages: to give it in small ones takes longer than to fill it. Some kernels
// have none.
func bigPages(b []byte) {
	page := os.Getpagesize()
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (page - 1)
	if whole := (len(b) - skip) &^ (page - 1); whole > 0 {
		_ = syscall.Madvise(b[skip:skip+whole], syscall.MADV_HUGEPAGE)
	}
}
