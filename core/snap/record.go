package snap

import (
	"encoding/binary"
	"errors"

	"webring/core"
)

// Record is one entry of the ledger as it travels: the event's encoding, and
// with it the encoding of its texts, which is empty where there are none or
// where they were redacted.
type Record struct {
	Event, Texts []byte
}

const (
	// BlockEvents is the number of events in one block. A range of events never
	// crosses the end of a block, so a range that reaches that end never changes,
	// apart from texts that are redacted later.
	BlockEvents = 1024
	// MaxRecord is the longest encoding of a record in bytes, and MaxRange
	// that of a range.
	MaxRecord = 4 + core.MaxEvent + 4 + core.MaxTexts
	MaxRange  = BlockEvents * MaxRecord
)

// ErrRecord is wrapped by every error about bytes that are no range of records.
var ErrRecord = errors.New("snap: malformed range of records")

// AppendRecord appends r as it is in a range:
//
//	range  = record…
//	record = length(4 bytes, big endian) event length(4 bytes, big endian) texts
func AppendRecord(dst []byte, r Record) []byte {
	return appendBlock(appendBlock(dst, r.Event), r.Texts)
}

// DecodeRecords reads a range of at most [BlockEvents] records from all of b.
// The records alias b. Their lengths are checked, and the events themselves are not.
func DecodeRecords(b []byte) ([]Record, error) { return AppendRecords(nil, b) }

// AppendRecords is [DecodeRecords], but appends the records to dst.
func AppendRecords(dst []Record, b []byte) (records []Record, err error) {
	records = dst
	for len(b) > 0 {
		if len(records)-len(dst) == BlockEvents {
			return nil, &flaw{sentinel: ErrRecord, detail: "too many records"}
		}
		var r Record
		var ok bool
		if r.Event, b, ok = takeBlock(b, core.MaxEvent); !ok || len(r.Event) == 0 {
			return nil, &flaw{sentinel: ErrRecord, detail: "event"}
		}
		if r.Texts, b, ok = takeBlock(b, core.MaxTexts); !ok {
			return nil, &flaw{sentinel: ErrRecord, detail: "texts"}
		}
		records = append(records, r)
	}
	return records, nil
}

// appendBlock appends the length of block in 4 bytes, and block.
func appendBlock(dst, block []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(block))), block...)
}

// takeBlock takes a block of appendBlock off the front of b. It is not ok if the
// block is incomplete or longer than limit.
func takeBlock(b []byte, limit int) (block, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := uint64(binary.BigEndian.Uint32(b))
	b = b[4:]
	if n > uint64(limit) || n > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}
