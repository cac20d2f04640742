package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/klauspost/compress/zstd"

	"webring/server/ledger"
)

// A group of rows is encoded in ascending order of its keys. Each group has one encoding.
//
//	group = version (1 byte) row*
//	row   = 0 length key | 1 length key length value
//
// The first kind deletes the row. Lengths are the shortest unsigned varints. The group is compressed
// with zstd.
const (
	groupVersion = 1
	rowDeleted   = 0
	rowPut       = 1
	// maxGroup bounds an encoded group: for each row, its kind and two lengths.
	maxGroup = 1 + ledger.MaxBatch + ledger.MaxBatchRows*(1+4+4)
)

var errGroup = errors.New("cluster: the rows of a transaction are malformed")

var (
	compressor   = must(zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest)))
	decompressor = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxGroup)))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// appendGroup encodes a batch, and gives its keys in order.
func appendGroup(b []byte, batch ledger.Batch) (encoded []byte, keys []string) {
	keys = slices.Sorted(maps.Keys(batch))
	b = append(b, groupVersion)
	for _, key := range keys {
		value := batch[key]
		kind := byte(rowPut)
		if value == nil {
			kind = rowDeleted
		}
		b = binary.AppendUvarint(append(b, kind), uint64(len(key)))
		b = append(b, key...)
		if kind == rowPut {
			b = binary.AppendUvarint(b, uint64(len(value)))
			b = append(b, value...)
		}
	}
	return b, keys
}

// parseGroup reads what appendGroup writes and nothing else. The values share the memory of b.
func parseGroup(b []byte) (ledger.Batch, error) {
	if len(b) == 0 || len(b) > maxGroup || b[0] != groupVersion {
		return nil, errGroup
	}
	batch, last := ledger.Batch{}, ""
	for b = b[1:]; len(b) > 0; {
		kind := b[0]
		key, rest, ok := cutBytes(b[1:])
		if !ok || kind > rowPut || len(batch) > 0 && string(key) <= last || len(batch) == ledger.MaxBatchRows {
			return nil, errGroup
		}
		last = string(key)
		batch[last] = nil
		if kind == rowPut {
			value, after, ok := cutBytes(rest)
			if !ok {
				return nil, errGroup
			}
			batch[last], rest = value, after
		}
		b = rest
	}
	return batch, nil
}

// cutBytes reads a length and as many bytes, which are not nil.
func cutBytes(b []byte) (field, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || size > 1 && b[size-1] == 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	b = b[size:]
	return b[:n:n], b[n:], true
}

func compress(group []byte) []byte { return compressor.EncodeAll(group, nil) }

func decompress(b []byte) ([]byte, error) {
	group, err := decompressor.DecodeAll(b, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errGroup, err)
	}
	return group, nil
}
