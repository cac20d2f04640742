package tlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"
)

const (
	// CheckpointPath is where a log has its newest checkpoint.
	CheckpointPath = "/log/checkpoint"
	// A whole tile spans TileHeight levels of the tree and is TileWidth hashes wide. A bundle has
	// as many entries.
	TileHeight = 8
	TileWidth  = 1 << TileHeight
)

// TilePath is the path of a tile of hashes.
func TilePath(t tlog.Tile) string {
	return "/log/tile/" + strconv.Itoa(t.L) + "/" + tileName(t.N, t.W)
}

// EntriesPath is the path of bundle n of entries, with a width of up to [TileWidth].
func EntriesPath(n int64, width int) string { return "/log/tile/entries/" + tileName(n, width) }

// TextsPath is the path of the texts that belong to a bundle of entries, in the same form.
func TextsPath(n int64, width int) string { return "/log/texts/" + tileName(n, width) }

// tileName is the number of a tile in groups of three digits, as in x001/x234/067, and the width of
// a partial one.
func tileName(n int64, width int) string {
	name := fmt.Sprintf("%03d", n%1000)
	for n /= 1000; n > 0; n /= 1000 {
		name = fmt.Sprintf("x%03d/%s", n%1000, name)
	}
	if width < TileWidth {
		name += ".p/" + strconv.Itoa(width)
	}
	return name
}

// errEntries: bytes that are no bundle.
var errEntries = errors.New("tlog: malformed bundle of entries")

// Entries reads a bundle: entries of up to 65 535 bytes, each after its length in two bytes. They
// alias b.
func Entries(b []byte) (entries [][]byte, err error) {
	for len(b) > 0 {
		if len(b) < 2 {
			return nil, errEntries
		}
		n := int(binary.BigEndian.Uint16(b))
		if b = b[2:]; n > len(b) || len(entries) == TileWidth {
			return nil, errEntries
		}
		entries, b = append(entries, b[:n:n]), b[n:]
	}
	return entries, nil
}

// AppendEntry appends an entry to a bundle.
func AppendEntry(b, entry []byte) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(entry))), entry...)
}
