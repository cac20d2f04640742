package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"
)

// inspect looks at the files of a closed store for what Badger answers with a
// crash, with silence, or with deleting what is left:
//
//   - without a manifest it starts anew and deletes every table;
//   - a flipped bit in a table can end the process on a goroutine of its own;
//   - an empty write-ahead file, which a crash leaves between emptying and
//     removing it, is refused for ever. Those are removed here: had one been
//     emptied by anything else, the ledger would miss its transactions.
func inspect(dir string) error {
	if err := removeEmpty(dir); err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if errors.Is(err, os.ErrNotExist) {
		return checkNew(dir)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	manifest, _, err := badger.ReplayManifestFile(f, 0, badger.Options{})
	if err != nil {
		return fmt.Errorf("%s: %w", badger.ManifestFilename, err)
	}
	for id, entry := range manifest.Tables {
		if entry.Compression != options.None || entry.KeyID != 0 {
			return fmt.Errorf("table %d was not written by this program", id)
		}
		if err := checkTable(table.NewFilename(id, dir)); err != nil {
			return err
		}
	}
	return nil
}

// checkNew says whether a folder without a manifest can be a new store.
func checkNew(dir string) error {
	for _, pattern := range []string{"*.sst", "*.mem", "*.vlog"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return fmt.Errorf("%s is missing, but there is %s", badger.ManifestFilename, filepath.Base(names[0]))
		}
	}
	return nil
}

// removeEmpty removes empty write-ahead files.
func removeEmpty(dir string) error {
	var names []string
	for _, pattern := range []string{"*.mem", "*.vlog"} {
		some, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		names = append(names, some...)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if info.Size() == 0 {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkTable verifies the checksums of a table's index and of all its blocks.
//
//	table = block… index length(index) checksum(index) length(checksum)
//	block = entries… offsets… count checksum length(checksum)
//
// Lengths are 4 bytes, big endian.
func checkTable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	wrong := func(err error) error { return fmt.Errorf("%s: %w", filepath.Base(path), err) }
	info, err := f.Stat()
	if err != nil {
		return err
	}
	index, err := readIndex(f, info.Size())
	if err != nil {
		return wrong(err)
	}
	var buf []byte
	for i := range index.OffsetsLength() {
		var block fb.BlockOffset
		if !index.Offsets(&block, i) {
			return wrong(errors.New("the index is short"))
		}
		// Both numbers are under the checksum of the index, but not the size
		// of the file.
		if int64(block.Offset())+int64(block.Len()) > info.Size() {
			return wrong(errors.New("the file is short"))
		}
		if uint32(cap(buf)) < block.Len() {
			buf = make([]byte, block.Len())
		}
		buf = buf[:block.Len()]
		if _, err := f.ReadAt(buf, int64(block.Offset())); err != nil {
			return wrong(err)
		}
		data, sum, err := cutChecksum(buf)
		if err == nil {
			err = verify(data, sum)
		}
		if err != nil {
			return wrong(fmt.Errorf("block %d: %w", i, err))
		}
	}
	return nil
}

// readIndex reads the index at the end of a table of the given size.
func readIndex(f io.ReaderAt, size int64) (*fb.TableIndex, error) {
	const most = 1 << 10 // a checksum is a dozen bytes
	tail := make([]byte, min(size, most))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return nil, err
	}
	rest, sum, err := cutChecksum(tail)
	if err != nil {
		return nil, err
	}
	length, rest, err := cutLength(rest)
	if err != nil {
		return nil, err
	}
	if length < 4 {
		// The checksum of nothing fits nothing, and nothing has no root.
		return nil, errors.New("the index is empty")
	}
	start := size - int64(len(tail)-len(rest)) - int64(length)
	if start < 0 {
		return nil, errors.New("the index is longer than the file")
	}
	data := make([]byte, length)
	if _, err := f.ReadAt(data, start); err != nil {
		return nil, err
	}
	if err := verify(data, sum); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	return fb.GetRootAsTableIndex(data, 0), nil
}

// cutLength takes a length off the end of b.
func cutLength(b []byte) (n uint32, rest []byte, err error) {
	if len(b) < 4 {
		return 0, nil, errors.New("the file is short")
	}
	at := len(b) - 4
	return binary.BigEndian.Uint32(b[at:]), b[:at], nil
}

// cutChecksum takes a checksum and its length off the end of b.
func cutChecksum(b []byte) (rest []byte, sum *pb.Checksum, err error) {
	n, rest, err := cutLength(b)
	if err != nil {
		return nil, nil, err
	}
	if int64(n) > int64(len(rest)) {
		return nil, nil, errors.New("the length of a checksum is wrong")
	}
	at := len(rest) - int(n)
	sum = &pb.Checksum{}
	if err := proto.Unmarshal(rest[at:], sum); err != nil {
		return nil, nil, err
	}
	return rest[:at], sum, nil
}

func verify(data []byte, sum *pb.Checksum) error {
	switch sum.Algo {
	case pb.Checksum_CRC32C, pb.Checksum_XXHash64:
		return y.VerifyChecksum(data, sum)
	}
	return errors.New("the kind of a checksum is unknown")
}
