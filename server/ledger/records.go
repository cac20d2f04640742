package ledger

import (
	"errors"
	"fmt"

	"webring/core/snap"

	"golang.org/x/mod/sumdb/tlog"
)

// Row is one row of a store on its way to another.
type Row struct{ Key, Value []byte }

// maxRow bounds what a row may take in a batch of its own.
const maxRow = MaxBatch / 2

// ErrRow says that a row cannot come from a ledger.
var ErrRow = errors.New("ledger: a row is larger than any that a ledger writes")

// Rows calls fn for every row as they all are at one instant, in the order of
// their keys. It may run while the ledger works. The slices are valid during
// the call only.
func (m *memory) Rows(fn func(Row) error) error {
	return m.store().Scan(nil, nil, func(key, value []byte) error { return fn(Row{key, value}) })
}

// Restore fills an empty store with rows, which next gives until it says that
// there is no more, and makes the head that belongs to them. Nothing is checked
// here: [Open] does, on what is stored then.
func Restore(store Store, headPath string, next func() (r Row, more bool, err error)) error {
	err := store.Scan(nil, nil, func(_, _ []byte) error { return errors.New("ledger: the store that is to be filled is not empty") })
	if err == nil {
		err = store.Accept()
	}
	if err != nil {
		return err
	}
	batch, size := Batch{}, 0
	flush := func() error {
		err := store.Commit(batch)
		batch, size = Batch{}, 0
		return err
	}
	for {
		r, more, err := next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		n := len(r.Key) + len(r.Value)
		if n > maxRow {
			return ErrRow
		}
		if size+n > maxRow || len(batch) == MaxBatchRows/2 {
			if err := flush(); err != nil {
				return err
			}
		}
		batch[string(r.Key)] = append([]byte{}, r.Value...)
		size += n
	}
	if err := flush(); err != nil {
		return err
	}
	end, err := transactions(store)
	if err != nil {
		return err
	}
	if end.Serial == 0 {
		return errors.New("ledger: there is no transaction in what is to be restored")
	}
	h, err := createHead(headPath, end)
	if err != nil {
		return fmt.Errorf("ledger: make the head: %w", err)
	}
	return h.file.Close()
}

// RootAt is the RFC 6962 root over the first size durable events.
func (m *memory) RootAt(size uint64) (tlog.Hash, error) {
	if size > m.Size() {
		return tlog.Hash{}, fmt.Errorf("ledger: there are no %d events", size)
	}
	return tlog.TreeHash(int64(size), m.HashReader())
}

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
