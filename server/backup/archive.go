package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"webring/server/ledger"
)

// ErrDamaged says that a file is no backup, not all of one, or was altered.
var ErrDamaged = errors.New("backup: the file is damaged or incomplete")

const (
	rowsFolder = "rows/"
	endName    = "end"
	// pieceSize is about how many bytes of rows one entry holds, and maxEntry
	// the most that is read as one.
	pieceSize = 1 << 20
	maxEntry  = 8 << 20
)

// File is a small file that is kept next to the ledger.
type File struct {
	Name string // one word
	Data []byte
}

// Rows is what a backup is made of: a [ledger.Ledger], or a [ledger.Follower] of one that
// works elsewhere. It gives all rows as they are after one transaction.
type Rows interface {
	Rows(fn func(ledger.Row) error) error
}

// Write writes a backup of the ledger and the keys. The ledger may be in use. It can be restored
// and opened as a ledger, or followed: then the batch of the next transaction fits.
func Write(w io.Writer, l Rows, keys []File) error {
	a := archiver{tar: tar.NewWriter(w), sum: sha256.New(), at: time.Now()}
	for _, f := range keys {
		if err := a.entry(f.Name, f.Data); err != nil {
			return err
		}
	}
	var piece []byte
	pieces := 0
	flush := func() error {
		err := a.entry(fmt.Sprintf("%s%06d", rowsFolder, pieces), piece)
		piece, pieces = piece[:0], pieces+1
		return err
	}
	err := l.Rows(func(r ledger.Row) error {
		piece = appendBlock(appendBlock(piece, r.Key), r.Value)
		if len(piece) < pieceSize {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	if err := flush(); err != nil {
		return err
	}
	if err := a.entry(endName, []byte(hex.EncodeToString(a.sum.Sum(nil))+"\n")); err != nil {
		return err
	}
	return a.tar.Close()
}

type archiver struct {
	tar *tar.Writer
	sum hash.Hash
	at  time.Time
}

func (a *archiver) entry(name string, data []byte) error {
	if err := a.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), ModTime: a.at, Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err := a.tar.Write(data)
	a.sum.Write(appendBlock(nil, []byte(name)))
	a.sum.Write(appendBlock(nil, data))
	return err
}

func appendBlock(dst, block []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(block))), block...)
}

// Reader reads a backup from its beginning to its end.
type Reader struct {
	tar   *tar.Reader
	sum   hash.Hash
	key   func(File) error
	piece []byte
	ended bool
}

// Read begins to read a backup. [Reader.Next] gives each key to key. Nothing may be believed
// before Next has said that there is no more.
func Read(r io.Reader, key func(File) error) *Reader {
	return &Reader{tar: tar.NewReader(r), sum: sha256.New(), key: key}
}

// Next gives the next row, until there is no more and the whole file has proved
// to be what was written. Its errors wrap [ErrDamaged], or are those of key.
func (r *Reader) Next() (row ledger.Row, more bool, err error) {
	for len(r.piece) == 0 {
		if r.ended {
			return row, false, nil
		}
		if err := r.entry(); err != nil {
			return row, false, err
		}
	}
	var ok1, ok2 bool
	row.Key, r.piece, ok1 = cutBlock(r.piece)
	row.Value, r.piece, ok2 = cutBlock(r.piece)
	if !ok1 || !ok2 {
		return row, false, fmt.Errorf("%w: rows", ErrDamaged)
	}
	return row, true, nil
}

// entry reads one entry: rows, a key, or the end.
func (r *Reader) entry() error {
	h, err := r.tar.Next()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if h.Size > maxEntry || h.Typeflag != tar.TypeReg {
		return fmt.Errorf("%w: entry %q", ErrDamaged, h.Name)
	}
	data, err := io.ReadAll(io.LimitReader(r.tar, maxEntry))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if h.Name == endName {
		r.ended = true
		if want := hex.EncodeToString(r.sum.Sum(nil)) + "\n"; !bytes.Equal(data, []byte(want)) {
			return fmt.Errorf("%w: it was altered", ErrDamaged)
		}
		return nil
	}
	r.sum.Write(appendBlock(nil, []byte(h.Name)))
	r.sum.Write(appendBlock(nil, data))
	switch {
	case strings.HasPrefix(h.Name, rowsFolder):
		r.piece = data
		return nil
	case h.Name == "" || h.Name[0] == '.' || strings.ContainsAny(h.Name, `/\`):
		return fmt.Errorf("%w: entry %q", ErrDamaged, h.Name)
	}
	return r.key(File{h.Name, data})
}

func cutBlock(b []byte) (block, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := uint64(binary.BigEndian.Uint32(b))
	if b = b[4:]; n > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}
