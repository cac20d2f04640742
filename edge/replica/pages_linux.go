package replica

import (
	"os"
	"syscall"
)

// bigPages asks for large memory, to which nobody has written yet, to be given in
// big pages: to give it in small ones takes longer than to fill it. Where kernels
// have none, or large memory does not begin with a page, it gets what there is.
func bigPages(b []byte) {
	_ = syscall.Madvise(b[:len(b)&-os.Getpagesize()], syscall.MADV_HUGEPAGE)
}
