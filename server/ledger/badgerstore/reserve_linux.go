package badgerstore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate has the disk set aside the first size bytes of a file, which are
// zeros where nothing was written. Not all file systems do that, and some let any
// signal interrupt it, of which the runtime sends itself many.
func allocate(f *os.File, size int64) error {
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}
