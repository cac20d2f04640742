package follow

import (
	"os"
	"syscall"
)

// bigPages asks the kernel to back b with huge pages. b must not have been written to yet.
// Small pages would take longer to map than to fill. Without huge pages, or if b does not
// begin at a page, nothing changes.
func bigPages(b []byte) {
	_ = syscall.Madvise(b[:len(b)&-os.Getpagesize()], syscall.MADV_HUGEPAGE)
}
