package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"webring/edge/durable"
)

// The head is a file outside the store. It says which transactions the store must have at least: a
// store that has lost its last transactions looks whole, and would sign a second history. The head has
// two slots. A serial is written to slot serial mod 2, so a torn write leaves the previous head.
//
//	slot     = magic (8 bytes) serial size root checksum, zeros up to 4096
//	serial   = 8 bytes, big endian
//	size     = 8 bytes, big endian, events
//	root     = 32 bytes
//	checksum = SHA-256 over all before it
const (
	headMagic = "wr-head\x01"
	headSlot  = 4096 // no smaller than what a disk writes at once
	headBytes = len(headMagic) + 8 + 8 + 32 + sha256.Size
)

// headFile is what the head asks of an [os.File].
type headFile interface {
	io.ReaderAt
	io.WriterAt
	Sync() error
	Close() error
}

type head struct{ file headFile }

// write makes p the head, durably.
func (h head) write(p Position) error {
	if _, err := h.file.WriteAt(appendHead(nil, p), int64(p.Serial%2)*headSlot); err != nil {
		return fmt.Errorf("write the head: %w", err)
	}
	if err := h.file.Sync(); err != nil {
		return fmt.Errorf("sync the head: %w", err)
	}
	return nil
}

// read gives the later of the slots that are whole.
func (h head) read() (Position, error) {
	var latest Position
	var found bool
	for slot := range uint64(2) {
		b := make([]byte, headBytes)
		if n, err := h.file.ReadAt(b, int64(slot)*headSlot); err != nil && !errors.Is(err, io.EOF) {
			return latest, fmt.Errorf("read the head: %w", err)
		} else if p, ok := parseHead(b[:n], slot); ok && (!found || p.Serial > latest.Serial) {
			latest, found = p, true
		}
	}
	if !found {
		return latest, errors.New("neither slot of the head is whole")
	}
	return latest, nil
}

func appendHead(b []byte, p Position) []byte {
	from := len(b)
	b = append(b, headMagic...)
	b = p.appendRow(binary.BigEndian.AppendUint64(b, p.Serial))
	sum := sha256.Sum256(b[from:])
	return append(b, sum[:]...)
}

// parseHead reads a slot. It accepts exactly what appendHead writes there.
func parseHead(b []byte, slot uint64) (p Position, ok bool) {
	if len(b) != headBytes {
		return p, false
	}
	n := len(headMagic)
	p.Serial = binary.BigEndian.Uint64(b[n:])
	p.Size = binary.BigEndian.Uint64(b[n+8:])
	copy(p.Root[:], b[n+16:])
	return p, p.Serial%2 == slot && bytes.Equal(b, appendHead(nil, p))
}

// openHead opens the head that is there; the error is [os.ErrNotExist] when
// there is none.
func openHead(path string) (head, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return head{}, err
	}
	return head{f}, nil
}

// createHead makes a head at p where there is none. A crash leaves either no file
// of that name or a whole one.
func createHead(path string, p Position) (head, error) {
	slots := make([]byte, 2*headSlot)
	copy(slots[p.Serial%2*headSlot:], appendHead(nil, p))
	if err := durable.Write(path, slots, 0o600); err != nil {
		return head{}, err
	}
	return openHead(path)
}
