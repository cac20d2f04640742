package badgerstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"webring/server/ledger"
)

// Badger maps its write-ahead file into memory as one large hole. A write into a hole on a
// full disk ends the process. So the blocks of the whole file are allocated in advance, and
// commits go on until the lack of room is noticed. Tables are mapped too, but are made only
// once in thousands of commits.

// walRoom is how far Badger fills a write-ahead file, in bytes: it begins a new one after a
// commit that ends beyond a table's size. Entries have headers.
const walRoom = memTable + 2*ledger.MaxBatch

// reserve sets aside room for the newest write-ahead file.
func (s *Store) reserve() error {
	names, err := filepath.Glob(filepath.Join(s.dir, "*.mem"))
	if err != nil || len(names) == 0 {
		return err
	}
	newest := slices.MaxFunc(names, func(a, b string) int { return number(a) - number(b) })
	f, err := os.OpenFile(newest, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err = errors.Join(allocate(f, walRoom), f.Close()); err == nil {
		s.nextWAL = filepath.Join(s.dir, fmt.Sprintf("%05d.mem", number(newest)+1))
	}
	return err
}

// number is that of a write-ahead file.
func number(path string) (n int) {
	_, _ = fmt.Sscanf(filepath.Base(path), "%d.mem", &n)
	return n
}
