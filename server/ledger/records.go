package ledger

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"webring/core/snap"
)

// Record is an event with its texts; see [snap.Record]. Texts are empty for all events without words,
// and after a redaction. Neither may be changed.
type Record = snap.Record

// Size is the number of durable events.
func (m *memory) Size() uint64 { return m.durable.Load().Size }

// Root is the RFC 6962 root of the durable events, and their number.
func (m *memory) Root() (size uint64, root tlog.Hash) {
	p := m.durable.Load()
	return p.Size, p.Root
}

// HashReader reads the stored hashes of the tree, for proofs up to the size
// that [Ledger.Root] gave.
func (m *memory) HashReader() tlog.HashReader {
	return treeReader(func(key []byte) ([]byte, error) { return m.store().Get(key) })
}

// Records gives up to n durable records, the first of which is event number
// from, counted from 0. Texts that were redacted since are empty.
func (m *memory) Records(from uint64, n int) ([]Record, error) {
	size := m.Size()
	if n <= 0 || from >= size {
		return nil, nil
	}
	to := from + min(uint64(n), size-from)
	records := make([]Record, 0, to-from)
	err := m.store().Scan([]byte{prefixEvent}, eventKey(from, rowEvent), func(key, value []byte) error {
		seq, row, err := parseEventKey(key)
		if err != nil {
			return err
		}
		value = append([]byte(nil), value...)
		switch {
		case seq >= to:
			return ErrStop
		case row == rowEvent:
			records = append(records, Record{Event: value})
		default:
			records[seq-from].Texts = value
		}
		return nil
	})
	if err == nil && uint64(len(records)) != to-from {
		err = fmt.Errorf("the store gave %d of %d", len(records), to-from)
	}
	if err != nil {
		return nil, fmt.Errorf("read events from %d: %w", from, err)
	}
	return records, nil
}
