package tlog

import (
	"encoding/binary"
	"strings"

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

// The paths are those of [tlog.Tile.Path], without the height of tiles.

// TilePath is the path of a tile of hashes.
func TilePath(t tlog.Tile) string { return tilePrefix + strings.TrimPrefix(t.Path(), heightPrefix) }

// EntriesPath is the path of bundle n of entries, with a width of up to [TileWidth].
func EntriesPath(n int64, width int) string { return entriesPrefix + bundleName(n, width) }

// TextsPath is the path of the texts that belong to a bundle of entries, in the same form.
func TextsPath(n int64, width int) string { return textsPrefix + bundleName(n, width) }

const (
	tilePrefix, entriesPrefix, textsPrefix = "/log/tile/", "/log/tile/entries/", "/log/texts/"

	heightPrefix, dataPrefix = "tile/8/", "tile/8/data/"
)

func bundleName(n int64, width int) string {
	return strings.TrimPrefix(tlog.Tile{H: TileHeight, L: -1, N: n, W: width}.Path(), dataPrefix)
}

// ParsePath reads a path of a tile, or of a bundle of entries or texts, in its one spelling. The
// level of a bundle is -1.
func ParsePath(path string) (t tlog.Tile, texts, ok bool) {
	var err error
	if name, found := strings.CutPrefix(path, textsPrefix); found {
		t, err = tlog.ParseTilePath(dataPrefix + name)
		return t, true, err == nil
	}
	if name, found := strings.CutPrefix(path, entriesPrefix); found {
		t, err = tlog.ParseTilePath(dataPrefix + name)
		return t, false, err == nil
	}
	name, found := strings.CutPrefix(path, tilePrefix)
	t, err = tlog.ParseTilePath(heightPrefix + name)
	return t, false, found && err == nil && t.L >= 0 && t.L < 64
}

// Entries reads a bundle: entries of up to 65 535 bytes, each after its length in two bytes. They
// alias b.
func Entries(b []byte) (entries [][]byte, err error) {
	for len(b) > 0 {
		if len(b) < 2 {
			return nil, ErrBundle
		}
		n := int(binary.BigEndian.Uint16(b))
		if b = b[2:]; n > len(b) || len(entries) == TileWidth {
			return nil, ErrBundle
		}
		entries, b = append(entries, b[:n:n]), b[n:]
	}
	return entries, nil
}

// AppendEntry appends an entry to a bundle.
func AppendEntry(b, entry []byte) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(entry))), entry...)
}
