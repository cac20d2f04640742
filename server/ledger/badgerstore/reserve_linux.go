package badgerstore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate has the disk set aside the first size bytes of a file, which are
// zeros where nothing was written. Not all file systems do that.
func allocate(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}
