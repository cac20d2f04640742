package tlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"webring/core"
	"webring/core/snap"
)

const (
	// Ahead is how many bundles [Records] fetches at a time.
	Ahead = 4
	// maxEntries and maxTexts are longer than any bundle, in bytes.
	maxEntries = TileWidth * (2 + core.MaxEvent)
	maxTexts   = TileWidth * (2 + core.MaxTexts)
)

// ErrBundle is wrapped by the errors about bundles that are malformed, or not as long as they must be.
var ErrBundle = errors.New("tlog: malformed bundle")

// Get gets what is at a path of a log, of at most so many bytes. It may be called concurrently.
type Get func(ctx context.Context, path string, most int64) ([]byte, error)

// Hashes gives the hashes of a tree by its tiles, which it fetches and checks.
func (get Get) Hashes(ctx context.Context) func(tlog.Tree) tlog.HashReader {
	return func(tree tlog.Tree) tlog.HashReader {
		return tlog.TileHashReader(tree, tiles(func(path string, most int64) ([]byte, error) { return get(ctx, path, most) }))
	}
}

// tiles implements [tlog.TileReader].
type tiles func(path string, most int64) ([]byte, error)

func (get tiles) Height() int                     { return TileHeight }
func (get tiles) SaveTiles([]tlog.Tile, [][]byte) {}
func (get tiles) ReadTiles(of []tlog.Tile) (data [][]byte, err error) {
	for _, tile := range of {
		b, err := get(TilePath(tile), int64(tile.W)*tlog.HashSize)
		if err != nil {
			return nil, err
		}
		data = append(data, b)
	}
	return data, nil
}

// Records fetches the events of a log from one position up to another with their texts, some
// bundles at a time, and gives them in their order. Nothing of them is checked. It ends with the
// first error of get or each.
func Records(ctx context.Context, get Get, from, to uint64, each func([]snap.Record) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type bundle struct {
		records []snap.Record
		err     error
	}
	line := make(chan chan bundle, Ahead-1)
	go func() {
		defer close(line)
		for at := from; at < to; {
			n, skip := at/TileWidth, at%TileWidth
			width := min(TileWidth, to-n*TileWidth)
			one := make(chan bundle, 1)
			select {
			case line <- one:
			case <-ctx.Done():
				return
			}
			go func() {
				records, err := recordsOf(ctx, get, int64(n), int(width))
				if err == nil && skip > 0 {
					records = Clone(records[skip:]) // what was skipped need not stay in memory
				}
				one <- bundle{records, err}
			}()
			at = n*TileWidth + width
		}
	}()
	for one := range line {
		b := <-one
		if b.err == nil {
			b.err = each(b.records)
		}
		if b.err != nil {
			return b.err
		}
	}
	return ctx.Err()
}

// Clone returns records in memory of their own. Records that were read alias the memory of all that
// was read with them.
func Clone(records []snap.Record) []snap.Record {
	records = slices.Clone(records)
	for i, r := range records {
		records[i] = snap.Record{Event: bytes.Clone(r.Event), Texts: bytes.Clone(r.Texts)}
	}
	return records
}

// recordsOf fetches bundle n of entries, and their texts.
func recordsOf(ctx context.Context, get Get, n int64, width int) ([]snap.Record, error) {
	read := func(path string, most int64) ([][]byte, error) {
		b, err := get(ctx, path, most)
		if err != nil {
			return nil, err
		}
		all, err := Entries(b)
		if err == nil && len(all) != width {
			err = fmt.Errorf("%w: %d entries", ErrBundle, len(all))
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return all, err
	}
	events, err := read(EntriesPath(n, width), maxEntries)
	if err != nil {
		return nil, err
	}
	texts, err := read(TextsPath(n, width), maxTexts)
	if err != nil {
		return nil, err
	}
	records := make([]snap.Record, width)
	for i := range records {
		records[i] = snap.Record{Event: events[i], Texts: texts[i]}
	}
	return records, nil
}
