package cluster

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"webring/server/ledger"
)

// keyspace is the prefix of all keys of a ring.
type keyspace string

func (k keyspace) leader() string             { return string(k) + "leader" }
func (k keyspace) head() string               { return string(k) + "head" }
func (k keyspace) tail() string               { return string(k) + "tail/" }
func (k keyspace) trimmed() string            { return string(k) + "trimmed" }
func (k keyspace) until() string              { return string(k) + "until" }
func (k keyspace) nodes() string              { return string(k) + "node/" }
func (k keyspace) node(name string) string    { return k.nodes() + name }
func (k keyspace) allAlive() string           { return string(k) + "alive/" }
func (k keyspace) alive(name string) string   { return k.allAlive() + name }
func (k keyspace) removed(name string) string { return string(k) + "removed/" + name }
func (k keyspace) allRefused() string         { return string(k) + "refused/" }
func (k keyspace) refused(name string) string { return k.allRefused() + name }
func (k keyspace) shared() string             { return string(k) + "shared" }
func (k keyspace) handover() string           { return string(k) + "handover" }
func (k keyspace) next() string               { return string(k) + "next" }
func (k keyspace) sealing() string            { return string(k) + "sealing" }
func (k keyspace) founded() string            { return string(k) + "founded" }
func (k keyspace) tombstone() string          { return string(k) + "tombstone" }
func (k keyspace) group(serial uint64) string { return fmt.Sprintf("%s%016x", k.tail(), serial) }
func (k keyspace) tailEnd() string            { return string(k) + "tail0" } // '0' comes after '/'

// serial gives the transaction of a key of the tail.
func (k keyspace) serial(key string) (uint64, error) {
	digits, ok := strings.CutPrefix(key, k.tail())
	n, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil || key != k.group(n) {
		return 0, fmt.Errorf("cluster: %.80q is no key of the tail", key)
	}
	return n, nil
}

// head is the value of that key.
//
//	head = version (1 byte) serial size root epoch written, numbers of 8 bytes, big endian
type head struct {
	at      ledger.Position
	epoch   int64  // of the term that wrote it; 0 is that of an operator
	written uint64 // bytes of all values that were ever put into the tail
}

const (
	headVersion = 1
	headBytes   = 1 + 8 + 8 + 32 + 8 + 8
)

func (h head) encode() []byte {
	b := binary.BigEndian.AppendUint64([]byte{headVersion}, h.at.Serial)
	b = binary.BigEndian.AppendUint64(b, h.at.Size)
	b = append(b, h.at.Root[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(h.epoch))
	return binary.BigEndian.AppendUint64(b, h.written)
}

func decodeHead(b []byte) (h head, err error) {
	if len(b) != headBytes || b[0] != headVersion {
		return h, errors.New("cluster: the head in etcd is malformed")
	}
	h.at.Serial = binary.BigEndian.Uint64(b[1:])
	h.at.Size = binary.BigEndian.Uint64(b[9:])
	copy(h.at.Root[:], b[17:])
	h.epoch = int64(binary.BigEndian.Uint64(b[49:]))
	h.written = binary.BigEndian.Uint64(b[57:])
	return h, nil
}

// trimmed says where the tail begins.
//
//	trimmed = serial written, 8 bytes each, big endian
type trimmed struct {
	serial  uint64 // of the last transaction that is not in the tail
	written uint64 // about as of the head after it
}

func (t trimmed) encode() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, t.serial), t.written)
}

func decodeTrimmed(b []byte) (t trimmed, err error) {
	if len(b) != 16 {
		return t, errors.New("cluster: the beginning of the tail in etcd is malformed")
	}
	return trimmed{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, nil
}

func encodeUntil(ms int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(ms)) }

func decodeUntil(b []byte) (ms int64, err error) {
	if len(b) != 8 || b[0] > 0x7f {
		return 0, errors.New("cluster: the time of signing in etcd is malformed")
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

// maxText bounds the JSON values, in bytes.
const maxText = 4 << 10

// report is the value of a node's key, JSON.
type report struct {
	URL    string `json:"url"`
	Serial uint64 `json:"serial"` // the last transaction that the node has durably
	At     int64  `json:"at"`     // Unix time in ms by the node's clock
	// Joining says that the node will be made of a backup that reaches Serial or further.
	Joining bool     `json:"joining,omitempty"`
	Keys    []string `json:"keys,omitempty"` // ids of the keys in its key file
	// Unfit says why the node can take no payments.
	Unfit string `json:"unfit,omitempty"`
}

// sealing is the value of that key, JSON.
type sealing struct {
	Key   string `json:"key"`   // id of the key that seals
	Since uint64 `json:"since"` // the first transaction that it seals
}

// founding is the value of the key founded, JSON: how the log in etcd began.
type founding struct {
	Serial uint64 `json:"serial"` // the last transaction before the log
	ID     string `json:"id"`     // random
}

// ending is the value of the key tombstone, JSON: how the ring left etcd.
type ending struct {
	Epoch int64  `json:"epoch"` // of the leader that took it out
	Node  string `json:"node"`  // that leader, which is the single origin
}

func encodeText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, numbers, and maps of them
	}
	return string(b)
}

func decodeText(b []byte, v any) error {
	if len(b) > maxText {
		return errors.New("cluster: a value in etcd is too long")
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("cluster: a value in etcd is malformed: %w", err)
	}
	return nil
}

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
